"""Grammar artifacts: what is written opens as it was, and what is damaged is refused."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import pytest

from cdec.compilers.grammars.compile import build_grammar
from cdec.compilers.grammars.options import GrammarOptions
from cdec.core.artifacts.opened import open_artifact
from cdec.core.artifacts.write import write_artifact
from cdec.core.constraint import Constraint
from cdec.core.errors import ArtifactInvalidError, LimitError, TokenizerMismatchError
from cdec.core.grammars import engine
from cdec.core.grammars.columns import COLUMNS, arrays_from
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.mask import allocate_mask
from tests.core.grammars.engine.engine_cases import COMMENTS, GENERAL, JSON, byte_vocabulary, walk
from tests.laws.sessions import state_masks

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
    assert isinstance(opened, Constraint) and opened.kind == "grammar"
    assert opened.max_tokens is None and opened.is_sound == (metadata["cdec.sound"] == "1")
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
    monkeypatch.setattr(engine, "_MOST_BYTES", 1 << 28)
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
