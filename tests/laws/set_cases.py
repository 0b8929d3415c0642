"""Member texts within schemas and grammars: of sets that are hard to write, and of documents."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from cdec.compilers import compile_token_set, corpus_constraint
from cdec.core.artifacts.opened import open_artifact
from cdec.core.sets.quotes import DocumentPieces, SpanField
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.spans import SpanOptions
from cdec.core.tokens.vocabulary import BYTES, Vocabulary

HARD = (
    *("Paris", "Paris 2", "Par", "Zürich", "é", "\U0001f600x", "\U0001f601"),
    *('a"b', "a\\c", "tab\t", "\x01", "", "/x", "\x7f", "Z"),
)
"""A member within another, quotes, backslashes, control characters, beyond the BMP, empty."""
BRIDGES = (
    *(b'"P', b"Par", b'is"', b'is","', b'": "', b'{"c": "P', b'ris 2"}', b"\\u", b"\\u00", b"00e9"),
    *(b"\\ud83d\\ude", b'\xc3\xa9"', b'a\\"', b'"}', b'", "d": "', b'\\u0001"', b"\\t", b'x"'),
    *(b"\xf0\x9f", b" 2", b"is ", b"r "),
)
"""Tokens that run across the ends of such members in JSON."""


def set_of(*texts: str, vocabulary: Vocabulary = BYTES, ids: Sequence[str] = ()) -> SetConstraint:
    """Return the set of some texts, whose tokens are those of a vocabulary with every byte."""
    by_bytes = {piece: token for token, piece in enumerate(vocabulary.token_bytes)}
    rows = [[by_bytes[bytes([byte])] for byte in text.encode()] for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "set.arrow")
        compile_token_set(rows, vocabulary, path, keep_empty=True)
        opened = open_artifact(path, vocabulary=vocabulary, copy=True)
    assert isinstance(opened, SetConstraint)
    return opened


WORD = re.compile(r"\w+(?:['’-]\w+)*")


def pieces(text: str, options: SpanOptions) -> set[str]:
    """Return all pieces that are meant, by trying every pair of places."""
    words = [match.span() for match in WORD.finditer(text)]
    found = set()
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            touched = sum(begin < end and stop > start for begin, stop in words)
            is_whole = options.whole != "words" or (
                any(begin == start for begin, _ in words) and any(stop == end for _, stop in words)
            )
            few, many = options.shortest or 0, options.longest or len(text)
            if is_whole and few <= touched <= many:
                found.add(text[start:end])
    return found


class MemberCase(NamedTuple):
    """Member texts: what a schema says, by which name they are given, what is given, which."""

    schema: dict[str, Any]
    name: str
    given: Any
    texts: tuple[str, ...]


def set_case(*texts: str) -> MemberCase:
    """Return the members of a set."""
    return MemberCase(
        {"type": "string", "x-cdec-set": "cities"}, "cities", set_of(*texts), tuple(texts)
    )


def document_case(document: str, options: SpanOptions | None = None) -> MemberCase:
    """Return the pieces of a document."""
    of = SpanField("page", options or SpanOptions())
    said = of.to_json() if options else of.name
    texts = tuple(sorted(pieces(document, of.options)))
    given = DocumentPieces(document, of)
    return MemberCase({"type": "string", "x-cdec-span-of": said}, str(of), given, texts)


def corpus_case(*documents: str, options: SpanOptions = SpanOptions()) -> MemberCase:
    """Return the pieces of the documents of a corpus, compiled for another vocabulary."""
    asked = asdict(options)
    corpus = corpus_constraint(
        documents, Vocabulary([*BYTES.token_bytes, b"", b"ab"], [256]), **asked
    )
    texts = tuple(sorted(set[str]().union(*(pieces(text, options) for text in documents))))
    return MemberCase({"type": "string", "x-cdec-set": "pages"}, "pages", corpus, texts)


CASES = {
    "set": set_case(*HARD),
    "document": document_case('Par a"b\\c\t\x01'),
    "document of far characters": document_case("é\U0001f600é\U0001f601/\x7f"),
    "whole words of a document": document_case(
        "Zürich, Paris 2 é\n'Paris' x", SpanOptions("words", longest=3)
    ),
    "documents of a corpus": corpus_case('Par a"b', "é\\c", "\t Par"),
}
"""Member texts that are hard to write, by what lists them."""
