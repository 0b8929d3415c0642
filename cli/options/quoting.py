"""Options of documents that records bring, whose pieces texts are or hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cdec.cli.frame.declaration import option
from cdec.cli.options.shared import CONSTRAINT, THE_CONSTRAINT, parse_pairs, refuse_unused

if TYPE_CHECKING:
    from cdec.core.sets.quotes import SpanField
    from cdec.core.sets.spans import SpanOptions


@dataclass(frozen=True, kw_only=True)
class _SpanFields:
    """Fields of records that hold documents."""

    span_of: str | None = option(
        None,
        "Field of the records that holds a document: texts are pieces of it, verbatim, in the "
        "place of an artifact.",
        CONSTRAINT,
        metavar="FIELD",
        one_of=THE_CONSTRAINT,
        decides=True,
    )
    span: list[str] = option(
        [],
        "Set within a schema or grammar that is pieces, verbatim, of a field of the records; "
        "repeatable.",
        CONSTRAINT,
        metavar="NAME=FIELD",
        decides=True,
    )


@dataclass(frozen=True, kw_only=True)
class PieceOptions:
    """Which pieces of documents are meant."""

    span_whole: Literal["words", "sentences"] | None = option(
        None,
        "Pieces are whole words, or whole sentences; of any characters if not given.",
        CONSTRAINT,
        decides=True,
    )
    span_shortest: int | None = option(
        None,
        "Fewest words that a piece touches.",
        CONSTRAINT,
        metavar="WORDS",
        at_least=1,
        decides=True,
    )
    span_longest: int | None = option(
        None,
        "Most words that a piece touches.",
        CONSTRAINT,
        metavar="WORDS",
        at_least=1,
        decides=True,
    )

    @property
    def pieces(self) -> SpanOptions:
        """What is asked.

        Raises:
            UsageError: More words at least than at most.
        """
        from cdec.core.sets.spans import SpanOptions

        return SpanOptions(self.span_whole, self.span_shortest, self.span_longest)


@dataclass(frozen=True, kw_only=True)
class SpanOfOptions(PieceOptions, _SpanFields):
    """Documents of records whose pieces texts are or hold, and which pieces."""

    @property
    def spans(self) -> SpanField | None:
        """What is asked; None for nothing.

        Raises:
            UsageError: More words at least than at most.
        """
        return None if self.span_of is None else self._field(self.span_of)

    @property
    def quotes(self) -> dict[str, SpanField]:
        """Names of sets within constraints, and whose pieces they are.

        Raises:
            UsageError: A ``--span`` that is no NAME=FIELD, or a name given twice.
        """
        return {name: self._field(of) for name, of in parse_pairs(self.span, "--span").items()}

    @property
    def given(self) -> dict[str, bool]:
        """What says what texts are held to, by its words: whether it was given."""
        return {"--span-of": self.span_of is not None}

    def refuse_unused(self, typed: frozenset[str], corpus: str | None = None) -> None:
        """Refuse what says which pieces are meant where none are.

        Args:
            typed: Options that stood on the command line.
            corpus: File of documents in the place of an artifact; None for none.

        Raises:
            UsageError: Such an option was typed.
        """
        if self.span_of is None and not self.span and corpus is None:
            names = ("span_whole", "span_shortest", "span_longest")
            refuse_unused(names, typed, "without --span-of, --span or --spans-of")

    def _field(self, name: str) -> SpanField:
        from cdec.core.sets.quotes import SpanField

        return SpanField(name, self.pieces)
