"""What one engine has in its prefix cache, as its events tell."""

from __future__ import annotations

from typing import Final

from dpd.router.strategies.block_chain import ROOT, BlockChain, link
from dpd.router.strategies.kv_events import BlockHash, BlockRemoved, BlockStored

BYTES_PER_BLOCK: Final = 384
"""At the worst fill of both tables and while they grow; measured with tracemalloc on CPython 3.11."""
_GPU: Final = "GPU"


class KvBlocks:
    """Map the engine's block hashes to keys of our own, which a prompt's tokens alone give.

    Blocks in GPU memory count, of the first KV cache group of a hybrid model, unless they hold more than
    tokens (images, LoRA, salted prompts). A block whose parent is unknown cannot be placed, and is left out.
    """

    def __init__(self) -> None:
        self.block_tokens = 0
        """Known from the first block on."""
        self._keys: dict[BlockHash, int] = {}
        self._held: set[int] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def store(self, event: BlockStored, room: int) -> None:
        """Add at most ``room`` blocks."""
        size = event.block_size
        parent = ROOT if event.parent_block_hash is None else self._keys.get(event.parent_block_hash)
        if parent is None or not _plain(event):
            return
        if size != (self.block_tokens or size):
            return
        self.block_tokens = size
        tokens = tuple(event.token_ids)
        for number, block_hash in enumerate(event.block_hashes[:room]):
            parent = link(parent, tokens[number * size : (number + 1) * size])
            self._keys[block_hash] = parent
            self._held.add(parent)

    def remove(self, event: BlockRemoved) -> None:
        """Drop blocks."""
        if not _counts(event):
            return
        for block_hash in event.block_hashes:
            key = self._keys.pop(block_hash, None)
            if key is not None:
                self._held.discard(key)

    def clear(self) -> None:
        """Drop all blocks."""
        self._keys.clear()
        self._held.clear()

    def cached_tokens(self, chain: BlockChain) -> int:
        """Return the tokens at the beginning of ``chain``, of ``block_tokens`` each, that are cached."""
        return chain.matched(self._held.__contains__)


def _counts(event: BlockStored | BlockRemoved) -> bool:
    return event.medium in (None, _GPU) and event.group_idx in (None, 0)


def _plain(event: BlockStored) -> bool:
    whole = len(event.token_ids) == len(event.block_hashes) * event.block_size
    return _counts(event) and whole and event.lora_id is None and not any(event.extra_keys or ())
