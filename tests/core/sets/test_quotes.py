"""Pieces of documents as member texts: which fields are meant, how many there are, hostile ones."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from cdec.compilers import grammar_constraint, schema_constraint
from cdec.core.constraint import Constraint, text_verdicts
from cdec.core.errors import EmptySetError, EncodingError, FieldError, UsageError
from cdec.core.sets.quotes import DocumentPieces, SpanField
from cdec.core.sets.spans import SpanOptions
from cdec.core.tokens.vocabulary import BYTES
from tests.laws.sessions import assert_masks_are_steps
from tests.laws.set_cases import corpus_case, pieces

DOCUMENTS = ("abracadabra", "aaaa", "é日é日本", "the cat, the cat sat. the")
OPTIONS = (SpanOptions(), SpanOptions("words"), SpanOptions("words", 1, 2), SpanOptions(None, 2))


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_pieces_are_counted_found_and_begun(document: str, options: SpanOptions) -> None:
    meant = pieces(document, options)
    if not meant:
        return
    held = DocumentPieces(document, SpanField("page", options))
    assert held.n_texts == len(meant)
    assert held.longest == max(len(text.encode()) for text in meant)
    for text in sorted(pieces(document, SpanOptions()) | {"q", f"{document}q"}):
        assert held.holds(text.encode()) == (text in meant)
        assert held.begins(text.encode()) == any(each.startswith(text) for each in meant)
        found = held.record(text)
        assert (found is not None) == (text in meant)
        assert found is None or document[found["span"]["offset"] :].startswith(text)


@pytest.mark.parametrize("options", [SpanOptions(), SpanOptions("words", 1, 2)], ids=str)
def test_pieces_of_a_corpus_are_counted_found_and_begun(options: SpanOptions) -> None:
    documents = ("Zürich is é", "is it", "is")
    case = corpus_case(*documents, options=options)
    held, meant = case.given.member_texts(), set(case.texts)
    assert held.n_texts == len(meant)
    assert held.longest >= max(len(text.encode()) for text in meant)
    for text in set[str]().union(*(pieces(one, SpanOptions()) for one in documents), ["isis"]):
        assert held.holds(text.encode()) == (text in meant)
        assert held.begins(text.encode()) == any(each.startswith(text) for each in meant)
        assert (held.record(text) is not None) == (text in meant)
    some = held.candidates(["2"]).without(["3"])
    assert some.holds(b"is") and some.holds(b"it") and not held.without(["2"]).holds(b"it")


def test_pieces_that_are_too_many_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdec.core.sets.within._MOST_COUNTED", 3)
    of = SpanField("page", SpanOptions("words", longest=1))
    assert DocumentPieces("a b c d", of).n_texts is None
    assert DocumentPieces("a b c " * 9, of).n_texts == 3
    monkeypatch.setattr("cdec.core.sets.within._MOST_TRIED", 20)
    with pytest.raises(UsageError, match="20 tries"):
        DocumentPieces("a b c " * 9, of).n_texts  # noqa: B018


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("page", "page"),
        ({"field": "page"}, "page"),
        ({"field": "page", "whole": "words", "longest": 2}, "page (whole words, longest 2)"),
    ],
)
def test_fields_are_read_and_written(said: Any, words: str) -> None:
    of = SpanField.from_json(said)
    assert str(of) == words and SpanField.from_json(of.to_json()) == of
    assert of.of({"page": "text"}) == "text"
    for record in ({}, {"page": None}, {"page": b"x"}):
        with pytest.raises(FieldError):
            of.of(record)


@pytest.mark.parametrize(
    "said",
    [
        *("", 1, None, ["page"], {}, {"field": ""}, {"field": "a", "other": 1}),
        *({"field": "a", "whole": "lines"}, {"field": "a", "shortest": True}),
        *({"field": "a", "longest": 0}, {"field": "a", "shortest": 2, "longest": 1}),
    ],
)
def test_what_names_no_field_is_refused(said: Any) -> None:
    with pytest.raises(UsageError):
        SpanField.from_json(said)


@pytest.mark.parametrize(
    ("document", "options", "error"),
    [
        ("", SpanOptions(), EmptySetError),
        (" .", SpanOptions("words"), EmptySetError),
        ("a\ud800", SpanOptions(), EncodingError),
        (b"\xff", SpanOptions(), UsageError),
        (None, SpanOptions(), UsageError),
    ],
)
def test_documents_without_pieces_are_errors(document: Any, options: Any, error: Any) -> None:
    with pytest.raises(error):
        DocumentPieces(document, SpanField("page", options))


def within(document: str, said: Any) -> dict[str, Constraint]:
    """Return a schema and a grammar that quote a document."""
    of = SpanField.from_json(said)
    given = DocumentPieces(document, of)
    source = {"type": "array", "items": {"x-cdec-span-of": said, "type": "string"}}
    schema = schema_constraint(source, BYTES).with_sets({str(of): given})
    grammar = grammar_constraint('start: "[" (Q ",")* "]"\n%declare Q\n', BYTES)
    return {"schema": schema, "grammar": grammar.with_sets({"Q": given})}


@pytest.mark.parametrize("kind", ["schema", "grammar"])
@pytest.mark.parametrize(
    ("document", "said", "text"),
    [
        ("a" * 10**6, "page", "aaaa"),
        ("a " * 500_000, {"field": "page", "whole": "words", "longest": 3}, "a a"),
        ('"' * 10**6, "page", '""'),
        ("\\" * 10**6, "page", "\\\\"),
        ("\x01\n" * 500_000, "page", "\n\x01"),
        ("a" * 10**6, {"field": "page", "whole": "sentences"}, "a" * 10**6),
    ],
    ids=lambda given: str(given)[:12],
)
@pytest.mark.share(2)
def test_hostile_documents_cost_little(kind: str, document: str, said: Any, text: str) -> None:
    began = time.process_time()
    constraint = within(document, said)[kind]
    session = constraint.session()
    state = session.advance_bytes(session.start(1), [b'["' if kind == "schema" else b"["])
    for _ in range(50):
        ids = [i for i in session.allowed(state)[1].tolist() if i != 256]
        if not ids:
            break
        state = session.advance(state, ids[-1:])
    if len(text) < 9:
        assert_masks_are_steps(session, state, BYTES)
        quoted = {'""': '\\"\\"', "\\\\": "\\\\\\\\", "\n\x01": "\\n\\u0001"}.get(text, text)
        whole = f'["{quoted}"]' if kind == "schema" else f"[{text},]"
        (verdict,) = text_verdicts(constraint, [whole.encode()])
        assert verdict["valid"] and verdict["members"][0]["text"] == text
        assert constraint.accepts(whole.encode()) is True
    assert time.process_time() - began < 20  # some 2 s; what is quadratic takes hours


def test_the_number_of_tokens_to_an_end_is_bounded() -> None:
    document = "One sentence of words. " * 1000
    loose, whole = (
        within(document, said)["schema"]
        for said in ("page", {"field": "page", "whole": "sentences"})
    )
    fewest = []
    for constraint in (loose, whole):
        session = constraint.session()
        state = session.advance_bytes(session.start(1), [b'["One s'])
        fewest.append(int(session.fewest_tokens(state)[0]))
    assert fewest[0] <= 3 < fewest[1] <= 30 and np.isfinite(fewest).all()
