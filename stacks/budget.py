"""The stack of an environment's budget."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from dpd.spec.cost_control import Budget
from dpd.spec.environment import Environment
from dpd_constructs.cost_budget import CostBudget


class BudgetStack(cdk.Stack):
    """Hold the budget apart from all else: it stands before the first node and needs nothing."""

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, budget: Budget, **stack: Any
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        CostBudget(self, "Cost", budget=budget, environment=environment.name)
