"""Sources that were typed in the place of an artifact, read as their compile commands read them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.compile_grammar import GRAMMARS, read_grammar
from cdec.cli.compile_regex import REGEXES
from cdec.cli.compile_schema import SCHEMAS
from cdec.cli.compile_set import SETS, EntityJob
from cdec.cli.compile_set import Options as SetOptions
from cdec.cli.compile_spans import SPANS, CorpusJob
from cdec.cli.compile_spans import Options as SpansOptions
from cdec.cli.compiling.jobs import CompileOptions, Job, TextJob
from cdec.cli.compiling.kept import open_kept
from cdec.cli.compiling.sources import MadeFrom, hash_of, read_whole
from cdec.cli.runs.files import require_input
from cdec.compilers.grammars.options import PRECOMPUTE, GrammarOptions, regex_options
from cdec.compilers.grammars.options import UNNAMED as GRAMMAR
from cdec.compilers.schemas.options import UNNAMED as SCHEMA
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.one_line import Source
    from cdec.compilers.sets.corpus import CorpusReport
    from cdec.compilers.sets.options import SetReport
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.errors import Notice
    from cdec.core.sets.spans import SpanOptions
    from cdec.core.tokens.vocabulary import Vocabulary

_CHOICE = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*|((?!")[^,]*))(,|\Z)')
"""One text of a list between commas, in quotes or plain, and what ends it."""


def open_schema(source: Source, run: Run) -> ArtifactFile:
    """Return the artifact of a JSON Schema; raises as ``open_kept``."""
    given: SchemaOptions = source.compiled_with.get("schema") or SchemaOptions()
    data = read_whole(source.value, given.limits.max_schema_bytes, "max_schema_bytes")
    compiled_with = replace(given, name=SCHEMA).for_text(data.decode("utf-8", "replace"))
    job = TextJob(**_shared(source, run), command=SCHEMAS, data=data, compiled_with=compiled_with)
    return open_kept(job, source, called=_called(source))


def open_grammar(source: Source, run: Run) -> ArtifactFile:
    """Return the artifact of a grammar, or of a shipped one; raises as ``open_kept``."""
    given: GrammarOptions = source.compiled_with.get("grammar") or GrammarOptions()
    read = read_grammar(source.value, given.limits.max_grammar_bytes)
    compiled_with = replace(given, name=GRAMMAR, precompute=PRECOMPUTE, format=read.dialect)
    job = TextJob(
        **_shared(source, run), command=GRAMMARS, data=read.data, compiled_with=compiled_with
    )
    return open_kept(job, source, called=_called(source))


def open_regex(source: Source, run: Run) -> ArtifactFile:
    """Return the artifact of a regular expression; raises as ``open_kept``."""
    given: GrammarOptions = source.compiled_with.get("regex") or regex_options()
    compiled_with = replace(given, name=GRAMMAR, precompute=PRECOMPUTE)
    data = source.value.encode()
    job = TextJob(**_shared(source, run), command=REGEXES, data=data, compiled_with=compiled_with)
    return open_kept(job, source)


def open_set(source: Source, run: Run) -> ArtifactFile:
    """Return the artifact of texts that were typed, or of a file of them.

    Raises:
        UsageError: A typed text is empty, or a quote is not closed.
        CdecError: As ``open_kept``.
    """
    shared = _shared(source, run) | {"command": SETS}
    if source.file is None:
        texts = parse_choices(source.value)
        return open_kept(TypedTexts(**shared, entities=texts, digest=hash_of(texts)), source)
    require_input(source.value)
    ending = "".join(Path(source.value).suffixes)
    if source.value == "-" or Path(source.value).is_fifo():
        return open_kept(_read_once(source.value, shared), source, read_as=ending)
    options = SetOptions(source=source.value, **vars(shared.pop("options")))
    limits = options.input_limits
    job = EntityJob(**shared, options=options, called="", deny=[], limits=limits, memory_limit=None)
    return open_kept(job, source, read_as=ending)


def open_spans(source: Source, run: Run) -> ArtifactFile:
    """Return the artifact of the pieces of a file of documents; raises as ``open_kept``."""
    shared = _shared(source, run) | {"command": SPANS}
    require_input(source.value)
    pieces = source.compiled_with["spans"]
    ending = "".join(Path(source.value).suffixes)
    if source.value == "-" or Path(source.value).is_fifo():
        read = _read_once(source.value, shared)
        job = TypedDocuments(**shared, read=read, pieces=pieces)
        return open_kept(job, source, read_as=ending)
    asked = {f"span_{name}": value for name, value in asdict(pieces).items()}
    options = SpansOptions(source=source.value, **asked, **vars(shared.pop("options")))
    return open_kept(CorpusJob(**shared, options=options, called=""), source, read_as=ending)


def _called(source: Source) -> str:
    return "stdin" if source.value == "-" else source.value


def _shared(source: Source, run: Run) -> dict[str, Any]:
    """Return what the jobs of all kinds take; where an artifact goes is not known yet."""
    options = CompileOptions(model=source.model, revision=source.revision, force=True)
    return {"options": options, "run": run, "output": Path()}


@dataclass(frozen=True, kw_only=True)
class TypedTexts(Job):
    """Texts that were typed, or read from what can be read once only.

    Attributes:
        entities: Texts, or batches of a file's.
        digest: Of what they were read from.
        notices: Of reading.
    """

    entities: Sequence[Any]
    digest: str
    notices: Sequence[Notice] = ()

    @property
    def made_from(self) -> MadeFrom:
        """Nothing but the texts decides."""
        return MadeFrom(self.command.kind, {})

    def source_hash(self) -> str:
        """Return the hash of the texts."""
        return self.digest

    def compile(self, vocabulary: Callable[[], Vocabulary]) -> SetReport:
        """Compile the texts; the report has the notices of reading, too."""
        from cdec.compilers.sets.compile import compile_set

        made = self.made_from.recorded(self.digest)
        report = compile_set(
            self.entities, vocabulary(), self.output, made_from=lambda: made, force=True
        )
        return replace(report, notices=[*self.notices, *report.notices])


@dataclass(frozen=True, kw_only=True)
class TypedDocuments(Job):
    """Documents that were read from what can be read once only.

    Attributes:
        read: They.
        pieces: Which pieces are meant.
    """

    read: TypedTexts
    pieces: SpanOptions

    @property
    def made_from(self) -> MadeFrom:
        """The pieces decide, too."""
        return MadeFrom(self.command.kind, asdict(self.pieces))

    def source_hash(self) -> str:
        """Return the hash of the documents."""
        return self.read.digest

    def compile(self, vocabulary: Callable[[], Vocabulary]) -> CorpusReport:
        """Compile the documents; the report has the notices of reading, too."""
        from cdec.compilers.sets.corpus import compile_spans

        read, made = self.read, self.made_from.recorded(self.read.digest)
        report = compile_spans(
            read.entities,
            vocabulary(),
            self.output,
            **asdict(self.pieces),
            made_from=lambda: made,
            force=True,
        )
        return replace(report, notices=[*read.notices, *report.notices])


def _read_once(file: str, shared: Mapping[str, Any]) -> TypedTexts:
    """Return the job of the texts of a pipe."""
    from cdec.data.entities.source import read_entities
    from cdec.data.input.source import SourceStats

    stats = SourceStats(digest=hashlib.sha256())
    entities = list(read_entities(file, stats=stats))
    digest = stats.digest.hexdigest()
    return TypedTexts(**shared, entities=entities, digest=digest, notices=stats.notices)


def parse_choices(text: str) -> tuple[str, ...]:
    """Return the texts of ``--choices``; spaces around them are not theirs.

    Args:
        text: Between commas; a text in double quotes may hold commas, and quotes written twice.

    Raises:
        UsageError: A text is empty, or a quote is not closed.
    """
    found: list[str] = []
    place, ended_by = 0, ","
    while ended_by:
        match = _CHOICE.match(text, place)
        if match is None:
            raise UsageError(
                f"--choices is {text!r}, where the quotes from character {place + 1} on do not "
                "hold one text",
                hint="close them before a comma, and write a quote within quotes twice",
            )
        quoted, plain, ended_by = match.groups()
        found.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        place = match.end()
    if not all(map(str.strip, found)):
        raise UsageError(
            f"--choices is {text!r}, which has an empty text",
            hint="write for example --choices red,green,blue",
        )
    return tuple(found)
