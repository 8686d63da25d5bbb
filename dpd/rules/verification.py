"""VER and DRL: what `dpd verify` and `dpd drill` find at a system that runs."""

from __future__ import annotations

from dpd.finding import Severity
from dpd.rules.registry import Doc, loader_rule

loader_rule(
    "VER001",
    Severity.ERROR,
    Doc(
        title="Workers that the router uses otherwise than configured",
        symptom="Prompts are computed by the wrong pool, or one worker does the work of several.",
        cause="The router knows other workers, roles or a threshold than the files, or took a worker out.",
        fix="Deploy again; for a worker that was taken out see its log.",
        source="docs/router.md: /debug/workers",
        bad='{"role": "decode", "url": "http://10.1.0.7:8000", "usable": false}  # a prefiller, and out',
        good='{"role": "prefill", "url": "http://10.1.0.7:8000", "usable": true}',
    ),
)
loader_rule(
    "VER002",
    Severity.ERROR,
    Doc(
        title="Worker that is not what it should be",
        symptom="It answers for another model, or computes what it should receive.",
        cause="Its process was started with arguments of another role or model, or without a KV connector.",
        fix="Deploy again; nothing but the deploy should start workers.",
        source="vllm 0.32.0: /v1/models, --kv-transfer-config",
        bad="the process of decode-0 has no --kv-transfer-config",
        good="the process of decode-0 has --kv-transfer-config with kv_consumer or kv_both",
    ),
)
loader_rule(
    "VER003",
    Severity.ERROR,
    Doc(
        title="Hash seeds of the processes",
        symptom="Every prompt is computed twice; nothing says so but the counters.",
        cause="LMCache's keys are Python hashes, which differ where PYTHONHASHSEED does or is not set.",
        fix="Let the package set it: take it out of `dpd.environment` and of what starts the processes.",
        source="lmcache 0.4.3: token_database.py",
        bad="PYTHONHASHSEED is 0 at prefill-0 and 1 at decode-0",
        good="PYTHONHASHSEED is 0 at all of them",
    ),
)
loader_rule(
    "VER004",
    Severity.ERROR,
    Doc(
        title="Long prompt that no prefiller computed",
        symptom="Prefillers are idle, and long prompts stall the answers of everybody else.",
        cause="The router bypassed it or fell back; or it says otherwise than the counters.",
        fix="Follow the reason in the finding; docs/router.md explains each.",
        source="docs/router.md: x-dpd-path, dpd_router_requests_total",
        bad="x-dpd-path: fallback, x-dpd-reason: no_prefiller",
        good="x-dpd-path: disaggregated, and the prefiller counted every token of the prompt",
    ),
)
loader_rule(
    "VER005",
    Severity.ERROR,
    Doc(
        title="Short prompt that did not go straight to a decoder",
        symptom="Short prompts pay for a hand-over that takes longer than computing them.",
        cause="The router's threshold is lower than configured, or 0.",
        fix="Set `dpd.routing.threshold_tokens`, and deploy again.",
        source="docs/router.md: x-dpd-path",
        bad="x-dpd-path: disaggregated for 10 tokens",
        good="x-dpd-path: bypass",
    ),
)
loader_rule(
    "VER006",
    Severity.ERROR,
    Doc(
        title="KV cache that the decoder computed itself",
        symptom="Everything is answered, health checks succeed, and disaggregation only costs time.",
        cause="The decoder's connector failed to start or found nothing: it recomputes in silence.",
        fix="See the decoder's log from its start on for its connector.",
        source="vllm 0.32.0: vllm:prompt_tokens_by_source_total; lmcache 0.4.3: v1/manager.py",
        bad='prompt_tokens_by_source_total{source="local_compute"} rises by the prompt',
        good='prompt_tokens_by_source_total{source="external_kv_transfer"} rises by the prompt',
    ),
)
loader_rule(
    "VER007",
    Severity.ERROR,
    Doc(
        title="KV transfers that failed or were not counted",
        symptom="Some or all long prompts take as long as without disaggregation.",
        cause="NIXL reached no prefiller, or one that restarted and no longer has the blocks.",
        fix="See the logs of both workers for the handshake, and whether they reach each other.",
        source="vllm 0.32.0: vllm:nixl_xfer_time_seconds, vllm:nixl_num_failed_transfers_total",
        bad="vllm:nixl_num_failed_transfers_total rises",
        good="vllm:nixl_xfer_time_seconds_count and vllm:nixl_bytes_transferred_sum rise",
    ),
)
loader_rule(
    "VER008",
    Severity.ERROR,
    Doc(
        title="Answer that differs from the decoder's own",
        symptom="Clients get fluent text about something else.",
        cause="The decoder read KV cache of another prompt, not yet written, or of other weights or layout.",
        fix="Compare arguments and model folders of both roles; see the router's log for hand-overs.",
        source="lmcache 0.4.3: pd_backend.py registers a key before it is written",
        bad="two texts for one prompt at temperature 0 and one seed",
        good="the same text, character by character",
    ),
)
loader_rule(
    "VER009",
    Severity.ERROR,
    Doc(
        title="Stream that comes as a burst",
        symptom="Users see nothing for seconds, then everything.",
        cause="Something between client and worker collects events before it passes them on.",
        fix="Turn off buffering and compression for text/event-stream in proxies and load balancers.",
        source="html.spec.whatwg.org: server-sent events, authoring notes",
        bad="32 tokens within 1 ms",
        good="32 tokens over 90 ms, as they are made",
    ),
)
loader_rule(
    "VER010",
    Severity.ERROR,
    Doc(
        title="Form of the API that is not answered",
        symptom="Some clients work and others do not.",
        cause="Chat or completions, streamed or not, fails at router or worker.",
        fix="See the router's log for the request id in the answer.",
        source="docs/router.md",
        bad="a stream without [DONE]",
        good="chat and completions, streamed and not, each with a finish_reason",
    ),
)
loader_rule(
    "VER011",
    Severity.ERROR,
    Doc(
        title="Router or worker that does not say what it does",
        symptom="Nothing can be proved.",
        cause="It is down, stopped, or another program listens at its address.",
        fix="See `dpd status` and its log.",
        source="docs/local.md",
        bad="GET /v1/models: connection refused",
        good="GET /v1/models answers 200",
    ),
)
loader_rule(
    "VER012",
    Severity.WARNING,
    Doc(
        title="Others asked during the verification",
        symptom="Recomputed tokens cannot be told from those of other requests.",
        cause="Counters belong to a worker, not to a request, and the system was in use.",
        fix="Verify again when nobody else asks.",
        source="vllm 0.32.0: metrics have no request id",
        bad="dpd_router_requests_total rises by 7 during one request",
        good="dpd_router_requests_total rises by 1",
    ),
)
loader_rule(
    "DRL001",
    Severity.ERROR,
    Doc(
        title="Client that got neither its answer nor a clear error",
        symptom="Wrong, cut off or missing text that looks like an answer, or a request without an end.",
        cause="A fault was not noticed, or noticed and not told.",
        fix="Report it, with the logs of router and workers.",
        source="docs/router.md: when things fail",
        bad="a stream that ends without [DONE] and without an error",
        good="the whole answer; or an OpenAI error, as a body or as a stream's last event",
    ),
)
loader_rule(
    "DRL002",
    Severity.ERROR,
    Doc(
        title="System that does not recover without help",
        symptom="After a fault something stays down, or unused, until a person comes.",
        cause="A process is not started again, or the router does not take it back.",
        fix="See `dpd status` and the log of the process in the finding.",
        source="docs/local.md",
        bad="prefill-0 is not ready 240 s after it was killed",
        good="every process is ready, the router uses all workers, and `dpd verify` passes",
    ),
)
loader_rule(
    "DRL003",
    Severity.ERROR,
    Doc(
        title="Drill that proved nothing",
        symptom="It would pass whatever the system does.",
        cause="The fault hit nothing: no request was where it should break one.",
        fix="Run it again on a machine with less other work.",
        source="docs/local.md",
        bad="no hand-over was under way when the prefiller was killed",
        good="the router counted a request at the prefiller at that moment",
    ),
)
