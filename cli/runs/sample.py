"""One run of ``cdec sample``: loads what was planned, turns records into tasks, drives the loop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdec.cli.frame.command import SOME_RECORDS_FAILED
from cdec.cli.frame.declaration import deciding
from cdec.cli.runs import models
from cdec.cli.runs.adaptation import Adaptation, nothing_guessed
from cdec.cli.runs.checks import warping_of
from cdec.cli.runs.constraints import Constraints
from cdec.cli.runs.draft_loading import save_counts
from cdec.cli.runs.loop import Decoder, Output, Task, batches
from cdec.cli.runs.method import METHOD_OPTIONS, WITHOUT_CONSTRAINT, WITHOUT_EFFECT
from cdec.cli.runs.models import shown_model
from cdec.cli.runs.plan import Plan, inputs
from cdec.core.errors import CdecError

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.frame.console import Console
    from cdec.cli.options.sampling import SampleOptions as Options
    from cdec.cli.runs.plan import Files
    from cdec.core.models.base import LanguageModel
    from cdec.data.output.resume import FinishedRecords
    from cdec.data.prompts.read import BadRecord, PromptRecord
    from cdec.samplers.rewards import Reward


def sample(options: Options, run: Run) -> int:
    """Carry out one run; returns the exit status.

    What can be refused is refused in the order of its cost: the command line, the input, the
    output, then the models; an existing output is emptied only when all else is open.
    """
    from cdec.data.output.writer import open_writer

    plan = Plan.of(options, run.typed)
    options = plan.options
    files = plan.open_files()
    loaded = _load(plan, files, run.console)
    with (
        loaded.constraints,
        open_writer(
            options.output,
            config=manifest(plan, files, loaded.decoder.model),
            inputs=inputs(options),
            force=options.force,
            resume=options.resume,
        ) as writer,
    ):
        run.console.warn(writer.notices)
        # With a tree there is one record: its error is the run's.
        strict = options.strict or plan.tree is not None
        output = Output(writer, run.signals, plan.fields, strict, run.console)
        tasks = Tasks(
            options, loaded.constraints, writer.finished, loaded.adaptation, loaded.reward
        )
        _draw(batches(tasks.of(files.records), options.batch_size), loaded.decoder, output, run)
        save_counts(options, plan.counts, guesses=plan.partners.keeps_counts)
        run.console.warn([*loaded.constraints.take_notices(), *files.prompts.stats.notices])
        run.console.warn(nothing_guessed(plan.partners.guessing, tasks.kinds))
        run.console.warn(getattr(loaded.reward, "notices", ()))
    return SOME_RECORDS_FAILED if output.failed else 0


@dataclass(frozen=True)
class _Loaded:
    """What a run works with once its models are there."""

    decoder: Decoder
    constraints: Constraints
    adaptation: Adaptation
    reward: Reward | None


def _load(plan: Plan, files: Files, console: Console) -> _Loaded:
    """Load reward, draft and model, the smaller before the larger, and open the constraints.

    Raises:
        CdecError: One of them cannot be had, or they do not fit each other.
    """
    options, partners, held = plan.options, plan.partners, files.held
    reward = partners.reward()
    draft = partners.early_draft()
    model = models.open_model(options)
    sampler = plan.sampler or partners.sampler(model, draft, reward, plan.counts, console)
    plan.counts.require_vocabulary(model.vocabulary.vocabulary_hash)
    adaptation = Adaptation(model, lookahead=options.lookahead, heal=options.heal)
    constraints = Constraints(plan.paths, model.vocabulary, held.denied, plan.cache, plan.conjoined)
    console.warn(constraints.notices)
    decoder = Decoder(sampler, model, warping_of(options))
    return _Loaded(decoder, constraints, adaptation, reward)


def _draw(tasks: Iterable[Sequence[Task]], decoder: Decoder, output: Output, run: Run) -> None:
    """Draw and write, batch by batch."""
    with run.console.progress("records") as progress:
        done = 0
        for batch in tasks:
            output.write(batch, decoder.results(batch))
            run.signals.checkpoint()
            done += len(batch)
            progress.update("sampling", done, None)


@dataclass(frozen=True)
class Tasks:
    """Turns records into tasks, leaving out what an output to resume holds already.

    Attributes:
        kinds: Of the constraints of all tasks so far; None for a task without one.
    """

    options: Options
    constraints: Constraints
    finished: FinishedRecords
    adaptation: Adaptation
    reward: Reward | None = None
    kinds: set[str | None] = field(default_factory=set)

    def of(self, records: Iterable[PromptRecord | BadRecord]) -> Iterator[Task]:
        """Yield a task for each record that is not finished."""
        from cdec.data.prompts.read import BadRecord

        for record in records:
            if isinstance(record, BadRecord):
                if self.finished.missing(record.id, 1):
                    yield Task(record.id, record.error)
                continue
            n = self.options.n if record.n is None else record.n
            missing = self.finished.missing(record.id, n)
            if missing:
                yield self._task(record, n, frozenset(missing))

    def _task(self, record: PromptRecord, n: int, missing: frozenset[int]) -> Task:
        from cdec.data.prompts.seeds import derive_seed
        from cdec.samplers import Request

        required = self.options.method not in WITHOUT_CONSTRAINT
        try:
            prompt, constraint = self.adaptation.of_record(
                record, self.constraints, required=required
            )
            self.kinds.add(None if constraint is None else constraint.kind)
            if self.reward is not None:
                self.reward.check(record.input)
        except CdecError as error:
            return Task(record.id, error, is_plain=False)
        seed = self.options.seed if record.seed is None else record.seed
        longest = record.max_tokens
        own = (record.n, longest, record.temperature)
        request = Request(
            prompt=prompt,
            constraint=constraint,
            seeds=[derive_seed(seed, record.id, index) for index in range(n)],
            id=record.id,
            max_new_tokens=self.options.max_new_tokens if longest is None else longest,
            input=record.input,
        )
        is_plain = all(value is None for value in own)
        return Task(record.id, request, record.temperature, is_plain, missing)


def manifest(plan: Plan, files: Files, model: LanguageModel) -> dict[str, object]:
    """Return all that decides what the records are: devices and batch sizes do not."""
    options, held, template = plan.options, files.held, files.prompts.template
    return {
        **{
            flag.strip("-"): getattr(options, name)
            for name, flag in METHOD_OPTIONS.items()
            if name not in WITHOUT_EFFECT
        },
        **plan.partners.manifest(),
        **deciding(options),
        "model": shown_model(options.model),
        "vocabulary": model.vocabulary.vocabulary_hash,
        "artifacts": dict(sorted(held.digests.items())),
        **({"and": list(held.also)} if held.also else {}),
        "deny": _hash(held.denied) if held.denied else None,
        "template": None if template is None else _hash([template.texts, template.fields]),
        **({} if options.tree is None else {"tree": str(options.tree)}),
    }


def _hash(parts: object) -> str:
    """Return a hash of texts: read once, since they may come from a pipe."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
