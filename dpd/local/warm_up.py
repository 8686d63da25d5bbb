"""The first requests, which take seconds each while the engines compile, before anybody waits for one."""

from __future__ import annotations

from dpd.finding import Finding, Severity
from dpd.local import loopback
from dpd.local.system import LocalSystem, NotReady
from dpd.spec.local_deployment import LocalDeployment

_ROUTED_TIMEOUT_S = 30.0
_ANSWER_TIMEOUT_S = 120.0


def warm_up(deployment: LocalDeployment, system: LocalSystem) -> list[Finding]:
    """Send a prompt under and one over the routing threshold for each pair of workers; returns LOC106."""
    replicas = [role.replicas for role in deployment.roles]
    # Four characters and one token a word: the router, which divides characters by four, counts it right.
    long = " the" * deployment.model.dpd.routing.threshold_tokens
    url = f"{system.router_url}/v1/completions"
    try:
        system.wait_routed(timeout_s=_ROUTED_TIMEOUT_S)
        for number in range(replicas[0] * replicas[-1]):
            for prompt in (f"{number}", f"{number}{long}"):
                body = {"model": deployment.model.name, "prompt": prompt, "max_tokens": 4, "temperature": 0}
                loopback.fetch(url, timeout_s=_ANSWER_TIMEOUT_S, body=body)
    except (loopback.NoAnswer, NotReady) as error:
        message = f"the first request was not answered: {error}"
        return [
            Finding("LOC106", Severity.ERROR, "router", message, fix="see the logs of router and workers")
        ]
    return []
