"""Constraints of the token sequences that the tokenizer writes: all of them, and no others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cdec.compilers import grammar_constraint, regex_constraint, schema_constraint
from cdec.core.combine.canonical import CanonicalTexts, canonical
from cdec.core.combine.fitting import fit
from cdec.core.combine.prefill import begin
from cdec.core.constraint import CANONICAL, DEAD, Constraint
from cdec.core.errors import EmptySetError, FitError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings import enumeration
from cdec.samplers.exact import ExactSampler
from cdec.samplers.masked import MaskedSampler
from tests.core.combine.test_fitting import assert_members_are
from tests.core.spelling.tokenizers_small import tokenizer_named
from tests.laws.gtest import g_test
from tests.laws.sessions import assert_session_laws, states_after
from tests.laws.worlds import Row, Toy, toy_set

TEXTS = ("name", "the name", "their names", "a  b", "a \n b", "it's 1234", "it'sn", "aaaaaaa 12")
NAMES = ("qwen", "gpt2", "pieces", "runs", "unigram-whole", "unigram-bytes")
SCHEMA = '{"type": "object", "properties": {"name": {"enum": ["their", "the", "  a"]}}}'
GRAMMAR = 'start: item (", " item)*\nitem: "name" | "the name" | "[" start "]" | /[0-9]+/'


def own_rows(vocabulary: Vocabulary, texts: tuple[str, ...]) -> list[Row]:
    """Return the tokenizer's own rows of texts that it does not change."""
    rows = vocabulary.encode(texts)
    pairs = zip(texts, rows, strict=True)
    return [tuple(row) for text, row in pairs if vocabulary.decode(row) == text.encode()]


def pattern_of(texts: tuple[str, ...]) -> str:
    return "|".join(texts)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", NAMES)
def test_of_few_texts_the_rows_of_the_tokenizer_are_left_without_dead_ends(name: str) -> None:
    vocabulary = tokenizer_named(name)
    narrow = canonical(regex_constraint(pattern_of(TEXTS), vocabulary))
    rows = own_rows(vocabulary, TEXTS)
    assert len(rows) == len(TEXTS)
    assert narrow.facts.is_sound and narrow.facts.spelling == CANONICAL
    assert_members_are(narrow, rows, list(vocabulary.eos_token_ids))
    assert_session_laws(narrow, rows, np.random.default_rng(0), max_states=12)


def schema_of(vocabulary: Vocabulary) -> Constraint:
    return schema_constraint(SCHEMA, vocabulary)


def grammar_of(vocabulary: Vocabulary) -> Constraint:
    return grammar_constraint(GRAMMAR, vocabulary)


def words_of(vocabulary: Vocabulary) -> Constraint:
    return regex_constraint(r"[a-z ]+\n*[0-9]*", vocabulary)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("make", "texts"),
    [
        (schema_of, ('{"name": "their"}', '{"name":"the"}', "{}")),
        (grammar_of, ("the name, 12, name", "[name]", "[[1], 2]", "12345")),
        (words_of, ("the name  a", "their\n\n12", "a \n", "aaaa")),
    ],
)
@pytest.mark.share(2)
def test_large_languages_keep_the_laws_but_may_get_stuck(
    name: str, make: Callable[[Vocabulary], Constraint], texts: tuple[str, ...]
) -> None:
    vocabulary = tokenizer_named(name)
    inner = make(vocabulary)
    narrow = canonical(inner)
    rows = [row for row in own_rows(vocabulary, texts) if states_after(inner.session(), [row]) >= 0]
    # Sums of scores grow with a word, so that no state comes again.
    is_searched = make is words_of and not name.startswith("unigram")
    assert rows and narrow.facts.is_sound == is_searched
    session, rng = narrow.session(), np.random.default_rng(1)
    for row in rows:  # every neighbouring cut of a member is refused, at some token or at its end
        assert session.is_complete(states_after(session, [row]))[0]
        for _ in range(20):
            other = recut(vocabulary, row, rng)
            state = states_after(session, [other])
            is_own = other == tuple(vocabulary.encode([vocabulary.decode(other).decode()])[0])
            assert (state[0] != DEAD and session.is_complete(state)[0]) == is_own
    assert_session_laws(narrow, rows, rng, walks=0, max_states=8)


def recut(vocabulary: Vocabulary, row: Row, rng: np.random.Generator) -> Row:
    """Return other tokens of a row's bytes: some are cut in two, at random."""
    ids = {token: i for i, token in enumerate(vocabulary.token_bytes) if token}
    found: list[int] = []
    for token in row:
        text = vocabulary.token_bytes[token]
        cuts = [c for c in range(1, len(text)) if text[:c] in ids and text[c:] in ids]
        if cuts and rng.random() < 0.5:
            cut = cuts[rng.integers(len(cuts))]
            found += [ids[text[:cut]], ids[text[cut:]]]
        else:
            found.append(token)
    return tuple(found)


def test_a_set_keeps_the_rows_that_are_canonical() -> None:
    vocabulary = tokenizer_named("gpt2")
    rows = own_rows(vocabulary, TEXTS)
    others = [recut(vocabulary, row, np.random.default_rng(i)) for i, row in enumerate(rows)]
    whole = toy_set([*rows, *others], vocabulary)
    narrow = canonical(whole)
    assert_members_are(narrow, rows, list(vocabulary.eos_token_ids))
    assert narrow.facts.spelling == CANONICAL and narrow.listed is not None
    assert fit(narrow, 3).facts.spelling == CANONICAL


def test_where_the_tokenizer_writes_no_text_so_nothing_is_left() -> None:
    vocabulary = tokenizer_named("qwen")  # its normaliser composes
    with pytest.raises(EmptySetError, match="no text is left"):
        canonical(regex_constraint("e\u0301", vocabulary))


def test_a_begun_text_is_spelled_from_its_first_drawn_token_on() -> None:
    vocabulary = tokenizer_named("gpt2")
    begun = begin(regex_constraint("the name|their", vocabulary), "the")
    read = len(vocabulary.decode(begun.read))
    left = [text[read:] for text in ("the name", "their")]
    narrow = canonical(begun)
    session = narrow.session()
    firsts = session.allowed(session.start(1))[1].tolist()
    assert firsts == sorted(row[0] for row in vocabulary.encode(left))


def test_canonical_texts_are_held_to_a_number_of_tokens_where_their_states_are_few() -> None:
    vocabulary = tokenizer_named("gpt2")
    narrow = canonical(regex_constraint(pattern_of(TEXTS), vocabulary))
    rows = own_rows(vocabulary, TEXTS)
    most = sorted(map(len, rows))[3]
    short = fit(narrow, most)
    assert_members_are(short, [r for r in rows if len(r) <= most], list(vocabulary.eos_token_ids))
    with pytest.raises(FitError, match=f"the shortest has {min(map(len, rows))}"):
        fit(narrow, 0)
    with pytest.raises(UsageError, match="too many states"):
        fit(canonical(grammar_of(vocabulary)), 5)


def test_the_law_is_that_of_the_canonical_rows_alone() -> None:
    vocabulary = tokenizer_named("gpt2")
    texts = ("name", "the name", "their", "12")
    rows = own_rows(vocabulary, texts)

    def probabilities(prefix: Row) -> np.ndarray:
        weights = np.random.default_rng([7, *prefix]).exponential(size=vocabulary.width) ** 2
        for row in rows:  # so that the texts are likely enough to be drawn
            if row[: len(prefix)] == prefix:
                weights[row[len(prefix)] if len(row) > len(prefix) else 1] += 200.0
        return np.asarray(weights / weights.sum())

    toy = Toy(vocabulary, probabilities, rows)
    model = TabularModel(probabilities, vocabulary)
    narrow = canonical(regex_constraint(pattern_of(texts), vocabulary))
    rng = np.random.default_rng(0)
    drawn = MaskedSampler().draw(model, narrow, [0], n=2000, rng=rng)
    assert {sample.finish_reason for sample in drawn} == {"complete"}
    assert all(sample.valid for sample in drawn)
    assert g_test([tuple(s.token_ids) for s in drawn], enumeration.masked(toy).law) > 1e-4
    exact = ExactSampler(fallback="none").draw(model, narrow, [0], n=2000, rng=rng)
    assert g_test([tuple(s.token_ids) for s in exact], enumeration.target(toy)) > 1e-4


def test_texts_share_what_was_read_of_the_tokenizer() -> None:
    vocabulary = tokenizer_named("gpt2")
    texts = CanonicalTexts(vocabulary)
    first = canonical(regex_constraint("a+", vocabulary), texts)
    second = canonical(regex_constraint("[ab]+", vocabulary), texts)
    for narrow in (first, second):
        assert narrow.token_ids_of(b"aaaa") == vocabulary.encode(["aaaa"])[0]
        assert narrow.accepts(b"aaaa") and not narrow.accepts(b"")
    assert texts.accepts(b"any text") and not texts.accepts(b"\xff")
