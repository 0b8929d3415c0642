"""uniqueItems over strings that are remembered: no item comes twice, and nothing leads nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdec.compilers.schemas.compile import build_schema
from cdec.compilers.schemas.opened import schema_constraint
from cdec.compilers.schemas.options import Escapes, SchemaOptions
from cdec.compilers.schemas.sets import satisfiable
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from tests.laws.sessions import state_masks

TOKENS = [b'","', b'["', b'"]', b'["a', b'","a', b'","a"', b'","aa","', b"a", b"ab", b'b"', b"\xc3"]
ALL = [*(bytes([byte]) for byte in range(256)), *(token for token in TOKENS if len(token) > 1)]
WORLD = Vocabulary([*ALL, b""], [len(ALL)], [len(ALL)])


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few strings be remembered, too, instead of told apart one by one."""
    monkeypatch.setattr(satisfiable, "_FEW_STRINGS", 0)


def of_strings(pattern: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "string", "pattern": pattern},
    } | more


def texts_of(schema: Any, escapes: Escapes = "usual") -> Iterator[str]:
    """Yield every text that masks allow; each mask is what its tokens' steps say, and leads on."""
    options = SchemaOptions(whitespace="compact", escapes=escapes)
    session = schema_constraint(json.dumps(schema), WORLD, options).session()
    tokens, waiting = np.arange(WORLD.width), [(int(session.start(1)[0]), b"")]
    while waiting:
        state, text = waiting.pop()
        after = session.advance(np.full(WORLD.width, state), tokens)
        mask = state_masks(session, np.array([state]), WORLD.width)[0]
        assert [ALL[i : i + 1] for i in np.flatnonzero(mask != (after != -1))] == [], text
        assert mask.any(), f"{text!r} leads nowhere"
        if mask[WORLD.width - 1]:
            yield text.decode()
        waiting += [(int(after[b]), text + bytes([b])) for b in range(256) if after[b] >= 0]


SHORT = {"type": "string", "minLength": 1, "maxLength": 2}
WORLDS: dict[str, tuple[Any, list[str]]] = {
    "one beginning": (of_strings("^(a|ab|abb|b)$"), ["a", "ab", "abb", "b"]),
    "the empty string": (of_strings("^(|a)$"), ["", "a"]),
    "bounded": (of_strings("^(a|aa|aab)$", minItems=2, maxItems=3), ["a", "aa", "aab"]),
    "lengths": (
        of_strings("^[ab]*$", maxItems=2, items=SHORT | {"pattern": "^[ab]*$"}),
        ["a", "b", "aa", "ab", "ba", "bb"],
    ),
    "two bytes": (of_strings("^(é|è|aé)$"), ["é", "è", "aé"]),
    "what must be escaped": (of_strings('^("|\\\\|a"|\\n)$'), ['"', "\\", 'a"', "\n"]),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_texts_are_all_that_differ(name: str) -> None:
    schema, strings = WORLDS[name]
    low, high = schema.get("minItems", 0), schema.get("maxItems", len(strings))
    expected = {items for n in range(low, high + 1) for items in permutations(strings, n)}
    assert {tuple(json.loads(text)) for text in texts_of(schema)} == expected


def test_escapes_lead_on_where_some_character_is_left() -> None:
    for strings, pattern in (
        (["é", "è"], "^(é|è)$"),
        (["a", "b"], "^[ab]$"),
        (["😀", "😁"], "^(😀|😁)$"),
    ):
        found = list(texts_of(of_strings(pattern), "any"))
        assert {tuple(json.loads(text)) for text in found} == {
            items for n in range(3) for items in permutations(strings, n)
        }
        assert len(found) > 5, "in several spellings"


@pytest.mark.slow
def test_other_values_are_told_apart_beside_strings() -> None:
    items = {"anyOf": [{"enum": [1]}, {"type": "string", "pattern": "^(a|b)$"}]}
    schema = {"type": "array", "uniqueItems": True, "items": items, "minItems": 2}
    found = set(texts_of(schema))
    values: list[Any] = [1, "a", "b"]
    expected = {n for size in (2, 3) for n in permutations(values, size)}
    assert {tuple(json.loads(text)) for text in found} == expected


def test_a_token_that_spells_a_key_twice_is_not_allowed() -> None:
    tokens = [*ALL, b'":1,"a":', b'":1,"b":']
    vocabulary = Vocabulary([*tokens, b""], [len(tokens)], [len(tokens)])
    schema = {"type": "object", "minProperties": 2, "additionalProperties": {"const": 1}}
    session = schema_constraint(json.dumps(schema), vocabulary).session()
    states = session.advance_bytes(session.start(1), [b'{"a'])
    mask = state_masks(session, states, vocabulary.width)[0]
    assert mask[len(ALL) :].tolist()[:2] == [False, True]


def test_more_items_than_there_are_strings_are_none() -> None:
    with pytest.raises(EmptyLanguageError):
        list(texts_of(of_strings("^(a|b)$", minItems=3)))


@given(
    st.lists(st.text("ab", max_size=3), min_size=2, max_size=5, unique=True),
    st.integers(0, 2),
    st.integers(1, 3),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_masks_allow_is_what_the_package_calls_valid(
    strings: list[str], low: int, more: int
) -> None:
    pattern = f"^({'|'.join(strings)})$"
    schema = of_strings(pattern, minItems=low, maxItems=min(low + more, 3))
    validator = jsonschema.Draft202012Validator(schema)
    try:
        found = {tuple(json.loads(text)) for text in texts_of(schema)}
    except EmptyLanguageError:
        found = set()
    lists = [items for n in range(4) for items in permutations(strings, n)]
    assert found == {items for items in lists if validator.is_valid(list(items))}


# --- Laws: draws from a world of few tokens, whose texts can be counted.

PIECES = [b"[", b"]", b'"', b",", b"a", b"b", b'","', b'a","a', b'ab"', b""]
SMALL = Vocabulary(PIECES, [len(PIECES) - 1], [len(PIECES) - 1])


def all_rows(constraint: Any) -> Iterator[tuple[int, ...]]:
    """Yield the token sequences of all texts, with their ends."""
    session = constraint.session()
    waiting: list[tuple[int, tuple[int, ...]]] = [(int(session.start(1)[0]), ())]
    while waiting:
        state, row = waiting.pop()
        for token in session.allowed(np.array([state]))[1].tolist():
            if token == SMALL.eos_token_ids[0]:
                yield row
                continue
            waiting.append(
                (int(session.advance(np.array([state]), np.array([token]))[0]), (*row, token))
            )


@pytest.mark.parametrize("method", ["masked", "exact"])
def test_draws_follow_their_law(method: str) -> None:
    options = SchemaOptions(whitespace="compact")
    constraint = schema_constraint(json.dumps(of_strings("^(a|ab)$", minItems=1)), SMALL, options)
    base = np.linspace(1.0, 2.0, len(PIECES))

    def probabilities(prefix: tuple[int, ...]) -> Any:
        weights = np.roll(base, sum(prefix) + len(prefix)) ** 2
        return weights / weights.sum()

    end, session = SMALL.eos_token_ids[0], constraint.session()

    def mass(row: tuple[int, ...], *, masked: bool) -> float:
        product, state = 1.0, session.start(1)
        for place, token in enumerate((*row, end)):
            law = probabilities(row[:place])
            allowed = session.allowed(state)[1] if masked else slice(None)
            product *= law[token] / law[allowed].sum()
            state = session.advance(state, np.array([token]))
        return product

    rows = list(all_rows(constraint))
    assert len(rows) > 10 and len(set(rows)) == len(rows)
    law = np.array([mass(row, masked=method == "masked") for row in rows])
    law = law / law.sum()
    n = 1500
    samples = SAMPLERS[method]().draw(
        TabularModel(probabilities, SMALL), constraint, (), n=n, rng=np.random.default_rng(3)
    )
    counts = dict.fromkeys(rows, 0)
    for sample in samples:
        counts[tuple(sample.token_ids)] += 1
    share = np.array([counts[row] for row in rows]) / n
    # Five standard errors of a share, and one draw.
    assert (abs(share - law) <= 5 * np.sqrt(law / n) + 1 / n).all()


def test_many_strings_are_bounded_by_their_number() -> None:
    source = json.dumps(
        {"type": "array", "uniqueItems": True, "items": {"type": "string", "maxLength": 1}}
    )
    columns, _, _ = build_schema(source, WORLD, SchemaOptions(), Path("-"))
    # All code points but surrogates, and the empty string.
    assert columns["array_max"].max() == 0x110000 - 0x800 + 1
