"""The library's product of a constraint and its tokenizer, beside both walked in Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.compilers import grammar_constraint, regex_constraint, schema_constraint
from cdec.core.combine.canonical import (
    CanonicalProduct,
    CanonicalSession,
    CanonicalTexts,
    SpellerSession,
    canonical,
)
from cdec.core.combine.conjunction import ConjunctionSession
from cdec.core.combine.wrapped import ForwardingSession
from cdec.core.constraint import Constraint
from cdec.core.errors import EmptySetError, LimitError
from cdec.core.mask import unpack_mask
from cdec.core.session import DEAD, DONE
from cdec.core.spelling.base import TokenStates
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.spelling.tokenizers_small import PIECES, tokenizer_named
from tests.laws.sessions import assert_threads_agree, random_prefixes, state_masks, states_after

NAMES = (
    *("qwen", "gpt2", "pieces", "runs", "llama3", "o200k"),
    *("unigram-whole", "unigram-bytes"),
)


class Spelled(ForwardingSession):
    """What a tokenizer writes, asked of the speller alone, state by state."""

    def __init__(self, speller: TokenStates[Any]) -> None:
        super().__init__(None, speller.vocabulary)
        self._speller, self.states = speller, [speller.start]

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray((states >= 0) & (states < len(self.states)))

    def start(self, n: int) -> NDArray[np.int64]:
        return np.zeros(n, np.int64)

    def own_mask(self, state: int) -> NDArray[np.int32]:
        return self._speller.row(self.states[state])

    def own_end(self, state: int) -> bool:
        return self._speller.may_end(self.states[state])

    def own_after(self, state: int, token: int) -> int:
        at = self.states[state]
        if token in self._vocabulary.eos_token_ids:
            return DONE if self._speller.may_end(at) else DEAD
        after = self._speller.after(at, token) if 0 <= token < self._vocabulary.width else None
        if after is None:
            return DEAD
        if after not in self.states:
            self.states.append(after)
        return self.states.index(after)


def walked(inner: Constraint, texts: CanonicalTexts, *, looks_ahead: bool) -> ConjunctionSession:
    return ConjunctionSession(
        inner.session("cpu"),
        Spelled(texts.speller),
        inner.vocabulary,
        ends_itself=(False, False),
        looks_ahead=looks_ahead,
    )


def assert_walks_agree(own: Any, other: Any, width: int, seed: int, walks: int, steps: int) -> None:
    """Walk both alike: masks, steps, checks and ends are equal at every state."""
    rng = np.random.default_rng(seed)
    masks = [np.empty((1, own.words), np.int32) for _ in range(2)]
    for _ in range(walks):
        at = [own.start(1), other.start(1)]
        for _ in range(steps):
            for session, state, mask in zip((own, other), at, masks, strict=True):
                session.fill_mask(state, mask)
            assert (masks[0] == masks[1]).all()
            allowed = np.flatnonzero(unpack_mask(masks[0], width)[0])
            tried = np.unique([*rng.integers(0, width, 6), *rng.permutation(allowed)[:6]])
            rows = np.repeat(at[0], len(tried)), np.repeat(at[1], len(tried))
            after = own.advance(rows[0], tried), other.advance(rows[1], tried)
            assert (np.sign(after[0]) == np.sign(after[1])).all()
            assert ((after[0] == DONE) == (after[1] == DONE)).all()
            assert ((after[0] != DEAD) == np.isin(tried, allowed)).all()
            assert (own.check(at[0], tried[None]) == other.check(at[1], tried[None])).all()
            assert own.is_complete(at[0]) == other.is_complete(at[1])
            goes_on = np.flatnonzero(after[0] >= 0)
            if not goes_on.size:
                break
            row = rng.choice(goes_on)
            at = [after[0][row : row + 1], after[1][row : row + 1]]


def random_pattern(rng: np.random.Generator) -> str:
    ascii_pieces = [piece for piece in PIECES if piece.isprintable()]

    def quoted(piece: str) -> str:
        return "".join(f"\\{c}" if not c.isalnum() and c.isascii() else c for c in piece)

    def part(depth: int) -> str:
        if depth == 0 or rng.random() < 0.4:
            return quoted(str(rng.choice(ascii_pieces)))
        parts = [part(depth - 1) for _ in range(rng.integers(1, 4))]
        joined = ("|" if rng.random() < 0.5 else "").join(parts)
        return f"({joined}){rng.choice(['', '?', '*', '{1,3}'])}"

    return part(3)


def random_schema(rng: np.random.Generator) -> str:
    def value(depth: int) -> dict[str, Any]:
        kind = rng.integers(5 if depth else 3)
        if kind == 0:
            texts = rng.choice(PIECES, rng.integers(1, 4)).tolist()
            return {"enum": sorted(set(texts))}
        if kind == 1:
            return {"type": "integer", "minimum": 1, "maximum": int(rng.integers(1, 2000))}
        if kind == 2:
            return {"type": "string", "maxLength": int(rng.integers(0, 8))}
        if kind == 3:
            return {"type": "array", "items": value(depth - 1), "maxItems": int(rng.integers(3))}
        names = sorted(set(rng.choice(PIECES, 2).tolist()))
        properties = {name: value(depth - 1) for name in names}
        return {"type": "object", "properties": properties, "additionalProperties": False}

    return json.dumps(value(2))


def random_grammar(rng: np.random.Generator) -> str:
    words = [
        json.dumps(str(w)) for w in rng.choice(["name", " the", "their", "a", "aaaa", "12"], 3)
    ]
    return (
        f'start: item ("{rng.choice([", ", ",", " "])}" item)*\n'
        f'item: {words[0]} | {words[1]} item | "[" start "]" | WORD\n'
        f"WORD: /[a-z{rng.choice(['é', '日', ' '])}]{{1,3}}/ | {words[2]}\n"
    )


MAKERS: list[tuple[Callable[[np.random.Generator], str], Callable[..., Constraint]]] = [
    (random_pattern, regex_constraint),
    (random_schema, schema_constraint),
    (random_grammar, grammar_constraint),
]


def assert_product_is_the_walk(name: str, seed: int, walks: int = 3, steps: int = 12) -> None:
    vocabulary = tokenizer_named(name)
    source, make = MAKERS[seed % 3]
    inner = make(source(np.random.default_rng(seed)), vocabulary)
    texts = CanonicalTexts(vocabulary)
    for looks_ahead in (True, False):
        product = CanonicalProduct(
            inner.session("cpu"), texts.spelled(), vocabulary, looks_ahead=looks_ahead
        )
        other = walked(inner, texts, looks_ahead=looks_ahead)
        assert_walks_agree(product, other, vocabulary.width, seed, walks, steps)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.share(4)
def test_masks_and_steps_are_those_of_the_walk_in_python(name: str, seed: int) -> None:
    assert_product_is_the_walk(name, seed, walks=2, steps=8)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_of_many_random_sources_too(name: str) -> None:
    for seed in range(3, 120):
        assert_product_is_the_walk(name, seed, walks=4, steps=25)


@pytest.mark.parametrize("name", ["qwen", "llama3"])
def test_what_dead_ends_are_known_of_is_the_same(name: str) -> None:
    vocabulary = tokenizer_named(name)
    texts = CanonicalTexts(vocabulary)
    inner = regex_constraint("(name|the na|  a|12)*(x|their)", vocabulary)
    product = CanonicalProduct(inner.session("cpu"), texts.spelled(), vocabulary, looks_ahead=False)
    other = CanonicalSession(
        inner.session("cpu"), texts.spelled(), vocabulary, ends_itself=False, looks_ahead=False
    )
    found, expected = product.find_dead_ends(1 << 13), other.find_dead_ends(1 << 13)
    assert found is not None and expected is not None
    assert sorted(found.fewest.tolist()) == sorted(expected.fewest.tolist())
    assert_walks_agree(product, other, vocabulary.width, 0, 5, 10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.share(3)
def test_spellings_alone_are_those_of_the_speller(name: str) -> None:
    texts = CanonicalTexts(tokenizer_named(name))
    session = SpellerSession(texts.speller)
    assert_walks_agree(session, Spelled(texts.speller), texts.vocabulary.width, 1, 6, 12)


def test_threads_that_share_a_product_agree() -> None:
    vocabulary = tokenizer_named("gpt2")
    narrow = canonical(grammar_constraint(random_grammar(np.random.default_rng(3)), vocabulary))
    session: Any = narrow.session()
    assert isinstance(session, CanonicalProduct)
    prefixes = sorted(random_prefixes(session, np.random.default_rng(2), n=10, steps=8))
    expected = state_masks(session, states_after(session, prefixes), vocabulary.width)
    assert_threads_agree(canonical(narrow.inner), prefixes, expected)  # type: ignore[attr-defined]


def test_what_the_constraint_cannot_do_is_said_as_the_constraint_says_it() -> None:
    vocabulary = tokenizer_named("gpt2")
    inner = grammar_constraint(random_grammar(np.random.default_rng(3)), vocabulary)
    small = type(inner)(inner.arrays, vocabulary, inner.metadata, mask_work=1)
    texts = CanonicalTexts(vocabulary)
    with pytest.raises(LimitError) as raised:
        session = CanonicalProduct(
            small.session("cpu"), texts.spelled(), vocabulary, looks_ahead=True
        )
        session.allowed(session.start(1))
    plain = small.session("cpu")
    _, ids = plain.allowed(plain.start(1))
    with pytest.raises(LimitError) as expected:
        states = plain.advance(np.repeat(plain.start(1), len(ids)), ids)
        plain.allowed(states[states >= 0])
    assert raised.value.code == expected.value.code


def test_a_text_that_the_tokenizer_never_writes_so_is_none() -> None:
    vocabulary: Vocabulary = tokenizer_named("qwen")
    with pytest.raises(EmptySetError):
        canonical(grammar_constraint('start: "e\u0301"', vocabulary))
