"""Spans of each request for OpenTelemetry, where a collector is configured."""

from __future__ import annotations

import time
from typing import Any, Protocol

from dpd.router.metrics import Outcome
from dpd.router.timeline import Timeline

_PHASES = (
    ("queue", "received", "admitted"),
    ("prefill", "prefill_start", "prefilled"),
    ("hand-over", "prefilled", "handed_over"),
    ("decode", "decode_start", "ended"),
)
_NANOSECONDS = 1_000_000_000
_EXPORT_TIMEOUT_S = 2.0
"""With retries; at shutdown the router waits for it, after the drain and before Kubernetes loses patience."""


class Tracer(Protocol):
    """Follow requests."""

    def started(self, request_id: str, headers: dict[str, str]) -> dict[str, str]:
        """Note a request; return the trace headers that its legs carry."""
        ...

    def finished(self, request_id: str, outcome: Outcome, timeline: Timeline) -> None:
        """Note how it ended."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


class PassOn:
    """Hand the client's trace headers to the workers, and record nothing."""

    def started(self, request_id: str, headers: dict[str, str]) -> dict[str, str]:
        """Return the client's own headers."""
        return {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}

    def finished(self, request_id: str, outcome: Outcome, timeline: Timeline) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class OpenTelemetry:
    """Export a span for each request and one below it for each phase.

    Raises ImportError where the packages opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http are
    not installed.
    """

    def __init__(self, endpoint: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = TracerProvider(resource=Resource.create({"service.name": "dpd-router"}))
        exporter = OTLPSpanExporter(f"{endpoint}/v1/traces", timeout=_EXPORT_TIMEOUT_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("dpd.router")
        self._propagator = TraceContextTextMapPropagator()
        self._spans: dict[str, Any] = {}

    def started(self, request_id: str, headers: dict[str, str]) -> dict[str, str]:
        """Open the request's span below the client's."""
        from opentelemetry.trace import set_span_in_context

        span = self._tracer.start_span("completion", context=self._propagator.extract(headers))
        self._spans[request_id] = span
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, context=set_span_in_context(span))
        return carrier

    def finished(self, request_id: str, outcome: Outcome, timeline: Timeline) -> None:
        """Close it, with its phases below it."""
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        span = self._spans.pop(request_id)
        origin_ns = time.time_ns() - int(timeline.moments_s["ended"] * _NANOSECONDS)
        moments_s = {"received": 0.0, **timeline.moments_s}
        for name, begin, end in _PHASES:
            if begin in moments_s and end in moments_s:
                child = self._tracer.start_span(
                    name,
                    context=set_span_in_context(span),
                    start_time=origin_ns + int(moments_s[begin] * _NANOSECONDS),
                )
                child.end(origin_ns + int(moments_s[end] * _NANOSECONDS))
        span.set_attribute("dpd.request_id", request_id)
        span.set_attribute("dpd.path", outcome.path)
        span.set_attribute("dpd.reason", outcome.reason)
        span.set_attribute("dpd.prefiller", outcome.prefiller)
        span.set_attribute("dpd.decoder", outcome.decoder)
        span.set_attribute("dpd.prompt_tokens", outcome.prompt_tokens)
        span.set_attribute("http.response.status_code", outcome.status)
        if outcome.error:
            span.set_status(Status(StatusCode.ERROR, outcome.error))
        span.end()

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
