"""All stacks of one environment, and the app that holds them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import cx_api

from dpd.facts import Facts
from dpd.spec.catalog import Catalog
from dpd.spec.deployment import Deployment, build_deployment
from dpd.spec.environment import Environment
from dpd.spec.names import environment_tags, model_stack_name, stack_name
from dpd_constructs.cost_tags import tag
from dpd_constructs.keys import LogGroupStandard
from stacks.budget import BudgetStack
from stacks.cluster import ClusterStack
from stacks.hyperpod import HyperPodStack
from stacks.model import ModelStack
from stacks.network import NetworkStack
from stacks.operator import OperatorStack
from stacks.security import SecurityStack
from stacks.weights import WeightsStack

_CDK_JSON = Path(__file__).parent.parent / "cdk.json"


@dataclass(frozen=True)
class EnvironmentStacks:
    """Hold the stacks of one environment; ``models`` is keyed by the model's Kubernetes name."""

    budget: BudgetStack | None
    security: SecurityStack
    network: NetworkStack
    weights: WeightsStack
    cluster: ClusterStack
    hyperpod: HyperPodStack
    operator: OperatorStack
    models: Mapping[str, ModelStack]

    def every(self) -> list[cdk.Stack]:
        """Return all of them, in an order in which they can be deployed."""
        first = [self.budget] if self.budget else []
        made = [self.security, self.network, self.weights, self.cluster, self.hyperpod, self.operator]
        return [*first, *made, *self.models.values()]


def build_environment(
    app: cdk.App, environment: Environment, deployments: Sequence[Deployment], facts: Facts
) -> EnvironmentStacks:
    """Add the stacks of ``environment`` to ``app``, in the order in which they can be deployed."""
    plain = _Common(app, environment)
    budget = BudgetStack(**plain.of("budget"), budget=environment.budget) if environment.budget else None
    security = SecurityStack(**plain.of("security"))
    log_groups = LogGroupStandard(security.keys.logs, protected=environment.protected)
    common = _Common(app, environment, (log_groups,))
    network = NetworkStack(**common.of("network"), facts=facts, deployments=deployments)
    weights = WeightsStack(**common.of("weights"), security_stack=security)
    cluster = ClusterStack(
        **common.of("cluster"), facts=facts, network=network.network, security_stack=security
    )
    hyperpod = HyperPodStack(
        **common.of("hyperpod"),
        facts=facts,
        network=network.network,
        cluster_stack=cluster,
        security_stack=security,
    )
    operator = OperatorStack(
        **common.of("operator"),
        facts=facts,
        network=network.network,
        cluster_stack=cluster,
        hyperpod_stack=hyperpod,
        security_stack=security,
        weights_bucket=weights.bucket,
        deployments=deployments,
    )
    models = _models(common, deployments, cluster, operator, network, weights)
    stacks = EnvironmentStacks(budget, security, network, weights, cluster, hyperpod, operator, models)
    _order(stacks)
    for stack in stacks.every():
        tag(stack, environment_tags(environment.name, environment.tags))
    return stacks


def _models(
    common: _Common,
    deployments: Sequence[Deployment],
    cluster: ClusterStack,
    operator: OperatorStack,
    network: NetworkStack,
    weights: WeightsStack,
) -> dict[str, ModelStack]:
    return {
        name: ModelStack(
            **common.named(model_stack_name(common.environment.name, name)),
            deployment=deployment,
            cluster_stack=cluster,
            operator_stack=operator,
            network=network.network,
            weights_bucket=weights.bucket,
        )
        for deployment in deployments
        for name in [deployment.model.kubernetes_name]
    }


def _order(stacks: EnvironmentStacks) -> None:
    """Chain the stacks, also where no value crosses.

    `cdk destroy` walks the same chain backwards, and a network that goes before its load balancers
    hangs (report P-82).
    """
    stacks.network.add_stack_dependency(stacks.security, "flow logs are encrypted")
    stacks.weights.add_stack_dependency(stacks.security, "the weights are encrypted, and accesses logged")
    stacks.cluster.add_stack_dependency(stacks.network, "the cluster stands in the network")
    stacks.hyperpod.add_stack_dependency(stacks.cluster, "HyperPod joins the cluster")
    stacks.operator.add_stack_dependency(stacks.hyperpod, "the add-ons' pods run on HyperPod nodes")
    stacks.operator.add_stack_dependency(stacks.weights, "the add-ons' roles read the weights")
    for model in stacks.models.values():
        model.add_stack_dependency(stacks.operator, "the operator runs the model and cleans up after it")


@dataclass(frozen=True)
class _Common:
    """Hold what every stack of an environment is given."""

    app: cdk.App
    environment: Environment
    injectors: tuple[cdk.IPropertyInjector, ...] = ()

    def of(self, part: str) -> dict[str, Any]:
        """Return the arguments of the stack of one part."""
        return self.named(stack_name(self.environment.name, part))

    def named(self, name: str) -> dict[str, Any]:
        """Return the arguments of the stack with one name."""
        return {
            "scope": self.app,
            "construct_id": name,
            "stack_name": name,
            "environment": self.environment,
            "env": cdk.Environment(account=self.environment.account, region=self.environment.region),
            "termination_protection": self.environment.protected,
            "property_injectors": list(self.injectors),
        }


def new_app(outdir: Path | None = None, **options: Any) -> cdk.App:
    """Make an app with the context of cdk.json, so that it builds what the CDK CLI builds.

    ``outdir`` is the folder of the cloud assembly; without it CDK decides. ``options`` go to cdk.App.
    """
    context = json.loads(_CDK_JSON.read_text(encoding="utf-8"))["context"]
    return cdk.App(
        outdir=str(outdir) if outdir else None, analytics_reporting=False, context=context, **options
    )


def add_environments(
    app: cdk.App, catalog: Catalog, names: Sequence[str], models: Sequence[str] | None = None
) -> dict[str, EnvironmentStacks]:
    """Add the stacks of the named environments of a catalogue that holds no error.

    ``models`` narrows or widens what each environment serves; by default it is what it lists.
    Raises ValueError on a catalogue whose facts could not be read.
    """
    facts = catalog.facts
    if facts is None:
        raise ValueError("the fact tables could not be read; report the catalogue's findings first")
    return {
        name: build_environment(
            app, environment, _deployments(catalog, environment, models or environment.models, facts), facts
        )
        for name in names
        if isinstance(environment := catalog.environments[name].value, Environment)
    }


def _deployments(
    catalog: Catalog, environment: Environment, names: Sequence[str], facts: Facts
) -> list[Deployment]:
    models = [catalog.effective(environment.name, name)[0].value for name in names]
    return [build_deployment(environment, model, facts) for model in models if model is not None]


def synth_app(
    catalog: Catalog,
    names: Sequence[str],
    outdir: Path,
    *,
    models: Sequence[str] | None = None,
    **options: Any,
) -> cx_api.CloudAssembly:
    """Write the templates of the named environments to ``outdir``; same input, same bytes.

    ``models`` is as for ``add_environments``; ``options`` go to cdk.App.
    """
    app = new_app(outdir, **options)
    add_environments(app, catalog, names, models)
    return app.synth()
