"""Draw the plan of this machine for people, in 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from dpd.plan_local import LocalModelPlan, LocalPlan
from dpd.quantity import format_bytes, format_gib


def local_title(plan: LocalPlan) -> Text:
    """Return the name and what runs where."""
    local = plan.environment.local
    port = "a free port" if local.router_port is None else f"port {local.router_port}"
    how = f"  this machine, {local.engine} engines, router on {port} of 127.0.0.1"
    return Text(plan.environment.name, style="bold").append(how, style="not bold")


def local_model_lines(plan: LocalModelPlan) -> Iterator[Text]:
    """Yield what one model runs, takes and moves."""
    deployment, model, memory = plan.deployment, plan.deployment.model, plan.memory
    how = f"  {model.serving.mode}"
    how += f", {model.dpd.transport} transport" if deployment.disaggregated else ""
    yield Text(f"\n{model.name}", style="bold").append(how, style="not bold")
    source = model.weights.path or model.weights.source
    yield Text(f"{deployment.image.reference}, weights: {source}", style="dim")
    for role in deployment.roles:
        seqs = role.engine.integer("max-num-seqs") or "?"
        engines = "engine" if role.replicas == 1 else "engines"
        yield Text(
            f"{role.name}: {role.replicas} {engines} of {format_gib(memory.engine_bytes)}, {seqs} sequences"
        )
    yield Text(
        f"KV cache: {memory.kv_bytes_per_token:,} bytes per token; "
        f"{format_bytes(memory.kv_cache_bytes)} in each engine for {memory.kv_tokens:,} tokens"
    )
    yield Text(_routing(plan))


def _routing(plan: LocalModelPlan) -> str:
    """Say which way the workload's prompt takes, and what moves for it."""
    model = plan.deployment.model
    tokens, threshold = model.workload.input_tokens, model.dpd.routing.threshold_tokens
    if not plan.deployment.disaggregated:
        return "no KV cache moves: each engine prefills and decodes"
    if not plan.prompt_disaggregated:
        return (
            f"a prompt of {tokens:,} tokens stays with its decoder: it is under the threshold of "
            f"{threshold:,}"
        )
    return (
        f"prompts from {threshold:,} tokens go through a prefiller; one of {tokens:,} "
        f"moves {format_bytes(plan.prompt_transfer_bytes)}"
    )


def local_total(plan: LocalPlan) -> Text:
    """Return the memory that all engines take, and what must stay free."""
    local, engines = plan.environment.local, sum(model.engines for model in plan.models)
    take = "engines take" if local.engine == "vllm" else "real engines would take"
    return Text(
        f"\n{engines} {take} {format_gib(plan.memory_bytes)} of memory; "
        f"{format_bytes(local.memory_reserve)} must stay free beside them",
        style="bold",
    )
