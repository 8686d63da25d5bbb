import asyncio
from pathlib import Path

import msgspec
import pytest
import zmq

from dpd.router.notifications import NotificationSink

IPV6 = pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=IPV6)])
def test_a_notification_of_each_rank_completes_a_request(host):
    async def run():
        sink = NotificationSink()
        address = f"tcp://{host if '.' in host else f'[{host}]'}:{sink.bind(host, 0)}"
        reading = asyncio.create_task(sink.run())
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.setsockopt(zmq.IPV6, 1)
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(address)
            with sink.expect("a", ranks=2) as expected:
                for _ in range(2):
                    socket.send(msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": "a"}))
                async with asyncio.timeout(20):
                    await expected.complete.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        sink.close()

    asyncio.run(run())
