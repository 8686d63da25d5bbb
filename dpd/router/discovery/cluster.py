"""Where the Kubernetes API is, and as whom to speak to it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from dpd.router.config import KubernetesSource
from dpd.router.discovery.source import in_url

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NotInCluster(Exception):
    """Say that the API server is neither configured nor that of the pod."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Locate the API server, and the namespace and account of the pod. ``url`` ends without a slash."""

    url: str
    namespace: str
    account: Path

    @classmethod
    def find(
        cls, config: KubernetesSource, environment: Mapping[str, str], account: Path = SERVICE_ACCOUNT
    ) -> Cluster:
        """Fill in from the pod what the configuration leaves out; raises NotInCluster."""
        host, port = (environment.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
        in_pod = f"https://{in_url(host)}:{port}" if host and port else None
        url = config.api_server or in_pod
        file = account / "namespace"
        namespace = config.namespace or (file.read_text().strip() if file.exists() else None)
        missing = [name for name, value in (("api_server", url), ("namespace", namespace)) if value is None]
        if url is None or namespace is None:
            raise NotInCluster(
                f"{' and '.join(missing)} not set, and this is no pod with a service"
                " account; set what is missing, or `workers.source` to static or dns [CFG002]"
            )
        return cls(url, namespace, account)

    def session(self) -> aiohttp.ClientSession:
        """Return a session that trusts the cluster's authority where the account names it."""
        authority = self.account / "ca.crt"
        context = ssl.create_default_context(cafile=authority) if authority.exists() else True
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    def headers(self) -> dict[str, str]:
        """Return the account's token, read anew each time: the kubelet replaces it before it expires."""
        token = self.account / "token"
        return {"Authorization": f"Bearer {token.read_text().strip()}"} if token.exists() else {}
