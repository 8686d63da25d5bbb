"""The schema of ``config/models/*.yaml``: what is served, and how."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from dpd.closed_model import ClosedModel
from dpd.quantity import GIB, Bytes, Real, Whole

# Above anything that exists, and small enough for exact arithmetic in floats.
LARGEST = 10**9
Positive = Annotated[Whole, Field(ge=1, le=LARGEST)]
DtypeName = Literal["bfloat16", "float16", "float32"]

DTYPE_BYTES: dict[str, int] = {"bfloat16": 2, "float16": 2, "float32": 4}
# Bytes one weight takes; mxfp4 stores 32 four-bit values with one eight-bit scale (4.25 bits).
QUANTIZED_BYTES: dict[str, float] = {"fp8": 1.0, "int8": 1.0, "int4": 0.5, "mxfp4": 4.25 / 8}


class Weights(ClosedModel):
    """Say where the weights come from."""

    source: Annotated[Literal["s3", "fsx", "huggingface", "local", "generated"], Field(examples=["s3"])]
    """On this machine `local`, a folder on its disk, or `generated`, random ones; elsewhere the others."""
    prefix: (
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._=-]*(/[A-Za-z0-9_][A-Za-z0-9._=-]*)*/?$")]
        | None
    ) = None
    """Folder inside the bucket or file system; becomes part of the role that reads it."""
    path: Annotated[str, Field(min_length=1)] | None = None
    """Folder of source `local`: config.json, tokenizer and weights. Relative to the file that names it."""
    file_system_id: Annotated[str, Field(pattern=r"^fs-[0-9a-f]{8,17}$")] | None = None
    token_secret: str | None = None
    """Kubernetes secret that holds the Hugging Face token under the key `token`."""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Weights:
        if self.source == "s3" and not self.prefix:
            raise ValueError("source `s3` needs `prefix`, such as Llama-3.3-70B-Instruct/")
        if self.source == "fsx" and not self.file_system_id:
            raise ValueError("source `fsx` needs `file_system_id`, such as fs-0123456789abcdef0")
        if self.source == "local" and not self.path:
            raise ValueError("source `local` needs `path`, such as ~/models/SmolLM2-135M-Instruct")
        return self


def _shape_or_config_json(schema: dict[str, Any]) -> None:
    """Let editors accept a config.json in place of the keys that it fills."""
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["config_json"]}]


class Architecture(ClosedModel):
    """Hold the shape of the network, as its Hugging Face config.json states it."""

    model_config = ConfigDict(json_schema_extra=_shape_or_config_json)

    config_json: str | None = None
    """Hugging Face config.json that fills the keys below, relative to this file; keys beside it win."""
    parameters: Annotated[Real, Field(gt=0, le=1e15, examples=["70.6e9"])]
    """Parameters in total."""
    active_parameters: Annotated[Real, Field(gt=0, le=1e15)] | None = None
    """Parameters that one token computes with; for mixture-of-experts models."""
    layers: Annotated[Whole, Field(ge=1, le=LARGEST, examples=[80])]
    hidden_size: Annotated[Whole, Field(ge=1, le=LARGEST, examples=[8192])]
    attention_heads: Annotated[Whole, Field(ge=1, le=LARGEST, examples=[64])]
    kv_heads: Annotated[Whole, Field(ge=1, le=LARGEST, examples=[8])]
    head_dim: Annotated[Whole, Field(ge=1, le=LARGEST, examples=[128])]
    dtype: DtypeName = "bfloat16"
    """Type of activations and, unless `kv_dtype` says otherwise, of the KV cache."""
    quantization: Literal["fp8", "int8", "int4", "mxfp4"] | None = None
    """How the weights are stored; none: in `dtype`."""
    attention: Literal["gqa", "mla"] = "gqa"
    kv_lora_rank: Positive | None = None
    qk_rope_head_dim: Positive | None = None
    sliding_window: Positive | None = None
    """Tokens that a layer with a sliding window attends to."""
    sliding_window_layers: Annotated[Whole, Field(ge=0, le=LARGEST)] = 0
    """Layers with a sliding window; they count in full where KV cache is transferred."""
    moe: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Architecture:
        if self.attention == "mla" and not (self.kv_lora_rank and self.qk_rope_head_dim):
            raise ValueError("attention `mla` needs `kv_lora_rank` and `qk_rope_head_dim`")
        if self.attention_heads % self.kv_heads:
            raise ValueError(
                f"attention_heads ({self.attention_heads}) must be a multiple of kv_heads ({self.kv_heads})"
            )
        if self.sliding_window_layers > (self.layers if self.sliding_window else 0):
            raise ValueError(
                f"sliding_window_layers ({self.sliding_window_layers}) needs `sliding_window` and at most "
                f"layers ({self.layers})"
            )
        return self

    @property
    def weight_bytes(self) -> int:
        """Return the size of all weights in bytes."""
        per_weight = QUANTIZED_BYTES.get(self.quantization or "", DTYPE_BYTES[self.dtype])
        return int(self.parameters * per_weight)


class Serving(ClosedModel):
    """Say how the engine runs."""

    mode: Literal["disaggregated", "colocated"] = "disaggregated"
    runtime: Literal["operator", "self_managed"] = "operator"
    image: str = "hyperpod-dlc"
    """Key of facts/images.yaml, or a full reference; on this machine a key of facts/engines.yaml."""
    tensor_parallel: Annotated[Whole, Field(ge=1, le=LARGEST, examples=[8])]
    max_model_len: Annotated[Whole, Field(ge=1, le=LARGEST, examples=[16384])]
    """Longest prompt plus answer, in tokens."""
    gpu_memory_utilization: Annotated[Real, Field(gt=0, lt=1)] = 0.75
    """Share of GPU memory for weights, activations and KV cache; the PD buffer lies outside it."""
    replicas: Positive = 1
    """Replicas in colocated mode."""
    max_num_seqs: Positive = 64
    """Sequences per step in colocated mode."""
    args: tuple[str, ...] = ()
    """Further vLLM arguments for every role."""


class Resources(ClosedModel):
    """Override what each pod of a role asks for; what is left out follows from its GPUs."""

    efa_devices: Annotated[Whole, Field(ge=0, le=LARGEST)] | None = None
    """Default: the node's share for the pod's GPUs."""
    cpu: Positive | None = None
    """Cores that the pod requests."""
    memory: Bytes | None = None
    """Host memory, as request and as limit."""


class Role(ClosedModel):
    """Describe the prefill or the decode pool."""

    replicas: Positive = 1
    max_num_seqs: Positive
    args: tuple[str, ...] = ()
    """Further vLLM arguments for this role alone."""
    node_selector: dict[str, str] = {}
    """Further node labels that pods of this role ask for."""
    resources: Resources = Resources()


class Routing(ClosedModel):
    """Decide which prompts are disaggregated, and to which prefiller they go."""

    threshold_tokens: Annotated[Whole, Field(ge=0, le=LARGEST)] = 4096
    """Prompts of at least so many tokens go through a prefiller; 0: every prompt."""
    strategy: Literal["prefixaware", "kvaware", "session", "roundrobin"] = "prefixaware"
    replicas: Positive = 1
    """Router pods; the lmcache transport notifies exactly one."""


class Topology(ClosedModel):
    """Keep both roles close to each other."""

    same_zone: bool = True
    zone_id: str | None = None
    """Zone that this model relies on; compared with the environment's, not rendered."""
    availability_zone: str | None = None
    """Zone name, passed through as it is. What the operator compares it with is not documented."""
    placement_group: str | None = None
    """`environment` for that of the environment, or a name; no public mapping to HyperPod nodes exists."""


class L1Cache(ClosedModel):
    """Configure LMCache's cache in host memory on prefillers."""

    enabled: bool = True
    size_per_rank: Bytes = 5 * GIB


class Dpd(ClosedModel):
    """Configure disaggregated prefill and decode."""

    transport: Literal["lmcache", "nixl"] = "lmcache"
    prefill: Role = Role(max_num_seqs=16)
    decode: Role = Role(max_num_seqs=32)
    routing: Routing = Routing()
    topology: Topology = Topology()
    pd_buffer: Bytes = 8 * GIB
    """GPU memory per rank in which KV cache arrives, outside vLLM's fraction."""
    l1_cache: L1Cache = L1Cache()
    environment: dict[str, str] = {}
    """Further environment variables, the same for both roles."""


Signal = Literal["waiting", "running", "kv_cache"]


class ScalingRange(ClosedModel):
    """Bound the replicas of one role, and say what moves them."""

    min: Annotated[Whole, Field(ge=0, le=LARGEST)] = 1
    max: Positive = 1
    signal: Signal | None = None
    """What moves the replicas; default: waiting prompts for prefill, both others for decode."""

    @model_validator(mode="after")
    def _ordered(self) -> ScalingRange:
        if self.max < self.min:
            raise ValueError(f"max ({self.max}) is less than min ({self.min})")
        return self


class Autoscaling(ClosedModel):
    """Bound the replicas of both roles."""

    prefill: ScalingRange = ScalingRange()
    decode: ScalingRange = ScalingRange()


class Slo(ClosedModel):
    """State the latency that users are promised, in milliseconds."""

    ttft_p99_ms: Annotated[Real, Field(gt=0, le=LARGEST)] = 2000
    itl_p99_ms: Annotated[Real, Field(gt=0, le=LARGEST)] = 50


class Workload(ClosedModel):
    """Describe the traffic; drives plan, advice and bench."""

    input_tokens: Positive = 6000
    output_tokens: Positive = 256
    requests_per_second: Annotated[Real, Field(gt=0, le=LARGEST)] = 2
    concurrency: Positive = 16
    slo: Slo = Slo()


def kubernetes_name(model: str) -> str:
    """Return a model's name with the dots that Kubernetes refuses in names of Services replaced."""
    return model.replace(".", "-")


class Model(ClosedModel):
    """Describe one model."""

    # The operator's Service is <name>-inference-routing-service, at most 63 characters.
    name: Annotated[str, Field(pattern=r"^[a-z]([a-z0-9.-]{0,35}[a-z0-9])?$", examples=["llama-3.3-70b"])]
    huggingface_id: Annotated[str, Field(examples=["meta-llama/Llama-3.3-70B-Instruct"])]
    weights: Weights
    architecture: Architecture
    serving: Serving
    dpd: Dpd = Dpd()
    autoscaling: Autoscaling = Autoscaling()
    workload: Workload = Workload()

    @property
    def kubernetes_name(self) -> str:
        """Return the name with the dots that Kubernetes labels of Services refuse replaced."""
        return kubernetes_name(self.name)
