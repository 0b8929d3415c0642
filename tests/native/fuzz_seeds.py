"""Seeds of the fuzzers in ``native/fuzz``: what Python hands the library for small constraints.

    python -m tests.native.fuzz_seeds FOLDER

Writes ``set``, ``grammar`` and ``schema``, as ``native/fuzz/forged.h`` reads them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from cdec.core import native
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary
from tests.native.test_threads import constraint_of

MADE_BY = {
    "set": "hold_trie",
    "grammar": "grammar_engine_make",
    "schema": "schema_engine_make",
}
"""The function whose arguments are the seed, by kind of artifact."""


class _Recorded:
    """The library, whose call of one function is kept."""

    def __init__(self, name: str) -> None:
        self._name, self._library = name, native.library
        self.arguments: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self._library, name)

        def kept(*arguments: Any) -> Any:
            self.arguments = arguments
            return function(*arguments)

        return kept if name == self._name else function


def arguments_of(kind: str, vocabulary: Vocabulary) -> tuple[Any, ...]:
    """Return what a session of a small constraint of some kind hands the library."""
    constraint_of(kind, vocabulary).session("cpu").start(1)  # imports what is patched
    recorded = _Recorded(MADE_BY[kind])
    users = [
        module
        for name, module in sys.modules.items()
        if name.startswith("cdec.") and vars(module).get("library") is native.library
    ]
    constraint = constraint_of(kind, vocabulary)
    for module in users:
        patch.object(module, "library", recorded).start()
    try:
        constraint.session("cpu").start(1)
    finally:
        patch.stopall()
    return recorded.arguments


def packed(arguments: tuple[Any, ...]) -> bytes:
    """Write arguments, each an array, a number or a tuple of both."""
    words: list[bytes] = [np.int64(len(arguments)).tobytes()]
    for argument in arguments:
        fields = argument if isinstance(argument, tuple) else (argument,)
        words.append(np.int64(len(fields)).tobytes())
        for field in fields:
            if isinstance(field, np.ndarray):
                head = (field.itemsize, field.ndim, *field.shape)
                words += [np.array(head, np.int64).tobytes(), field.tobytes()]
            else:
                words.append(np.array([-1, int(field)], np.int64).tobytes())
    return b"".join(words)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = Vocabulary.from_tokenizer("embedded")
    more = {"grammar": (TokenTrie.of(vocabulary).arrays(),)}
    for kind in MADE_BY:
        arguments = (*arguments_of(kind, vocabulary), *more.get(kind, ()))
        (folder / kind).write_bytes(packed(arguments))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
