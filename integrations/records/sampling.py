"""The record sampler: opened once, it turns prompt records into sample records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.core.errors import CdecError, Notice, UsageError
from cdec.core.models.language_model import LanguageModel
from cdec.core.models.loading import load_model
from cdec.core.models.warping import Warping
from cdec.core.timed import timed
from cdec.core.tokens.locations import EMBEDDED, EMBEDDED_DRAFT
from cdec.data.prompts.names import OtherFields
from cdec.data.prompts.read import DEFAULT_MAX_N, prompts_from_records
from cdec.integrations.records.drawing import SampleTasks, Trace
from cdec.integrations.records.faults import error_object
from cdec.integrations.records.resolver import ConstraintResolver
from cdec.integrations.records.settings import ConstraintSpecification, Execution, RunSettings
from cdec.integrations.records.stops import cut
from cdec.integrations.records.tasks import at_temperatures, batches, work_off
from cdec.samplers.greedy import greedily
from cdec.samplers.options import COUNTS, LOOKUP
from cdec.samplers.registry import SAMPLERS
from cdec.samplers.sampling import BATCH_SIZE, named_method

if TYPE_CHECKING:
    from types import TracebackType

    from cdec.core.run_clock import RunClock
    from cdec.core.sample import Sample
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.integrations.records.resolver import Bind
    from cdec.integrations.records.tasks import Done, Records, Task, Work
    from cdec.samplers.base import Observer, Sampler
    from cdec.samplers.method import Method
    from cdec.samplers.rewards import Reward


class RecordSampler:
    """Draws texts for prompt records; what it needs is opened once. A context manager.

        with RecordSampler(artifact="cities.arrow", method="masked", n=2) as sampler:
            for record in sampler.sample([{"id": "q1", "prompt": "The capital of France is"}]):
                print(record["id"], record["index"], record["text"])

    The samples are those of ``cdec sample`` for a file of the same records with the same options:
    ids, seeds, weights and error objects are the same ones. Nothing is printed.

    Args:
        model: A name or path, or a model; the embedded one if not given.
        method: A name in ``METHODS``.
        settings: All settings, in the place of ``model``, ``method`` and ``given``.
        bind: Opens artifacts for the model; None takes ``bind_artifact``.
        given: Attributes of the three parts of ``RunSettings`` by name, artifacts as
            ``ConstraintSpecification.of`` takes them, and options of the method.

    Attributes:
        model: The model.
        reading: Keywords by which ``read_prompts`` reads records as this sampler does.
        batch_size: Prompts decoded together. fields: As given.
        method: The sampler of the method. resolver: What resolves the constraints of records.
        reward: That of the method; None for none. trace: Takes the lines of samples.

    Raises:
        UsageError: No such method, or values that make no sense.
        TypeError: The method has no such option.
        CdecError: A model or an artifact cannot be had, or they do not fit each other.
    """

    def __init__(
        self,
        model: str | LanguageModel = EMBEDDED,
        method: str = "disc",
        *,
        settings: RunSettings | None = None,
        bind: Bind | None = None,
        **given: Any,
    ) -> None:
        settings = settings or RunSettings.of(model=model, method=method, **given)
        drawing, execution = settings.drawing, settings.execution
        declared = named_method(drawing.method)
        self._warping = Warping(drawing.temperature, drawing.top_k, drawing.top_p)
        held = settings.constraint.read()
        model, name = _opened_model(execution)
        self.model = _timed(model, execution.clock)
        opened = opened_options(declared, drawing.options, self.model, name, execution)
        self.reward: Reward | None = opened.get("reward")
        self.method: Sampler = SAMPLERS[drawing.method](**opened)
        self.trace = Trace(execution.trace)
        self.resolver = ConstraintResolver(
            held,
            self.model,
            required=declared.needs_constraint,
            masks=declared.masks,
            bind=bind,
        )
        self._drawing, self._strict = drawing, execution.strict
        self.batch_size = execution.batch_size or (1 if declared.streams else BATCH_SIZE)
        self.fields = drawing.fields
        self._others = OtherFields(
            _read(self.reward, held),
            passed_on=drawing.fields is None or "input" in drawing.fields,
            strict_fields=execution.strict_fields,
        )
        self.reading: dict[str, Any] = {
            "template": drawing.template,
            "max_n": DEFAULT_MAX_N if drawing.max_n is None else drawing.max_n,
            "others": self._others,
        }

    def __enter__(self) -> RecordSampler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child process that compiles what records bring; nothing else is held."""
        self.resolver.__exit__()

    def sample(self, records: Iterable[Mapping[str, object]]) -> Iterator[dict[str, Any]]:
        """Yield the samples of prompt records, in their order, batch by batch.

        Args:
            records: JSON-ready objects, as lines of a prompts file are.

        Returns:
            An iterator of sample records, and of an error object in the place of each record that
            failed; records are read a batch ahead.

        Raises:
            DuplicateIdError: Two records name one id.
            CdecError: What all records would meet; with ``strict`` the first record's own error.
        """
        for done in self.work_off(self.checked(records)):
            if done.error is None:
                yield from map(dict, done.records)
            else:
                yield error_object(done.error, done.task.name)

    def checked(
        self, records: Iterable[Mapping[str, object]]
    ) -> Iterator[PromptRecord | BadRecord]:
        """Yield what prompt records say, checked, each with its id.

        Raises:
            DuplicateIdError: Two records name one id.
        """
        return prompts_from_records(records, **self.reading)

    def work_off(self, records: Iterable[PromptRecord | BadRecord]) -> Iterator[Done]:
        """Yield what becomes of checked records: the samples of each, or its error.

        Raises:
            CdecError: As ``sample``.
        """
        return self.done(self.tasks().of(records), self.work(), self._records)

    def tasks(self, **more: Any) -> SampleTasks:
        """Return what turns records into tasks; ``more`` are further attributes of it."""
        drawing = self._drawing
        return SampleTasks(
            resolver=self.resolver,
            reward=self.reward,
            n=drawing.n,
            seed=drawing.seed,
            max_new_tokens=drawing.max_new_tokens,
            **more,
        )

    def work(self, observer: Observer | None = None) -> Work:
        """Return what is done with tasks; the observer looks on. Texts are cut where they end."""
        draw = self.trace.watching(self.method.draw_batch, observer)
        greedy = self.trace.watching(greedily(self.method).draw_batch, observer)
        work = at_temperatures(self.model, self._warping, draw, greedy)
        return lambda tasks: list(map(self._cut, tasks, work(tasks)))

    def _cut(self, task: Task, found: Any) -> Any:
        """Return the samples of a task, each up to the first of its ``stops``; its error."""
        if not task.stops or isinstance(found, CdecError):
            return found
        request, vocabulary = task.request, self.model.vocabulary
        return [cut(sample, task.stops, request, vocabulary).as_sample for sample in found]

    def done(self, tasks: Iterable[Task | None], work: Work, records: Records) -> Iterator[Done]:
        """Yield what becomes of tasks, in their order, batch by batch.

        Raises:
            CdecError: As ``sample``.
        """
        return work_off(batches(tasks, self.batch_size), work, records, strict=self._strict)

    def take_notices(self) -> list[Notice]:
        """Return the warnings since the last call."""
        from cdec.core.child.judge import JUDGE

        found = [*self.resolver.take_notices(), *JUDGE.take_notices()]
        if self.reward is not None:
            found += self.reward.notices
            self.reward.notices = []
        if self._others.warning is not None:
            found.append(Notice("W_UNREAD_FIELDS", self._others.warning))
            self._others.unread.clear()
        return found

    def write_traces(self, samples: Iterable[Sample]) -> None:
        """Give the lines of samples to whoever takes their traces."""
        for sample in samples:
            self.trace.write(sample)

    def _records(self, task: Task, samples: Sequence[Sample]) -> list[dict[str, object]]:
        self.write_traces(samples)
        return [sample.to_json(self.fields) for sample in samples]


def _opened_model(execution: Execution) -> tuple[LanguageModel, str | None]:
    """Return the model, and the name by which it was loaded; None where it was given."""
    model = execution.model
    if isinstance(model, str):
        return load_model(model, **execution.load), model
    return (model() if callable(model) else model), None


def _timed(model: LanguageModel, clock: RunClock | None) -> LanguageModel:
    return model if clock is None else timed(model, clock)


def sample_records(
    records: Iterable[Mapping[str, object]], model: str | LanguageModel = EMBEDDED, **settings: Any
) -> Iterator[dict[str, Any]]:
    """Yield the samples of prompt records, as ``RecordSampler(model, **settings)`` draws them.

    Args:
        records: JSON-ready objects, as lines of a prompts file are.
        model: A name or path, or a model; the embedded one if not given.
        settings: As ``RecordSampler`` takes them.

    Raises:
        CdecError: As ``RecordSampler`` and its ``sample``.
    """
    with RecordSampler(model, **settings) as sampler:
        yield from sampler.sample(records)


def opened_options(
    method: Method,
    given: Mapping[str, Any],
    model: LanguageModel,
    name: str | None,
    execution: Execution,
) -> dict[str, Any]:
    """Return the options of a method with objects in the place of the names of models and files.

    Args:
        method: The options are its own.
        given: By name; objects stay as they are.
        model: What draws.
        name: By which the model was loaded; the embedded one brings its draft.
        execution: How the run is carried out.

    Raises:
        UsageError: A tree, which is of one record, where there are many.
        CdecError: What is named cannot be had, or does not fit the model.
    """
    values = dict(given)
    if values.get("tree") is not None and not execution.has_one_record:
        raise UsageError(
            "`tree` keeps the draws of one record, and records are many",
            hint="leave it out, or draw with the sampler itself",
        )
    if method.needs_draft and name == EMBEDDED:
        values.setdefault("draft", EMBEDDED_DRAFT)
    draft, reward, counts = (values.get(option) for option in ("draft", "reward", "counts"))
    if isinstance(draft, str) and draft not in (COUNTS, LOOKUP):
        values["draft"] = draft = _draft(draft, model, execution.draft_load)
    if isinstance(draft, LanguageModel):
        values["draft"] = _timed(draft, execution.clock)
    if isinstance(reward, str):
        from cdec.samplers.rewards import build_reward

        values["reward"] = build_reward(reward)
    if isinstance(counts, str | Path):
        from cdec.samplers.drafts.counts import Counts

        values["counts"] = Counts.load(Path(counts))
        values["counts"].require_vocabulary(model.vocabulary.vocabulary_hash)
    return values


def _draft(name: str, model: LanguageModel, load: Mapping[str, Any]) -> LanguageModel:
    from cdec.samplers.drafts.models import require_draft

    draft = load_model(name, device=str(model.device), **load)
    require_draft(model, draft)
    return draft


def _read(reward: Reward | None, held: ConstraintSpecification) -> frozenset[str] | None:
    """Return the fields of records that a reward or the constraint reads; None for any."""
    read: frozenset[str] | None = frozenset() if reward is None else reward.reads
    return None if read is None else read | held.document_fields
