import msgspec
import pytest

from dpd.router.strategies.block_chain import BlockChain
from dpd.router.strategies.kv_blocks import KvBlocks
from dpd.router.strategies.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, decode_events

TOKENS = list(range(48))


def stored(hashes=(b"1", b"2", b"3"), parent=None, tokens=tuple(TOKENS), size=16, **fields):
    return BlockStored(list(hashes), parent, list(tokens), size, **fields)


def cached(blocks, tokens=TOKENS):
    return blocks.cached_tokens(BlockChain(tuple(tokens), 16))


@pytest.fixture
def blocks():
    made = KvBlocks()
    made.store(stored(), room=99)
    return made


@pytest.mark.parametrize("vllm", ["0.19", "0.32"])
@pytest.mark.parametrize("block_hash", [b"\x01" * 32, 2**64 - 1])
def test_both_wire_forms_and_both_kinds_of_hashes_are_read(vllm, block_hash, encode_kv_batch):
    payload = encode_kv_batch(
        vllm,
        0,
        [
            (
                "BlockStored",
                {
                    "block_hashes": [block_hash],
                    "parent_block_hash": block_hash,
                    "token_ids": [1, 2],
                    "block_size": 2,
                    "extra_keys": [("lora",)],
                },
            ),
            ("BlockRemoved", {"block_hashes": [block_hash]}),
            ("AllBlocksCleared", {}),
        ],
    )
    first, second, third = decode_events(payload)
    assert isinstance(first, BlockStored)
    assert (first.block_hashes, first.parent_block_hash) == ([block_hash], block_hash)
    assert (first.token_ids, first.block_size, first.medium) == ([1, 2], 2, "GPU")
    assert first.extra_keys == [["lora"]]
    assert isinstance(second, BlockRemoved)
    assert second.block_hashes == [block_hash]
    assert isinstance(third, AllBlocksCleared)


@pytest.mark.parametrize("payload", [b"", b"\xc1", msgspec.msgpack.encode([0.0, [["BlockMoved"]]])])
def test_what_is_no_batch_is_refused(payload):
    with pytest.raises(msgspec.MsgspecError):
        decode_events(payload)


def test_stored_blocks_are_found_by_tokens(blocks):
    assert cached(blocks) == 48
    assert cached(blocks, [*TOKENS[:32], *[7] * 99]) == 32
    assert cached(blocks, TOKENS[1:]) == 0


def test_a_later_event_continues_its_parent(blocks):
    blocks.store(stored([b"4"], parent=b"3", tokens=range(48, 64)), room=99)
    assert cached(blocks, range(64)) == 64


def test_a_block_without_a_known_parent_is_left_out(blocks):
    blocks.store(stored([b"9"], parent=b"8", tokens=range(16)), room=99)
    assert len(blocks) == 3


def test_a_removed_block_ends_the_match(blocks):
    blocks.remove(BlockRemoved([b"2", b"unknown"], "GPU"))
    assert cached(blocks) == 16


def test_a_cleared_cache_matches_nothing(blocks):
    blocks.clear()
    assert (cached(blocks), len(blocks)) == (0, 0)


def test_no_more_blocks_are_added_than_there_is_room_for():
    blocks = KvBlocks()
    blocks.store(stored(), room=2)
    assert (len(blocks), cached(blocks)) == (2, 32)


@pytest.mark.parametrize(
    "fields",
    [
        {"lora_id": 1},
        {"extra_keys": [None, ("image",), None]},
        {"medium": "CPU"},
        {"group_idx": 1},
        {"tokens": TOKENS[:-1]},
    ],
    ids=["lora", "image", "offloaded", "other-group", "masked"],
)
def test_a_block_that_tokens_alone_do_not_name_is_left_out(fields):
    blocks = KvBlocks()
    blocks.store(stored(**fields), room=99)
    assert len(blocks) == 0


def test_a_block_of_another_size_is_left_out(blocks):
    blocks.store(stored([b"4"], parent=b"3", tokens=range(48, 56), size=8), room=99)
    assert len(blocks) == 3


@pytest.mark.parametrize("fields", [{"medium": "CPU"}, {"group_idx": 1}])
def test_a_removal_elsewhere_changes_nothing(blocks, fields):
    blocks.remove(BlockRemoved([b"1"], **fields))
    assert cached(blocks) == 48
