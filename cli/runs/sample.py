"""One run of ``cdec sample``: the record sampler opened as planned, and driven by the loop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from cdec.cli.frame.command import SOME_RECORDS_FAILED
from cdec.cli.frame.console import typed_error
from cdec.cli.frame.declaration import deciding
from cdec.cli.frame.interruption import NOTHING, in_file, printed
from cdec.cli.frame.progress import plural
from cdec.cli.runs import models, streaming
from cdec.cli.runs.artifacts import bind_for
from cdec.cli.runs.draft import nothing_guessed
from cdec.cli.runs.loop import Loop, UnderWay, arriving, headed_error, named_error
from cdec.cli.runs.method import build_reward
from cdec.cli.runs.models import KeptModels, model_key
from cdec.cli.runs.output import inputs, tracing
from cdec.cli.runs.plan import Plan
from cdec.cli.runs.tally import BY_DRAWING, BY_LEARNING, BY_TRYING, Tally
from cdec.cli.runs.tokenizer import loading, named_model
from cdec.integrations.records.counts import SAMPLING
from cdec.integrations.records.drawing import SampleTasks
from cdec.integrations.records.sampling import RecordSampler
from cdec.integrations.records.settings import RunSettings
from cdec.integrations.records.tasks import Records, Task, Work, batches

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.frame.console import Console
    from cdec.cli.options.sampling import SampleOptions as Options
    from cdec.cli.runs.inputs import Prompts
    from cdec.cli.runs.plan import Files
    from cdec.core.errors import CdecError
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.data.output.lines import FinishedRecords, RecordWriter
    from cdec.data.output.staged import StagedWriter
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.samplers.rewards import Reward
    from cdec.samplers.streaming import GrowingTexts


def sample(options: Options, run: Run, kept: KeptModels | None = None) -> int:
    """Carry out one run; returns the exit status.

    What can be refused is refused in the order of its cost: the command line, the input, the
    output, then the models; an existing output is emptied only when all else is open. ``kept``
    holds the models of the runs around it, among them perhaps its own.
    """
    run.kept = lambda: NOTHING
    plan = Plan.of(options, run.typed)
    options = plan.options
    with run.console.stage("opening artifacts") as progress:
        files = plan.open_files(run, progress)
    status = finished_status(plan, files, decided(plan, files), run)
    if status is not None:
        return status
    sampler = _opened_sampler(plan, files, run, kept or KeptModels())
    with (
        sampler,
        _opened_output(plan, files, sampler.model) as writer,
        tracing(options.writing, options.prompts.streams) as sampler.trace,
    ):
        run.console.warn([*writer.notices, *files.prompts.stats.notices])
        stream = streaming.of(options, run.console)
        tasks = sampler.tasks(
            finished=writer.finished,
            keeps_input=options.writing.keep_input,
            is_streamed=stream is not None,
        )
        samples = WrittenSamples(Tally(), sampler, plan.written, stream)
        sampler.method.progress = under_way = UnderWay(run.console)
        steps = (_of_requests if options.batch.openai_batch else _of_records)(
            plan, sampler, samples
        )
        loop = Loop(
            work=steps.work,
            records=steps.records,
            failed=steps.failed,
            write=writer.write
            if options.writing.output
            else partial(streaming.print_record, options, run.console, writer.write),
            # With a tree there is one record: its error is the run's.
            strict=options.failures.strict or plan.tree is not None,
            max_bad=options.failures.max_bad,
            phase=SAMPLING,
            total=files.prompts.total,
            model=sampler.model,
            json=options.json,
            under_way=under_way,
            tally=samples.tally,
            skipped=lambda: tasks.skipped,
            kept=partial(_kept, options, run),
        )
        size = sampler.batch_size
        records, is_idle = arriving(
            files.records, options.prompts.streams, options.prompts.idle, size, run.clock
        )
        status = loop.over(batches(steps.tasks(tasks, records), size, is_idle), run)
        plan.draft.save_counts(plan.counts)
        run.console.warn([*sampler.resolver.take_notices(), *files.prompts.stats.notices])
        run.console.warn(nothing_guessed(plan.draft.guessing, tasks.has_keys))
        _warn_at_the_end(sampler.reward, samples.tally, plan, run.console)
    is_short = options.require_complete and samples.tally.incomplete
    # Those that the output to resume holds count too.
    return status or (SOME_RECORDS_FAILED if is_short or writer.finished.errors > 0 else 0)


def _opened_output(plan: Plan, files: Files, model: LanguageModel) -> RecordWriter | StagedWriter:
    """Open the output; what is there is read, or replaced."""
    from cdec.data.output.writer import open_writer

    options = plan.options
    return open_writer(
        options.writing.output,
        config=manifest(plan, files, model),
        inputs=inputs(files.options),
        force=options.writing.force,
        resume=options.writing.resume,
        fields=plan.fields,
        is_part=options.prompts.shard is not None,
        keep_input=options.writing.keep_input,
    )


def _warn_at_the_end(reward: Reward | None, tally: Tally, plan: Plan, console: Console) -> None:
    told = () if reward is None else reward.notices
    console.warn([*told, *tally.mass_notices(remedy_of(plan))])
    console.warn(tally.notices(required=plan.options.require_complete))


def _kept(options: Options, run: Run, count: str) -> str:
    """Return what a signal leaves behind; ``count`` is that of the records done."""
    from cdec.data.output.writer import records_path

    place = (
        None if options.writing.output_file is None else records_path(options.writing.output_file)
    )
    if place is None or not (place.is_file() or place.is_dir()):
        return printed(count)
    return in_file(count, place, run.words, from_pipe="-" in inputs(options))


def _opened_sampler(plan: Plan, files: Files, run: Run, kept: KeptModels) -> RecordSampler:
    """Load reward, draft and model, the smaller before the larger, and open the constraints."""
    options, method, console = plan.options, plan.method, run.console
    reward = build_reward(
        method, device=options.loading.device, has_fields=not options.prompts.has_texts
    )
    with console.stage(loading(options.loading.model)):
        draft = kept.get(plan.draft.key, plan.draft.load_early)
        model = kept.get(model_key(options.loading), lambda: models.open_model(options.loading))
    opened = plan.draft.opened(model, draft, console)
    counts = plan.counts if plan.draft.keeps_counts else None
    opened |= {"reward": reward, "counts": counts, "tree": plan.tree}
    own = {name: value for name, value in opened.items() if method.uses(name)}
    plan.counts.require_vocabulary(model.vocabulary.vocabulary_hash)
    told = plan.settings(files)
    settings = RunSettings(
        drawing=replace(told.drawing, options={**method.values, **own}),
        constraint=files.held,
        execution=replace(
            told.execution, model=model, has_one_record=plan.tree is not None, clock=run.clock
        ),
    )
    with console.stage("opening artifacts"):
        sampler = RecordSampler(settings=settings, bind=bind_for)
    console.warn(sampler.resolver.take_notices())
    return sampler


def remedy_of(plan: Plan) -> str:
    """Return what helps against unreliable masses; one that draws from a tree learns already."""
    has = plan.method.declared.option
    if has("mass_draws") is not None:
        return BY_TRYING
    return BY_DRAWING if has("tree_cache") is None else BY_LEARNING


@dataclass(frozen=True)
class WrittenSamples:
    """Samples on their way to the output: counted, traced, with the fields that are written.

    ``stream`` hands them out while they grow; None hands out none.
    """

    tally: Tally
    sampler: RecordSampler
    fields: Sequence[str] | None
    stream: GrowingTexts | None = None

    def written(self, task: Task, samples: Sequence[Sample]) -> Iterator[Sample]:
        """Yield the samples that are missing in the output, and tell of them."""
        # One draw alone can hardly tell, and everybody knows.
        if len(samples) > 1:
            self.tally.estimate(samples[0].diagnostics.get("log_mass_reliable"))
        for sample in samples:
            if task.missing is None or sample.index in task.missing:
                self.tally.count(sample)
                self.sampler.write_traces([sample])
                yield sample


@dataclass(frozen=True)
class _Steps:
    """What becomes of the lines of an input: tasks, work on them, records, or their errors."""

    tasks: Callable[[SampleTasks, Iterator[PromptRecord | BadRecord]], Iterator[Task | None]]
    work: Work
    records: Records
    failed: Callable[[Task, CdecError], Mapping[str, object]] = named_error


def _of_records(plan: Plan, sampler: RecordSampler, samples: WrittenSamples) -> _Steps:
    """Return the steps of records: a line a sample."""
    return _Steps(
        SampleTasks.of,
        sampler.work(samples.stream),
        lambda task, found: (s.to_json(samples.fields) for s in samples.written(task, found)),
        headed_error if plan.options.writing.keep_input else named_error,
    )


def _of_requests(plan: Plan, sampler: RecordSampler, samples: WrittenSamples) -> _Steps:
    """Return the steps of the requests of a batch file: a line a request."""
    from cdec.integrations.openai_batch.answering import BatchTasks, Responses, batch_work, refusal

    called = plan.options.batch.served_name or named_model(plan.options.loading.model)
    responses = Responses(sampler.model, called, samples.fields)
    return _Steps(
        lambda tasks, records: BatchTasks(tasks).of(records),
        batch_work(sampler.work, sampler.batch_size),
        lambda task, found: [
            responses.of(task.head, task.request, list(samples.written(task, found)))
        ],
        lambda task, error: refusal(task.head, typed_error(error)),
    )


def manifest(plan: Plan, files: Files, model: LanguageModel) -> dict[str, object]:
    """Return all that decides what the records are: devices and batch sizes do not."""
    return {
        **decided(plan, files),
        "vocabulary": model.vocabulary.vocabulary_hash,
        "prompt_form": model.prompt_form,
    }


def decided(plan: Plan, files: Files) -> dict[str, object]:
    """Return what decides the records and is known before a model is loaded."""
    options, held, template = plan.options, files.held, files.prompts.template
    return {
        **plan.method.manifest(),
        **plan.draft.manifest(),
        **deciding(options),
        "model": named_model(options.loading.model),
        "artifacts": dict(sorted(held.digests.items())),
        **({"and": held.other_digests} if held.others else {}),
        **({"sets": held.set_digests} if held.sets else {}),
        "deny": _hash(held.denied) if held.denied else None,
        **({"tools": _hash(held.tools.definitions)} if held.tools is not None else {}),
        "template": None if template is None else _hash([template.texts, template.fields]),
        **({} if plan.tree is None else {"tree": str(plan.tree.path)}),
    }


def _hash(parts: object) -> str:
    """Return a hash of texts: read once, since they may come from a pipe."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


OF_MODEL = frozenset({"vocabulary", "prompt_form"})
"""Entries of a manifest that only the loaded model can tell."""


def finished_status(plan: Plan, files: Files, config: Mapping[str, object], run: Run) -> int | None:
    """Return the exit status of a run whose records are all there; None where some are not.

    Args:
        plan: Of the run.
        files: Of the run; its records are left unread.
        config: What decides the records, less what only the model can tell.
        run: Told of it.

    Raises:
        ResumeMismatchError: Another configuration wrote the output.
        CdecError: As ``open_writer``.
    """
    from cdec.data.output.manifest import check_manifest, manifest_config
    from cdec.data.output.writer import open_writer

    options = plan.options
    output = options.writing.output_file
    if (
        not options.writing.resume
        or output is None
        or not (output.is_file() and output.stat().st_size)
    ):
        return None
    check_manifest(output, config, unknown=OF_MODEL)
    is_more = plan.tree is not None or options.methods.save_counts is not None
    again = _again(files.prompts)
    if is_more or again is None:
        return None
    with open_writer(output, config=manifest_config(output), resume=True) as writer:
        finished = writer.finished
    count = _all_done(again.records(), finished, plan)
    if not count:
        return None
    run.console.warn([*writer.notices, *again.stats.notices])
    verb = "is" if count == 1 else "are"
    run.console.note(f"already complete: {plural(count, 'records')} {verb} in {output}")
    return SOME_RECORDS_FAILED if finished.errors else 0


def _again(prompts: Prompts) -> Prompts | None:
    """Return the same input with counts and notices of its own; None where it is read once."""
    from cdec.data.input.source import SourceStats
    from cdec.data.rows.formats import can_repeat

    # subtle: the records of stdin have been begun, and it has one place where it stands.
    if "-" in prompts.sources or not all(map(can_repeat, prompts.sources)):
        return None
    return replace(prompts, stats=SourceStats(), others=replace(prompts.others, unread={}))


def _all_done(
    records: Iterable[PromptRecord | BadRecord], finished: FinishedRecords, plan: Plan
) -> int:
    """Return how many records there are, where all draws of all are there; 0 where not."""
    from cdec.integrations.openai_batch.answering import line_id
    from cdec.integrations.records.drawing import draws_of

    is_batch, count = plan.options.batch.openai_batch, 0
    for record in records:
        if is_batch:
            missing = finished.missing(line_id(record.id), 1)
        else:
            missing = finished.missing(record.id, draws_of(record, plan.options.choice.n))
        if missing:
            return 0
        count += 1
    return count
