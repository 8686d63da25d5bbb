"""The bytes that LMCache 0.4.3 puts on the wire."""

import msgspec
import pytest

from dpd.simulator.config import SimulatorConfig
from dpd.simulator.lmcache_messages import AllocRequest, AllocResponse, ProxyNotif, page_key


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (ProxyNotif(req_id="r"), {"type": "ProxyNotif", "req_id": "r"}),
        (
            AllocRequest(keys=["k"], fmt=1, shape=[2, 1, 256, 512], dtype="bfloat16", last_chunk_toks=7),
            {
                "type": "AllocRequest",
                "keys": ["k"],
                "fmt": 1,
                "shape": [2, 1, 256, 512],
                "dtype": "bfloat16",
                "last_chunk_toks": 7,
            },
        ),
        (
            AllocResponse(already_sent_indexes=[0], remote_indexes=[5]),
            {"type": "AllocResponse", "already_sent_indexes": [0], "remote_indexes": [5]},
        ),
    ],
)
def test_a_message_names_its_class(message, fields):
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message)) == fields


def test_a_key_names_model_ranks_rank_hash_dtype_and_tags():
    config = SimulatorConfig(model="m", tensor_parallel=4)
    plain = page_key(config, 2, b"content", {"disagg_spec": {}})
    model, ranks, rank, chunk_hash, dtype = plain.split("@")
    assert (model, ranks, rank, dtype) == ("m", "4", "2", "bfloat16")
    assert int(chunk_hash, 16) > 0
    assert page_key(config, 2, b"content", {"lmcache.tag.dpd": "7"}) == f"{plain}@dpd%7"
