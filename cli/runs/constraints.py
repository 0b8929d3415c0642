"""The constraint specification of a run, read and verified once, before a model loads."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cdec.cli.options.one_line import Source
from cdec.cli.options.record_sources import (
    described_unused,
    record_sources,
    source_fields,
    unused_source_options,
)
from cdec.cli.options.shared import require_utf8
from cdec.cli.runs.artifacts import (
    Found,
    find_artifacts,
    found_artifact,
    optional_artifact,
    parse_named,
    read_artifact,
    require_terminals,
)
from cdec.cli.runs.files import read_denied
from cdec.core.errors import (
    CdecError,
    Notice,
    TokenizerMismatchError,
    UsageError,
    needs_grammar,
)
from cdec.core.progress import Progress, silent
from cdec.core.schemas.own_keywords import span_fields_in
from cdec.integrations.records.settings import DEFAULT, ConstraintSpecification, fields_of_spans

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.constraint import ConstraintOptions
    from cdec.cli.options.model import ModelOptions
    from cdec.cli.options.one_line import OneLineOptions
    from cdec.cli.options.quoting import SpanOfOptions
    from cdec.cli.options.record_sources import RecordSourceOptions
    from cdec.core.files.remote import Place
    from cdec.core.models.language_model import LanguageModel
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.samplers.method import Method


class TakesConstraint(Protocol):
    """Options of a command that holds texts to a constraint."""

    @property
    def artifact(self) -> Place | None:
        """As typed."""

    @property
    def one_line(self) -> OneLineOptions:
        """Sources in its place."""


class Constrained(TakesConstraint, Protocol):
    """Options of a command that holds texts of a model to a constraint."""

    @property
    def loading(self) -> ModelOptions:
        """The model, for which a source is compiled."""

    @property
    def sources(self) -> RecordSourceOptions:
        """How a source is compiled, a record's too."""

    @property
    def quoting(self) -> SpanOfOptions:
        """Which pieces of documents are meant."""


def typed_constraint(options: Constrained, read: Collection[str | None]) -> Place | Source | None:
    """Return the artifact that the command line names, or the source in its place.

    Args:
        options: Of the command.
        read: Its other inputs, ``-`` for stdin.

    Raises:
        UsageError: More than one is given, or a source comes from stdin as an input does.
    """
    return options.one_line.constraint(
        options.artifact,
        is_stdin_read="-" in read,
        model=options.loading.model,
        revision=options.loading.revision,
        compiled_with={
            **record_sources(options.sources).options,
            "spans": options.quoting.pieces,
        },
    )


def refuse_other_constraints(
    options: TakesConstraint, flag: str, others: Mapping[str, bool]
) -> None:
    """Refuse what says beside ``flag`` what texts are held to.

    Args:
        options: Of the command; its artifact and the sources in its place are such.
        flag: The option that was typed.
        others: Further ones, by their words: whether each was given.

    Raises:
        UsageError: One was.
    """
    beside = {
        "an artifact": options.artifact is not None,
        **others,
        **dict.fromkeys(options.one_line.flags, True),
    }
    for other in (name for name, is_given in beside.items() if is_given):
        raise UsageError(
            f"{other} and {flag} each say what texts are held to",
            hint="give one of them; a further artifact that all texts satisfy is --and",
        )


def named_artifacts(
    artifact: Place | Source | None,
    options: ConstraintOptions,
    quoting: SpanOfOptions | None = None,
) -> ConstraintSpecification:
    """Return what texts are held to, with artifacts as places, those of ``--and`` by their words.

    Args:
        artifact: Of records that name none.
        options: Further ones.
        quoting: Documents of records; None for none.

    Raises:
        UsageError: A ``--constraint`` that is no NAME=ARTIFACT, or an artifact given twice.
    """
    named = parse_named(options.constraint)
    default = {} if artifact is None else {DEFAULT: artifact}
    return ConstraintSpecification(
        named=default | named,
        others=_others(options.conjoined),
        sets=parse_named(options.sets, "--set"),
        spans=None if quoting is None else quoting.spans,
        quotes={} if quoting is None else quoting.quotes,
    )


def document_fields(places: ConstraintSpecification) -> frozenset[str]:
    """Return the fields of records that hold documents, by what is known before files are read."""
    from cdec.core.artifacts.read import peek_metadata

    found = set(places.document_fields)
    for place in [*places.named.values(), *places.others.values()]:
        try:
            if isinstance(place, Path):
                found |= fields_of_spans(peek_metadata(place))
            elif isinstance(place, Source) and place.file is not None and place.kind == "schema":
                found |= span_fields_in(Path(place.file).read_text(encoding="utf-8"))
        except (CdecError, OSError, ValueError):
            continue  # said where it is read
    return frozenset(found)


def _others(paths: Sequence[Place]) -> dict[str, Place]:
    named = {f"--and {path}": path for path in paths}
    if len(named) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"--and names {twice} twice", hint="leave one of them out")
    return named


def read_held(
    places: ConstraintSpecification,
    options: ConstraintOptions,
    run: Run,
    progress: Progress = silent,
) -> ConstraintSpecification:
    """Read and verify what all records of a run are held to.

    Args:
        places: As ``named_artifacts`` returns it.
        options: What is asked of them beside.
        run: What was typed; its console is told of what is compiled.
        progress: Told how much of those of URLs is fetched.

    Raises:
        CdecError: One is missing or damaged, or no constraint.
        UsageError: ``--prefill`` is no UTF-8.
    """
    denied = read_denied(options.deny)
    read = partial(read_artifact, run=run, copy=options.copy, progress=progress)
    return ConstraintSpecification(
        named={name: read(place) for name, place in places.named.items()},
        others={words: read(place) for words, place in places.others.items()},
        sets={name: read(place) for name, place in places.sets.items()},
        spans=places.spans,
        quotes=places.quotes,
        denied=denied,
        lookahead=options.lookahead,
        heal=options.heal,
        fit=options.fit,
        canonical=options.canonical,
        templated=options.templated,
        prefill=require_utf8(options.prefill, "--prefill") if options.prefill else None,
    )


def require_grammars(
    held: ConstraintSpecification,
    method: Method,
    *,
    has_records: bool,
    guessing: str | None = None,
) -> None:
    """Refuse options that need a grammar where the run has none, before a model loads.

    Args:
        held: What all records are held to.
        method: Of the run.
        has_records: Whether there are records, which can bring a grammar.
        guessing: The option by which tokens are guessed from counts, if they are.

    Raises:
        UsageError: An artifact is a set; there is none, and no record can bring one; or a lookahead
            for a method without masks.
    """
    from cdec.core.artifacts.opened import constraint_class

    asked = {"lookahead": held.lookahead is not None, "heal": held.heal}
    parameters = [name for name, is_asked in asked.items() if is_asked]
    parameters += [] if guessing is None else ["draft counts"]
    if not parameters:
        return
    if held.lookahead is not None and not method.masks:
        raise UsageError(
            f"--lookahead means nothing to --method {method.name}, which has no masks",
            hint="leave it out",
        )
    files = [*held.named.values(), *held.others.values()]
    if not has_records and not files:
        raise needs_grammar(parameters[0], "there is no artifact")
    for file in files:
        kind = constraint_class(file.kind).of_kind
        can = {
            "lookahead": kind.has_terminals,
            "heal": kind.takes_bytes,
            "draft counts": kind.has_speculation_keys,
        }
        lacking = [parameter for parameter in parameters if not can[parameter]]
        if lacking:
            raise needs_grammar(lacking[0], f"{file.path} is a {file.kind}", kind.reasons)
        if held.lookahead is not None:
            require_terminals(file)


def unused_sets(held: ConstraintSpecification) -> list[Notice]:
    """Return a warning of sets and spans that are given and that no artifact of the run holds.

    None where there is no artifact: records bring what holds them.
    """
    files = [*held.named.values(), *held.others.values()]
    used = [name for file in files for name in json.loads(file.metadata.get("cdec.sets", "[]"))]
    given = [f"--set {name}" for name in held.sets if name not in used]
    given += [f"--span {name}" for name in held.quotes if name not in used]
    if not files or not given:
        return []
    verb = "name sets" if len(given) > 1 else "names a set"
    said = f"{' and '.join(given)} {verb} that no artifact of the run holds within it"
    return [Notice("W_UNUSED_OPTION", said)]


def require_members(held: ConstraintSpecification, *, has_records: bool) -> None:
    """Refuse free text where no constraint follows it, before a model loads."""
    thinks = held.thinking not in (None, "off")
    if held.tools is not None or held.spans is not None:
        return
    if not (thinks or held.free is not None) or has_records or held.named or held.others:
        return
    raise UsageError(
        "free text ends where a constraint begins, and there is none",
        hint="name the artifact with -a, or leave --after, --between and --thinking out",
    )


_BAD_RECORDS = 64
"""Most bad records that are set aside until one is met that says what it needs."""


def artifact_for_records(
    records: Iterator[PromptRecord | BadRecord],
    run: Run,
    who: str,
    *,
    needed: bool = True,
    but: Collection[Place] = (),
) -> tuple[Iterator[PromptRecord | BadRecord], Path | None]:
    """Return the artifact of a run that names none, unless its records bring what they need.

    The first record that can be read decides; where it brings a constraint of its own, later ones
    without become error objects in their places.

    Args:
        records: Of the input.
        run: What was typed; its console is told.
        who: What needs an artifact, or would be held to it.
        needed: Whether it makes no sense without one; else several are as good as none.
        but: Files that do not count.

    Returns:
        All records, and the artifact; None where they need none.

    Raises:
        UsageError: They need one, and the working directory holds none or several.
    """
    records, first = _first_record(records)
    if first is None or not first.brings_constraint:
        return records, found_artifact(run, who, but=but) if needed else optional_artifact(run)
    if first.candidates is not None:
        _tell_unused(find_artifacts(but=but), run)
    return records, None


def warned_of_unused(
    records: Iterator[PromptRecord | BadRecord], run: Run, given: Sequence[str]
) -> Iterator[PromptRecord | BadRecord]:
    """Return all records; warn where typed options are about nothing that the first brings.

    Args:
        records: Of the input; the first is awaited where such options were typed.
        run: What was typed; its console is told.
        given: Options that give a source in an artifact's place.
    """
    if not source_fields().keys() & run.typed:
        return records
    records, first = _first_record(records)
    if first is None:
        return records
    brought = [*given, *first.sources, *(() if first.candidates is None else ["candidates"])]
    if names := unused_source_options(run.typed, brought):
        said = f"{described_unused(names)}, and the first record brings none"
        run.console.warn([Notice("W_UNUSED_OPTION", said)])
    return records


def _first_record(
    records: Iterator[PromptRecord | BadRecord],
) -> tuple[Iterator[PromptRecord | BadRecord], PromptRecord | None]:
    """Return all records, and the first one that can be read; None where it is far or not there."""
    from cdec.data.prompts.record import PromptRecord

    head: list[PromptRecord | BadRecord] = []
    for record in records:
        head.append(record)
        if isinstance(record, PromptRecord):
            return itertools.chain(head, records), record
        if len(head) == _BAD_RECORDS:
            break
    return itertools.chain(head, records), None


def _tell_unused(found: Found, run: Run) -> None:
    """Say that candidates are not looked up in the folder's artifact, as ids of its entities."""
    if len(found.artifacts) == 1:
        (path,) = found.artifacts
        run.console.note(
            f"artifact: none, as records bring candidates; for those of {path} add -a {path}"
        )


def without_misfit(
    held: ConstraintSpecification, model: LanguageModel, run: Run
) -> ConstraintSpecification:
    """Return a run without the artifact that was found, if it is for another tokenizer.

    Args:
        held: With the artifact that ``optional_artifact`` found, or none.
        model: The run's.
        run: Its console is told.
    """
    from cdec.core.artifacts.opened import require_vocabulary

    file = held.named.get(DEFAULT)
    if file is None:
        return held
    try:
        require_vocabulary(file, model.vocabulary)
    except TokenizerMismatchError:
        run.console.note(f"artifact: none, as {file.path} is for another tokenizer")
        return replace(held, named={})
    return held
