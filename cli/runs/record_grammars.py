"""Grammars that records bring: compiled in the limited child, kept in a bounded cache."""

from __future__ import annotations

import mmap
import re
import tempfile
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cdec.cli.options.grammar_limits import RecordGrammarOptions
from cdec.cli.options.shared import parse_size
from cdec.core.errors import CdecError, Notice

if TYPE_CHECKING:
    from cdec.compilers import ChildCompiler, GrammarLimits
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary

_EBNF_HEAD = re.compile(r"(?:\s|(?:#|//)[^\n]*(?:\n|\Z))*[A-Za-z_][\w.-]*\s*::=")
"""A text whose first rule has such a head is ``::=`` EBNF; Lark's rules have a colon alone."""

_MEMO_BYTES = 32 << 20
"""Of each: many of them are open at once, and each serves few records."""


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """What grammars of records may cost.

    Attributes:
        compiling: For each compilation.
        count: Grammars kept.
        size: Bytes of their artifacts together; the newest is kept whatever its size.
    """

    compiling: GrammarLimits
    count: int = 64
    size: int = 1 << 30

    @classmethod
    def of(cls, options: RecordGrammarOptions) -> CacheLimits:
        """Return the limits that options name.

        Raises:
            UsageError: One is out of range.
        """
        size = parse_size(options.grammar_cache_size, "--grammar-cache-size") or 1
        return cls(options.grammar_limits, options.grammar_cache, size)


class _Entry(NamedTuple):
    """A compiled grammar, or why it is none."""

    constraint: Constraint | CdecError
    size: int


class RecordGrammars:
    """Grammar text → constraint; equal texts share one, so that their records decode together.

    The child process starts with the first grammar. A grammar that could not be compiled is
    remembered as well: a thousand records with one bad grammar cost one compilation.

    Args:
        vocabulary: The model's.
        limits: Of the cache and of each compilation.

    """

    def __init__(self, vocabulary: Vocabulary, limits: CacheLimits) -> None:
        self._notices: dict[str, Notice] = {}
        self._noted: Counter[str] = Counter()
        self._vocabulary = vocabulary
        self._limits = limits
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._child: ChildCompiler | None = None

    def of(self, text: str) -> Constraint:
        """Return the constraint of a grammar.

        Args:
            text: Lark's EBNF, or ``::=`` EBNF, told by the head of the first rule.

        Raises:
            CdecError: As ``compile_grammar``; the same again for the same text.
        """
        entry = self._entries.get(text)
        if entry is None:
            entry = self._compiled(text)
            self._entries[text] = entry
            self._make_room()
        self._entries.move_to_end(text)
        if isinstance(entry.constraint, CdecError):
            raise entry.constraint
        return entry.constraint

    @property
    def notices(self) -> list[Notice]:
        """Warnings about grammars compiled so far: the first of each code, with their number."""
        counted = []
        for code, first in self._notices.items():
            more = self._noted[code] - 1
            message = f"{first.message} (and {more} more grammars)" if more else first.message
            counted.append(replace(first, message=message))
        return counted

    def close(self) -> None:
        """End the child process; what was compiled stays usable."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _compiled(self, text: str) -> _Entry:
        from cdec.compilers import ChildCompiler, GrammarOptions

        if self._child is None:
            self._child = ChildCompiler()
        is_ebnf = _EBNF_HEAD.match(text.removeprefix("\ufeff")) is not None
        options = GrammarOptions(
            dialect="ebnf" if is_ebnf else "lark",
            limits=self._limits.compiling,
            name="field 'grammar'",
        )
        # subtle: the file goes once it is mapped, so nothing is left even by a killed run.
        with tempfile.TemporaryDirectory(prefix="cdec-") as folder:
            path = Path(folder) / "grammar.arrow"
            try:
                report = self._child.compile(text, self._vocabulary, path, options)
            except CdecError as error:
                return _Entry(error, len(text))
            for notice in report.notices:
                self._notices.setdefault(notice.code, notice)
                self._noted[notice.code] += 1
            return _Entry(_open(path, self._vocabulary), report.bytes)

    def _make_room(self) -> None:
        """Forget what was not used for longest; constraints in use live on with their users."""
        total = sum(entry.size for entry in self._entries.values())
        while len(self._entries) > 1 and (
            len(self._entries) > self._limits.count or total > self._limits.size
        ):
            _, oldest = self._entries.popitem(last=False)
            total -= oldest.size


def _open(path: Path, vocabulary: Vocabulary) -> Constraint:
    """Open an artifact that nobody else will: verified, but not remembered in the user's cache."""
    from cdec.core.artifacts.kinds import CONSTRAINTS
    from cdec.core.artifacts.read import verify_bytes

    with path.open("rb") as file:
        mapped: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    verified = verify_bytes(mapped, CONSTRAINTS)
    constraint: Any = CONSTRAINTS[verified.kind].open(verified, vocabulary)
    constraint.memo_bytes = _MEMO_BYTES
    opened: Constraint = constraint
    return opened
