"""compile_schema: a JSON Schema -> an artifact, stage by stage, in this process.

``build_schema`` is the table of contents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from cdec.compilers.deep_calls import deep_calls
from cdec.compilers.report import Clock
from cdec.compilers.schemas.document import Document
from cdec.compilers.schemas.drafts import draft_name
from cdec.compilers.schemas.keywords import arrays, logic, objects, scalars, unevaluated
from cdec.compilers.schemas.keywords.scalars import constant
from cdec.compilers.schemas.noted import note_bytes, note_keywords, refuse_unknown
from cdec.compilers.schemas.options import (
    MAX_WHITESPACE,
    PHASES,
    UNNAMED,
    Escapes,
    Formats,
    NumberRange,
    PropertyOrder,
    SchemaLimits,
    SchemaOptions,
    SchemaReport,
    Whitespace,
)
from cdec.compilers.schemas.program import Emitter, bounded_blanks, no_blanks
from cdec.compilers.schemas.references import Refs, references_of
from cdec.compilers.schemas.sets.expansion import Expansion
from cdec.compilers.schemas.sets.satisfiable import Satisfiable
from cdec.compilers.schemas.source import read_json
from cdec.compilers.schemas.typed.kinds import schema_text
from cdec.compilers.written import writer
from cdec.core.artifacts.write import MADE_FROM_KEY, recorded_metadata
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import EmptyLanguageError
from cdec.core.progress import Progress, silent
from cdec.core.schemas.budgets import require_budgets
from cdec.core.schemas.errors import SchemaUnsupportedError
from cdec.core.schemas.own_keywords import SPAN
from cdec.core.schemas.program import (
    OWN_STYLE,
    SETS_KEY,
    USUAL_ESCAPES,
    arrays_from,
)
from cdec.core.schemas.references import to_json
from cdec.core.schemas.regex_strings import RegexStart
from cdec.core.sets.chosen import MEMBERS_KEY, MemberChoice
from cdec.core.sets.quotes import SpanField
from cdec.core.sets.within import digests_of, pinned_metadata
from cdec.core.token_budgets import BUDGETS_KEY

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

HANDLERS = {
    **scalars.HANDLERS,
    **arrays.HANDLERS,
    **objects.HANDLERS,
    **logic.HANDLERS,
    **unevaluated.HANDLERS,
    **logic.LAST,
}
"""Keywords that decide which values are valid, in the order in which they are met: ``oneOf`` learns
from those before it which of its branches are disjoint."""
_FRAMES_A_LEVEL = 16
"""Calls that a level of brackets takes, in values as in schemas."""
_LAYOUTS: dict[Whitespace, int] = {"usual": OWN_STYLE, "any": 0, "compact": 0, "pretty": 2}
_ESCAPES: dict[Escapes, int] = {"usual": USUAL_ESCAPES, "any": 0}
"""What the program's ``indent`` holds."""


def compile_schema(
    source: Any,
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    lenient: bool = False,
    strict: bool = False,
    property_order: PropertyOrder = "any",
    whitespace: Whitespace = "usual",
    max_whitespace: int = MAX_WHITESPACE,
    escapes: Escapes = "usual",
    formats: Formats = "enforce",
    numbers: NumberRange = "finite",
    refs: Refs = (),
    sets: Mapping[str, Any] = MappingProxyType({}),
    limits: SchemaLimits | None = None,
    name: str = UNNAMED,
    force: bool = False,
    progress: Progress = silent,
) -> SchemaReport:
    """Compile a JSON Schema into an artifact.

    Args:
        source: The schema's text, the schema as a dict or a bool, or a Python type; see
            ``schema_constraint``.
        vocabulary: The tokens; a tokenizer is not needed.
        path: The artifact.
        lenient: Record a keyword that masks cannot enforce where it stands, instead of refusing.
        strict: Refuse keywords that the schema's draft does not know, but for ``x-...``.
        property_order: ``any``, or ``declared``: properties come in the order of ``properties``.
        whitespace: ``usual``: none, one blank after colons and commas, or lines indented by two or
            four blanks or a tab, one style a text; ``any`` within ``max_whitespace``; ``compact``:
            none; ``pretty``: lines indented by two blanks.
        max_whitespace: With ``any``: longest run of white space: as many on a line, line breaks,
            and four times as many of indentation.
        escapes: ``usual``: of printable ASCII only quotes and backslashes are escaped; or ``any``.
        formats: ``annotate`` takes ``format`` for a comment.
        numbers: ``finite``: none that readers of doubles take for infinity or wrongly for 0; or
            ``any``.
        refs: Documents that it may refer to, by URI, or a folder of them, as ``references_of``
            takes them; nothing is fetched.
        sets: Artifacts of sets, opened or by their paths, that alone are to stand within it by
            these names: their digests are recorded. Of other names any set may be given.
        limits: What compiling may cost; ``compile_seconds`` and ``compile_megabytes`` hold in a
            ``ChildCompiler`` only.
        name: Name of the source, recorded and shown, never opened.
        force: Replace an existing file.
        progress: Told when a phase begins.

    Returns:
        What was done. Cost: some milliseconds for schemas of a page.

    Raises:
        SchemaError: What is wrong with the schema, with its JSON pointer.
        InputMissingError: A document to refer to cannot be read.
        EmptyLanguageError: No value satisfies it.
        LimitError: A limit is passed; ``limit`` names it.
        OutputExistsError, OutputError: The artifact cannot be written.
        UsageError: An option that does not exist.
    """
    limits = limits or SchemaLimits()
    options = SchemaOptions(
        lenient=lenient,
        strict=strict,
        property_order=property_order,
        whitespace=whitespace,
        max_whitespace=max_whitespace,
        escapes=escapes,
        formats=formats,
        numbers=numbers,
        references=references_of(refs, limits),
        set_digests=digests_of(sets),
        limits=limits,
        name=name,
    )
    text = schema_text(source)
    return compile_with(text, vocabulary, path, options, force=force, progress=progress)


def build_schema(
    source: str | bytes,
    vocabulary: Vocabulary,
    options: SchemaOptions,
    path: Path,
    progress: Progress = silent,
) -> tuple[dict[str, NDArray[Any]], dict[str, str], SchemaReport]:
    """Compile a JSON Schema in memory.

    Returns:
        The columns, the metadata and the report of an artifact that is not written yet; ``path`` is
        only noted in the report.

    Raises:
        SchemaError, EmptyLanguageError, LimitError: As ``compile_schema``.
    """
    try:
        with deep_calls(2 * options.limits.max_nesting, _FRAMES_A_LEVEL):
            return _built(source, vocabulary, options, path, progress)
    except RecursionError:
        raise LimitError(
            "values or references of the schema lead deeper than `max_nesting` lets them",
            hint="raise `max_nesting`, or nest less",
            limit="max_nesting",
        ) from None


compile_with = writer("schema", build_schema, PHASES)


def _built(
    source: str | bytes,
    vocabulary: Vocabulary,
    options: SchemaOptions,
    path: Path,
    progress: Progress,
) -> tuple[dict[str, NDArray[Any]], dict[str, str], SchemaReport]:
    report = SchemaReport(path)
    clock = Clock(report, PHASES, progress)
    with clock.phase("read"):
        value, text = read_json(source, options.limits)
        document = Document(value, options.limits, options.references, text)
        report.draft = draft_name(document.draft)
        if options.strict:
            refuse_unknown(document)
    with clock.phase("expand"):
        expansion = Expansion(document, options, HANDLERS, constant)
        satisfiable = Satisfiable(expansion)
        root = expansion.goals.of(document.root)
        if not satisfiable(root):
            raise EmptyLanguageError(
                "no JSON value satisfies the schema",
                hint="look for keywords that contradict, or for numbers that no double can hold",
            )
    with clock.phase("emit"):
        emitter = Emitter(expansion, satisfiable)
        emitter.emit(root)
        is_any = options.whitespace == "any"
        blanks = bounded_blanks(options.max_whitespace) if is_any else no_blanks()
        layout = _LAYOUTS[options.whitespace] | _ESCAPES[options.escapes]
        members = emitter.held_members()
        columns = emitter.columns.arrays(blanks, layout, vocabulary)
    note_keywords(report, document, expansion, columns)
    note_bytes(report, vocabulary, layout)
    report.references = [
        {"uri": uri, "file": one.file, "digest": one.digest} for one, uri in document.used.items()
    ]
    metadata = _metadata(text, vocabulary, options, report)
    if document.used:
        # In their order, which decides what a URI finds.
        known = document.used
        used = [one._replace(uri=known[one]) for one in options.references if one in known]
        metadata["cdec.references"] = to_json(used)
    metadata |= _of_members(members, options)
    if emitter.columns.budgets:
        metadata[BUDGETS_KEY] = json.dumps(emitter.columns.budgets)
        require_budgets(arrays_from(columns), metadata, vocabulary)
    return columns, metadata, report


def _of_members(
    choices: Sequence[MemberChoice | RegexStart], options: SchemaOptions
) -> dict[str, str]:
    """Return the metadata of what strings are members of."""
    sets = _listed(choices)
    metadata = {SETS_KEY: json.dumps(sets)} if sets else {}
    if any(not choice.is_plain for choice in choices):
        metadata[MEMBERS_KEY] = json.dumps([choice.to_json() for choice in choices])
    names = [one if isinstance(one, str) else str(SpanField.from_json(one)) for one in sets]
    return metadata | pinned_metadata(options.set_digests, names)


def _listed(choices: Iterable[MemberChoice | RegexStart]) -> list[Any]:
    """Return the sets and fields of documents that strings are members of, JSON-ready.

    Raises:
        SchemaUnsupportedError: A set and a field of documents have one name.
    """
    found: dict[str, str | SpanField] = {}
    for one in (named for choice in choices for named in (*choice.sets, *choice.without)):
        if found.setdefault(str(one), one) != one:
            raise SchemaUnsupportedError(
                f"a set and a field of documents are both called {str(one)!r}",
                hint="give the set another name",
                keyword=SPAN,
            )
    return [one if isinstance(one, str) else one.to_json() for one in found.values()]


def _metadata(
    text: str, vocabulary: Vocabulary, options: SchemaOptions, report: SchemaReport
) -> dict[str, str]:
    """Return the metadata of a schema's artifact; masks depend on the tokens' bytes alone."""
    decided = {
        "draft": report.draft,
        "lenient": options.lenient,
        "property_order": options.property_order,
        "whitespace": options.whitespace,
        "max_whitespace": options.max_whitespace,
        "escapes": options.escapes,
        "formats": options.formats,
        "numbers": options.numbers,
    }
    digest = hashlib.sha256(text.encode()).hexdigest()
    metadata = {
        **recorded_metadata(vocabulary, options.name, digest, decided, report.counts),
        "cdec.sound": "1" if report.is_sound else "0",
        "cdec.sound_reason": report.sound_reason,
        "cdec.schema": text,
        "cdec.unenforced": json.dumps(report.unenforced),
    }
    if options.made_from:
        metadata[MADE_FROM_KEY] = options.made_from
    return metadata
