"""Byte trie of a vocabulary's ordinary tokens, flat in depth-first order, kept between runs.

Nodes are in pre-order, so a subtree is a range of nodes, and the tokens of a subtree are a range of
``token_ids``. A token's node is the one its last byte leads to; there is no node for the root.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UntokenizableError
from cdec.core.files.cache import CacheFolder
from cdec.core.mask import offsets_of
from cdec.core.native import library
from cdec.core.tokens.vocabulary import Vocabulary

_BLOCK = 8
"""Bytes compared at once while sorting: a 64-bit word."""
_FORMAT = 2
_HEADER_WORDS = 11
"""Format, number of nodes, number of tokens, and the 32 bytes of a SHA-256."""
_MAX_FILES = 16
"""Tries kept in the cache directory; the ones written first are removed first."""
_MAX_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class TokenTrie:
    """The trie as arrays of N nodes in depth-first order.

    Attributes:
        node_byte: uint8[N] byte that leads to the node.
        depth: int32[N] bytes from the root, from 1.
        skip: int32[N] first node after the subtree.
        token_offsets: int32[N + 1] tokens that end at a node, as a range of ``token_ids``.
        token_ids: int32[T] ordinary tokens by their bytes; ids with equal bytes ascend.
    """

    node_byte: NDArray[np.uint8]
    depth: NDArray[np.int32]
    skip: NDArray[np.int32]
    token_offsets: NDArray[np.int32]
    token_ids: NDArray[np.int32]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> TokenTrie:
        """Return the trie of a vocabulary, from the cache directory where it is there and sound.

        Args:
            vocabulary: Its ordinary tokens; special and padding ids have no place in the trie.

        Returns:
            The trie. Cost for 131,072 tokens: 0.1 s to build and keep, 10 ms to read again.
        """
        name = f"{vocabulary.vocabulary_hash}.trie"
        return _read(name) or _keep(cls.build(vocabulary), name)

    @classmethod
    def build(cls, vocabulary: Vocabulary) -> TokenTrie:
        """Build the trie and leave the cache directory alone; O(bytes of all tokens)."""
        return cls.of_texts(vocabulary.flat_bytes, vocabulary.byte_offsets)

    @classmethod
    def of_texts(cls, data: NDArray[np.uint8], starts: NDArray[np.int64]) -> TokenTrie:
        """Build the trie of n texts by their numbers; empty ones have no place in it.

        Args:
            data: uint8, all texts one after another.
            starts: int64[n + 1] where each lies.
        """
        lengths = np.diff(starts).astype(np.int32)
        ids = sorted_texts(data, starts[:-1], lengths)
        shared = np.zeros(len(ids) + 1, np.int32)
        n = library.byte_trie_size(data, starts, ids, shared)
        trie = cls(
            np.empty(n, np.uint8),
            np.empty(n, np.int32),
            np.empty(n, np.int32),
            np.empty(n + 1, np.int32),
            ids,
        )
        open_nodes = np.empty(int(lengths.max(initial=0)) + 1, np.int32)
        library.byte_trie_fill(data, starts, ids, shared, open_nodes, *trie.arrays()[:4])
        return trie

    def without(self, kept: NDArray[np.bool_]) -> TokenTrie:
        """Return the trie of the tokens that are kept, bool by id; O(nodes)."""
        chosen = kept[self.token_ids]
        before = offsets_of(chosen).astype(np.int32)
        first = before[self.token_offsets]
        stays = first[self.skip] > first[:-1]
        place = offsets_of(stays).astype(np.int32)
        return TokenTrie(
            self.node_byte[stays],
            self.depth[stays],
            place[self.skip[stays]],
            np.append(first[:-1][stays], first[-1:]),
            self.token_ids[chosen],
        )

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays in the order of the attributes."""
        return (self.node_byte, self.depth, self.skip, self.token_offsets, self.token_ids)

    @property
    def max_depth(self) -> int:
        """Length of the longest token in bytes."""
        return int(self.depth.max(initial=0))


def sorted_texts(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return the numbers of texts that are not empty, sorted by bytes, then number.

    Cost: rounds over blocks of 8 bytes, of those that are equal so far.
    """
    order = np.flatnonzero(lengths)
    tied = np.arange(len(order))
    group = np.zeros(len(order), np.int64)
    for block in range(int(lengths.max(initial=0)) // _BLOCK + 1):
        picked = order[tied]
        key, used = _block_keys(data, starts[picked], lengths[picked], block * _BLOCK)
        # subtle: zero bytes and the end of a token both give 0, so the used length decides after.
        places = np.lexsort((used, key, group))
        order[tied] = picked[places]
        key, used, group = key[places], used[places], group[places]
        fresh = np.ones(len(tied) + 1, np.bool_)
        changes = (key[1:] != key[:-1]) | (used[1:] != used[:-1]) | (group[1:] != group[:-1])
        fresh[1:-1] = changes
        alone = fresh[:-1] & fresh[1:]
        open_ties = ~alone & (used == _BLOCK)
        group = np.cumsum(fresh[:-1])[open_ties]
        tied = tied[open_ties]
        if not len(tied):
            break
    return order.astype(np.int32)


def _block_keys(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32], offset: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return 8 bytes from ``offset`` as a big-endian word (0 past the end), and how many exist."""
    used = np.clip(lengths.astype(np.int64) - offset, 0, _BLOCK)
    key = np.zeros(len(starts), np.uint64)
    for i in range(_BLOCK):
        inside = i < used
        byte = data[np.where(inside, starts + offset + i, 0)]
        key = (key << np.uint64(8)) | np.where(inside, byte, 0).astype(np.uint64)
    return key, used


def _cache() -> CacheFolder:
    return CacheFolder("tries", most=_MAX_FILES, max_bytes=_MAX_BYTES)


def _digest(words: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.frombuffer(hashlib.sha256(words.data).digest(), np.int32)


def _read(name: str) -> TokenTrie | None:
    """Return the trie that is kept, or None where there is none or it is damaged."""
    data = _cache().read(name)
    if data is None or len(data) % 4 or len(data) < 4 * _HEADER_WORDS:
        return None
    words = np.frombuffer(data, np.int32)
    form, nodes, tokens = words[:3].tolist()
    bytes_words = (nodes + 3) // 4
    if form != _FORMAT or nodes < 0 or tokens < 0:
        return None
    ends = np.cumsum([_HEADER_WORDS, bytes_words, nodes, nodes, nodes + 1, tokens])
    if ends[-1] != len(words) or not np.array_equal(_digest(words[_HEADER_WORDS:]), words[3:11]):
        return None
    parts = [words[a:b] for a, b in pairwise(ends.tolist())]
    return TokenTrie(parts[0].view(np.uint8)[:nodes], *parts[1:])


def _keep(trie: TokenTrie, name: str) -> TokenTrie:
    """Keep the trie in the cache."""
    packed = np.zeros((len(trie.node_byte) + 3) // 4, np.int32)
    packed.view(np.uint8)[: len(trie.node_byte)] = trie.node_byte
    content = np.concatenate((packed, *trie.arrays()[1:]))
    header = np.array([_FORMAT, len(trie.node_byte), len(trie.token_ids)], np.int32)
    _cache().keep(name, np.concatenate((header, _digest(content), content)).data.cast("B"))
    return trie


def longest_tokens(vocabulary: Vocabulary, text: bytes) -> list[int]:
    """Cut a text into the longest tokens from the left.

    Raises:
        UntokenizableError: At some byte no token fits.
    """
    ids: dict[bytes, int] = {}
    for token_id, token in enumerate(vocabulary.token_bytes):
        ids.setdefault(token, token_id)
    ids.pop(b"", None)
    longest = max(map(len, ids), default=0)
    found, at = [], 0
    while at < len(text):
        sizes = range(min(longest, len(text) - at), 0, -1)
        size = next((size for size in sizes if text[at : at + size] in ids), 0)
        if not size:
            raise UntokenizableError(
                f"no token begins like byte {at + 1} of the text",
                hint="name the tokenizer with `tokenizer`",
                byte_offset=at + 1,
            )
        found.append(ids[text[at : at + size]])
        at += size
    return found
