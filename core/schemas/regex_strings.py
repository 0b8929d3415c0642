"""Regular expressions as strings of a schema: where they begin, and what engines read of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cdec.core.native import library
from cdec.core.schemas.regexes import tables
from cdec.core.sets.known_rows import Part
from cdec.core.sets.quotes import SpanField
from cdec.core.sets.within import Adder, quoted


@dataclass(frozen=True, slots=True)
class RegexStart:
    """Expressions that an automaton of a schema's program accepts as well, from a state on.

    Stands among the ``MemberChoice`` of a schema: it is of no set, and never empty.
    """

    start: int

    sets: ClassVar[tuple[str | SpanField, ...]] = ()
    names: ClassVar[tuple[str, ...]] = ()
    without: ClassVar[tuple[str, ...]] = ()
    is_plain: ClassVar[bool] = False

    @classmethod
    def from_json(cls, value: object) -> RegexStart | None:
        """Return what an artifact says; None where it speaks of something else."""
        if not isinstance(value, dict) or set(value) != {"format", "start"}:
            return None
        start = value["start"]
        return cls(start) if value["format"] == "regex" and type(start) is int else None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The automaton, of any number of characters."""
        return ((self.start, 0, -1),)

    def of(self, _sets: object, _automata: object) -> RegexTexts:
        """Return what engines read of them."""
        return RegexTexts(self)

    def to_json(self) -> dict[str, object]:
        """Return what ``from_json`` reads."""
        return {"format": "regex", "start": self.start}

    def __str__(self) -> str:
        return f"regular expressions, from state {self.start}"


class RegexTexts:
    """Regular expressions as strings of a schema: of ``MemberTexts`` what schemas ask of these.

    Attributes:
        n_texts: None: more than one text can hold.
    """

    noun = "regex"
    n_texts = None

    def __init__(self, at: RegexStart) -> None:
        self._start = at.start

    def add(self, _add_trie: Adder, _add_document: Adder, add_regexes: Adder) -> object:
        """Add them to an engine; return what must live as long as it."""
        held = library.hold_regexes(tables())
        add_regexes(self._start, held)
        return held

    def record(self, _text: str) -> None:
        """Return what records say of a member: nothing."""

    def leaves_out(self, _text: bytes) -> bool:
        """Say that nothing is left out."""
        return False

    def refusal(self, _name: str, text: str, ends: bool) -> str:
        """Return why a text is none, as a clause."""
        found = quoted(text, ends)
        return f"no regular expression of ECMA-262 (flag u) that may stand here {found}"
