"""A Kubernetes API server that lists and watches EndpointSlices, and fails as asked."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from aiohttp import web

from dpd.router.config import RouterConfig
from dpd.router.discovery.cluster import Cluster
from dpd.router.discovery.kubernetes import EndpointSliceWatch
from dpd.router.worker import Role

PATH = "/apis/discovery.k8s.io/v1/namespaces/inference/endpointslices"


def endpoint_slice(name, *pods, family="IPv4"):
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "inference",
            "generateName": "prefill-",
            "labels": {
                "kubernetes.io/service-name": "prefill",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "prefill", "uid": "17e5"}],
        },
        "addressType": family,
        "endpoints": list(pods) or None,
        "ports": [{"name": "", "port": 8000, "protocol": "TCP"}],
    }


class FakeApi:
    """Speak list and watch for the slices of the Service `prefill`; other Services have none."""

    def __init__(self):
        self.slices, self.history = {}, []
        self.version, self.oldest = 1000, 0
        self.watches, self.requests = {}, []
        self.token = "first"
        self.refusal = None
        self.gone_status = 200
        self.chunk_bytes = None

    async def handle(self, request):
        service = request.query["labelSelector"].removeprefix("kubernetes.io/service-name=")
        prefill = service == "prefill"
        if prefill:
            self.requests.append("watch" if "watch" in request.query else "list")
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response(self.status(401, "Unauthorized"), status=401)
        if self.refusal is not None:
            return web.json_response(self.status(*self.refusal), status=self.refusal[0])
        if "watch" in request.query:
            return await self.watch(request, prefill)
        items = list(self.slices.values()) if prefill else []
        return web.json_response(
            {
                "kind": "EndpointSliceList",
                "metadata": {"resourceVersion": str(self.version)},
                "items": items,
            }
        )

    async def watch(self, request, prefill):
        assert request.query["allowWatchBookmarks"] == "true"
        assert int(request.query["timeoutSeconds"]) > 0
        since = int(request.query["resourceVersion"])
        old = since < self.oldest
        status = self.status(410, "too old resource version")
        if old and self.gone_status == 410:
            return web.json_response(status, status=410)
        response = web.StreamResponse()
        await response.prepare(request)
        if old:
            await self.write(response, {"type": "ERROR", "object": status})
            return response
        queue = asyncio.Queue()
        for change in self.history if prefill else ():
            if int(change["object"]["metadata"]["resourceVersion"]) > since:
                queue.put_nowait(change)
        if prefill:
            self.watches[queue] = request.transport
        try:
            while (change := await queue.get()) is not None:
                await self.write(response, change)
        finally:
            self.watches.pop(queue, None)
        return response

    async def write(self, response, change):
        line = json.dumps(change).encode() + b"\n"
        size = self.chunk_bytes or len(line)
        for start in range(0, len(line), size):
            await response.write(line[start : start + size])
            await asyncio.sleep(0)

    @staticmethod
    def status(code, message):
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "code": code,
        }

    def put(self, name, *pods, family="IPv4"):
        kind = "MODIFIED" if name in self.slices else "ADDED"
        self.slices[name] = endpoint_slice(name, *pods, family=family)
        self.tell(kind, self.slices[name])

    def delete(self, name):
        self.tell("DELETED", self.slices.pop(name))

    def bookmark(self):
        metadata = {"creationTimestamp": None}
        self.tell("BOOKMARK", {"kind": "EndpointSlice", "metadata": metadata, "endpoints": None})

    def tell(self, kind, subject):
        self.version += 1
        subject["metadata"]["resourceVersion"] = str(self.version)
        change = {"type": kind, "object": json.loads(json.dumps(subject))}
        if kind != "BOOKMARK":
            self.history.append(change)
        for queue in self.watches:
            queue.put_nowait(change)

    def drop(self):
        for transport in self.watches.values():
            transport.abort()

    def end(self):
        for queue in self.watches:
            queue.put_nowait(None)

    def compact(self):
        """Forget what happened before now."""
        self.oldest, self.history = self.version, []


class Run:
    """Hold a running source: the server, its account's files, and what was published of prefillers."""

    def __init__(self, api, account, until):
        self.api, self.account, self.sets, self._until = api, account, [], until

    def publish(self, role, endpoints):
        if role is Role.PREFILL:
            self.sets.append(sorted(endpoint.name for endpoint in endpoints))

    async def finds(self, *addresses):
        wanted = [f"{address}:8000" for address in addresses]
        await self._until(lambda: self.sets and self.sets[-1] == wanted)

    async def watching(self):
        await self._until(lambda: bool(self.api.watches))

    async def requested(self, *kinds):
        await self._until(lambda: self.api.requests[-len(kinds) :] == list(kinds))


def source_for(url, account):
    config = RouterConfig.model_validate(
        {
            "workers": {
                "source": "kubernetes",
                "kubernetes": {
                    "prefill_service": "prefill",
                    "decode_service": "decode",
                    "api_server": url,
                },
            }
        }
    )
    kubernetes = config.workers.kubernetes
    return EndpointSliceWatch(config, kubernetes, Cluster.find(kubernetes, {}, account))


@contextlib.asynccontextmanager
async def serving(api, ssl_context=None):
    app = web.Application()
    app.router.add_get(PATH, api.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.fixture
def account(tmp_path):
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("inference")
    return tmp_path


@pytest.fixture
def follow(account, until):
    """Return a run of a source against a fake API server; `prepare` sets the server up, `steps` act."""

    def run(steps, prepare=lambda api: None, tls=None):
        async def body():
            api = FakeApi()
            prepare(api)
            async with serving(api, tls) as port, asyncio.timeout(60):
                source = source_for(f"{'https' if tls else 'http'}://127.0.0.1:{port}", account)
                state = Run(api, account, until)
                task = asyncio.create_task(source.run(state.publish))
                try:
                    await steps(state)
                finally:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task

        asyncio.run(body())

    return run
