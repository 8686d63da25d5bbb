"""The plan of one model: memory, PD buffer, transfer, and whether to disaggregate it at all."""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts
from dpd.sizing.advice import Advice, advise
from dpd.sizing.gpu_memory import GpuMemory, gpu_memory
from dpd.sizing.host import Host, host
from dpd.sizing.kv_cache import PdBuffer, pd_buffer, prompts_in_flight, recommended_bytes
from dpd.sizing.load import Latency, Layout, Prefillers, transferred_per_second
from dpd.sizing.transfer import Transfer, transfer, transfer_table
from dpd.spec.deployment import Deployment, RoleDeployment
from dpd.spec.merge import Merged


@dataclass(frozen=True, slots=True)
class BufferUse:
    """Say what the workload does to the PD buffer."""

    buffer: PdBuffer
    prompts_in_flight: int
    recommended_bytes: int
    stall_s: float | None
    """How long the decoder may stand still before the buffer is full; None where no prompt reaches it."""


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Hold the sizes of one model; ``buffer`` is None where LMCache does not move its KV cache."""

    deployment: Deployment
    merged: Merged
    buffer: BufferUse | None
    transfers: tuple[Transfer, ...]
    """Of the workload's prompt first, then by length."""
    memory: dict[str, GpuMemory]
    host: dict[str, Host]
    advice: Advice

    def sequences(self, role: RoleDeployment) -> int | None:
        """Return how many sequences of the workload's length fit the KV room of one replica of ``role``.

        None without GPUs. Prefillers hold prompts alone.
        """
        memory, workload = self.memory.get(role.name), self.deployment.model.workload
        answer = 0 if role.name == "prefill" else workload.output_tokens
        return memory and memory.sequences(workload.input_tokens + answer)


def plan_model(deployment: Deployment, facts: Facts, merged: Merged) -> ModelPlan:
    """Size one model as one environment runs it."""
    model = deployment.model
    first = transfer(deployment, facts, model.workload.input_tokens)
    hosts = {role.name: host(role, facts) for role in deployment.roles}
    return ModelPlan(
        deployment=deployment,
        merged=merged,
        buffer=_buffer_use(deployment, facts),
        transfers=(first, *transfer_table(deployment, facts)) if first else (),
        memory={
            role.name: gpu_memory(model, role, role.instance, facts)
            for role in deployment.roles
            if role.instance is not None and role.instance.gpu_count
        },
        host={name: use for name, use in hosts.items() if use is not None},
        advice=advise(deployment, facts),
    )


def _buffer_use(deployment: Deployment, facts: Facts) -> BufferUse | None:
    model = deployment.model
    if not deployment.disaggregated or model.dpd.transport != "lmcache":
        return None
    buffer = pd_buffer(model, deployment.role("decode"), facts)
    rate, tokens = transferred_per_second(deployment, facts), model.workload.input_tokens
    residence_s, quantile = facts.constant("pd_buffer_residence_s"), facts.constant("poisson_quantile")
    in_flight = prompts_in_flight(rate, residence_s, quantile)
    return BufferUse(
        buffer=buffer,
        prompts_in_flight=in_flight,
        recommended_bytes=recommended_bytes(buffer, in_flight, tokens, deployment.max_model_len),
        stall_s=buffer.stall_s(rate, tokens) if rate else None,
    )


def model_json(plan: ModelPlan) -> dict[str, object]:
    """Return the sizes of one model as plain data whose keys carry their units."""
    deployment, model = plan.deployment, plan.deployment.model
    first, table = (plan.transfers[0], plan.transfers[1:]) if plan.transfers else (None, ())
    return {
        "name": model.name,
        "mode": model.serving.mode,
        "runtime": model.serving.runtime,
        "transport": model.dpd.transport if deployment.disaggregated else None,
        "image": deployment.image.reference,
        "parameters": model.architecture.parameters,
        "weight_bytes": model.architecture.weight_bytes,
        "roles": [_role_json(plan, role) for role in deployment.roles],
        "pd_buffer": plan.buffer and _buffer_json(plan.buffer, model.workload.input_tokens),
        "kv_transfer_at_line_rate_ms": first and _ms(first.line_rate_s),
        "kv_transfer_expected_ms": first and _ms(first.expected_s),
        "kv_transfers": [
            {
                "tokens": row.tokens,
                "bytes_per_rank": row.bytes_per_rank,
                "at_line_rate_ms": _ms(row.line_rate_s),
                "expected_ms": _ms(row.expected_s),
            }
            for row in table
        ],
        "advice": _advice_json(plan.advice),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 3)


def _role_json(plan: ModelPlan, role: RoleDeployment) -> dict[str, object]:
    memory, use = plan.memory.get(role.name), plan.host.get(role.name)
    return {
        "name": role.name,
        "replicas": role.replicas,
        "instance_type": role.group.instance_type,
        "gpus_per_replica": role.resources.gpus,
        "efa_devices_per_replica": role.resources.efa_devices,
        "cpu_request_cores": role.resources.cpu,
        "memory_request_bytes": role.resources.memory_request_bytes,
        "max_num_seqs": role.engine.integer("max-num-seqs"),
        "sequences_of_workload": plan.sequences(role),
        "gpu_memory": memory and _memory_json(memory),
        "host_memory": use
        and {
            "engine_bytes": use.base_bytes,
            "l1_cache_bytes": use.l1_cache_bytes,
            "shm_bytes": use.shm_bytes,
            "needed_bytes": use.needed_bytes,
            "share_bytes": use.share_bytes,
            "node_allocatable_bytes": use.node_allocatable_bytes,
        },
    }


def _memory_json(memory: GpuMemory) -> dict[str, object]:
    return {
        "total_bytes": memory.total_bytes,
        "gpu_memory_utilization": memory.utilization,
        "largest_gpu_memory_utilization": memory.largest_utilization,
        "weight_bytes": memory.weight_bytes,
        "activation_bytes": memory.activation_bytes,
        "kv_room_bytes": memory.kv_room_bytes,
        "kv_room_tokens": memory.kv_room_tokens,
        "pd_buffer_bytes": memory.pd_buffer_bytes,
        "reserve_bytes": memory.reserve_bytes,
        "free_bytes": memory.free_bytes,
    }


def _buffer_json(use: BufferUse, input_tokens: int) -> dict[str, object]:
    buffer = use.buffer
    return {
        "buffer_bytes_per_rank": buffer.buffer_bytes,
        "whole_pages_bytes_per_rank": buffer.whole_bytes,
        "kv_bytes_per_token_per_rank": buffer.bytes_per_token,
        "page_bytes": buffer.page_bytes,
        "page_tokens": buffer.page_tokens,
        "tokens": buffer.tokens,
        "prompts_of_workload": buffer.prompts(input_tokens),
        "prompts_in_flight": use.prompts_in_flight,
        "recommended_bytes_per_rank": use.recommended_bytes,
        "decoder_stall_absorbed_s": None if use.stall_s is None else round(use.stall_s, 3),
    }


def _advice_json(advice: Advice) -> dict[str, object]:
    return {
        "verdict": advice.verdict,
        "reason": advice.reason,
        "mean_error_of_step_times": advice.mean_error,
        "colocated_on_the_same_gpus": advice.colocated and _layout_json(advice.colocated),
        "configured": advice.configured and _latency_json(advice.configured),
        "prefillers": advice.prefillers and _prefillers_json(advice.prefillers),
        "suggested_threshold_tokens": advice.threshold_tokens,
    }


def _layout_json(layout: Layout) -> dict[str, object]:
    return {
        "replicas": layout.replicas,
        "prefill_duty": round(layout.prefill_duty, 4),
        **_latency_json(layout.latency),
        "longest_step_ms": _ms(layout.longest_step_s),
        "stalled_share_of_steps": round(layout.stalled_share, 5),
    }


def _latency_json(latency: Latency) -> dict[str, object]:
    return {"tpot_ms": _ms(latency.tpot_s), "itl_p99_ms": _ms(latency.itl_p99_s)}


def _prefillers_json(pool: Prefillers) -> dict[str, object]:
    return {
        "requests_per_second": pool.requests_per_second,
        "service_ms": _ms(pool.service_s),
        "replicas": pool.replicas,
        "utilization": round(pool.utilization, 4),
        "replicas_needed": pool.needed,
    }
