"""Whether cert-manager's webhook answers.

A pod of it may run before its certificate is in place, or before the API server reaches it: an add-on
that makes certificates then fails with `no endpoints available` or `x509` (developer guide, page
sagemaker-hyperpod-model-deployment-setup). Only an answer proves it. An issuer of no kind passes the
schema, and nobody but the webhook refuses it, in words of its own; as a trial run it leaves nothing
behind where the webhook is not asked at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .api import Api

_API_VERSION = "cert-manager.io/v1"
# How the API server tells of a webhook that said no (cert-manager/google-cas-issuer#94).
_DENIED = 'admission webhook "webhook.cert-manager.io" denied the request'


def missing(api: Api, properties: Mapping[str, Any]) -> list[str]:
    """Say that the webhook was not asked; raises OSError with what the API server says instead of it."""
    namespace = properties["Namespace"]
    issuer = {
        "apiVersion": _API_VERSION,
        "kind": "Issuer",
        "metadata": {"name": "hyperpod-dpd-trial", "namespace": namespace},
        "spec": {},
    }
    try:
        api(f"/apis/{_API_VERSION}/namespaces/{namespace}/issuers?dryRun=All", issuer)
    except OSError as error:
        if _DENIED in str(error):
            return []
        raise
    return ["the API server takes an issuer of no kind: it does not ask the webhook"]
