"""Grammar texts as constraints: compiled in the limited child, kept in a bounded cache."""

from __future__ import annotations

import mmap
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.compilers.grammars.child.compiler import ChildCompiler
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import MAX_WHITESPACE, GrammarOptions
from cdec.compilers.kept import KeptConstraints
from cdec.core.artifacts.kinds import open_bytes
from cdec.core.errors import Notice
from cdec.core.notices import FirstOfEach

if TYPE_CHECKING:
    from typing import Self

    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary

_EBNF_HEAD = re.compile(r"(?:\s|(?:#|//)[^\n]*(?:\n|\Z))*[A-Za-z_][\w.-]*\s*::=")
"""A text whose first rule has such a head is ``::=`` EBNF; Lark's rules have a colon alone."""

_MEMO_BYTES = 32 << 20
"""Of each: many of them are open at once, and each serves few texts."""


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """What constraints given as texts may cost.

    Attributes:
        compiling: For each compilation of a grammar.
        count: Constraints kept.
        size: Bytes of their artifacts together; the newest is kept whatever its size.
        max_whitespace: Longest run of blanks that they ignore; None for any.
    """

    compiling: GrammarLimits = field(default_factory=GrammarLimits)
    count: int = 64
    size: int = 1 << 30
    max_whitespace: int | None = MAX_WHITESPACE


class GrammarCache:
    """Grammar text → constraint; equal texts share one, so that their draws share sessions.

    The child process starts with the first grammar. A grammar that could not be compiled is
    remembered as well: a thousand records with one bad grammar cost one compilation.

    A context manager: the child process ends with it, and what was compiled stays usable.

    Args:
        vocabulary: Of the model that will draw.
        limits: Of the cache and of each compilation.
        name: What errors call a grammar.
        kept: Holds what was compiled, within its own limits; None makes one of ``limits``.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        limits: CacheLimits | None = None,
        *,
        name: str = "grammar",
        kept: KeptConstraints | None = None,
    ) -> None:
        self._notices = FirstOfEach("grammars")
        self._vocabulary = vocabulary
        self._limits = limits or CacheLimits()
        self._name = name
        self._kept = kept or KeptConstraints(self._limits.count, self._limits.size)
        self._child: ChildCompiler | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def of(self, text: str) -> Constraint:
        """Return the constraint of a grammar.

        Args:
            text: Lark's EBNF, or ``::=`` EBNF, told by the head of the first rule.

        Raises:
            CdecError: As ``compile_grammar``; the same again for the same text.
        """
        return self._kept.get(text, lambda: self._compiled(text))

    def take_notices(self) -> list[Notice]:
        """Return the warnings since the last call: the first of each code, with their number."""
        return self._notices.take()

    def close(self) -> None:
        """End the child process; what was compiled stays usable."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _compiled(self, text: str) -> tuple[Constraint, int]:
        if self._child is None:
            self._child = ChildCompiler()
        is_ebnf = _EBNF_HEAD.match(text.removeprefix("\ufeff")) is not None
        options = GrammarOptions(
            format="ebnf" if is_ebnf else "lark",
            limits=self._limits.compiling,
            name=self._name,
            max_whitespace=self._limits.max_whitespace,
            precompute=0,
        )
        # subtle: the file goes once it is mapped, so nothing is left even by a killed run.
        with tempfile.TemporaryDirectory(prefix="cdec-") as folder:
            path = Path(folder) / "grammar.arrow"
            report = self._child.compile(text, self._vocabulary, path, options)
            for notice in report.notices:
                self._notices.add(notice)
            return _open(path, self._vocabulary), report.bytes


def _open(path: Path, vocabulary: Vocabulary) -> Constraint:
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    constraint = open_bytes(mapped, vocabulary)
    constraint.memo_bytes = _MEMO_BYTES
    return constraint
