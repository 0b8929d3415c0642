"""The vocabulary's byte trie against a sorted list, and what becomes of a damaged cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

TOKENS = [
    b"",
    b"ab",
    b"a",
    b"\x00",
    b"ab",
    b"a\x00",
    b"abcdefgh",
    b"abcdefgh\x00",
    b"\xff\xfe",
    b"b",
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory."""
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path))
    return tmp_path


def check(trie: TokenTrie, vocabulary: Vocabulary) -> None:
    """Check every array of a trie against plain Python."""
    tokens = vocabulary.token_bytes
    ordinary = sorted((tokens[i], i) for i in range(vocabulary.size) if tokens[i])
    assert trie.token_ids.tolist() == [i for _, i in ordinary]
    nodes = sorted({text[:n] for text, _ in ordinary for n in range(1, len(text) + 1)})
    assert trie.node_byte.tolist() == [node[-1] for node in nodes]
    assert trie.depth.tolist() == [len(node) for node in nodes]
    for i, node in enumerate(nodes):
        below = sum(other.startswith(node) for other in nodes)
        assert trie.skip[i] == i + below
        held = trie.token_ids[trie.token_offsets[i] : trie.token_offsets[i + 1]].tolist()
        assert held == [t for text, t in ordinary if text == node]
    assert trie.max_depth == max(map(len, nodes), default=0)


TEXTS = st.binary(max_size=3) | st.text("ab\x00", max_size=20).map(str.encode)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=40))
def test_trie_holds_every_ordinary_token_in_byte_order(tokens: list[bytes]) -> None:
    vocabulary = Vocabulary([b"<end>", *tokens], [0])
    check(TokenTrie.build(vocabulary), vocabulary)


def test_ids_with_equal_bytes_share_a_node_and_ascend() -> None:
    vocabulary = Vocabulary(TOKENS, [0])
    trie = TokenTrie.build(vocabulary)
    check(trie, vocabulary)
    assert np.diff(trie.token_offsets).max() == 2


def test_trie_is_read_back_from_the_cache(cache: Path) -> None:
    vocabulary = Vocabulary(TOKENS, [0])
    built = TokenTrie.of(vocabulary)
    (file,) = (cache / "tries").iterdir()
    stamp = file.stat().st_mtime_ns
    again = TokenTrie.of(vocabulary)
    assert file.stat().st_mtime_ns == stamp
    for a, b in zip(built.arrays(), again.arrays(), strict=True):
        assert np.array_equal(a, b) and a.dtype == b.dtype


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "header"])
def test_damaged_cache_is_built_again(cache: Path, damage: str) -> None:
    vocabulary = Vocabulary(TOKENS, [0])
    TokenTrie.of(vocabulary)
    (file,) = (cache / "tries").iterdir()
    whole = file.read_bytes()
    if damage == "cut":
        file.write_bytes(whole[:-5])
    elif damage == "flipped":
        file.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "other":
        file.write_bytes(b"what another program keeps there")
    else:
        words = np.frombuffer(bytearray(whole), np.int32)
        words[1] += 1 << 20
        file.write_bytes(words.tobytes())
    check(TokenTrie.of(vocabulary), vocabulary)
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_done_without(cache: Path) -> None:
    (cache / "tries").write_bytes(b"a file where the folder should be")
    vocabulary = Vocabulary(TOKENS, [0])
    check(TokenTrie.of(vocabulary), vocabulary)


def test_cache_keeps_a_bounded_number_of_tries(cache: Path) -> None:
    for i in range(20):
        TokenTrie.of(Vocabulary([b"<end>", b"%d" % i], [0]))
    assert len(list((cache / "tries").iterdir())) == 16


def test_other_special_ids_use_the_same_trie_only_if_the_tokens_agree(cache: Path) -> None:
    TokenTrie.of(Vocabulary([b"<end>", b"a", b"b"], [0]))
    vocabulary = Vocabulary([b"<end>", b"a", b"b"], [0], [2])
    check(TokenTrie.of(vocabulary), vocabulary)
    assert len(list((cache / "tries").iterdir())) == 2
