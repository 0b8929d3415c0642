"""Sets that stand within schemas and grammars, and members that are hard to write."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from cdec.compilers import compile_token_set
from cdec.core.artifacts.opened import open_artifact
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.spelled import BYTES
from cdec.core.tokens.vocabulary import Vocabulary

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
