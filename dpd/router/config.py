"""The schema of the router's one file. Every wrong key or value is reported at once, with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from dpd.closed_model import ClosedModel, validate
from dpd.finding import Finding
from dpd.router.addresses import Host, HttpUrl, Port, ZmqAddress
from dpd.yaml_file import Path_, dotted, read_yaml

Transport = Literal["nixl", "lmcache"]
StrategyName = Literal["roundrobin", "session", "prefixaware", "kvaware"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Listen(ClosedModel):
    """Say where clients connect."""

    host: Host = "0.0.0.0"  # noqa: S104 - a server in a pod
    port: Port = 8000
    """0: a free one, which the log names."""


class Routing(ClosedModel):
    """Decide who prefills."""

    threshold_tokens: Annotated[int, Field(ge=0)] = 4096
    """Prompts of at least this many tokens are disaggregated; 0: all of them."""
    count: Literal["characters", "exact"] = "characters"
    """`characters`: a quarter of the prompt's characters, as the operator's router counts; `exact`: the
    worker's tokenizer, one more call a request."""
    strategy: StrategyName = "prefixaware"
    session_header: str = "x-session-id"
    """Header that names a session; without it the OpenAI `user` does."""
    prefix_index_bytes: Annotated[int, Field(ge=2**16)] = 64 * 2**20
    """Bound of the memory of `prefixaware` and `kvaware`."""


class WorkerEntry(ClosedModel):
    """Name one worker. A plain URL is short for `{url: URL}`."""

    url: HttpUrl
    receiver_host: str | None = None
    """LMCache: address on which the decoder receives pages; default: the host of `url`."""
    receiver_init_ports: tuple[Port, ...] = ()
    receiver_alloc_ports: tuple[Port, ...] = ()
    """LMCache: one port per rank; default: those under `lmcache`."""
    kv_events: ZmqAddress | None = None
    """Address of the engine's KV events, such as tcp://10.1.0.7:5557, for `kvaware`."""
    kv_events_replay: ZmqAddress | None = None
    """Address of the engine's `replay_endpoint`."""


def _entry(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


Entry = Annotated[WorkerEntry, BeforeValidator(_entry, json_schema_input_type=HttpUrl | WorkerEntry)]


class KubernetesSource(ClosedModel):
    """Watch the EndpointSlices of two Services."""

    namespace: str | None = None
    """Default: the pod's own."""
    prefill_service: str
    decode_service: str
    port: Port = 8000
    api_server: HttpUrl | None = None
    """Default: the cluster's, with the pod's service account."""


class DnsSource(ClosedModel):
    """Look up headless Services again and again."""

    prefill_name: Host
    decode_name: Host
    port: Port = 8000
    interval_s: Seconds = 5.0


class Workers(ClosedModel):
    """Say how workers are found, and when one is taken out."""

    source: Literal["static", "dns", "kubernetes"] = "static"
    prefill: tuple[Entry, ...] = ()
    decode: tuple[Entry, ...] = ()
    dns: DnsSource | None = None
    kubernetes: KubernetesSource | None = None
    kv_events_port: Port | None = None
    """Port of each engine's KV events, where no entry names an address."""
    kv_events_replay_port: Port | None = None
    """Port of each engine's `replay_endpoint`, which tells what was cached before the router started; without
    it, that stays unknown."""
    health_interval_s: Seconds = 2.0
    health_timeout_s: Seconds = 2.0
    failures_to_eject: Count = 3
    """Failures in a row, of health checks or of real requests, that take a worker out."""
    ejection_s: Seconds = 2.0
    """Pause before the first trial of an ejected worker; doubles up to sixteen times this."""

    @model_validator(mode="after")
    def _has_its_source(self) -> Workers:
        if self.source == "static" and not self.decode:
            raise ValueError("`source: static` needs at least one worker under `decode`")
        if self.source != "static" and getattr(self, self.source) is None:
            raise ValueError(f"`source: {self.source}` needs a section `{self.source}`")
        return self


class Lmcache(ClosedModel):
    """Speak LMCache 0.4.3's PD protocol."""

    notify_host: Host = "0.0.0.0"  # noqa: S104 - prefillers of other pods connect
    notify_port: Port = 7500
    """Where prefillers send one notification per rank: their `pd_proxy_port`."""
    ranks: Count = 1
    """Ranks of each worker: tensor parallel times pipeline parallel."""
    receiver_init_ports: tuple[Port, ...] = ()
    receiver_alloc_ports: tuple[Port, ...] = ()
    """One port per rank, the same on each decoder."""
    chunk_tokens: Count = 256
    pages_per_decoder: Annotated[int, Field(ge=1, examples=[1024])]
    """Pages of the PD buffer of one rank: its bytes over those of `chunk_tokens`."""
    usable_share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the pages that the router hands out; the rest covers estimates that were too low."""
    isolate_requests: bool = True
    """One `lmcache.tag` per request: no request waits for, or reads, pages of another. Costs the reuse of
    the prefiller's L1 cache."""
    notify_timeout_s: Seconds = 30.0

    @property
    def usable_pages(self) -> int:
        """Return the pages of one decoder that the router hands out."""
        return int(self.pages_per_decoder * self.usable_share)

    @model_validator(mode="after")
    def _has_a_page(self) -> Lmcache:
        if not self.usable_pages:
            raise ValueError(
                f"`usable_share` {self.usable_share:g} of `pages_per_decoder` {self.pages_per_decoder} leaves"
                " no page, and nothing would ever be handed over: raise either"
            )
        return self

    @model_validator(mode="after")
    def _one_port_per_rank(self) -> Lmcache:
        for name in ("receiver_init_ports", "receiver_alloc_ports"):
            ports: tuple[int, ...] = getattr(self, name)
            if ports and len(ports) != self.ranks:
                raise ValueError(f"`{name}` needs one port for each of {self.ranks} ranks, got {len(ports)}")
        return self


class Limits(ClosedModel):
    """Bound what is in flight."""

    body_bytes: Annotated[int, Field(ge=1024)] = 16 * 2**20
    prefill_concurrency: Count = 16
    """Requests at one prefiller at a time: its max_num_seqs."""
    decode_concurrency: Count = 64
    """Requests at one decoder at a time; more wait here, where they can be shed."""
    queue_length: Annotated[int, Field(ge=0)] = 256
    queue_timeout_s: Seconds = 30.0
    request_timeout_s: Seconds = 600.0
    connect_timeout_s: Seconds = 2.0
    prefill_timeout_s: Seconds = 60.0
    prefill_attempts: Count = 2
    stream_idle_timeout_s: Seconds = 60.0
    """Longest silence of a decoder, before its first byte and between two."""
    drain_timeout_s: Seconds = 25.0
    """After SIGTERM; Kubernetes kills after 30 s unless told otherwise."""


class ApiKey(ClosedModel):
    """Name a tenant by the SHA-256 of its key."""

    tenant: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    max_concurrent: Count | None = None


class Auth(ClosedModel):
    """Ask for API keys. Without any, everybody may use the router."""

    keys: tuple[ApiKey, ...] = ()
    max_concurrent_per_tenant: Count | None = None

    @model_validator(mode="after")
    def _one_tenant_per_key(self) -> Auth:
        tenants: dict[str, str] = {}
        for key in self.keys:
            tenant = tenants.setdefault(key.sha256, key.tenant)
            if tenant != key.tenant:
                raise ValueError(f"`{tenant}` and `{key.tenant}` have the same key: give each its own")
        return self


class Telemetry(ClosedModel):
    """Say what is recorded, and where to."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    otlp_endpoint: HttpUrl | None = None
    """OpenTelemetry collector (OTLP over HTTP); needs the package opentelemetry-exporter-otlp-proto-http."""


class RouterConfig(ClosedModel):
    """Configure one router."""

    listen: Listen = Listen()
    transport: Transport = "nixl"
    routing: Routing = Routing()
    workers: Workers
    lmcache: Lmcache | None = None
    """Needed by `transport: lmcache` alone."""
    limits: Limits = Limits()
    auth: Auth = Auth()
    telemetry: Telemetry = Telemetry()

    @field_validator("lmcache")
    @classmethod
    def _belongs_to_its_transport(cls, value: Lmcache | None, info: ValidationInfo) -> Lmcache | None:
        if value is not None and info.data.get("transport") == "nixl":
            raise ValueError("`lmcache` has no effect with `transport: nixl`")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> RouterConfig:
        if self.transport == "lmcache" and self.lmcache is None:
            raise ValueError("`transport: lmcache` needs a section `lmcache`")
        if self.routing.strategy == "kvaware" and not self._has_kv_events():
            raise ValueError(
                "`strategy: kvaware` needs the KV events of each prefiller: set workers.kv_events_port,"
                " or `kv_events` of every entry, and --kv-events-config on the engines;"
                " or choose `strategy: prefixaware`"
            )
        if self.lmcache is not None:
            self._check_receivers(self.lmcache)
        return self

    def _has_kv_events(self) -> bool:
        static = self.workers.source == "static"
        named = static and all(entry.kv_events for entry in self.workers.prefill)
        return named or self.workers.kv_events_port is not None

    def _check_receivers(self, lmcache: Lmcache) -> None:
        for name in ("receiver_init_ports", "receiver_alloc_ports"):
            shared: tuple[int, ...] = getattr(lmcache, name)
            entries = self.workers.decode if self.workers.source == "static" else ()
            own = [getattr(entry, name) or shared for entry in entries]
            for ports in own or [shared]:
                if len(ports) != lmcache.ranks:
                    raise ValueError(
                        f"`lmcache.{name}` needs one port for each of {lmcache.ranks} ranks, got {len(ports)}"
                    )


def read_config(path: Path) -> tuple[RouterConfig | None, list[Finding]]:
    """Read ``path``, a YAML file; return the configuration, or every finding about it."""
    file = read_yaml(path)
    if file.findings:
        return None, list(file.findings)

    def locate(where: Path_) -> tuple[str, int | None, str]:
        return str(path), file.line(where), dotted(where)

    return validate(RouterConfig, file.data, locate)
