"""Who may use the router, and how much of it at a time."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable
from hashlib import sha256

from dpd.router.config import ApiKey, Auth
from dpd.router.failure import Failure

_SCHEME = "bearer "


class Tenants:
    """Tell tenants apart by their API keys, of which only SHA-256 sums are kept."""

    def __init__(self, config: Auth) -> None:
        self._config = config
        self._in_flight: Counter[str] = Counter()

    def identify(self, authorization: str | None) -> ApiKey | None:
        """Return the tenant of an `Authorization` header; None where no keys are configured.

        Raises Failure (401). Every key is compared, each in constant time, so that the time tells nothing.
        """
        if not self._config.keys:
            return None
        header = authorization or ""
        token = header[len(_SCHEME) :] if header.lower().startswith(_SCHEME) else ""
        digest = sha256(token.encode(errors="surrogateescape")).hexdigest()
        found = [key for key in self._config.keys if hmac.compare_digest(key.sha256, digest)]
        if not found:
            raise Failure(401, "invalid_api_key", "send a valid key: `Authorization: Bearer KEY`")
        return found[0]

    def enter(self, tenant: ApiKey | None) -> Callable[[], None]:
        """Count a request of a tenant, and return what ends it. Raises Failure (429) above the limit."""
        name = tenant.tenant if tenant else ""
        limit = (tenant and tenant.max_concurrent) or self._config.max_concurrent_per_tenant
        if limit is not None and self._in_flight[name] >= limit:
            message = f"{limit} requests of this key are in flight already"
            raise Failure(429, "tenant_limit", message, retry_after_s=1)
        self._in_flight[name] += 1

        def leave() -> None:
            self._in_flight[name] -= 1

        return leave
