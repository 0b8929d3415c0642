"""``cdec score``: what a model and an artifact say of given texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import CommonOptions, group, option
from cdec.cli.frame.tables import print_json
from cdec.cli.options import shared
from cdec.cli.options.calling import ToolOptions
from cdec.cli.options.constraint import ConstraintOptions, artifact_option
from cdec.cli.options.model import ModelOptions, WarpingOptions
from cdec.cli.options.one_line import OneLineOptions
from cdec.cli.options.quoting import SpanOfOptions
from cdec.cli.options.record_sources import (
    RecordSourceOptions,
    described_unused,
    record_sources,
    unused_source_options,
)
from cdec.cli.options.shared import parse_fields, refuse_terminal, refuse_unused
from cdec.cli.options.texts import TextRecordOptions
from cdec.cli.runs import models
from cdec.cli.runs.artifacts import bind_for, optional_artifact
from cdec.cli.runs.calls import typed_tools
from cdec.cli.runs.constraints import (
    named_artifacts,
    read_held,
    typed_constraint,
    without_misfit,
)
from cdec.cli.runs.files import require_input
from cdec.cli.runs.inputs import ScorePrompts, read_prompt, typed_prompt
from cdec.cli.runs.loop import Loop, arriving
from cdec.cli.runs.models import check_warping, refuse_revision, warping_of
from cdec.cli.runs.tally import Tally
from cdec.cli.runs.tokenizer import loading
from cdec.core.errors import CdecError, UsageError
from cdec.core.files.remote import Place
from cdec.core.record_fields import fields_of
from cdec.data.input.arrivals import never
from cdec.integrations.records.resolver import ConstraintResolver
from cdec.integrations.records.tasks import Task, at_temperatures, prepared
from cdec.samplers.options import DEFAULT_EVALUATIONS
from cdec.samplers.request import MAX_NEW_TOKENS

if TYPE_CHECKING:
    from cdec.cli.frame.console import Console
    from cdec.core.constraint import Constraint
    from cdec.core.models.language_model import LanguageModel, Prompt
    from cdec.data.input.source import InputLimits, SourceStats
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.data.prompts.texts import ScoreRecord
    from cdec.samplers.scoring.score import Score, ScoreRequest
    from cdec.samplers.scoring.spellings import SpellingSums


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec score``, in the order of its help."""

    loading: ModelOptions = group(ModelOptions)
    warping: WarpingOptions = group(WarpingOptions)
    artifact: Place | None = artifact_option()
    one_line: OneLineOptions = group(OneLineOptions)
    calling: ToolOptions = group(ToolOptions)
    held: ConstraintOptions = group(ConstraintOptions)
    quoting: SpanOfOptions = group(SpanOfOptions)
    texts: TextRecordOptions = group(TextRecordOptions)

    max_new_tokens: int | None = option(
        None,
        "Longest member; the set's or the model's own limit if not given.",
        shared.METHOD,
        at_least=MAX_NEW_TOKENS.at_least,
    )
    candidates: int = option(
        0,
        "Masked candidates drawn for each prompt, to narrow the bounds of Q.",
        shared.METHOD,
        metavar="N",
        at_least=0,
    )
    seed: int = option(0, "Of the candidates.", shared.METHOD, at_least=0, at_most=math.inf)
    all_spellings: bool = option(
        False,
        "Also sum P over all token sequences that spell each text, with certified bounds.",
        shared.METHOD,
    )
    max_evaluations: int = option(
        DEFAULT_EVALUATIONS,
        "Most prefixes looked at for the sum of a text; more narrow its bounds.",
        shared.METHOD,
        metavar="N",
        at_least=1,
    )
    prompt: str | None = option(
        None,
        "What stands before the texts of records that have no `prompt`.",
        shared.PROMPTS,
        metavar="TEXT",
        common=True,
    )
    prompt_file: str | None = option(
        None,
        "A file that is this prompt, newlines included; `-` is stdin.",
        shared.PROMPTS,
        metavar="FILE",
    )
    prompts: str | None = option(
        None,
        "Records as cdec sample read them: gives each sample the prompt of its `id`.",
        shared.PROMPTS,
        metavar="FILE",
        common=True,
    )
    template: Path | None = shared.template_option()
    end: bool = option(
        True, "Without artifact: count the end of the text as an event.", shared.METHOD
    )
    batch_size: int = option(
        64, "Texts scored together, or more where they share a prompt.", shared.METHOD, at_least=1
    )
    fields: str | None = shared.fields_option()
    json: bool = shared.json_line_option()
    progress: bool | None = shared.progress_option()
    sources: RecordSourceOptions = group(RecordSourceOptions, common=False)
    failures: shared.FailureOptions = group(shared.FailureOptions)

    @property
    def names_constraint(self) -> bool:
        """True where an artifact is named, or what stands in its place."""
        is_given = self.artifact is not None or self.quoting.span_of is not None
        return is_given or bool(self.flags)

    @property
    def flags(self) -> tuple[str, ...]:
        """Options that give a source in an artifact's place."""
        return *self.one_line.flags, *self.calling.flags


def execute(options: Options, run: Run) -> int:
    """Say how probable given texts are.

    Texts are lines, or JSONL records with `text` or `token_ids` (scored as they are), as cdec
    sample writes them. Each JSON line has `logprob` (the end of the text is an event), `perplexity`
    (exp(-logprob / events)), `tokens`; with an artifact also `log_z_sum` (sum of log Z over the
    events), `log_masked` (masked decoding draws the text with this probability), `member`, `valid`
    (an independent check), `first_refused` of non-members, and certified bounds of the mass P(S)
    (`log_mass_lower`, `log_mass_upper`) and of Q = P / P(S) (`probability_lower`,
    `probability_upper`, and `probability` where they close). Logarithms are natural. All that is of
    these tokens, of which others may spell the same text: --all-spellings sums P over them.

    Give --temperature, --top-k, --top-p, --deny, --and, --lookahead, --fit (with its
    --max-new-tokens), --canonical and --heal as the samples were drawn with, and --template with
    --prompts.

    Consecutive records of one prompt (up to 10000) share their bounds. A bad record becomes an
    error object in its place, and the exit status is 3.

    \b
    Examples:
      cdec score -a titles.arrow -i samples.jsonl --prompt "Question: Which city is it?"
      cdec sample -a set.arrow -i q.jsonl | cdec score -a set.arrow --prompts q.jsonl
      cdec score -m gpt2 -i texts.txt --prompt "A text: " --no-end | jq .perplexity
    """
    from cdec.data.input.source import SourceStats

    refuse_revision(options.loading.model, run.typed)
    is_named = options.names_constraint
    options = with_found_artifact(options, run)
    fields = check_options(options, run.typed)
    read = (options.texts.input, options.prompts, options.prompt_file)
    given = typed_constraint(options, read)
    tools = typed_tools(options, read, options.quoting.given)
    places = named_artifacts(given, options.held, options.quoting)
    limits, stats = options.texts.input_limits, SourceStats()
    prompt = _given_prompt(options, stats)
    prompts = ScorePrompts.read(prompt, options.prompts, options.template, limits)
    with run.console.stage("opening artifacts") as progress:
        held = replace(
            read_held(places, options.held, run, progress),
            sources=record_sources(options.sources),
            tools=tools,
            tool_style=options.calling.tool_style,
        )
    with run.console.stage(loading(options.loading.model)):
        model = models.open_timed(options.loading, run.clock)
    if not is_named:
        held = without_misfit(held, model, run)
    with ConstraintResolver(held, model, required=False, bind=bind_for) as resolver:
        run.console.warn(resolver.take_notices())
        records, is_idle = arriving(
            _records(options, limits, stats),
            [options.texts.input],
            options.texts.idle,
            options.batch_size,
            run.clock,
        )
        tasks = map(Tasks(options, prompts, resolver).of, records)
        has_bounds = fields is None or not _BOUNDS.isdisjoint(fields)
        is_held = places.has_artifacts or tools is not None or prompts.by_id is not None
        is_pooled = has_bounds and is_held
        found = pooled(tasks, options.batch_size, is_pooled=is_pooled, is_idle=is_idle)
        status = _loop(options, model, fields, run.console).over(found, run)
        run.console.warn([*resolver.take_notices(), *prompts.notices, *stats.notices])
    return status


def _loop(
    options: Options, model: LanguageModel, fields: Sequence[str] | None, console: Console
) -> Loop:
    """Return what is done with the texts."""
    from cdec.data.rows.count import count_records

    tally = Tally()
    return Loop(
        work=at_temperatures(
            model, warping_of(options.warping), partial(_scores, options, _sums(options, model))
        ),
        records=partial(_written, tally, fields),
        write=partial(print_json, console),
        strict=options.failures.strict,
        max_bad=options.failures.max_bad,
        phase="scoring",
        total=count_records(options.texts.input),
        model=model,
        json=options.json,
        tally=tally,
    )


_CONSTRAINED_ONLY = (
    *(
        "deny",
        "lookahead",
        "fit",
        "canonical",
        "templated",
        "heal",
        "prefill",
        "max_new_tokens",
        "candidates",
        "seed",
    ),
)
_BOUNDS = frozenset(
    (
        *("probability", "probability_lower", "probability_upper"),
        *("log_mass_lower", "log_mass_upper"),
        *("text_probability_lower", "text_probability_upper"),
    )
)
"""Fields in which texts of one prompt help each other."""
MAX_POOL = 10_000
"""Most consecutive records of one prompt that share their bounds."""


def check_options(options: Options, typed: frozenset[str]) -> Sequence[str] | None:
    """Refuse what makes no sense before anything is opened; return the fields to keep, or None.

    Raises:
        UsageError: A value out of range, options that contradict each other, an unknown field, or
            texts awaited from a terminal.
        InputMissingError: An input is not there.
    """
    check_warping(options.warping)
    options.quoting.refuse_unused(typed, options.one_line.spans_of)
    options.calling.refuse_unused(typed)
    places = (options.prompt, options.prompt_file, options.prompts)
    flags = ("--prompt", "--prompt-file", "--prompts")
    given = [flag for flag, place in zip(flags, places, strict=True) if place is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} were both given", hint="give one of them")
    if options.prompts is None:
        refuse_unused(("template",), typed, "without --prompts")
        if not (options.names_constraint or options.held.conjoined):
            refuse_unused(("constraint", *_CONSTRAINED_ONLY), typed, "without an artifact")
        names = unused_source_options(typed, options.flags)
        if names:
            raise UsageError(
                f"{described_unused(names)}, and there are none without --prompts",
                hint="leave it out",
            )
    if options.names_constraint or options.held.conjoined or options.held.constraint:
        refuse_unused(("end",), typed, "with an artifact, which says where its members end")
    if not options.candidates:
        refuse_unused(("seed",), typed, "without --candidates")
    if not options.all_spellings:
        refuse_unused(("max_evaluations",), typed, "without --all-spellings")
    if options.texts.input == "-" and "-" in (options.prompts, options.prompt_file):
        raise UsageError(f"--input and {given[0]} are both stdin", hint="name one of the files")
    fields = parse_fields(options.fields, fields_of("score"), "score")
    if options.texts.input == "-":
        refuse_terminal("samples (JSONL or text lines)", "give -i FILE, or pipe them in")
    require_input(options.texts.input)
    if options.prompts is not None:
        require_input(options.prompts)
    return fields


def with_found_artifact(options: Options, run: Run) -> Options:
    """Return the options with the only artifact in the working directory, where none is named.

    A text can be scored without one: where there are none or several nothing is refused, and with
    ``--no-end``, which goes with no artifact, nothing is looked for.
    """
    has_one = options.names_constraint or options.held.conjoined or options.held.constraint
    if has_one or "end" in run.typed:
        return options
    return replace(options, artifact=optional_artifact(run))


def _given_prompt(options: Options, stats: SourceStats) -> str | None:
    """Return what stands before texts whose records do not say it."""
    if options.prompt_file is not None:
        return read_prompt(options.prompt_file, options.texts.input_limits)
    return None if options.prompt is None else typed_prompt(options.prompt, stats)


def _sums(options: Options, model: LanguageModel) -> SpellingSums | None:
    """Return what sums over spellings, where it was asked for."""
    from cdec.samplers.scoring.spellings import SpellingSums

    if not options.all_spellings:
        return None
    return SpellingSums(model.vocabulary, max_evaluations=options.max_evaluations)


def _scores(
    options: Options,
    sums: SpellingSums | None,
    model: LanguageModel,
    requests: list[ScoreRequest],
) -> Sequence[Score | CdecError]:
    from cdec.samplers.scoring.score import Scorer

    scorer = Scorer(
        model,
        candidates=options.candidates,
        max_new_tokens=options.max_new_tokens,
        end=options.end,
        spellings=sums,
    )
    return scorer.run(requests)


def _written(
    tally: Tally, fields: Sequence[str] | None, task: Task, result: Score
) -> list[dict[str, object]]:
    """Count a score, and return its record."""
    from cdec.core.constraint import said_of_held

    tally.judge(result.valid)
    record = {**task.head, **result.to_json(), **said_of_held(task.request.constraint)}
    return [_kept(record, fields)]


def _kept(record: dict[str, object], fields: Sequence[str] | None) -> dict[str, object]:
    """Return a record with these fields alone; None keeps all."""
    return record if fields is None else {name: record[name] for name in fields if name in record}


class Tasks:
    """Turns records into tasks."""

    def __init__(
        self,
        options: Options,
        prompts: ScorePrompts,
        resolver: ConstraintResolver,
    ) -> None:
        self._seed = options.seed
        self._most = options.max_new_tokens
        self._prompts = prompts
        self._resolver = resolver
        self._last: tuple[PromptRecord, Prompt, Constraint | None] | None = None

    def of(self, record: ScoreRecord | BadRecord) -> Task:
        """Return what to score of one record.

        Raises:
            UsageError: An option that does not go with the constraint.
        """
        from cdec.data.prompts.record import BadRecord

        if isinstance(record, BadRecord):
            return Task(record.id, record.error)
        given: dict[str, object] = {"id": record.id, "index": record.index}
        head = {name: value for name, value in given.items() if value is not None}
        name = f"line {record.line}" if record.id is None else record.id
        return prepared(name, partial(self._of, name, record, head))

    def _of(self, name: object, record: ScoreRecord, head: dict[str, object]) -> Task:
        from cdec.core.seeds import derive_seed
        from cdec.samplers.scoring.score import ScoreRequest

        source = self._prompts.of(record)
        prompt, constraint = self._opened(source)
        seed = derive_seed(self._seed, record.id, 0)
        request = ScoreRequest(prompt, constraint, record.text, record.token_ids, seed)
        return Task(name, request, source.temperature, head)

    def _opened(self, source: PromptRecord) -> tuple[Prompt, Constraint | None]:
        """Return the prompt and the constraint of a prompt's record."""
        # Samples of one record share its constraint, so that they share its bounds.
        if self._last is None or self._last[0] is not source:
            opened = self._resolver.of(source, max_new_tokens=self._most)
            self._last = (source, *opened)
        return self._last[1:]


def pooled(
    tasks: Iterable[Task], size: int, *, is_pooled: bool, is_idle: Callable[[], bool] = never
) -> Iterator[list[Task]]:
    """Cut tasks into batches of ``size`` or more.

    Args:
        tasks: In the order of the input.
        size: Of a batch, at least.
        is_pooled: Keep neighbours of one prompt together, up to ``MAX_POOL``, so that no bound
            depends on ``size``.
        is_idle: Says whether no further task comes for now: what there is goes on alone then, but
            for a last prompt whose pool may still grow.
    """
    batch: list[Task] = []
    run = pool = 0
    iterator = iter(tasks)
    while True:
        if batch and is_idle():
            grows = is_pooled and run < MAX_POOL and not isinstance(batch[-1].request, CdecError)
            whole = len(batch) - run * grows
            if whole:
                yield batch[:whole]
                batch = batch[whole:]
        task = next(iterator, None)
        if task is None:
            break
        belongs = is_pooled and bool(batch) and _share_bounds(task, batch[-1]) and run < MAX_POOL
        if not belongs and (len(batch) >= size or run >= MAX_POOL):
            yield batch
            batch = []
        run = run + 1 if belongs else 1
        pool += is_pooled and not belongs
        batch.append(_in_pool(task, pool))
    if batch:
        yield batch


def _in_pool(task: Task, pool: int) -> Task:
    """Return a task with its request in a pool."""
    if isinstance(task.request, CdecError):
        return task
    return replace(task, request=replace(task.request, pool=pool))


def _share_bounds(one: Task, other: Task) -> bool:
    """Whether both were drawn from one prompt under one constraint."""
    mine, its = one.request, other.request
    if isinstance(mine, CdecError) or isinstance(its, CdecError):
        return False
    same = mine.constraint is its.constraint and one.temperature == other.temperature
    return same and bool(mine.prompt == its.prompt)


def _records(
    options: Options, limits: InputLimits, stats: SourceStats
) -> Iterator[ScoreRecord | BadRecord]:
    from cdec.data.prompts.texts import read_scored

    return read_scored(
        options.texts.input,
        field=options.texts.field,
        format=options.texts.input_format,
        no_header=options.texts.no_header,
        limits=limits,
        stats=stats,
        calls_tools=options.calling.tools is not None,
    )
