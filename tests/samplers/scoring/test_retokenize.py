"""Retokenisation: the greedy spelling of a text, its probability, and the tokenizer's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.errors import ContextLengthError, UntokenizableError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.scoring.retokenize import (
    Retokenized,
    Retokenizer,
    WaysConstraint,
    one_way,
    ways_to_spell,
)
from tests.laws.sessions import assert_session_laws

BYTES = [b"a", b"b", b"ab", b"ba", b"abx", b"", b"\xc3", b"\xa9"]


class OneByteAToken:
    """Encodes a text byte by byte; ``!`` becomes ``a``, as a normaliser might do."""

    hash = "none"

    def encode(self, texts: list[str]) -> list[list[int]]:
        single = {text: i for i, text in enumerate(BYTES) if len(text) == 1}
        return [
            [single[bytes([b])] for b in text.replace("!", "a").encode() if bytes([b]) in single]
            for text in texts
        ]


VOCABULARY = Vocabulary(BYTES, [5], tokenization=OneByteAToken())  # type: ignore[arg-type]


def probabilities(prefix: tuple[int, ...]) -> np.ndarray:
    weights = np.array([4.0, 3.0, 5.0, 2.0, 9.0, 1.0, 1.0, 1.0])
    if prefix and prefix[-1] == 2:  # After "ab", "ba" is likelier than "a" and "b".
        weights[3] = 20.0
    return weights / weights.sum()


MODEL = TabularModel(probabilities, VOCABULARY)


def run(*texts: str, **options: Any) -> list[Any]:
    return Retokenizer(MODEL, **options).run(texts, [""] * len(texts))


def log_p(ids: list[int]) -> float:
    return sum(math.log(probabilities(tuple(ids[:i]))[t]) for i, t in enumerate(ids))


def test_the_most_probable_prefix_is_taken_each_time() -> None:
    (result,) = run("abbaab")
    assert result.preferred.token_ids == [2, 3, 2]
    assert result.tokens == ["ab", "ba", "ab"]
    assert result.preferred.logprob == pytest.approx(log_p([2, 3, 2]))
    assert result.preferred.perplexity == pytest.approx(math.exp(-log_p([2, 3, 2]) / 3))
    assert result.canonical.token_ids == [0, 1, 1, 0, 0, 1]
    assert result.canonical.logprob == pytest.approx(log_p([0, 1, 1, 0, 0, 1]))
    assert result.canonical.perplexity == pytest.approx(math.exp(-result.canonical.logprob / 6))


def test_the_end_event_counts_where_it_is_asked_for() -> None:
    (plain,), (ended,) = run("ab"), run("ab", end=True)
    end = math.log(probabilities((2,))[5])
    assert ended.preferred.logprob == pytest.approx(plain.preferred.logprob + end)
    assert ended.preferred.perplexity == pytest.approx(math.exp(-ended.preferred.logprob / 2))
    assert ended.preferred.token_ids == plain.preferred.token_ids == [2]


def test_a_token_that_leads_nowhere_is_not_taken() -> None:
    # "abx" is likeliest, but the text has no x; and "x" alone could not be spelt.
    (result,) = run("ab")
    assert result.preferred.token_ids == [2]
    ways = ways_to_spell(b"abxb", SortedTokens(VOCABULARY))
    assert ways[0] == {4: 3}


def test_the_keys_stand_in_the_documented_order() -> None:
    (result,) = run("a\u00e9")
    assert list(result.to_json()) == [
        "text",
        "token_ids",
        "tokens",
        "logprob",
        "perplexity",
        "canonical_token_ids",
        "canonical_logprob",
        "canonical_perplexity",
    ]
    assert result.to_json()["tokens"] == ["a", "\\xc3", "\\xa9"]


def test_texts_decode_together_as_alone_and_errors_stand_in_their_place() -> None:
    texts = ["ab", "a!", "", "bab", "\ud800", "ab"]
    together = run(*texts)
    assert isinstance(together[1], UntokenizableError)
    assert together[4].code == "E_ENCODING"
    for text, result in zip(texts, together, strict=True):
        (alone,) = run(text)
        if isinstance(result, Retokenized):
            assert result == alone
        else:
            assert type(result) is type(alone)


def test_the_empty_text_has_no_perplexity_without_its_end() -> None:
    (nothing,), (ended,) = run(""), run("", end=True)
    assert (nothing.preferred.logprob, nothing.preferred.perplexity) == (0.0, None)
    assert ended.preferred.perplexity == pytest.approx(1 / probabilities(())[5])


def test_a_text_without_probability_is_an_error() -> None:
    model = TabularModel(lambda prefix: [0, 0.5, 0, 0, 0, 0.5, 0, 0], VOCABULARY)
    bad, good = Retokenizer(model).run(["ba", "bb"], ["", ""])
    assert isinstance(bad, UntokenizableError)
    assert "'b'" in str(bad)
    assert isinstance(good, Retokenized)


def test_a_text_beyond_the_context_is_an_error() -> None:
    model = TabularModel(probabilities, VOCABULARY)
    model.context_length = 3
    long, short = Retokenizer(model).run(["abbaabab", "aba"], ["", ""])
    assert isinstance(long, ContextLengthError)
    assert isinstance(short, Retokenized)


@pytest.mark.parametrize("ends_itself", [True, False])
def test_sessions_obey_the_laws(ends_itself: bool) -> None:
    for ways in (ways_to_spell(b"abxab", SortedTokens(VOCABULARY)), one_way([0, 3, 1])):
        constraint = WaysConstraint(ways, VOCABULARY, ends_itself=ends_itself)
        assert_session_laws(constraint, [], np.random.default_rng(0))
