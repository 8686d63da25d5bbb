"""How long one engine step takes: a closed form of compute, memory and all-reduce times.

A step works on the prefill tokens of one chunk and on one token of each decoding sequence. It lasts as
long as the slower of arithmetic and memory traffic, plus two all-reduces per layer. Efficiencies were
fitted to measured steps of dense models (facts `roofline_*`): mean error 10 %, worst 41 %. Mixtures of
experts and multi-head latent attention are not covered, and quantised weights were not part of the fit:
they count as stored, with arithmetic at the bf16 peak.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpd.facts import Facts, GpuFact
from dpd.sizing.kv_cache import kv_cache
from dpd.spec.deployment import RoleDeployment
from dpd.spec.model import Model

_BF16_BYTES = 2


@dataclass(frozen=True, slots=True)
class Network:
    """Hold what one rank of a network reads and computes."""

    parameters: float
    """Of all ranks together."""
    weight_bytes: int
    kv_bytes_per_token: int
    layers: int
    hidden_size: int
    attention_width: int
    """Attention heads times their dimension."""
    tensor_parallel: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Hold what one GPU achieves, peak times fitted efficiency."""

    flop_per_s: float
    memory_bytes_per_s: float
    allreduce_bytes_per_s: float
    allreduce_s: float
    """Fixed part of one all-reduce."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """Estimate the steps of one replica; ``chunk_tokens`` is the most that one step prefills."""

    network: Network
    rates: Rates
    chunk_tokens: int

    def step_s(self, prefill_tokens: int, sequences: int, context_tokens: int, before: float = 0) -> float:
        """Return the time of one step: a chunk behind ``before`` tokens of its prompt, and ``sequences``.

        ``context_tokens`` is what each decoding sequence holds on average.
        """
        network, rates = self.network, self.rates
        tokens = prefill_tokens + sequences
        pairs = (before + prefill_tokens) ** 2 - before**2 + 2 * sequences * context_tokens
        flop = 2 * network.parameters * tokens + 2 * network.layers * network.attention_width * pairs
        read = network.weight_bytes + network.kv_bytes_per_token * sequences * context_tokens
        ranks = network.tensor_parallel
        compute_s = flop / ranks / rates.flop_per_s
        return max(compute_s, read / rates.memory_bytes_per_s) + self._allreduces_s(tokens)

    def _allreduces_s(self, tokens: int) -> float:
        ranks = self.network.tensor_parallel
        if ranks == 1:
            return 0.0
        moved = 2 * (ranks - 1) / ranks * tokens * self.network.hidden_size * _BF16_BYTES
        return 2 * self.network.layers * (self.rates.allreduce_s + moved / self.rates.allreduce_bytes_per_s)

    def decode_s(self, sequences: int, context_tokens: int) -> float:
        """Return the time of a step that only decodes."""
        return self.step_s(0, sequences, context_tokens)

    def chunks(self, tokens: int) -> int:
        """Return the steps that a prompt of ``tokens`` takes."""
        return -(-tokens // self.chunk_tokens)

    def prefill_s(self, tokens: int, sequences: int = 0, context_tokens: int = 0) -> float:
        """Return the time to prefill ``tokens``, alone or beside ``sequences`` that decode."""
        whole, rest = divmod(tokens, self.chunk_tokens)
        # Chunks differ in what stands before them, and their times are linear in that.
        middle = self.chunk_tokens * (whole - 1) / 2
        total = whole * self.step_s(self.chunk_tokens, sequences, context_tokens, middle) if whole else 0.0
        if rest:
            total += self.step_s(rest, sequences, context_tokens, tokens - rest)
        return total

    def longest_step_s(self, tokens: int, sequences: int, context_tokens: int) -> float:
        """Return the time of the longest step of a prefill, for which ``sequences`` wait."""
        chunk = min(tokens, self.chunk_tokens)
        return self.step_s(chunk, sequences, context_tokens, tokens - chunk)


def not_covered(model: Model, role: RoleDeployment, facts: Facts) -> str:
    """Return why the closed form says nothing about this role, empty where it does."""
    if model.architecture.moe:
        return "mixtures of experts are not covered by the step-time formula"
    if model.architecture.attention == "mla":
        return "multi-head latent attention is not covered by the step-time formula"
    if role.instance is None or role.instance.gpu is None or role.instance.gpu.model not in facts.gpus:
        return f"the peak rates of the GPUs of {role.group.instance_type} are not known"
    return ""


def roofline(model: Model, role: RoleDeployment, facts: Facts) -> Roofline | None:
    """Return the estimate for one replica of ``role``; None where ``not_covered`` says why."""
    if not_covered(model, role, facts) or role.instance is None or role.instance.gpu is None:
        return None
    shape, ranks = model.architecture, role.resources.gpus
    network = Network(
        parameters=shape.active_parameters or shape.parameters,
        weight_bytes=shape.weight_bytes // ranks,
        kv_bytes_per_token=kv_cache(model, role).bytes_per_token,
        layers=shape.layers,
        hidden_size=shape.hidden_size,
        attention_width=shape.attention_heads * shape.head_dim,
        tensor_parallel=ranks,
    )
    asked = role.engine.integer("max-num-batched-tokens") or 0
    chunk = asked if asked > 0 else int(facts.constant("max_num_batched_tokens_default"))
    return Roofline(network, _rates(facts.gpus[role.instance.gpu.model], facts), chunk)


def _rates(gpu: GpuFact, facts: Facts) -> Rates:
    return Rates(
        flop_per_s=gpu.bf16_tflops * 1e12 * facts.constant("roofline_mfu"),
        memory_bytes_per_s=gpu.memory_gb_per_s * 1e9 * facts.constant("roofline_mbu"),
        allreduce_bytes_per_s=gpu.nvlink_gb_per_s * 1e9 * facts.constant("roofline_allreduce_efficiency"),
        allreduce_s=facts.constant("roofline_allreduce_us") * 1e-6,
    )
