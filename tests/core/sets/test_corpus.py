"""Pieces of the documents of a corpus: which they are, by plain search, and laws of their walks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import compile_spans, corpus_constraint, verify_artifact
from cdec.compilers.sets import corpus as compiler
from cdec.core.artifacts.opened import KINDS, open_artifact, read_artifact
from cdec.core.artifacts.read import verify_bytes
from cdec.core.constraint import NarrowedSet
from cdec.core.errors import (
    ArtifactInvalidError,
    CdecError,
    EmptySetError,
    EncodingError,
    FieldError,
    LimitError,
    UsageError,
)
from cdec.core.mask import allocate_mask
from cdec.core.sets import corpus as module
from cdec.core.sets.corpus import CorpusConstraint
from cdec.core.sets.spans import SpanOptions, SpanSession
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.sets.test_spans import END, OPTIONS, VOCABULARY, assert_pieces_are, member
from tests.forging import arrays_of, metadata_of, rebuild
from tests.laws.sessions import assert_masks_are_steps, assert_session_laws, states_after
from tests.laws.set_cases import WORD, pieces

CORPORA = (
    ("the cat sat. It's the cat's mat!", "a mat, the cat", "x", "the cat"),
    ("aaaab aaa", "aaab", "b aaaaa"),
    ("日本語です。", "本語 abc", "日"),
)


def corpus(texts: tuple[str, ...], options: SpanOptions = OPTIONS[0]) -> CorpusConstraint:
    found = corpus_constraint(
        [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)],
        VOCABULARY,
        whole=options.whole,
        shortest=options.shortest,
        longest=options.longest,
    )
    assert isinstance(found, CorpusConstraint)
    return found


def stands(piece: str, text: str, options: SpanOptions) -> list[int]:
    """Return where a piece that is meant stands in a document, by trying every place."""
    words = [match.span() for match in WORD.finditer(text)]
    found = []
    for start in range(len(text)):
        end = start + len(piece)
        touched = sum(begin < end and stop > start for begin, stop in words)
        is_whole = options.whole != "words" or (
            any(begin == start for begin, _ in words) and any(stop == end for _, stop in words)
        )
        is_meant = is_whole and (options.shortest or 0) <= touched <= (options.longest or len(text))
        if is_meant and text.startswith(piece, start):
            found.append(start)
    return found


@pytest.mark.parametrize("texts", CORPORA)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_members_are_the_pieces_of_single_documents(
    texts: tuple[str, ...], options: SpanOptions
) -> None:
    meant = set[str]().union(*(pieces(text, options) for text in texts))
    if not meant:
        with pytest.raises(EmptySetError):
            corpus(texts, options)
        return
    constraint = corpus(texts, options)
    across = {a[-1] + b[0] for a in texts for b in texts} | {"", "q", "".join(texts)}
    among = across.union(*(pieces(text, SpanOptions()) for text in texts))
    assert_pieces_are(constraint, meant, among)


@pytest.mark.parametrize("texts", CORPORA)
@pytest.mark.parametrize("options", [*OPTIONS, SpanOptions("sentences")], ids=str)
def test_sessions_keep_all_laws(
    texts: tuple[str, ...], options: SpanOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Masks of some states are made beforehand, and of others not.
    monkeypatch.setattr(compiler, "FEWEST_ROWS", 1)
    monkeypatch.setattr(compiler, "MOST_MASKS", 5)
    try:
        constraint = corpus(texts, options)
    except EmptySetError:
        assert not any(pieces(text, options) for text in texts)
        return
    session, rng = constraint.session(), np.random.default_rng(0)
    members = [member(session, rng) for _ in range(6)]
    assert_session_laws(constraint, members, rng, max_states=60)
    states = states_after(session, [(), *(row[:n] for row in members[:3] for n in range(4))])
    assert_masks_are_steps(session, states, VOCABULARY)


def test_masks_made_beforehand_are_those_of_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abc é"), 400)) for _ in range(5)]
    monkeypatch.setattr(compiler, "FEWEST_ROWS", 64)
    for whole in (None, "words"):
        constraint = corpus(tuple(texts), SpanOptions(whole))
        view = constraint.view
        assert len(view.wide_states) > (8 if whole is None else 2)
        plain = SpanSession(
            view._replace(wide_states=view.wide_states[:0], wide_masks=view.wide_masks[:0]),
            TokenTrie.of(VOCABULARY),
        )
        mask = allocate_mask(len(view.wide_states), VOCABULARY.width)
        plain.fill_mask(view.wide_states, mask)
        words = view.wide_masks.shape[1]
        assert np.array_equal(mask.view(np.uint32)[:, :words], view.wide_masks)
        ends = plain.is_complete(view.wide_states)
        assert np.array_equal(ends, constraint.session().is_complete(view.wide_states))
        assert np.array_equal(ends, view.wide_masks[:, END // 32] >> (END % 32) & 1)


def test_a_byte_between_documents_is_never_allowed() -> None:
    constraint = corpus(("ab", "ab"))
    session = constraint.session()
    states = session.advance_bytes(session.start(2), [b"ab", b""])
    assert not session.check(states, np.full((2, 1), 255)).any()
    assert 255 not in session.allowed(states)[1]
    assert constraint.accepts(b"ab\xff") is False and constraint.accepts(b"\xff") is False


def test_samples_say_in_which_documents_they_stand_and_how_often() -> None:
    constraint = corpus(("Über a cat: the cat", "cats", "no", *["a cat"] * 20))
    found = constraint.annotations(b"cat")["span"]
    assert isinstance(found, dict)
    assert {name: found[name] for name in ("length", "places", "documents")} == {
        "length": 3, "places": 23, "documents": 22,
    }  # fmt: skip
    assert len(found["found"]) == module.LISTED
    assert found["found"][:3] == [
        {"document": "d0", "offset": 7, "places": 2},
        {"document": "d1", "offset": 0, "places": 1},
        {"document": "d3", "offset": 2, "places": 1},
    ]
    plain = corpus_constraint(["a", "", "a b"], VOCABULARY, whole="words")
    (one, two) = plain.annotations(b"a")["span"]["found"]  # type: ignore[index]
    assert (one["document"], two["document"]) == ("1", "3")


def test_counts_are_those_of_plain_search() -> None:
    for options in OPTIONS:
        texts = CORPORA[0]
        constraint = corpus(texts, options)
        for piece in set[str]().union(*(pieces(text, options) for text in texts)):
            found: Any = constraint.annotations(piece.encode())["span"]
            expected = {
                f"d{i}": (places[0], len(places))
                for i, text in enumerate(texts)
                if (places := stands(piece, text, options))
            }
            assert {
                one["document"]: (one["offset"], one["places"]) for one in found["found"]
            } == expected
            assert found["documents"] == len(expected)
            assert found["places"] == sum(count for _, count in expected.values())


def test_a_record_may_choose_documents_or_leave_some_out() -> None:
    constraint = corpus(("ab", "bc", "ab c"))
    chosen = constraint.narrowed([NarrowedSet("documents", ("d1", "d2"))])
    assert chosen.accepts(b"bc") and chosen.accepts(b"ab c")
    assert chosen.annotations(b"ab")["span"]["found"] == [  # type: ignore[index]
        {"document": "d2", "offset": 0, "places": 1}
    ]
    session = chosen.session()
    assert session.advance_bytes(session.start(2), [b"bc", b"bca"])[1] < 0
    left = constraint.narrowed([NarrowedSet("documents", ("d2", "d0"), is_denied=True)])
    assert left.accepts(b"bc") and not left.accepts(b"a")
    rng = np.random.default_rng(0)
    rows = [member(chosen.session(), rng) for _ in range(4)]
    assert_session_laws(chosen, rows, rng, max_states=40)
    for asked, error in (
        (NarrowedSet("documents", ("d7",)), FieldError),
        (NarrowedSet("towns", ("d1",)), FieldError),
        (NarrowedSet("documents", ("d0", "d1", "d2"), is_denied=True), EmptySetError),
    ):
        with pytest.raises(error):
            constraint.narrowed([asked])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows_of_many_documents_are_those_that_would_be_sorted(options: SpanOptions) -> None:
    texts = [text for text in CORPORA[0] if pieces(text, options)]
    whole = corpus(texts, options)
    for left_out in range(len(texts)):
        kept = [number for number in range(len(texts)) if number != left_out]
        if not kept:
            continue
        documents = whole.documents.some(kept)
        picked = module._picked(whole.view, whole.documents.offsets, kept, documents)
        again = module.span_rows(documents.text, documents.offsets, options)
        assert picked.keys() == again.keys()
        assert {name: column.dtype for name, column in picked.items()} == {
            name: column.dtype for name, column in again.items()
        }
        np.testing.assert_array_equal(picked["data"], again["data"])
        np.testing.assert_array_equal(picked["ends"], again["ends"])
        assert contents(picked) == contents(again)
        few = whole.narrowed([NarrowedSet("documents", (f"d{left_out}",), is_denied=True)])
        assert few.accepts(texts[kept[0]][:1].encode()) in (True, False)


def contents(rows: dict[str, Any]) -> list[tuple[bytes, int, int]]:
    """Return what follows the place of each row, in their order, and where it begins."""
    data, found = rows["data"].tobytes(), []
    for row, begin in enumerate(rows["begin"].tolist()):
        # Where rows are not cut, the end of a document sorts behind all else.
        stop = (
            begin + int(rows["length"][row]) if len(rows["length"]) else data.index(255, begin) + 1
        )
        least = int(rows["least"][row]) if len(rows["least"]) else 0
        found.append((data[begin:stop], begin, least))
    assert [text for text, *_ in found] == sorted(text for text, *_ in found)
    return sorted(found)


# --- Artifacts.


def write(path: Path, **options: Any) -> bytes:
    texts = [{"id": f"d{i}", "text": text} for i, text in enumerate(CORPORA[0])]
    compile_spans(texts, VOCABULARY, path, source="good", **options)
    return path.read_bytes()


CUT: dict[str, Any] = {"whole": "words", "shortest": 1, "longest": 2}


@pytest.mark.parametrize("options", [{}, CUT], ids=["whole", "cut"])
def test_artifacts_are_what_their_documents_give(tmp_path: Path, options: Any) -> None:
    write(path := tmp_path / "a.arrow", **options)
    found = verify_artifact(read_artifact(path))
    assert {"begin", "length", "least", "ends", "letters", "wide_masks"} <= {*found.same}
    assert {"text", "document_offsets", "id_bytes", "cdec.options"} <= {*found.given}
    opened = open_artifact(path, vocabulary=VOCABULARY)
    again = corpus(CORPORA[0], SpanOptions(**options))
    assert opened.statistics() == again.statistics() and "4 documents" in repr(opened)
    for text in (b"the cat", b"It's", b"cat sat. It"):
        assert opened.annotations(text) == again.annotations(text)


@pytest.mark.parametrize("options", [{}, CUT], ids=["whole", "cut"])
def test_forged_rows_and_masks_are_found(
    tmp_path: Path, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "FEWEST_ROWS", 1)
    monkeypatch.setattr(compiler, "MOST_MASKS", 5)
    data, forged = write(tmp_path / "a.arrow", **options), 0
    for name in ("begin", "length", "least", "ends", "letters", "wide_states", "wide_masks"):
        array = arrays_of(data)[name]
        for at in range(min(len(array), 8)):
            changed = array.copy()
            changed[at] = array[-1] if name == "begin" else array[at] ^ 1
            try:
                file = verify_bytes(rebuild(data, {name: changed}), KINDS)
            except ArtifactInvalidError:
                continue
            if np.array_equal(changed, array):
                continue
            forged += 1
            with pytest.raises(ArtifactInvalidError) as caught:
                verify_artifact(file)
            assert caught.value.details["differing"]
    assert forged >= 6
    counts = json.loads(metadata_of(data)["cdec.counts"]) | {"masks": 7}
    with pytest.raises(ArtifactInvalidError, match=r"cdec\.counts"):
        entry = {"cdec.counts": json.dumps(counts)}
        verify_artifact(verify_bytes(rebuild(data, metadata=entry), KINDS))


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("text", 0, 255),
        ("text", 1, 0x80),
        ("text", -1, 65),
        ("begin", 3, -1),
        ("begin", 3, 10**6),
        ("begin", 0, 32),
        ("length", 0, 0),
        ("length", 0, 60),
        ("least", 0, 10**6),
        ("ends", 0, 2),
        ("letters", 0, 250),
        ("wide_states", 0, 1),
        ("document_offsets", 1, 200),
        ("document_offsets", 1, 3),
        ("document_lines", 0, 0),
        ("wide_masks", -1, 2**32 - 1),
    ],
)
def test_columns_that_lead_astray_are_refused(
    tmp_path: Path, name: str, at: int, value: int
) -> None:
    data = write(tmp_path / "a.arrow", **CUT)
    column = arrays_of(data)[name]
    column[at] = value
    with pytest.raises(ArtifactInvalidError):
        verify_bytes(rebuild(data, {name: column}), KINDS)


@pytest.mark.parametrize(
    "options",
    [{"whole": "lines"}, {"shortest": 0}, {"whole": None}, {"more": 1}, None],
)
def test_options_of_another_kind_are_refused(tmp_path: Path, options: Any) -> None:
    data = write(tmp_path / "a.arrow", **CUT)
    recorded = json.loads(metadata_of(data)["cdec.options"])
    entry = json.dumps(None if options is None else recorded | options)
    with pytest.raises(ArtifactInvalidError):
        verify_bytes(rebuild(data, metadata={"cdec.options": entry}), KINDS)


@pytest.mark.parametrize(
    ("documents", "options", "error"),
    [
        ([], {}, EmptySetError),
        (["", "  "], {}, EmptySetError),
        ([".."], {"whole": "words"}, EmptySetError),
        (["a\ud800"], {}, EncodingError),
        ("one text", {}, UsageError),
        ([{"txt": "a"}], {}, FieldError),
        (["a"], {"shortest": 0}, UsageError),
        (["a"], {"whole": "lines"}, UsageError),
    ],
)
def test_what_makes_no_sense_is_an_error(
    tmp_path: Path, documents: Any, options: Any, error: Any
) -> None:
    with pytest.raises(error) as raised:
        compile_spans(documents, VOCABULARY, tmp_path / "a.arrow", **options)
    assert isinstance(raised.value, CdecError) and raised.value.hint
    assert not (tmp_path / "a.arrow").exists()


def test_bad_documents_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    report = compile_spans(["a", "b\ud800", "", "c"], VOCABULARY, path, bad_lines="skip")
    counts = [report.counts[name] for name in ("documents", "skipped", "blank")]
    assert counts == [2, 1, 1]
    assert [notice.code for notice in report.notices] == ["W_BLANK_LINES", "W_SKIPPED"]


def test_corpora_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "MAX_BYTES", 5)
    with pytest.raises(LimitError):
        compile_spans(["ab", "abc"], VOCABULARY, tmp_path / "a.arrow")


def test_a_vocabulary_without_an_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        compile_spans(["a"], Vocabulary([b"a"], eos_token_ids=[]), tmp_path / "a.arrow")


def test_dead_ends_are_owned_up_to_where_bytes_are_no_tokens() -> None:
    few = Vocabulary([b"a", b""], eos_token_ids=[1], special_token_ids=[1])
    assert corpus_constraint(["aaa"], few).facts.is_sound
    assert not corpus_constraint(["ab"], few).facts.is_sound


def test_hostile_corpora_cost_little() -> None:
    began = time.process_time()
    texts = ("a" * 10**6, *["a"] * 10**5, "ab" * 10**5)
    constraint = corpus(texts)
    session = constraint.session()
    state = session.advance_bytes(session.start(1), [b"a" * 5 * 10**5])
    session.fill_mask(state, allocate_mask(1, VOCABULARY.width))
    found: Any = constraint.annotations(b"a")["span"]
    assert found["places"] == 10**6 + 2 * 10**5
    assert found["documents"] == 10**5 + 2
    assert constraint.accepts(b"ab" * 9**5) is True
    assert time.process_time() - began < 15  # some 1 s; what is quadratic takes hours
