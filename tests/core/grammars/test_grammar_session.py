"""Sessions of grammars: states, steps, artifacts."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers.grammars.compile import build_grammar
from cdec.compilers.grammars.options import GrammarOptions
from cdec.core.artifacts.opened import open_artifact
from cdec.core.artifacts.write import write_artifact
from cdec.core.constraint import DEAD, DONE, Constraint
from cdec.core.errors import (
    ArtifactInvalidError,
    CdecError,
    LimitError,
    TokenizerMismatchError,
    UsageError,
)
from cdec.core.grammars import session as grammar_engine
from cdec.core.grammars.columns import COLUMNS, arrays_from
from cdec.core.grammars.explain import describe_state
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.mask import allocate_mask
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.grammars.engine.plain_engine import (
    COMMENTS,
    GENERAL,
    JSON,
    byte_vocabulary,
    case,
    constraint_of,
    walk,
)
from tests.laws.grammar_cases import byte_vocabulary as stepped_vocabulary
from tests.laws.grammar_cases import compiled as compiled_to_step
from tests.laws.sessions import assert_masks_are_steps, assert_masks_are_steps_along, state_masks
from tools.benchmarks.grammars.fresh_workloads import fresh_workloads

# --- A grammar session at its edges: odd arguments, bytes, descriptions, keys, deep stacks.


def test_states_and_tokens_may_be_any_integers():
    session = case("json", "contextual").session()
    odd = np.array([-(2**63), -3, DONE, DEAD, 1, 2**31, 2**40, 2**63 - 1])
    assert (session.advance(odd, np.full(8, 91)) == DEAD).all()
    assert session.is_complete(odd).tolist() == [False, False, True] + [False] * 5
    assert not state_masks(session, odd, 300).any()
    assert not session.check(odd, np.full((8, 2), 91)).any()
    assert len(session.allowed(odd)[1]) == 0 and len(session.forced(odd)[1]) == 0
    start = session.start(8)
    ids = np.array([-(2**63), -1, 271, 300, 2**31, 2**32 + 91, 2**40, 2**63 - 1])
    assert (session.advance(start, ids) == DEAD).all()
    assert not session.check(start, ids[:, None]).any()
    assert (session.advance_bytes(odd, [b"["] * 8) == DEAD).all()


def test_arguments_of_other_types_and_layouts_are_taken():
    session = case("json", "contextual").session()
    state = session.advance([int(session.start(1)[0])], [91])
    assert session.advance(session.start(1), np.array([91], np.int32)).tolist() == state.tolist()
    frozen = state.copy()
    frozen.flags.writeable = False
    assert session.advance(frozen, np.array([93]))[0] >= 0
    mask = np.full((2, 20), -1, np.int32)[:, ::2]
    session.fill_mask(np.repeat(state, 2), mask)
    expected = allocate_mask(1, 300)
    session.fill_mask(frozen, expected)
    assert (mask == expected).all() and mask.any()


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.advance(s.start(2), np.array([91])),
        lambda s: s.advance(s.start(1), np.array([1.5])),
        lambda s: s.check(s.start(2), np.array([[91]])),
        lambda s: s.fill_mask(s.start(2), allocate_mask(1, 300)),
        lambda s: s.fill_mask(s.start(1), allocate_mask(1, 400)),
        lambda s: s.fill_mask(s.start(1), np.zeros((1, 10), np.int64)),
        lambda s: s.advance_bytes(s.start(1), [b"a", b"b"]),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call):
    with pytest.raises(UsageError):
        call(case("json", "contextual").session())


def test_a_vocabulary_without_end_is_refused():
    vocabulary = Vocabulary([bytes([i]) for i in range(256)], [])
    with pytest.raises(UsageError, match="end-of-sequence"):
        constraint_of('start: "a"', vocabulary)


def test_a_negative_lookahead_is_refused():
    with pytest.raises(UsageError, match="lookahead"):
        case("right", "contextual").with_lookahead(-1)


def test_bytes_lead_where_tokens_lead():
    session = case("json", "contextual").session()
    whole = session.advance_bytes(session.start(1), [b'{"a": 1.'])
    split = session.advance_bytes(session.advance_bytes(session.start(1), [b'{"a"']), [b": 1."])
    assert whole[0] == split[0] == walk(session, b'{"a": 1.')
    assert session.advance_bytes(whole, [b""])[0] == whole[0]
    assert session.advance_bytes(whole, [b"}"])[0] == DEAD
    assert session.advance_bytes(np.array([DONE, DONE]), [b"", b"x"]).tolist() == [DONE, DEAD]


def test_equal_texts_give_equal_states_whatever_their_tokens():
    session = case("json", "contextual").session()
    vocabulary = case("json", "contextual").vocabulary
    token = vocabulary.token_bytes.index(b'{"')
    assert session.advance(session.start(1), np.array([token]))[0] == walk(session, b'{"')


def test_forced_is_the_only_event():
    session = constraint_of('start: "ab"', byte_vocabulary()).session()
    states = np.array([walk(session, text) for text in (b"", b"a", b"ab")])
    offsets, ids = session.forced(states)
    assert offsets.tolist() == [0, 1, 2, 3] and ids.tolist() == [97, 98, 257]


def test_speculation_keys_are_stable_and_local():
    first, second = case("json", "contextual").session(), case("json", "contextual").session()
    texts = [b"[", b'{"a":', b'[{"a":', b'{"a": 1, "b":', b"[1", b"[12"]
    keys = first.speculation_keys(np.array([walk(first, text) for text in texts]))
    again = second.speculation_keys(np.array([walk(second, text) for text in reversed(texts)]))
    assert keys.tolist() == again.tolist()[::-1]
    assert keys[4] == keys[5] and len(set(keys.tolist())) >= 3
    assert (first.speculation_keys(np.array([DEAD, DONE])) < 0).all()


def test_description_shows_readings_and_rules():
    session, names = case("json", "contextual").session(), case("json", "contextual").names
    view = describe_state(session, walk(session, b'{"a": [1'), names)
    assert not view.complete
    assert view.configurations[0].under_way == ["NUMBER"] and view.configurations[0].viable == [
        "NUMBER"
    ]
    assert view.configurations[1].stack[-1] == "NUMBER" and view.configurations[1].under_way == []
    assert '"]"' in view.configurations[1].viable and '"}"' not in view.configurations[1].viable
    assert any("•" in item for item in view.configurations[0].items)
    done = describe_state(session, DONE, names)
    assert done.configurations == [] and done.complete
    after_key = describe_state(session, walk(session, b'{"a"'), names)
    viable = {name for each in after_key.configurations for name in each.viable}
    assert viable == {'":"', "WS"}


@pytest.mark.share(1)
@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ('start: "[" start "]" | "x"', b"[" * 50_000 + b"x" + b"]" * 50_000),
        ('start: "[" list "]"\nlist: "a" "," list | "a"', b"[" + b"a," * 50_000 + b"a]"),
        ('start: "a" start | "b"', b"a" * 100_000 + b"b"),
    ],
)
def test_deep_stacks_cost_their_length(lexer, grammar, text):
    session = constraint_of(grammar, byte_vocabulary(), lexer).session()
    state, mask = session.start(1), allocate_mask(1, 258)
    for byte in text:
        session.fill_mask(state, mask)
        assert mask[0, byte >> 5] >> (byte & 31) & 1
        state = session.advance(state, np.array([byte]))
    assert session.is_complete(state)[0]
    # Quadratic work would leave hundreds of millions of memos; it would also never get here.
    assert session.statistics()["shifts"] < 20 * len(text)


def test_ambiguous_stacks_stay_small():
    session = constraint_of('start: start start | "a"', byte_vocabulary(), "dynamic").session()
    assert session.is_complete(np.array([walk(session, b"a" * 2000)]))[0]
    statistics = session.statistics()
    assert statistics["stacks"] < 10 * 2000 and statistics["stack_sets"] < 10 * 2000


@pytest.mark.slow
def test_a_chain_of_unit_rules_is_followed():
    chain = "".join(f"r{i}: r{i + 1}\n" for i in range(3000))
    for lexer in ("contextual", "dynamic"):
        session = constraint_of(
            f'start: r0 ";"\n{chain}r3000: "x"\n', byte_vocabulary(), lexer
        ).session()
        assert session.is_complete(np.array([walk(session, b"x;")]))[0]


def test_width_beyond_the_vocabulary_is_never_allowed():
    constraint = constraint_of(JSON, byte_vocabulary((), 1000))
    session = constraint.session()
    assert state_masks(session, session.start(3), 1000)[:, 258:].sum() == 0


# --- Grammar artifacts: what is written opens as it was, and what is damaged is refused.

check_all = GrammarConstraint.artifact.check_all
EXTRA = ('{"', '"}', "],", "/*", "1+", "/b", "((")


COUNTED = f"{COMMENTS}WORD: /[g-z]{{1,90}}/\n".replace("start:", "start: WORD |", 1)


@pytest.fixture(params=["contextual", "dynamic"])
def compiled(request, tmp_path):
    """Columns and metadata of a grammar whose arrays all have elements."""
    grammar = JSON if request.param == "contextual" else COUNTED
    options = GrammarOptions(lexer=request.param)
    path = tmp_path / "g.arrow"
    columns, metadata, _ = build_grammar(grammar, byte_vocabulary(EXTRA), options, path)
    return columns, metadata


def test_opened_grammar_masks_as_the_one_in_memory(compiled, tmp_path):
    columns, metadata = compiled
    vocabulary, path = byte_vocabulary(EXTRA), tmp_path / "g.arrow"
    write_artifact(path, "grammar", columns, metadata)
    opened = open_artifact(path, vocabulary=vocabulary)
    assert isinstance(opened, Constraint) and opened.facts.kind == "grammar"
    assert opened.max_tokens is None and opened.facts.is_sound == (metadata["cdec.sound"] == "1")
    session = opened.session()
    inside = GrammarConstraint(arrays_from(columns), vocabulary, metadata).session()
    texts = [b"", b"["] if metadata["cdec.grammar"] == JSON else [b"", b"ab/c"]
    for text in texts:
        at, other = np.array([walk(session, text)]), np.array([walk(inside, text)])
        expected = state_masks(inside, other, vocabulary.width)
        np.testing.assert_array_equal(state_masks(session, at, vocabulary.width), expected)
    assert open_artifact(path).vocabulary.eos_token_ids == vocabulary.eos_token_ids
    with pytest.raises(TokenizerMismatchError):
        open_artifact(path, vocabulary=byte_vocabulary(("x",)))


def test_content_of_a_text_is_the_text(compiled):
    columns, metadata = compiled
    constraint = GrammarConstraint(arrays_from(columns), byte_vocabulary(EXTRA), metadata)
    assert constraint.content(b"abc") == b"abc" and constraint.annotations(b"abc") == {}
    assert constraint.member_text([97, 256]) == b'a{"'
    statistics = constraint.statistics()
    assert statistics["terminals"] == len(columns["ignored"])
    assert statistics["trees"] == len(columns["tree_paths"]) - 1


UNBOUNDED = {"goto_symbols", "rule_lhs", "rule_length", "item_dots", "branch_depth"}
"""Columns whose values are not indexes; they must not be negative."""
FREE = {"vocabulary_bytes", "dense_masks"}
"""Columns of which any value is legal."""


@pytest.mark.share(40)
@pytest.mark.parametrize("column", sorted(set(COLUMNS) - FREE))
def test_an_index_out_of_range_is_refused(compiled, column):
    columns, metadata = compiled
    check_all(columns, metadata)
    array = columns[column]
    for wrong in [-(2**31)] + ([] if column in UNBOUNDED else [2**31 - 1]):
        for at in {0, len(array) // 2, len(array) - 1} if len(array) else ():
            broken = array.copy()
            broken[at] = wrong
            with pytest.raises(ArtifactInvalidError) as caught:
                check_all({**columns, column: broken}, metadata)
            assert caught.value.details["column"]


@pytest.mark.share(40)
@pytest.mark.parametrize(
    "column", sorted(set(COLUMNS) - {"vocabulary_bytes", "live_offsets", "context_start"})
)
def test_a_column_of_another_length_is_refused(compiled, column):
    columns, metadata = compiled
    broken = np.append(columns[column], columns[column][-1:] if len(columns[column]) else 0)
    with pytest.raises(ArtifactInvalidError):
        check_all({**columns, column: broken.astype(columns[column].dtype)}, metadata)


def test_path_nodes_before_their_parents_are_refused(compiled):
    columns, metadata = compiled
    parents = columns["path_parent"].copy()
    at = int(np.flatnonzero(np.diff(columns["tree_paths"]) > 0)[0])
    parents[columns["tree_paths"][at]] = 0
    with pytest.raises(ArtifactInvalidError, match="path_parent"):
        check_all({**columns, "path_parent": parents}, metadata)


def test_unsorted_actions_are_refused(compiled):
    columns, metadata = compiled
    sizes = np.diff(columns["action_offsets"])
    at = int(columns["action_offsets"][int(sizes.argmax())])
    terminals = columns["action_terminals"].copy()
    terminals[at], terminals[at + 1] = terminals[at + 1], terminals[at]
    with pytest.raises(ArtifactInvalidError, match="action_terminals"):
        check_all({**columns, "action_terminals": terminals}, metadata)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cdec.options", "{}"),
        ("cdec.options", "["),
        ("cdec.options", json.dumps({"lexer": "greedy", "start": "start"})),
        ("cdec.names", json.dumps({"terminals": [], "nonterminals": [], "rules": []})),
        ("cdec.counts", "x"),
        ("cdec.sound", "yes"),
        ("cdec.vocabulary_size", "12"),
        ("cdec.grammar", None),
    ],
)
def test_metadata_that_does_not_fit_is_refused(compiled, key, value):
    columns, metadata = compiled
    broken = {k: v for k, v in metadata.items() if k != key}
    if value is not None:
        broken[key] = value
    with pytest.raises(ArtifactInvalidError):
        check_all(columns, broken)


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_kernels_survive_arrays_that_change_under_them(lexer, tmp_path, monkeypatch):
    monkeypatch.setattr(grammar_engine, "_MOST_BYTES", 1 << 28)
    grammar = JSON if lexer == "contextual" else GENERAL["expression"][0]
    vocabulary, rng = byte_vocabulary(EXTRA), np.random.default_rng(5)
    columns, metadata, _ = build_grammar(
        grammar, vocabulary, GrammarOptions(lexer=lexer), tmp_path / "g.arrow"
    )
    text = np.frombuffer(b'{"a":[1,2]}' if lexer == "contextual" else b"(1+2)*3", np.uint8)
    for _ in range(100):
        broken = {name: array.copy() for name, array in columns.items()}
        for name in rng.choice(sorted(COLUMNS), 3):
            array = broken[name]
            if name == "vocabulary_bytes" or not len(array):
                continue
            low, high = (-3, 40) if rng.random() < 0.5 else (-(2**31), 2**31 - 1)
            at = rng.integers(0, len(array), max(1, len(array) // 8))
            array[at] = rng.integers(low, high, len(at))
        session = GrammarConstraint(arrays_from(broken), vocabulary, metadata).session()
        # Tables that reduce for ever end when their stacks fill the room there is.
        with suppress(LimitError):
            follow(session, text, vocabulary.width)


def follow(session, text, width):
    """Read a text byte by byte, as far as it goes, and ask for everything on the way."""
    states = session.start(1)
    for byte in text:
        session.fill_mask(states, allocate_mask(1, width))
        after = session.advance(states, np.array([byte]))
        session.is_complete(after), session.forced(after), session.allowed(after)
        session.check(after, np.arange(width)[None])
        states = after if after[0] >= 0 else states


# --- Masks equal stepping, for every token: along all workloads, and in random grammars.
#
# Random grammars keep their masks in memory of a random size, so that they are forgotten and made
# again in the middle of a text; their vocabulary is every short text over three letters.

_LETTERS = {"graphql": 40, "lua": 260, "sql": 260, "python": 300, "python_blocks": 300}
"""How much of the first document is followed; names and keywords collide in all."""


@pytest.mark.share(1)
@pytest.mark.parametrize("name", _LETTERS)
def test_masks_are_steps_along_documents(name: str, vocabulary: Vocabulary, tmp_path: Path) -> None:
    load, rng = fresh_workloads()[name], np.random.default_rng(11)
    options = {"lexer": load["lexer"], "indenter": load.get("indenter")}
    session = compiled_to_step(load["lark"], tmp_path, vocabulary, **options).session("cpu")
    document = vocabulary.encode([load["docs"][0][: _LETTERS[name]]])[0]
    assert_masks_are_steps_along(session, [document], vocabulary, rng, detours=8)


def every_short_text(letters: str, longest: int) -> Vocabulary:
    """Return all bytes and all texts of two letters and more."""
    texts = [itertools.product(letters, repeat=length) for length in range(2, longest + 1)]
    return stepped_vocabulary(["".join(text) for group in texts for text in group])


_TERMINALS = ("/[ab]+/", "/[a-c]+/", "/a+b?/", "/(ab|c)*a/", "/a{1,3}/", "/b|c/", "/a/", "/abc?/")


def overlapping_grammar(rng: np.random.Generator) -> str:
    """Return a random grammar whose terminals share texts, or are one and the same."""
    count = int(rng.integers(2, 5))
    lines = [f"T{i}: {rng.choice(_TERMINALS)}" for i in range(count)]
    rules = ["start", "x", "y"][: int(rng.integers(1, 4))]
    symbols = [f"T{i}" for i in range(count)] * 2 + ['"a"', '"bc"', '"ca"'] + rules
    for rule in rules:
        alternatives = [
            " ".join(
                f"{rng.choice(symbols)}{rng.choice(['', '', '', '?', '*', '+'])}"
                for _ in range(int(rng.integers(1, 4)))
            )
            for _ in range(int(rng.integers(1, 4)))
        ]
        lines.append(f"{rule}: {' | '.join(alternatives)}")
    if rng.random() < 0.3:
        lines.append('%ignore "c"')
    return "\n".join(lines) + "\n"


def walked(session: Any, rng: np.random.Generator, steps: int) -> np.ndarray:
    """Return the states along one walk over uniformly drawn tokens that do not end the text."""
    states = [session.start(1)]
    for _ in range(steps):
        _, ids = session.allowed(states[-1])
        after = session.advance(np.repeat(states[-1], len(ids)), ids)
        going = after[after >= 0]
        if not len(going):
            break
        states.append(rng.choice(going, 1))
    return np.concatenate(states)


@pytest.mark.share(1)
@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
def test_masks_are_steps_in_random_grammars(lexer: str) -> None:
    vocabulary, compared = every_short_text("abc", 4), 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 5])
        source = overlapping_grammar(rng)
        held = int(rng.choice([1, 1 << 14, 1 << 18, 1 << 28]))
        try:
            constraint = constraint_of(source, vocabulary, lexer, memo_bytes=held)
        except CdecError:
            continue
        session = constraint.session()
        # Where texts have many readings, a long text has very many.
        for steps in (6, 6, 12 if lexer == "dynamic" else 150):
            states = walked(session, rng, steps)
            states = states[np.unique(np.append(rng.integers(0, len(states), 7), len(states) - 1))]
            assert_masks_are_steps(session, states, vocabulary)
            compared += len(states)
    assert compared > 100
