"""The stack of the VPC."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.environment import Environment
from dpd_constructs.network import Network, NetworkProps, control_plane_zone_ids


class NetworkStack(cdk.Stack):
    """Hold the network of one environment in ``network``."""

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, facts: Facts, **stack: Any
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        zone_ids = control_plane_zone_ids(environment, facts)
        self.network = Network(self, "Network", NetworkProps(environment, zone_ids))
