"""The stack of the VPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from dpd.facts import Facts
from dpd.spec.deployment import Deployment
from dpd.spec.environment import Environment
from dpd_constructs.empty_stack import keep_deployable
from dpd_constructs.imported_network import ImportedNetwork
from dpd_constructs.network import Network, NetworkProps, control_plane_zone_ids
from dpd_constructs.network_parts import NetworkParts


class NetworkStack(cdk.Stack):
    """Hold the network of one environment in ``network``, made here or existing."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        facts: Facts,
        deployments: Sequence[Deployment],
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        self.network: NetworkParts
        existing = environment.network.existing
        if existing is not None:
            self.network = ImportedNetwork(self, "Network", environment, existing)
            keep_deployable(self)
        else:
            file_systems = any(deployment.model.weights.source == "fsx" for deployment in deployments)
            zone_ids = control_plane_zone_ids(environment, facts)
            self.network = Network(
                self, "Network", NetworkProps(environment, facts, zone_ids, file_systems=file_systems)
            )
