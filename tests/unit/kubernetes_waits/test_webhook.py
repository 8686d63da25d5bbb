"""The wait for cert-manager's webhook: answers as API servers give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PollServer = Callable[..., dict[str, Any]]
ASKED = {"Check": "webhook", "Namespace": "default", "AddonVersion": "v1.18.2-eksbuild.2"}
CALLING = (
    'Internal error occurred: failed calling webhook "webhook.cert-manager.io": failed to call webhook: '
)
POST = 'Post "https://cert-manager-webhook.cert-manager.svc:443/validate?timeout=30s": '


def failure(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


DENIED = failure(
    406,
    "NotAcceptable",
    'admission webhook "webhook.cert-manager.io" denied the request: '
    "spec: Required value: at least one issuer must be configured",
)


def test_a_refusal_in_the_webhooks_own_words_proves_that_it_answers(
    server: Any, poll_server: PollServer
) -> None:
    server.code, server.body = 406, DENIED

    assert poll_server(**ASKED) == {"IsComplete": True}


def test_what_is_tried_is_an_issuer_of_no_kind_that_would_leave_nothing_behind(
    server: Any, poll_server: PollServer
) -> None:
    server.code, server.body = 406, DENIED
    poll_server(**ASKED)

    (seen,) = server.seen
    assert seen["method"] == "POST"
    assert seen["path"] == "/apis/cert-manager.io/v1/namespaces/default/issuers?dryRun=All"
    assert (seen["body"]["kind"], seen["body"]["spec"]) == ("Issuer", {})


WAITING = {
    "cert-manager/cert-manager#5483 no pod is ready": failure(
        500, "InternalError", f'{CALLING}{POST}no endpoints available for service "cert-manager-webhook"'
    ),
    "cert-manager/cert-manager#4453 its port is closed": failure(
        500, "InternalError", f"{CALLING}{POST}dial tcp 10.152.183.134:443: connect: connection refused"
    ),
    "the injected authority is missing": failure(
        500, "InternalError", f"{CALLING}{POST}x509: certificate signed by unknown authority"
    ),
    "the role is not there yet": failure(
        403,
        "Forbidden",
        'issuers.cert-manager.io is forbidden: User "arn:aws:sts::111122223333:assumed-role/waits/f" '
        'cannot create resource "issuers" in API group "cert-manager.io" in the namespace "default"',
    ),
    "another webhook says no": failure(
        403, "Forbidden", 'admission webhook "policies.example.com" denied the request: not allowed'
    ),
}


@pytest.mark.parametrize("name", WAITING)
def test_anything_else_is_waited_out_and_then_told(server: Any, poll_server: PollServer, name: str) -> None:
    server.body = WAITING[name]
    server.code = server.body["code"]

    assert poll_server(**ASKED) == {"IsComplete": False}
    with pytest.raises(RuntimeError) as raised:
        poll_server(**ASKED, waited_s=900)
    assert str(raised.value) == (
        "webhook of cluster dpd-dev: not ready after 900 s. "
        f"the API server says {server.code} {server.body['message']}"
    )


def test_without_its_definitions_cert_manager_is_not_there(server: Any, poll_server: PollServer) -> None:
    server.code, server.body = 404, "404 page not found\n"

    assert poll_server(**ASKED) == {"IsComplete": False}


def test_an_api_server_that_asks_no_webhook_proves_nothing(server: Any, poll_server: PollServer) -> None:
    server.code, server.body = 201, {"kind": "Issuer", "apiVersion": "cert-manager.io/v1", "spec": {}}

    assert poll_server(**ASKED) == {"IsComplete": False}
    with pytest.raises(RuntimeError, match="takes an issuer of no kind: it does not ask the webhook"):
        poll_server(**ASKED, waited_s=900)
