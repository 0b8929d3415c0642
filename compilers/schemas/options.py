"""Options of compiling a JSON Schema, checked, and the report of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from cdec.compilers.kinds import SourceOptions
from cdec.compilers.report import SourceReport
from cdec.core.errors import UsageError
from cdec.core.options import check_limits, limit
from cdec.core.schemas.references import Reference, References

if TYPE_CHECKING:
    from typing import Self

PropertyOrder: TypeAlias = Literal["any", "declared"]
Whitespace: TypeAlias = Literal["usual", "any", "compact", "pretty"]
Escapes: TypeAlias = Literal["usual", "any"]
Formats: TypeAlias = Literal["enforce", "annotate"]
NumberRange: TypeAlias = Literal["finite", "any"]

MAX_WHITESPACE = 8
"""Longest run of white space between JSON's tokens unless another is asked for."""
MAX_RUN = 1000
UNNAMED = "<schema>"
"""Name of a source that has none."""
PHASES = {
    "read": "reading the schema",
    "expand": "expanding the schema",
    "emit": "building automata",
    "write": "writing",
}
"""Every phase in its order, and what progress calls it."""


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """Limits of compiling a JSON Schema; passing one is a ``LimitError`` that names it.

    ``compile_seconds`` and ``compile_megabytes`` (above what an idle process needs) bound the child
    process of a ``ChildCompiler``.

    Raises:
        UsageError: One is out of bounds.
    """

    max_schema_bytes: int = limit(8 << 20, "Longest schema text, bytes.", unit="bytes")
    max_reference_bytes: int = limit(
        64 << 20, "All documents that schemas may refer to, together.", unit="bytes"
    )
    max_nesting: int = limit(200, "Brackets within brackets.")
    max_repeat: int = limit(
        100_000, "Largest number of items, properties or characters that a schema demands."
    )
    max_alternatives: int = limit(
        5_000, "Most alternatives of one value, once anyOf, oneOf and allOf are multiplied out."
    )
    max_values: int = limit(50_000, "Most different kinds of value within the texts.")
    max_states: int = limit(2_000_000, "Most states of all automata.")
    compile_seconds: float = limit(
        60.0, "CPU seconds for one schema.", unit="seconds", at_least=0.1
    )
    compile_megabytes: int = limit(2048, "Memory for one schema.", unit="MiB")

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(slots=True)
class SchemaReport(SourceReport):
    """Report of a schema compilation.

    Attributes, beside those of every report:
        draft: Of JSON Schema, as ``$schema`` says: ``2020-12``, ``draft-07`` and so on.
        unenforced: Keywords that masks do not enforce, each an object with ``path`` (JSON pointer),
            ``keyword`` and ``reason``; empty unless compiled leniently.
        is_sound: After every allowed token the text still has a completion.
        sound_reason: What proves it, or what stood in the way.
        references: The documents that it refers to, each an object with ``uri``, ``file`` and
            ``digest`` (SHA-256).
        costs: What each keyword took, by keyword: ``uses``, ``seconds``, ``alternatives``.
    """

    draft: str = ""
    unenforced: list[dict[str, str]] = field(default_factory=list)
    references: list[dict[str, str]] = field(default_factory=list)
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    is_sound: bool = True
    sound_reason: str = "every state that can be reached has a completion by construction"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOptions(SourceOptions[SchemaReport]):
    """Options of a schema compilation.

    Attributes:
        lenient: Record a keyword that masks cannot enforce where it stands, instead of refusing.
        property_order: ``any``; ``declared``: properties come in the order of ``properties``, and
            those that are not named there after them.
        whitespace: ``usual``: as writers of JSON have it, in one style a text: none, one blank
            after colons and commas, or lines indented by two or four blanks or a tab; ``any``
            within a bound; ``compact``: none; ``pretty``: lines indented by two blanks, as
            ``json.dumps(indent=2)`` writes them.
        escapes: ``usual``: of printable ASCII only quotes and backslashes are escaped, as ``\\"``
            and ``\\\\``; ``any``: every character may be.
        max_whitespace: With ``any``: longest run of white space: as many on a line, line breaks,
            and four times as many of indentation.
        strict: Refuse keywords that the schema's draft does not know, but for those that begin with
            ``x-``, instead of taking them for comments with a warning.
        formats: ``annotate`` takes ``format`` for a comment, as the standard allows.
        numbers: ``finite``: none that readers of doubles take for infinity or, but for 0 itself,
            for 0; ``any``: all that JSON can spell.
        references: The documents that it may refer to, as ``references_of`` reads them.
        set_digests: Digests that the artifacts of sets within must have, by name; of others any.
        limits: What compiling may cost.
        name: Name of the source, recorded and shown, never opened.
        made_from: What the artifact records of its making; empty for nothing.

    Raises:
        UsageError: A value that does not exist or is out of bounds.
    """

    source: ClassVar[str] = "schema"
    report: ClassVar[type[SchemaReport]] = SchemaReport

    lenient: bool = False
    strict: bool = False
    property_order: PropertyOrder = "any"
    whitespace: Whitespace = "usual"
    max_whitespace: int = MAX_WHITESPACE
    escapes: Escapes = "usual"
    formats: Formats = "enforce"
    numbers: NumberRange = "finite"
    references: tuple[Reference, ...] = ()
    set_digests: tuple[tuple[str, str], ...] = ()
    limits: SchemaLimits = field(default_factory=SchemaLimits)
    name: str = UNNAMED
    made_from: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.max_whitespace <= MAX_RUN:
            raise UsageError(
                f"`max_whitespace` is {self.max_whitespace}, expected 0 to {MAX_RUN:,}",
                field="max_whitespace",
            )
        for what, value, choices in (
            ("property_order", self.property_order, get_args(PropertyOrder)),
            ("whitespace", self.whitespace, get_args(Whitespace)),
            ("escapes", self.escapes, get_args(Escapes)),
            ("formats", self.formats, get_args(Formats)),
            ("numbers", self.numbers, get_args(NumberRange)),
        ):
            if value not in choices:
                known = ", ".join(choices)
                raise UsageError(f"`{what}` is {value!r}, expected one of {known}", field=what)

    @classmethod
    def _restored(cls, values: dict[str, Any]) -> dict[str, Any]:
        return values | {
            "references": tuple(Reference(*one) for one in values["references"]),
            "set_digests": tuple(map(tuple, values["set_digests"])),
        }

    def deciding(self) -> dict[str, Any]:
        # Of documents the digests decide.
        decided = SourceOptions.deciding(replace(self, references=()))
        decided["refs"] = [[one.uri or one.tail, one.digest] for one in self.references]
        del decided["references"]
        return decided

    def for_text(self, text: str) -> Self:
        # What a text cannot lead to decides nothing, and need not be sent anywhere.
        return replace(self, references=References(self.references).near(text))
