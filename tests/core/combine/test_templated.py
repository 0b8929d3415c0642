"""Constraints whose fixed parts are spelled apart, as templates do: against all spellings, cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, product

import numpy as np
import pytest

from cdec.compilers import grammar_constraint, regex_constraint, schema_constraint
from cdec.core.combine.canonical import canonical
from cdec.core.combine.conjunction import conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.fitting import fit
from cdec.core.combine.prefill import begin
from cdec.core.combine.templated import templated, tokens_of
from cdec.core.constraint import DEAD, TEMPLATED, Constraint
from cdec.core.errors import EmptySetError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sets.spans import SpanConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings import enumeration
from cdec.samplers.exact import ExactSampler
from cdec.samplers.masked import MaskedSampler
from tests.core.combine.test_fitting import assert_members_are
from tests.core.spelling.tokenizers_small import tokenizer_named
from tests.laws.gtest import g_test
from tests.laws.sessions import assert_session_laws, random_prefixes, state_masks, states_after
from tests.laws.worlds import Row, Toy, toy_set

END = 12
LETTERS = Vocabulary(
    [b"a", b"b", b"ab", b"ba", b"abb", b'"', b'"a', b'",', b",", b'":', b":", b"b:", b""],
    eos_token_ids=[END],
)
TEXTS = ('"a":ab', '"a":ba', '"b":ab,abb', '"b":ab,abab')


def cut(texts: list[bytes], text: bytes) -> list[tuple[bytes, bool]]:
    """Return the pieces of one of some texts, and whether each is fixed, by looking at all."""

    def is_fixed(at: int) -> bool:
        longer = [other for other in texts if other[:at] == text[:at]]
        return text[:at] not in longer and len({other[at] for other in longer}) == 1

    fixed = [is_fixed(at) for at in range(len(text))]
    begins = [0]
    for character in text.decode():
        begins.append(begins[-1] + len(character.encode()))
    pieces: list[tuple[bytes, bool]] = []
    for a, b in pairwise(begins):
        is_whole = all(fixed[a:b])
        if pieces and pieces[-1][1] == is_whole:
            pieces[-1] = (pieces[-1][0] + text[a:b], is_whole)
        else:
            pieces.append((text[a:b], is_whole))
    return pieces


def spellings(vocabulary: Vocabulary, text: bytes) -> Iterator[Row]:
    """Yield every sequence of tokens with these bytes."""
    if not text:
        yield ()
    for token, piece in enumerate(vocabulary.token_bytes):
        if piece and text.startswith(piece):
            yield from ((token, *rest) for rest in spellings(vocabulary, text[len(piece) :]))


def rows_of(vocabulary: Vocabulary, texts: tuple[str, ...]) -> list[Row]:
    """Return all token sequences of some texts that are cut as templates cut them."""
    given = [text.encode() for text in texts]
    return sorted(row for text in given for row in cut_rows(vocabulary, given, text))


def cut_rows(vocabulary: Vocabulary, texts: list[bytes], text: bytes) -> Iterator[Row]:
    """Yield all token sequences of one of some texts that are cut as templates cut them."""
    ways = [
        [tuple(tokens_of(piece, vocabulary))] if is_fixed else spellings(vocabulary, piece)
        for piece, is_fixed in cut(texts, text)
    ]
    return (tuple(token for row in rows for token in row) for rows in product(*ways))


def pattern(texts: tuple[str, ...]) -> str:
    return "|".join(texts)


def regex_of(vocabulary: Vocabulary, texts: tuple[str, ...]) -> Constraint:
    return regex_constraint(pattern(texts), vocabulary)


def grammar_of(vocabulary: Vocabulary, texts: tuple[str, ...]) -> Constraint:
    quoted = (text.replace('"', '\\"') for text in texts)
    return grammar_constraint("start: " + " | ".join(f'"{text}"' for text in quoted), vocabulary)


def set_of(vocabulary: Vocabulary, texts: tuple[str, ...]) -> Constraint:
    rows = [min(spellings(vocabulary, text.encode()), key=len) for text in texts]
    return toy_set(rows, vocabulary)


def both_of(vocabulary: Vocabulary, texts: tuple[str, ...]) -> Constraint:
    more = (*texts, *(text + "," for text in texts))
    halves = (more, (*texts, "".join(texts)))
    return conjoin(*(regex_constraint(pattern(half), vocabulary) for half in halves))


def rest_of(vocabulary: Vocabulary, texts: tuple[str, ...]) -> Constraint:
    return deny(regex_constraint(pattern((*texts, "ba")), vocabulary), [b"ba"])


KINDS = (regex_of, grammar_of, set_of, both_of, rest_of)


@pytest.mark.share(2)
@pytest.mark.parametrize("make", KINDS)
def test_of_few_texts_the_rows_that_are_cut_at_fixed_parts_are_left(
    make: Callable[[Vocabulary, tuple[str, ...]], Constraint],
) -> None:
    rows = rows_of(LETTERS, TEXTS)
    narrow = templated(make(LETTERS, TEXTS))
    assert narrow.facts.spelling == TEMPLATED and not narrow.facts.is_sound  # no token is ":b"
    assert_members_are(narrow, rows, [END])
    assert_session_laws(narrow, rows, np.random.default_rng(0))


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["gpt2", "pieces", "unigram-bytes"])
@pytest.mark.parametrize("make", [regex_of, set_of])
def test_parts_have_the_tokens_that_the_tokenizer_writes_for_them_alone(
    name: str, make: Callable[[Vocabulary, tuple[str, ...]], Constraint]
) -> None:
    vocabulary, texts = tokenizer_named(name), ('{"name": "é"}', '{"name": "è"}', '{"name": "日"}')
    rows = rows_of(vocabulary, texts)
    narrow = templated(make(vocabulary, texts))
    assert narrow.facts.is_sound
    assert_members_are(narrow, rows, list(vocabulary.eos_token_ids))
    assert_session_laws(narrow, rows[:20], np.random.default_rng(0), max_states=12)
    for text in texts:
        (head, tail) = (text[: text.index(' "') + 2], text[-2:])
        own = narrow.token_ids_of(text.encode())
        assert own is not None and tuple(own) in rows
        (first, last) = vocabulary.encode([head, tail])
        assert own[: len(first)] == first and own[-len(last) :] == last
    assert narrow.token_ids_of(b"else") is None


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(12))
def test_random_lists_are_cut_alike_as_sets_and_as_patterns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    letters = list('ab":,')
    made = ("".join(rng.choice(letters, rng.integers(1, 7))) for _ in range(rng.integers(1, 9)))
    texts = tuple(sorted(set(made)))
    rows = rows_of(LETTERS, texts)
    for make in (set_of, regex_of):
        narrow = templated(make(LETTERS, texts))
        assert_members_are(narrow, rows, [END])
        assert_session_laws(narrow, rows, rng, max_states=20)


def naive_mask(inner: Constraint, prefix: Row, vocabulary: Vocabulary) -> set[int]:
    """Return the tokens that may follow, byte by byte: those of the part under way, or all others.

    Args:
        inner: Takes bytes. prefix: Tokens that are allowed.
    """
    session = inner.session()
    bytes_of = [bytes([byte]) for byte in range(256)]

    def after(state: int, data: bytes) -> int:
        return int(session.advance_bytes(np.array([state]), [data])[0])

    def only(state: int) -> bytes | None:
        states = session.advance_bytes(np.full(256, state), bytes_of)
        alive = [byte for byte, to in zip(bytes_of, states.tolist(), strict=True) if to != DEAD]
        is_open = len(alive) != 1 or session.is_complete(np.array([state]))[0]
        return None if is_open or alive[0] >= b"\x80" else alive[0]

    def part(state: int) -> bytes:
        found = b""
        while (byte := only(state)) is not None:
            found, state = found + byte, after(state, byte)
        return found

    state, rest = int(session.start(1)[0]), list[int]()
    for token in prefix:
        if not rest and (fixed := part(state)):
            rest = tokens_of(fixed, vocabulary)
        if rest:
            assert rest.pop(0) == token
        state = after(state, vocabulary.token_bytes[token])
    if rest or (fixed := part(state)):
        return {rest[0] if rest else tokens_of(fixed, vocabulary)[0]}
    found = set(vocabulary.eos_token_ids) if session.is_complete(np.array([state]))[0] else set()
    for token, data in enumerate(vocabulary.token_bytes):
        at = state
        for i in range(len(data)):
            if i and only(at) is not None:
                at = DEAD
            at = at if at == DEAD else after(at, data[i : i + 1])
        found |= {token} if data and at != DEAD else set()
    return found


OBJECT = (
    '{"type": "object", "properties": {"name": {"type": "string"}, "n": {"enum": [10, 12, 3]}},'
    ' "required": ["name", "n"], "additionalProperties": false}'
)
LIST = 'start: "[" item (", " item)* "]"\nitem: /[a-z]+/ | "(name: " item ")" | "nothing"'
RECORD = r'\{"name": "[^"]*", "n": (1[02]|3)\}'
LARGE: dict[str, Callable[[Vocabulary], Constraint]] = {
    "schema": lambda vocabulary: schema_constraint(OBJECT, vocabulary),
    "grammar": lambda vocabulary: grammar_constraint(LIST, vocabulary),
    "regex": lambda vocabulary: regex_constraint(
        r'\{"name": "[^"]*", "n": (1[02]|3)\}', vocabulary
    ),
    "spans": lambda vocabulary: SpanConstraint("it is. it was not. ii", vocabulary),
}


@pytest.mark.share(1)
@pytest.mark.parametrize("kind", LARGE)
def test_masks_of_large_languages_are_those_of_single_bytes(kind: str) -> None:
    vocabulary = tokenizer_named("gpt2")
    inner = LARGE[kind](vocabulary)
    narrow = templated(inner)
    session, rng = narrow.session(), np.random.default_rng(3)
    found = sorted(random_prefixes(session, rng, 4, 16), key=lambda row: (len(row), row))
    prefixes = [row for row in found if not set(row) & set(vocabulary.eos_token_ids)][::7]
    masks = state_masks(session, states_after(session, prefixes), vocabulary.width)
    for prefix, mask in zip(prefixes, masks, strict=True):
        assert set(np.flatnonzero(mask).tolist()) == naive_mask(inner, prefix, vocabulary), prefix
    assert_session_laws(narrow, [], rng, walks=3, max_states=8)


def test_the_law_is_that_of_the_rows_that_are_cut() -> None:
    rows = rows_of(LETTERS, TEXTS)

    def probabilities(prefix: Row) -> np.ndarray:
        weights = np.random.default_rng([5, *prefix]).exponential(size=LETTERS.width) + 0.05
        return np.asarray(weights / weights.sum())

    toy, model = Toy(LETTERS, probabilities, rows), TabularModel(probabilities, LETTERS)
    for make in (regex_of, set_of):
        narrow, rng = templated(make(LETTERS, TEXTS)), np.random.default_rng(0)
        drawn = MaskedSampler().draw(model, narrow, [0], n=2000, rng=rng)
        assert {sample.finish_reason for sample in drawn} == {"complete"}
        assert all(sample.valid for sample in drawn)
        assert {sample.to_json()["spelling"] for sample in drawn} == {"templated"}
        assert g_test([tuple(s.token_ids) for s in drawn], enumeration.masked(toy).law) > 1e-4
        exact = ExactSampler(fallback="none").draw(model, narrow, [0], n=2000, rng=rng)
        assert g_test([tuple(s.token_ids) for s in exact], enumeration.target(toy)) > 1e-4


def test_members_that_end_themselves_end_with_their_part() -> None:
    toy = Toy(LETTERS, lambda prefix: np.full(13, 1 / 13), [(0, 8, 1), (1, 8, 1)], ends_itself=True)
    narrow = templated(toy.constraint)
    assert_session_laws(narrow, rows := [(0, 8, 1), (1, 8, 1)], np.random.default_rng(0))
    assert narrow.facts.ends_itself and narrow.max_tokens == 3
    assert narrow.session().forced(narrow.session().start(1))[1].tolist() == []
    assert [narrow.token_ids_of(narrow.member_text(row)) for row in rows] == [list(r) for r in rows]


def test_a_part_that_the_tokenizer_changes_has_the_longest_tokens() -> None:
    vocabulary = tokenizer_named("qwen")  # its normaliser composes
    narrow = templated(regex_constraint("e\u0301(a|b)", vocabulary))
    first = narrow.session().allowed(narrow.session().start(1))[1].tolist()
    assert [vocabulary.token_bytes[token][:1] for token in first] == [b"e"]
    text = "e\u0301a".encode()
    assert vocabulary.decode(narrow.token_ids_of(text) or ()) == text


def test_texts_that_are_cut_are_held_to_a_number_of_tokens() -> None:
    rows = rows_of(LETTERS, TEXTS)
    most = sorted(map(len, rows))[len(rows) // 2]
    short = fit(templated(regex_of(LETTERS, TEXTS)), most)
    assert_members_are(short, [row for row in rows if len(row) <= most], [END])


def test_a_new_session_is_begun_where_one_holds_many_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cdec.core.combine.templated._MOST_HELD", 0)
    narrow = templated(regex_constraint(pattern(TEXTS), LETTERS))
    sessions = [narrow.session() for _ in range(2)]
    assert sessions[0] is not sessions[1]
    assert_members_are(narrow, rows_of(LETTERS, TEXTS), [END])


def test_what_has_no_bytes_or_another_spelling_is_refused() -> None:
    vocabulary = tokenizer_named("gpt2")
    inner = regex_constraint("a(name|the)", vocabulary)
    for held in (begin(inner, "a"), fit(inner, 3)):
        with pytest.raises(UsageError, match="by tokens alone"):
            templated(held)
    with pytest.raises(UsageError, match="`canonical`"):
        templated(canonical(toy_set(vocabulary.encode(["name", "the"]), vocabulary)))
    with pytest.raises(UsageError, match="`lookahead`"):
        templated(grammar_constraint(LIST, vocabulary).with_lookahead(0))
    gaps = Vocabulary([b"ab", b"cb", b""], eos_token_ids=[2])
    with pytest.raises(EmptySetError, match="no tokens spell"):
        templated(regex_constraint("ab|cb", gaps))
