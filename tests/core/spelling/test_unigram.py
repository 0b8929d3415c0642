"""What Unigram tokenizers write: ties of scores, characters that are mapped, ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tokenizers import pre_tokenizers

from cdec.core.mask import unpack_mask
from cdec.core.spelling.charsmap import CharacterMap
from cdec.core.spelling.kinds import speller_of
from cdec.core.spelling.segments import Pieces, Segmented
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.spelling.test_speller import ids_by_bytes, is_written, tokenizer_writes
from tests.core.spelling.tokenizers_small import (
    CHARSMAPS,
    UNIGRAMS,
    escaping,
    random_texts,
    tokenizer_named,
    unigram_of,
)

TIED = [-0.1, -0.2, -0.3, -0.7, -1.1, -0.30000000000000004, -5.5, 0.2]
"""Of which sums are equal, or differ by the order in which they are made."""
TRICKY = (
    *"ae i\n\r\t1<K~`^´¨",
    *(
        "\u0301",
        "\u0308",
        "\u200d",
        "\u200c",
        "ﬁ",
        "é",
        "ᄀ",
        "ᅡ",
        "ᆨ",
        "한",
        "가",
        "\u115f",
        "\ua960",
    ),
    *("😀", "👩", "🏽", "\ufe0f", "🇫", "🇷", "क", "\u094d", "ষ", "\u09bf", "ก", "\u0e33", "\u0e34"),
    *(
        "ﾞ",
        "ｶ",
        "カ",
        "\u3099",
        "か",
        "㎏",
        "①",
        "½",
        "\u0600",
        "\u06dd",
        "ا",
        "\u064b",
        "א",
        "\u05b0",
    ),
    *("日", "⁉", "‼", "ℹ", "〰", "\u0d4e", "ക", "\U000110bd", "\U00011083", "\u00a0", "\u3000"),
    *("\u200b", "\ufeff", "\u00ad", "Å", "ſ", "ς", "\u0345", "\u1fb3", "\ud7b0", "\U0001d165"),
    *(
        "\U000e0100",
        "\U000e0041",
        "a\u0308\u0301",
        "\u0958",
        "\u0340",
        "\ufb1d",
        "\u0f77",
        "\u0cbf",
    ),
)


def random_unigram(seed: int) -> tuple[Vocabulary, str]:
    """Return a Unigram tokenizer of a few letters, and letters of texts."""
    rng = np.random.default_rng(seed)
    letters = "ab é" if seed % 3 else "abé日"
    pieces = dict.fromkeys(letter for letter in letters if rng.random() < 0.8)
    for _ in range(rng.integers(3, 25)):
        pieces.setdefault("".join(rng.choice(list(letters), rng.integers(1, 6))))
    parts: dict[str, Any] = {}
    if seed % 2:
        split = seed % 4 == 1
        parts["pre_tokenizer"] = pre_tokenizers.Metaspace(split=split, prepend_scheme="never")
    elif seed % 4:
        parts["normalizer"] = escaping(squeezes=seed % 8 == 2)
    scores = rng.choice(TIED if seed % 5 else [-1.0, -2.0, -3.0], len(pieces))
    mark = "\u2581" if parts else " "
    listed = dict(zip((p.replace(" ", mark) for p in pieces), scores.tolist(), strict=True))
    if rng.random() < 0.5:
        listed.setdefault(mark, -1.0)
    known = [("<unk>", 0.0), ("</s>", 0.0), *listed.items()]
    return unigram_of(known, falls_back=bool(rng.random() < 0.6), **parts), letters + "c"


def all_rows(text: bytes, ids: dict[bytes, list[int]]) -> list[list[int]]:
    if not text:
        return [[]]
    heads = [(text[:n], text[n:]) for n in range(1, len(text) + 1) if text[:n] in ids]
    return [[i, *rest] for head, tail in heads for rest in all_rows(tail, ids) for i in ids[head]]


def assert_each_row_is_told(seed: int, texts: int) -> None:
    vocabulary, letters = random_unigram(seed)
    speller, ids = speller_of(vocabulary), ids_by_bytes(vocabulary)
    rng = np.random.default_rng(seed)
    for _ in range(texts):
        text = "".join(rng.choice(list(letters), rng.integers(1, 8)))
        for row in all_rows(text.encode(), ids)[:400]:
            assert is_written(speller, row) == tokenizer_writes(vocabulary, row), (text, row)


def test_of_all_rows_of_short_texts_those_of_the_tokenizer_are_told() -> None:
    for seed in range(16):
        assert_each_row_is_told(seed, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_of_many_tokenizers_all_rows_are_told(seed: int) -> None:
    for each in range(50):
        assert_each_row_is_told(1000 + 50 * seed + each, 30)


def tricky_texts(seed: int, n: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(TRICKY, rng.integers(1, 9))) for _ in range(n)]


def longest_tokens(vocabulary: Vocabulary, text: bytes) -> list[int]:
    """Return some tokens of a text: the longest of at most eight bytes, in turn."""
    ids, row = ids_by_bytes(vocabulary), []
    while text:
        sizes = (size for size in range(8, 0, -1) if text[:size] in ids)
        size = next(sizes)
        row.append(ids[text[:size]][0])
        text = text[size:]
    return row


def assert_mapped_texts_are_told(name: str, seed: int, n: int) -> None:
    vocabulary = tokenizer_named(name)
    speller, texts = speller_of(vocabulary), tricky_texts(seed, n)
    kept = 0
    for text, row in zip(texts, vocabulary.encode(texts), strict=True):
        again = vocabulary.encode([vocabulary.decode(row).decode("utf-8", "replace")])[0]
        for each in (row, again, longest_tokens(vocabulary, text.encode())):
            is_own = tokenizer_writes(vocabulary, each)
            assert is_written(speller, each) == is_own, (text, each)
            kept += is_own
    assert kept > n


@pytest.mark.slow
@pytest.mark.parametrize("name", CHARSMAPS)
def test_texts_that_the_normaliser_changes_are_not_written_and_others_are(name: str) -> None:
    assert_mapped_texts_are_told(name, 1, 700)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHARSMAPS)
def test_of_many_texts_those_that_the_normaliser_changes_are_not_written(name: str) -> None:
    assert_mapped_texts_are_told(name, 2, 50_000)


@pytest.mark.parametrize("name", CHARSMAPS)
def test_masks_behind_characters_that_may_be_mapped_are_the_tokens_that_may_follow(
    name: str,
) -> None:
    vocabulary = tokenizer_named(name)
    speller, rng = speller_of(vocabulary), np.random.default_rng(3)
    ends = vocabulary.eos_token_ids
    for row in vocabulary.encode(
        ["e\u0301", "e\u200d\u0301", "ᄀ", "\u0600", *tricky_texts(3, 12)]
    ):
        state: Any = speller.start
        for token in row[: rng.integers(1, len(row) + 1)]:
            state = state and speller.after(state, token)
        if state is None:
            continue
        bits = unpack_mask(speller.row(state)[None], vocabulary.width)[0]
        for token in set(range(vocabulary.width)) - set(ends):
            assert bits[token] == (speller.after(state, token) is not None), (row, token)
        assert all(bits[token] == speller.may_end(state) for token in ends)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", UNIGRAMS)
def test_whatever_may_follow_has_an_end(name: str) -> None:
    vocabulary = tokenizer_named(name)
    speller, rng = speller_of(vocabulary), np.random.default_rng(4)
    byte_ids = [i for i, token in enumerate(vocabulary.token_bytes) if len(token) == 1]
    for _ in range(20):
        state: Any = speller.start
        for _ in range(6):
            bits = unpack_mask(speller.row(state)[None], vocabulary.width)[0]
            inside = [i for i in byte_ids if bits[i]] if rng.random() < 0.5 else []
            state = speller.after(state, int(rng.choice(inside or np.flatnonzero(bits)))) or state
            assert ends_somewhere(speller, state, vocabulary), state


def ends_somewhere(speller: Any, state: Any, vocabulary: Vocabulary) -> bool:
    """Say whether a text ends behind a state within a few bytes: of a character, or of accents."""
    accents = longest_tokens(vocabulary, ("\u0301" * 6).encode()) if not state.begun else []
    for token in accents:
        if speller.may_end(state):
            return True
        state = speller.after(state, token)
        if state is None:
            return False
    while not speller.may_end(state):
        bits = np.flatnonzero(unpack_mask(speller.row(state)[None], vocabulary.width)[0])
        if not len(bits):
            return False
        state = speller.after(state, int(bits[0]))
    return True


def test_of_equal_sums_the_last_piece_that_begins_first_is_the_best() -> None:
    pieces = Pieces({"a": -1.0, "b": -1.0, "ab": -2.0}, -10.0)
    start = Segmented()
    both, alone = pieces.after(start, "ab"), pieces.after(start, "a")
    assert both is not None and both.score == -2.0
    assert alone is not None and pieces.after(alone, "b") is None
    nodes = list(pieces.nodes)
    assert nodes == ["", "a", "b", "ab"]
    assert pieces.may_follow(alone).tolist() == [False, True, False, True]


@pytest.mark.parametrize(("name", "is_met_again"), [("unigram", True), ("unigram-whole", False)])
def test_states_come_again_where_texts_are_split_before_spaces(
    name: str, is_met_again: bool
) -> None:
    vocabulary = tokenizer_named(name)
    speller: Any = speller_of(vocabulary)
    found = []
    for text in (" aaaa a", " name aaaa a"):
        state = speller.start
        for token in vocabulary.encode([text])[0]:
            state = speller.after(state, token)
        found.append(state)
    assert None not in found and (found[0] == found[1]) == is_met_again


def test_random_texts_are_left_as_they_are_piece_by_piece_as_they_are_as_a_whole() -> None:
    speller: Any = speller_of(tokenizer_named("nmt"))
    table: CharacterMap = speller.map
    for text in [*random_texts(5, 300), *tricky_texts(5, 600)]:
        tail: str | None = ""
        for char in text:
            tail = None if tail is None else table.after(tail, char)
        assert (tail is not None and table.is_kept(tail)) == table.is_kept(text), text
