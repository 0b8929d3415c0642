"""What a tokenizer writes, told token by token, beside the tokenizer itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from cdec.core.errors import CanonicalError, UsageError
from cdec.core.mask import unpack_mask
from cdec.core.spelling.base import TokenStates
from cdec.core.spelling.kinds import speller_of
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.spelling.tokenizers_small import (
    NAMES,
    random_texts,
    shared_files,
    tokenizer_named,
)


def is_written(speller: TokenStates[Any], row: Sequence[int]) -> bool:
    """Say whether a speller accepts tokens one by one, and lets the text end."""
    state: Any = speller.start
    for token in row:
        state = speller.after(state, token)
        if state is None:
            return False
    return speller.may_end(state)


def tokenizer_writes(vocabulary: Vocabulary, row: Sequence[int]) -> bool:
    """Say whether the tokenizer writes exactly these tokens for their text."""
    try:
        text = vocabulary.decode(row).decode()
    except UnicodeDecodeError:
        return False
    return bool(vocabulary.encode([text])[0] == list(row))


def other_rows(
    vocabulary: Vocabulary, row: Sequence[int], rng: np.random.Generator, n: int
) -> list[list[int]]:
    """Return rows of the same bytes in which a few neighbouring tokens were cut otherwise."""
    ids = ids_by_bytes(vocabulary)
    found = []
    for _ in range(n if row else 0):
        start = int(rng.integers(len(row)))
        stop = min(len(row), start + int(rng.integers(1, 4)))
        text, cut, at = vocabulary.decode(row[start:stop]), [], 0
        while at < len(text):
            ends = [end for end in range(at + 1, len(text) + 1) if text[at:end] in ids]
            if not ends:
                break
            end = ends[rng.integers(len(ends))]
            cut.append(int(rng.choice(ids[text[at:end]])))
            at = end
        if at == len(text):
            found.append([*row[:start], *cut, *row[stop:]])
    return found


def ids_by_bytes(vocabulary: Vocabulary) -> dict[bytes, list[int]]:
    """Return the tokens of each text."""
    known: dict[bytes, list[int]] = {}
    for number, token in enumerate(vocabulary.token_bytes):
        if token:
            known.setdefault(token, []).append(number)
    return known


def assert_agrees(vocabulary: Vocabulary, texts: Sequence[str], seed: int, others: int) -> None:
    """Compare a speller with its tokenizer: its own rows are written, all others are not."""
    speller, rng = speller_of(vocabulary), np.random.default_rng(seed)
    spelled = [vocabulary.decode(row) for row in vocabulary.encode(texts)]
    own = vocabulary.encode([text.decode("utf-8", "replace") for text in spelled])
    for text, row in zip(texts, own, strict=True):
        if not set(row).isdisjoint(vocabulary.special_token_ids):
            continue  # unknown characters, of which nothing is left
        is_own = tokenizer_writes(vocabulary, row)
        assert is_written(speller, row) == is_own, (text, row)
        for other in other_rows(vocabulary, row, rng, others):
            assert is_written(speller, other) == tokenizer_writes(vocabulary, other), (text, other)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.share(2)
def test_exactly_the_rows_that_the_tokenizer_writes_are_written(name: str) -> None:
    assert_agrees(tokenizer_named(name), random_texts(1, 600), 1, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_thousand_texts_of_each_tokenizer(name: str) -> None:
    assert_agrees(tokenizer_named(name), random_texts(2, 100_000), 2, 2)


@pytest.mark.share(1)
@pytest.mark.parametrize("name", ["gpt2", "mistral"])
def test_real_tokenizers_write_what_is_told_of_them(name: str) -> None:
    assert_agrees(Vocabulary.from_tokenizer(shared_files()[name]), random_texts(3, 60), 3, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "cl100k", "neox", "mistral"])
def test_ten_thousand_texts_of_each_real_tokenizer(name: str) -> None:
    assert_agrees(Vocabulary.from_tokenizer(shared_files()[name]), random_texts(4, 10_000), 4, 4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.share(4)
def test_masks_are_the_tokens_that_may_follow(name: str) -> None:
    vocabulary = tokenizer_named(name)
    speller, rng = speller_of(vocabulary), np.random.default_rng(0)
    texts = [*random_texts(5, 25), "a  ", "\n  \n", "e", "12", "<to", "   "]
    for row in vocabulary.encode(texts):
        state: Any = speller.start
        stop = int(rng.integers(len(row) + 1))
        for token in row[:stop]:
            state = state and speller.after(state, token)
        if state is None:  # a text that the tokenizer changes
            continue
        bits = unpack_mask(speller.row(state)[None], vocabulary.width)[0]
        ends = set(vocabulary.eos_token_ids)
        for token in set(range(vocabulary.width)) - ends:
            assert bits[token] == (speller.after(state, token) is not None), (row[:stop], token)
        assert all(bits[token] == speller.may_end(state) for token in ends)


def test_of_every_text_of_few_letters_one_row_is_written() -> None:
    vocabulary = tokenizer_named("qwen")
    speller = speller_of(vocabulary)
    ids = ids_by_bytes(vocabulary)

    def rows(text: bytes) -> list[list[int]]:
        if not text:
            return [[]]
        heads = [(text[:n], text[n:]) for n in range(1, len(text) + 1) if text[:n] in ids]
        return [[i, *rest] for head, tail in heads for i in ids[head] for rest in rows(tail)]

    for text in ("aaaa", "  a", "\n \n", "it's", " <tool>>", "e\u0301a", "12 ", "\u0301\u0301"):
        written = [row for row in rows(text.encode()) if is_written(speller, row)]
        expected = [row for row in rows(text.encode()) if tokenizer_writes(vocabulary, row)]
        assert written == expected and len(written) <= 1, text


def _made(**parts: Any) -> Tokenizer:
    tokenizer = Tokenizer(parts.pop("model", models.BPE(vocab={"a": 0, "b": 1}, merges=[])))
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def _unigram(**parts: Any) -> Tokenizer:
    return _made(model=models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0), **parts)


@pytest.mark.parametrize(
    ("tokenizer", "said"),
    [
        (_made(normalizer=normalizers.Lowercase()), "Lowercase"),
        (_made(normalizer=normalizers.NFKC()), "NFKC"),
        (_made(pre_tokenizer=pre_tokenizers.Punctuation()), "Punctuation"),
        (_made(pre_tokenizer=pre_tokenizers.Split("a", "isolated")), "splits by a text"),
        (_unigram(normalizer=normalizers.Nmt()), "Nmt"),
        (_unigram(pre_tokenizer=pre_tokenizers.WhitespaceSplit()), "WhitespaceSplit"),
        (_made(model=models.Unigram([("<unk>", 11.0), ("a", 12.0)], 0)), "scores above 10"),
        (_made(model=models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0, True)), "some bytes"),
    ],
)
def test_what_is_not_known_exactly_is_refused_by_name(tokenizer: Tokenizer, said: str) -> None:
    with pytest.raises(CanonicalError, match=said) as caught:
        speller_of(Vocabulary.from_tokenizer(tokenizer))
    assert caught.value.code == "E_CANONICAL"


@pytest.mark.parametrize("pattern", ["a+?", "a++", "(?=ab)a", "^a", "(?<!a)b", "[a[b]]", "(a|b)*"])
def test_patterns_of_other_syntax_are_refused_with_their_place(pattern: str) -> None:
    from tokenizers import Regex

    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    with pytest.raises(CanonicalError, match="is not read here"):
        speller_of(Vocabulary.from_tokenizer(_made(pre_tokenizer=split)))


def test_a_pattern_that_leaves_characters_unmatched_is_refused() -> None:
    from tokenizers import Regex

    split = pre_tokenizers.Split(Regex(r"\p{L}+(?!\S)"), "isolated")
    with pytest.raises(CanonicalError, match="unmatched"):
        speller_of(Vocabulary.from_tokenizer(_made(pre_tokenizer=split)))


def test_added_tokens_that_strip_blanks_are_refused() -> None:
    tokenizer = _made()
    tokenizer.add_tokens([AddedToken("ab", lstrip=True)])
    with pytest.raises(CanonicalError, match="lstrip"):
        speller_of(Vocabulary.from_tokenizer(tokenizer))


def test_a_vocabulary_without_a_tokenizer_is_refused() -> None:
    with pytest.raises(UsageError, match="no tokenizer"):
        speller_of(Vocabulary([b"a", b""], [1]))
