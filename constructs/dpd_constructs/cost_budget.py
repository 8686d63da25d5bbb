"""A monthly budget for one environment."""

from __future__ import annotations

from typing import Final

from aws_cdk import aws_budgets as budgets
from constructs import Construct

from dpd.spec.cost_control import Budget
from dpd.spec.names import ENVIRONMENT_TAG

_WARNING_PERCENT: Final = 80
_LIMIT_PERCENT: Final = 100


class CostBudget(Construct):
    """Tell somebody at 80 % and at 100 % of the budget, and when the forecast exceeds it.

    The budget counts what carries the environment's tag, once the tag is activated for cost allocation.
    It has no name of its own: a change of who is told replaces it, and a name can be taken once.
    """

    def __init__(self, scope: Construct, construct_id: str, *, budget: Budget, environment: str) -> None:
        super().__init__(scope, construct_id)
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=budget.monthly_usd, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{ENVIRONMENT_TAG}${environment}"]},
            ),
            notifications_with_subscribers=[
                _notification("ACTUAL", _WARNING_PERCENT, budget),
                _notification("ACTUAL", _LIMIT_PERCENT, budget),
                _notification("FORECASTED", _LIMIT_PERCENT, budget),
            ],
        )


def _notification(
    kind: str, percent: int, budget: Budget
) -> budgets.CfnBudget.NotificationWithSubscribersProperty:
    subscribers = [
        budgets.CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=email)
        for email in budget.emails
    ]
    if budget.sns_topic_arn:
        subscribers.append(
            budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=budget.sns_topic_arn)
        )
    return budgets.CfnBudget.NotificationWithSubscribersProperty(
        notification=budgets.CfnBudget.NotificationProperty(
            comparison_operator="GREATER_THAN", notification_type=kind, threshold=percent
        ),
        subscribers=subscribers,
    )
