"""Quotes within schemas and grammars: the pieces of a record's document as member texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from cdec.core.constraint import Constraint
from cdec.core.errors import FieldError, UsageError
from cdec.core.native import library
from cdec.core.session import DEAD
from cdec.core.sets.spans import SpanConstraint, SpanOptions
from cdec.core.sets.within import Adder, MemberTexts, count_texts, quoted
from cdec.core.tokens.vocabulary import BYTES


@dataclass(frozen=True, slots=True)
class SpanField:
    """Pieces, verbatim, of what a field of a record holds.

    Attributes:
        name: Of the field.
        options: Which pieces.
    """

    name: str
    options: SpanOptions = field(default_factory=SpanOptions)

    @classmethod
    def from_json(cls, value: object) -> SpanField:
        """Return what a schema or an artifact says: the field's name, or an object of options.

        Raises:
            UsageError: It is neither, or makes no sense.
        """
        given = {"field": value} if isinstance(value, str) else value
        if not isinstance(given, Mapping) or not set(given) <= _KEYS:
            raise UsageError(
                f"spans are of a field, or an object of {', '.join(sorted(_KEYS))}; "
                f"found {value!r:.80}"
            )
        name, numbers = given.get("field"), [given.get("shortest"), given.get("longest")]
        if not isinstance(name, str) or not name:
            raise UsageError(f"spans are of a field by its name; found {name!r:.80}")
        if not all(number is None or type(number) is int for number in numbers):
            raise UsageError("`shortest` and `longest` of spans are whole numbers of words")
        return cls(name, SpanOptions(given.get("whole"), *numbers))

    def to_json(self) -> dict[str, Any]:
        """Return an object of the options that are given."""
        asked = {name: value for name, value in asdict(self.options).items() if value is not None}
        return {"field": self.name, **asked}

    def __str__(self) -> str:
        """Name them in words: the field, and which pieces."""
        _, *asked = [f"{name} {value}" for name, value in self.to_json().items()]
        return f"{self.name} ({', '.join(asked)})" if asked else self.name

    def of(self, record: Mapping[str, Any]) -> str:
        """Return the document of a record.

        Raises:
            FieldError: The record has no such field, or it holds no text.
        """
        document = record.get(self.name)
        if isinstance(document, str):
            return document
        what = "holds no text in its field" if self.name in record else "has no field"
        raise FieldError(
            f"the record {what} {self.name!r}, of which its texts are pieces",
            hint="give it the document's text, or a constraint of its own",
            field=self.name,
        )


def quoted_fields(constraint: Constraint, asked: Mapping[str, SpanField]) -> dict[str, SpanField]:
    """Return the sets within a constraint that are pieces of records' documents, and of what.

    Args:
        constraint: Any.
        asked: What a run says of sets, by name; what the constraint itself says counts first.
    """
    named = {name: asked[name] for name in constraint.set_names if name in asked}
    own = {name: SpanField.from_json(of) for name, of in constraint.span_fields.items()}
    return named | own


_KEYS = {"field", "whole", "shortest", "longest"}


class DocumentPieces(MemberTexts):
    """The pieces of a document as member texts.

    Args:
        document: Text.
        of: The record's field that holds it, and which pieces.

    Raises:
        EmptySetError, EncodingError, LimitError, UsageError: As ``SpanConstraint``; its cost.
    """

    noun = "quote"

    def __init__(self, document: str, of: SpanField) -> None:
        self.pieces = SpanConstraint(document, BYTES, of.options, of.name)
        self._session = self.pieces.on_host()

    def add(self, add_trie: Adder, add_document: Adder, *_: Adder) -> object:
        held = library.hold_spans(self.pieces.view)
        add_document(held)
        return held

    @property
    def longest(self) -> int:
        view = self.pieces.view
        return int(view.length.max()) if len(view.length) else len(view.data) - 1

    @cached_property
    def n_texts(self) -> int | None:
        return count_texts(self._each_piece())

    def _each_piece(self) -> Iterator[bytes]:
        """Yield the pieces that begin at each place, all but some that did before."""
        view, data = self.pieces.view, self.pieces.view.data.tobytes()
        is_any, before = self.pieces.options == SpanOptions(), b""
        for row, begin in enumerate(view.begin.tolist()):
            stop = begin + int(view.length[row]) if len(view.length) else len(data) - 1
            first = int(view.least[row]) if len(view.least) else begin + 1
            if is_any:
                whole = data[begin:stop]
                first = begin + _shared(before, whole) + 1
                before = whole
            for end in range(first, stop + 1):
                if view.ends[end] if len(view.ends) else data[end] & 0xC0 != 0x80:
                    yield data[begin:end]

    def holds(self, text: bytes) -> bool | None:
        return self.pieces.accepts(text)

    def begins(self, text: bytes) -> bool:
        return int(self._session.advance_bytes(self._session.start(1), [text])[0]) != DEAD

    def record(self, text: str) -> dict[str, Any] | None:
        said = self.pieces.annotations(text.encode("utf-8", "surrogatepass"))
        return {**said, "text": text} if said else None

    def refusal(self, name: str, text: str, ends: bool) -> str:
        return f"no piece of {name} {quoted(text, ends)}"


def _shared(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts have in common at their beginnings."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low
