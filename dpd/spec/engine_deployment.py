"""What a model's deployment is on every back-end: engines in roles, with their arguments and variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpd.facts import VllmFact
from dpd.spec.base_environment import BaseEnvironment
from dpd.spec.engine_args import EngineArgs
from dpd.spec.image import Image
from dpd.spec.model import Model, Role

RoleName = Literal["prefill", "decode", "worker"]
Runtime = Literal["operator", "self_managed", "local"]


@dataclass(frozen=True, slots=True)
class EngineRole:
    """Hold what every process of one role has in common.

    ``shared_args`` come first and are the same for both roles; ``args`` follow and win.
    """

    name: RoleName
    replicas: int
    shared_args: tuple[str, ...]
    args: tuple[str, ...]
    engine: EngineArgs


@dataclass(frozen=True, slots=True)
class EngineDeployment:
    """Join one environment and one model, resolved against the facts.

    ``env`` holds the variables that every process has.
    """

    environment: BaseEnvironment
    model: Model
    image: Image
    vllm: VllmFact | None
    env: Mapping[str, str]
    roles: tuple[EngineRole, ...]

    @property
    def runtime(self) -> Runtime:
        """Return what starts the engines and routes between them."""
        return self.model.serving.runtime

    @property
    def disaggregated(self) -> bool:
        """Tell whether prefill and decode run on separate pools."""
        return self.model.serving.mode == "disaggregated"

    @property
    def max_model_len(self) -> int:
        """Return the context length in tokens as the engine will see it: an argument wins over the key."""
        asked = self.roles[0].engine.integer("max-model-len") or 0
        return asked if asked > 0 else self.model.serving.max_model_len

    def role(self, name: RoleName) -> EngineRole:
        """Return one role; raises KeyError where the mode has no such role."""
        return {role.name: role for role in self.roles}[name]


def planned_roles(model: Model) -> tuple[tuple[RoleName, Role], ...]:
    """Return the roles of the model's mode; one pool of workers where it is colocated."""
    if model.serving.mode == "colocated":
        return (("worker", Role(replicas=model.serving.replicas, max_num_seqs=model.serving.max_num_seqs)),)
    return (("prefill", model.dpd.prefill), ("decode", model.dpd.decode))
