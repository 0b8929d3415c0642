"""Set constraints: sessions, completions, members."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.constraint import DEAD, DONE, Constraint
from cdec.core.errors import ArtifactInvalidError, UsageError
from cdec.core.mask import allocate_mask
from cdec.core.sets.report import TreeNode
from cdec.core.sets.session import make_view
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.trie import SetArrays
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.sets.set_cases import PlainSet, Row, byte_vocabulary, make_set
from tests.laws.sessions import assert_allowed_is, assert_session_laws, state_masks, states_after
from tests.laws.worlds import Toy, random_toy

# --- The set constraint against a plain Python set, on the CPU and on torch tensors.

DEVICES = ("cpu", "torch:cpu")
SIZE = 70
TOKEN = st.one_of(st.integers(0, 3), st.integers(0, SIZE - 1))
ROWS = st.lists(st.lists(TOKEN, max_size=6).map(tuple), min_size=1, max_size=25)
SHAPES = st.tuples(st.integers(1, 3), st.sampled_from([0, 1, 25, 58, 64]))


@pytest.mark.slow
@given(ROWS, SHAPES, st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_random_sets_obey_the_laws(rows: list[Row], shape: tuple[int, int], seed: int) -> None:
    vocabulary = byte_vocabulary(SIZE, *shape)
    constraint = make_set(rows, vocabulary)
    assert_session_laws(constraint, set(rows), np.random.default_rng(seed), max_states=60)
    plain = PlainSet(rows, vocabulary.eos_token_ids, ends_itself=False)
    for device in DEVICES:
        session = constraint.session(device)
        assert_allowed_is(session, plain.prefixes(), plain.allowed, vocabulary.width)


@pytest.mark.slow
@given(ROWS.filter(lambda rows: () not in rows), SHAPES, st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_random_sets_with_a_suffix_obey_the_laws(
    rows: list[Row], shape: tuple[int, int], seed: int
) -> None:
    vocabulary = byte_vocabulary(SIZE + 1, *shape)
    closed = [(*row, SIZE) for row in rows]
    constraint = make_set(closed, vocabulary, options={"suffix_bytes": "3e"})
    assert_session_laws(constraint, set(closed), np.random.default_rng(seed), max_states=60)
    plain = PlainSet(closed, vocabulary.eos_token_ids, ends_itself=True)
    prefixes = [prefix for prefix in plain.prefixes() if prefix not in plain.rows]
    for device in DEVICES:
        session = constraint.session(device)
        assert_allowed_is(session, prefixes, plain.allowed, vocabulary.width)
        assert (states_after(session, closed) == DONE).all()


@pytest.mark.parametrize("device", DEVICES)
def test_row_that_prefixes_another_of_a_set_with_suffix_still_ends(device: str) -> None:
    vocabulary = byte_vocabulary(10, ends=2)
    constraint = make_set([[1, 9], [1, 9, 2, 9]], vocabulary, options={"suffix_bytes": "3e"})
    session = constraint.session(device)
    short, long = states_after(session, [[1, 9], [1, 9, 2, 9]])
    assert short not in (DONE, DEAD) and long == DONE
    assert session.is_complete(np.array([short]))[0]
    assert state_masks(session, [short], 12)[0].nonzero()[0].tolist() == [2, 10, 11]


@pytest.mark.parametrize("device", DEVICES)
def test_dense_nodes_obey_the_laws(device: str) -> None:
    rng = np.random.default_rng(1)
    rows = [[0, token] for token in range(300)] + [[0]]
    rows += [[1, 2, int(token), 5] for token in rng.choice(600, 400, replace=False)]
    rows += [[3, token, token] for token in range(255)] + [[4, token] for token in range(256)]
    vocabulary = byte_vocabulary(601, ends=2, padding=40)
    constraint = make_set(rows, vocabulary)
    members = [rows[i] for i in rng.choice(len(rows), 30)]
    assert_session_laws(constraint, members, rng, devices=[device], max_states=80)
    plain = PlainSet(rows, vocabulary.eos_token_ids, ends_itself=False)
    prefixes = [(), (0,), (1,), (1, 2), (3,), (4,), (3, 7), (4, 7)]
    assert_allowed_is(constraint.session(device), prefixes, plain.allowed, vocabulary.width)


@pytest.mark.share(1)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "rows", [[[]], [[7]], [[7] * 300], [[], [7]], [[7] * n for n in range(40)]]
)
def test_extreme_shapes_obey_the_laws(rows: list[list[int]], device: str) -> None:
    constraint = make_set(rows, byte_vocabulary(8, padding=3))
    rng = np.random.default_rng(2)
    assert_session_laws(constraint, rows, rng, devices=[device], max_steps=400)
    assert constraint.max_tokens == max(map(len, rows))


@pytest.mark.parametrize("device", DEVICES)
def test_equal_prefixes_have_equal_states_and_others_do_not(device: str) -> None:
    rows = [[1, 2, 3], [1, 2, 4], [1, 5, 5, 5], [2]]
    plain = PlainSet(rows, [], ends_itself=False)
    session = make_set(rows, byte_vocabulary(8)).session(device)
    states = states_after(session, plain.prefixes())
    assert len(set(states.tolist())) == len(states)
    assert states_after(session, plain.prefixes()).tolist() == states.tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_one_batch_may_mix_nodes_tails_done_and_dead(device: str) -> None:
    session = make_set([[1, 2, 3], [1, 4], [2]], byte_vocabulary(8)).session(device)
    node, tail, end = states_after(session, [[1], [1, 2], [2]]).tolist()
    after = session.advance(np.array([node, tail, end, DONE, DEAD]), np.array([4, 3, 8, 8, 1]))
    assert after[2] == DONE and (np.asarray(after[3:]) == DEAD).all()
    assert session.is_complete(after).tolist() == [True, True, True, False, False]


def test_mask_that_is_not_contiguous_is_filled_as_well() -> None:
    vocabulary = byte_vocabulary(90)
    session = make_set([[1], [40], [80]], vocabulary).session()
    wide = np.full((2, 2 * 3), -1, np.int32)
    session.fill_mask(session.start(2), wide[:, ::2])
    assert (wide[:, ::2] == state_mask_words(session, 2, 91)).all()
    assert (wide[:, 1::2] == -1).all()


def state_mask_words(session: Any, n: int, width: int) -> Any:
    mask = allocate_mask(n, width)
    session.fill_mask(session.start(n), mask)
    return mask


@pytest.mark.parametrize("device", DEVICES)
def test_arguments_of_the_wrong_shape_are_refused(device: str) -> None:
    session = make_set([[1], [2]], byte_vocabulary(8)).session(device)
    start = session.start(2)
    calls: list[Any] = [
        lambda: session.fill_mask(start, allocate_mask(3, 9, device)),
        lambda: session.fill_mask(start, allocate_mask(2, 64, device)),
        lambda: session.advance(start, np.array([1])),
        lambda: session.advance(start, np.array([1.0, 2.0])),
        lambda: session.check(start, np.array([1, 2])),
        lambda: session.check(start, np.array([[1]])),
    ]
    for call in calls:
        with pytest.raises(UsageError):
            call()


def test_set_constraint_is_a_constraint() -> None:
    constraint: Constraint = make_set([[1, 2], [3]], byte_vocabulary(8))
    assert isinstance(constraint, Constraint)
    assert (
        constraint.facts.kind == "set" and constraint.facts.is_sound and constraint.max_tokens == 2
    )


def test_members_that_cannot_end_are_refused() -> None:
    endless = byte_vocabulary(8, ends=0)
    with pytest.raises(UsageError, match="end-of-sequence"):
        make_set([[1], [2]], endless)
    with pytest.raises(UsageError, match="end-of-sequence"):
        make_set([[1], [1, 2]], endless, options={"suffix_bytes": "3e"})
    closed = make_set([[1, 3], [2, 3]], endless, options={"suffix_bytes": "3e"})
    assert_session_laws(closed, [[1, 3], [2, 3]], np.random.default_rng(3))


def test_set_of_a_larger_vocabulary_is_refused() -> None:
    constraint = make_set([[token] for token in range(300)], byte_vocabulary(300))
    with pytest.raises(UsageError, match="compiled for"):
        make_view(constraint.arrays, byte_vocabulary(200), None, ends_itself=False)


@pytest.mark.parametrize("device", DEVICES)
def test_damaged_arrays_never_crash(device: str) -> None:
    """Whatever the arrays hold, calls return, masks stay within the width or an error is ours."""
    rng = np.random.default_rng(4)
    rows = [[int(t) for t in rng.integers(0, 6, rng.integers(1, 6))] for _ in range(60)]
    rows += [[6, token] for token in range(300)]
    vocabulary = byte_vocabulary(300, ends=2)
    whole = make_set(rows, vocabulary)
    odd = [-(2**31), -1, 0, 1, 7, 299, 300, 311, 2**31 - 1]
    for _ in range(15):
        columns = {name: array.copy() for name, array in whole.arrays.to_mapping().items()}
        name = rng.choice([n for n in columns if n != "dense_masks"])
        places = rng.integers(0, len(columns[name]), 4)
        columns[name][places] = rng.choice(odd, 4)
        damaged = make_damaged(whole, SetArrays.from_mapping(columns))
        try:
            session = damaged.session(device)
            exercise(session, vocabulary.width, whole.arrays.n_nodes, rng)
        except ArtifactInvalidError:
            assert device != "cpu" and name == "node_degree"


def make_damaged(whole: Any, arrays: SetArrays) -> Any:
    return type(whole)(replace(whole.rows, arrays=arrays))


def exercise(session: Any, width: int, nodes: int, rng: np.random.Generator) -> None:
    tails = ((rng.integers(0, 400, 40) + 1) << 32) | rng.integers(0, 9, 40)
    states = np.concatenate([np.arange(-3, nodes + 2), tails, [2**62, -(2**62)]])
    masks = state_masks(session, states, width)
    offsets, ids = session.allowed(states)
    assert int(offsets[-1]) == len(ids)
    assert masks.shape == (len(states), width)
    session.check(states, np.tile(np.arange(width), (len(states), 1)))
    session.forced(states)
    session.is_complete(states)
    for token in range(8):
        session.advance(states, np.full(len(states), token))


# --- Completions of sets by scores of single tokens, against all members.

TOYS = st.builds(random_toy, st.integers(0, 10**6), ends_itself=st.booleans())


def scored(toy: Toy, prefix: tuple[int, ...], scores: np.ndarray, ends: np.ndarray) -> float:
    """Return the best score of what members have after ``prefix``."""
    best = -np.inf
    for row in toy.members:
        if row[: len(prefix)] == prefix:
            rest = sum(scores[t] for t in row[len(prefix) :])
            end = 0.0 if toy.ends_itself or not row else ends[row[-1]]
            best = max(best, rest + end)
    return float(best)


@pytest.mark.parametrize("device", ["cpu", "torch:cpu"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(toy=TOYS, seed=st.integers(0, 99))
def test_completions_are_the_best_members_and_lead_to_the_end(
    device: str, toy: Toy, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    width = toy.vocabulary.width
    scores, ends = -rng.exponential(size=width), -rng.exponential(size=width)
    session = toy.constraint.session(device)
    completions = session.completions(scores, ends)
    assert completions is not None
    for prefix in sorted({row[:depth] for row in toy.members for depth in range(len(row))}):
        state = session.start(1)
        for token in prefix:
            state = session.advance(state, _like(state, token))
        at = np.asarray(state)
        expected = scored(toy, prefix, scores, ends)
        assert completions.totals(at)[0] == pytest.approx(expected, abs=1e-12)
        tokens = [t for t in completions.tokens(at, 12)[0].tolist() if t >= 0]
        member = (*prefix, *tokens)
        assert scored(toy, member, scores, ends) + sum(scores[t] for t in tokens) == (
            pytest.approx(expected, abs=1e-12)
        )
        for token in tokens:
            state = session.advance(state, _like(state, token))
        assert int(state[0]) == DONE or bool(session.is_complete(state)[0])
        assert completions.tokens(at, 1).shape == (1, 1)


def test_a_filter_leaves_the_best_member_that_is_kept() -> None:
    toy = random_toy(5)
    width = toy.vocabulary.width
    flat = np.full(width, -1.0)
    for row in toy.members:
        text = toy.vocabulary.decode(row).decode()
        kept = toy.constraint.candidates([text]).session()
        found = kept.completions(flat, flat)
        assert found is not None
        tokens = [t for t in found.tokens(kept.start(1), 12)[0].tolist() if t >= 0]
        assert tuple(tokens) == row


def _like(state: object, token: int) -> object:
    values = np.array([token], np.int64)
    if isinstance(state, np.ndarray):
        return values
    import torch

    return torch.from_numpy(values)


# --- Member texts, entity ids and what ``inspect`` shows of a set.

LETTERS = Vocabulary([*(bytes([byte]) for byte in b" <>abcd"), b""], [7], name="letters")


def ids_of(text: bytes) -> list[int]:
    return [LETTERS.token_bytes.index(bytes([byte])) for byte in text]


def text_set(
    texts: list[bytes], heads: list[bytes], tail: bytes, **options: object
) -> SetConstraint:
    rows = [ids_of(head + text + tail) for text in texts for head in heads]
    return make_set(rows, LETTERS, options=options, heads=heads, tail=tail)


def test_member_text_is_cut_from_prefix_and_suffix() -> None:
    constraint = text_set([b"a", b"ab"], [b" <"], b">", suffix_bytes="3e")
    assert constraint.facts.ends_itself
    assert constraint.member_text(ids_of(b" <ab>")) == b"ab"
    assert constraint.member_text(ids_of(b" <ab")) == b"ab"
    assert constraint.member_text(ids_of(b" ")) == b""
    assert constraint.member_text([]) == b""


def test_content_needs_prefix_and_suffix() -> None:
    closed = text_set([b"a", b"ab"], [b" <"], b">", suffix_bytes="3e")
    assert closed.content(b" <ab>") == b"ab"
    assert closed.content(b" <d>") == b"d"
    assert [closed.content(text) for text in (b" <ab", b"ab>", b"ab", b" >", b"")] == [None] * 5
    either = text_set([b"a", b"ab"], [b" ", b""], b"")
    assert (either.content(b" ab"), either.content(b"ab")) == (b"ab", b"ab")


def test_end_ids_give_no_text() -> None:
    constraint = text_set([b"a"], [b" "], b"")
    assert constraint.member_text([*ids_of(b" a"), 7]) == b"a"
    assert not constraint.facts.ends_itself


def test_leading_space_of_either_kind_is_cut() -> None:
    constraint = text_set([b"a", b"ab"], [b" ", b""], b"")
    assert constraint.member_text(ids_of(b" ab")) == b"ab"
    assert constraint.member_text(ids_of(b"ab")) == b"ab"
    assert constraint.accepts(b"ab") and not constraint.accepts(b" ab")
    assert len(constraint.rows.of_text(b"ab")) == 2


def test_members_are_looked_up_as_they_were_normalised() -> None:
    vocabulary = Vocabulary(["é".encode(), b"e", "\u0301".encode(), b""], [3])
    constraint = make_set([[0]], vocabulary, options={"normalize": "nfc"})
    assert constraint.candidates(["e\u0301"]).n_rows == 1


def test_entity_ids_come_in_source_order_without_repeats() -> None:
    ids = [["Q7", "Q1", "Q7"], ["x"]]
    constraint = make_set([[1], [2]], byte_vocabulary(9), ids=ids)
    assert constraint.rows.entity_ids(np.array([0])) == ["Q7", "Q1"]
    assert constraint.annotations(b"<1>") == {"entity_ids": ["Q7", "Q1"]}
    assert constraint.annotations(b"<3>") == {"entity_ids": []}


def test_line_numbers_serve_where_there_are_no_ids() -> None:
    constraint = make_set([[1], [2]], byte_vocabulary(9))
    assert constraint.rows.entity_ids(np.array([1])) == ["2"]


@pytest.mark.parametrize("name", ["0", "3", "-1", "²", "9" * 30, ""])
def test_line_numbers_that_do_not_exist_are_unknown(name: str) -> None:
    constraint = make_set([[1], [2]], byte_vocabulary(9))
    assert constraint.members.rows_of_id(name).tolist() == []


def test_statistics_count_what_is_there() -> None:
    rows = [[5], [5, 7], [5, 8, 9], [6, 2]]
    constraint = make_set(rows, byte_vocabulary(10))
    figures = constraint.statistics()
    assert figures["rows"] == figures["rows_kept"] == 4
    assert figures["tokens"] == 8 and figures["mean_row"] == 2.0
    assert (figures["shortest_row"], figures["longest_row"]) == (1, 3)
    assert (figures["nodes"], figures["inner_nodes"], figures["levels"]) == (6, 2, 3)
    assert figures["rows_that_prefix_others"] == 1 and figures["largest_degree"] == 3
    assert constraint.restrict(np.array([True, False, True, True])).statistics()["rows_kept"] == 3
    json.dumps(figures)


def test_tree_shows_the_largest_children_first() -> None:
    constraint = make_set([[6, 2], [5], [5, 7], [5, 8, 9]], byte_vocabulary(10))
    tree = constraint.tree(depth=2, width=5)
    assert (tree.rows, tree.is_member, tree.hidden) == (4, False, 0)
    five, six = tree.children
    assert (five.text, five.rows, five.is_member) == (b"<5>", 3, True)
    assert six == TreeNode([6, 2], b"<6><2>", 1, True, [], 0)
    assert [child.text for child in five.children] == [b"<7>", b"<8><9>"]


def test_tree_is_cut_at_depth_and_width_and_says_so() -> None:
    constraint = make_set([[6, 2], [6, 3], [5], [5, 7], [5, 8, 9]], byte_vocabulary(10))
    tree = constraint.tree(depth=1, width=1)
    assert [child.text for child in tree.children] == [b"<5>"] and tree.hidden == 1
    assert tree.children[0].children == [] and tree.children[0].hidden == 2


def test_tree_leaves_filtered_rows_out() -> None:
    constraint = make_set([[5], [5, 7], [5, 8, 9], [6, 2]], byte_vocabulary(10))
    smaller = constraint.deny_texts([b"<5>", b"<5><7>"])
    tree = smaller.tree(depth=3, width=5)
    assert tree.rows == 2 and not tree.children[0].is_member
    assert [child.text for child in tree.children[0].children] == [b"<8><9>"]
