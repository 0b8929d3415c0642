"""One run of ``cdec score``: opens what was typed, joins texts with prompts, scores in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdec.cli.frame.typed import record_error
from cdec.cli.options.shared import refuse_terminal, refuse_unused, require_utf8
from cdec.cli.runs import models
from cdec.cli.runs.adaptation import Adaptation
from cdec.cli.runs.checks import check_warping, parse_fields, warping_of
from cdec.cli.runs.constraints import Constraints, artifact_paths, verify_artifacts
from cdec.cli.runs.inputs import ScorePrompts, read_denied, require_input
from cdec.cli.runs.loop import by_temperature
from cdec.cli.runs.narrowing import conjoined_paths
from cdec.core.errors import CdecError, UsageError

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.scoring import ScoreOptions as Options
    from cdec.core.constraint import Constraint
    from cdec.core.models.base import LanguageModel, Prompt
    from cdec.data.input.source import InputLimits, SourceStats
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.data.prompts.score_records import ScoreRecord
    from cdec.samplers.scoring.score import Score, ScoreRequest

KNOWN_FIELDS = (
    *("id", "index", "text", "token_ids", "tokens", "entity_ids", "logprob", "perplexity"),
    *("events", "log_z_sum", "log_masked", "member", "valid", "first_refused"),
    *("log_mass_lower", "log_mass_upper", "log_q_lower", "log_q_upper"),
)
"""Every field that a scored record can have."""
_CONSTRAINED_ONLY = ("deny", "lookahead", "heal", "max_new_tokens", "candidates", "seed")
MAX_POOL = 10_000
"""Most consecutive records of one prompt that share their bounds."""


def check_options(options: Options, typed: frozenset[str]) -> Sequence[str] | None:
    """Refuse what makes no sense before anything is opened; return the fields to keep, or None.

    Raises:
        UsageError: A value out of range, options that contradict each other, an unknown field, or
            texts awaited from a terminal.
        InputMissingError: An input is not there.
    """
    check_warping(options)
    if options.prompt is not None and options.prompts is not None:
        raise UsageError("--prompt and --prompts were both given", hint="give one of them")
    if options.prompts is None:
        refuse_unused(("template",), typed, "without --prompts")
        if not (options.artifact or options.conjoined):
            refuse_unused(("constraint", *_CONSTRAINED_ONLY), typed, "without an artifact")
    if options.artifact or options.conjoined or options.constraint:
        refuse_unused(("end",), typed, "with an artifact, which says where its members end")
    if not options.candidates:
        refuse_unused(("seed",), typed, "without --candidates")
    if options.input == "-" and options.prompts == "-":
        raise UsageError("--input and --prompts are both stdin", hint="name one of the files")
    fields = parse_fields(options.fields, KNOWN_FIELDS, "score")
    if options.input == "-":
        refuse_terminal("samples (JSONL or text lines)", "give -i FILE, or pipe them in")
    require_input(options.input)
    if options.prompts is not None:
        require_input(options.prompts)
    return fields


def scored(options: Options, run: Run) -> Iterator[dict[str, object]]:
    """Yield the score of each record, or its error object, in the order of the input.

    Raises:
        CdecError: With ``--strict`` the first bad record's own error; in any case one that every
            record would meet.
    """
    from cdec.data.input.source import SourceStats

    paths = artifact_paths(options.artifact, options.constraint)
    denied = read_denied(options.deny)
    limits = options.input_limits
    prompts = ScorePrompts.read(
        None if options.prompt is None else require_utf8(options.prompt, "--prompt"),
        options.prompts,
        options.template,
        limits,
    )
    conjoined = conjoined_paths(options.conjoined)
    verify_artifacts({**paths, **conjoined})
    model = models.open_model(options)
    adaptation = Adaptation(model, lookahead=options.lookahead, heal=options.heal)
    stats = SourceStats()
    with Constraints(paths, model.vocabulary, denied, None, conjoined) as constraints:
        run.console.warn(constraints.notices)
        tasks = Tasks(options, prompts, constraints, adaptation)
        records = _records(options, limits, stats)
        is_pooled = bool(paths or conjoined) or prompts.by_id is not None
        for batch in batches(map(tasks.of, records), options.batch_size, is_pooled=is_pooled):
            yield from _results(options, model, batch)
            run.signals.checkpoint()
        run.console.warn([*constraints.take_notices(), *prompts.notices, *stats.notices])


@dataclass(frozen=True, slots=True)
class Task:
    """One record on its way.

    Attributes:
        head: ``id`` and ``index``, where the record has them.
        name: What an error object calls it.
        request: What to score, or the error it met.
        temperature: Of the prompt's record; None takes the run's.
    """

    head: dict[str, object]
    name: object
    request: ScoreRequest | CdecError
    temperature: float | None = None

    def in_pool(self, pool: int) -> Task:
        """Return this task with its request in a pool."""
        if isinstance(self.request, CdecError):
            return self
        return replace(self, request=replace(self.request, pool=pool))

    def shares_bounds(self, other: Task) -> bool:
        """Whether both were drawn from one prompt under one constraint."""
        mine, its = self.request, other.request
        if isinstance(mine, CdecError) or isinstance(its, CdecError):
            return False
        same = mine.constraint is its.constraint and self.temperature == other.temperature
        return same and mine.prompt == its.prompt


class Tasks:
    """Turns records into tasks."""

    def __init__(
        self,
        options: Options,
        prompts: ScorePrompts,
        constraints: Constraints,
        adaptation: Adaptation,
    ) -> None:
        self._seed = options.seed
        self._prompts = prompts
        self._constraints = constraints
        self._adaptation = adaptation
        self._last: tuple[PromptRecord, Prompt, Constraint | None] | None = None

    def of(self, record: ScoreRecord | BadRecord) -> Task:
        """Return what to score of one record.

        Raises:
            UsageError: An option that does not go with the constraint.
        """
        from cdec.data.prompts.record import BadRecord
        from cdec.data.prompts.seeds import derive_seed
        from cdec.samplers.scoring.score import ScoreRequest

        if isinstance(record, BadRecord):
            return Task({}, record.id, record.error)
        given: dict[str, object] = {"id": record.id, "index": record.index}
        head = {name: value for name, value in given.items() if value is not None}
        name = f"line {record.line}" if record.id is None else record.id
        try:
            source = self._prompts.of(record)
            prompt, constraint = self._opened(source)
        except UsageError:
            raise
        except CdecError as error:
            return Task(head, name, error)
        seed = derive_seed(self._seed, record.id, 0)
        request = ScoreRequest(prompt, constraint, record.text, record.token_ids, seed)
        return Task(head, name, request, source.temperature)

    def _opened(self, source: PromptRecord) -> tuple[Prompt, Constraint | None]:
        """Return the prompt and the constraint of a prompt's record."""
        # Samples of one record share its constraint, so that they share its bounds.
        if self._last is None or self._last[0] is not source:
            opened = self._adaptation.of_record(source, self._constraints, required=False)
            self._last = (source, *opened)
        return self._last[1:]


def batches(tasks: Iterable[Task], size: int, *, is_pooled: bool) -> Iterator[list[Task]]:
    """Cut tasks into batches of ``size`` or more.

    Args:
        tasks: In the order of the input.
        size: Of a batch, at least.
        is_pooled: Keep neighbours of one prompt together, up to ``MAX_POOL``, so that no bound
            depends on ``size``.
    """
    batch: list[Task] = []
    run = pool = 0
    for task in tasks:
        belongs = is_pooled and bool(batch) and task.shares_bounds(batch[-1]) and run < MAX_POOL
        if not belongs and (len(batch) >= size or run >= MAX_POOL):
            yield batch
            batch = []
        run = run + 1 if belongs else 1
        pool += is_pooled and not belongs
        batch.append(task.in_pool(pool))
    if batch:
        yield batch


def _results(
    options: Options, model: LanguageModel, tasks: Sequence[Task]
) -> Iterator[dict[str, object]]:
    from cdec.samplers.scoring.score import Scorer

    def score(view: LanguageModel, requests: list[ScoreRequest]) -> Sequence[Score | CdecError]:
        scorer = Scorer(
            view,
            candidates=options.candidates,
            max_new_tokens=options.max_new_tokens,
            end=options.end,
        )
        return scorer.run(requests)

    found = by_temperature(tasks, model, warping_of(options), score)
    for task, result in zip(tasks, found, strict=True):
        if not isinstance(result, CdecError):
            yield task.head | result.to_json()
        elif options.strict:
            raise result
        else:
            yield record_error(result, task.name)


def _records(
    options: Options, limits: InputLimits, stats: SourceStats
) -> Iterator[ScoreRecord | BadRecord]:
    from cdec.data.prompts.score_records import read_scored

    return read_scored(options.input, field=options.field, limits=limits, stats=stats)
