"""Member texts, entity ids and what ``inspect`` shows of a set."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cdec.core.sets.report import TreeNode
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.sets.set_cases import byte_vocabulary, make_set

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
    assert constraint.ends_itself
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
    assert not constraint.ends_itself


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
