"""RecordSampler: opened once, it turns prompt records into sample records; ``sample_records``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdec.core.errors import Notice
from cdec.core.models.loading import load_model
from cdec.core.models.warping import Warping
from cdec.core.tokens.shipped import EMBEDDED
from cdec.data.prompts.names import OtherFields
from cdec.data.prompts.read import DEFAULT_MAX_N, prompts_from_records
from cdec.integrations.records.drawing import SampleTasks
from cdec.integrations.records.held import DEFAULT, RunConstraint
from cdec.integrations.records.opening import opened_options
from cdec.integrations.records.requirements import Requirements
from cdec.integrations.records.tasks import at_temperatures, batches, error_object, work_off
from cdec.integrations.records.tracing import Trace
from cdec.samplers.greedy import greedily
from cdec.samplers.registry import SAMPLERS
from cdec.samplers.sampling import BATCH_SIZE, named_method

if TYPE_CHECKING:
    from types import TracebackType

    from cdec.core.combine.free.free_text import FreeText, MarkerLimits
    from cdec.core.files.remote import FilePath
    from cdec.core.models.base import LanguageModel
    from cdec.core.sample import Sample
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.data.prompts.templates import PromptTemplate
    from cdec.integrations.records.sources import RecordSources
    from cdec.integrations.records.tasks import Done, Records, Task, Work
    from cdec.samplers.observer import Observer
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
        artifact: The constraint of records that name none; None where they bring their own.
        constraint: Name → artifact that records name in their field ``constraint``.
        conjoined: Artifacts that all texts must satisfy as well.
        deny: Texts never to emit.
        lookahead: Of grammars: terminals that a token may begin beyond its first; None for any.
        heal: Whether the cut end of prompts is healed; needs grammars.
        prefill: What texts of records that bring none begin with.
        free: What the model writes freely for records that do not say; None for nothing.
        marker_limits: Of the markers of records; None takes those of ``free``, or the defaults.
        sources: How the grammars, regexes and schemas of records are compiled; None: the defaults.
        template: Fills a prompt from the fields of a record.
        n: Draws of records that ask for no number.
        max_n: Most draws that a record may ask for.
        seed: Of records that bring none.
        temperature: Of records that bring none; above 0.
        top_k: Tokens kept at each step; None keeps all.
        top_p: Mass kept at each step; None keeps all.
        max_new_tokens: Of records that bring no ``max_tokens``; None as in ``Request``.
        batch_size: Prompts decoded together, which changes no result; None: what suits the method.
        fields: Fields of samples to keep; None keeps all.
        trace: Called with each line of the traces of samples, as ``cdec sample`` writes them: a
            line a token, before the sample's record is yielded; None computes none.
        strict_fields: Refuse records with fields that nothing reads.
        strict: Raise the first error of a record in the place of its error object.
        load: Further keywords of ``load_model`` for ``model``: ``device``, ``dtype``, ...
        draft_load: The same for a draft that is named.
        options: Of the method, as ``sample`` takes them, and by name: a draft's name or path, a
            reward's text, a file of counts.

    Attributes:
        model: The model.
        reading: Keywords by which ``read_prompts`` reads records as this sampler does.
        batch_size: Prompts decoded together. fields: As given.

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
        artifact: FilePath | None = None,
        constraint: Mapping[str, FilePath] | None = None,
        conjoined: Sequence[FilePath] = (),
        deny: Sequence[str] = (),
        lookahead: int | None = None,
        heal: bool = False,
        prefill: str | None = None,
        free: FreeText | None = None,
        marker_limits: MarkerLimits | None = None,
        sources: RecordSources | None = None,
        template: PromptTemplate | None = None,
        n: int = 1,
        max_n: int = DEFAULT_MAX_N,
        seed: int = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        max_new_tokens: int | None = None,
        batch_size: int | None = None,
        fields: Sequence[str] | None = None,
        trace: Callable[[Mapping[str, object]], None] | None = None,
        strict_fields: bool = False,
        strict: bool = False,
        load: Mapping[str, Any] | None = None,
        draft_load: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        declared = named_method(method)
        warping = Warping(temperature, top_k, top_p)
        named = ({} if artifact is None else {DEFAULT: artifact}) | dict(constraint or {})
        begun: dict[str, Any] = {"lookahead": lookahead, "heal": heal, "prefill": prefill}
        begun |= {"free": free, "marker_limits": marker_limits}
        held = RunConstraint.read(named=named, others=conjoined, denied=deny, **begun)
        self.model = load_model(model, **(load or {})) if isinstance(model, str) else model
        name = model if isinstance(model, str) else None
        opened = opened_options(declared, options, self.model, name, draft_load)
        self._reward: Reward | None = opened.get("reward")
        self._warping, self._sampler, self._trace = (
            warping,
            SAMPLERS[method](**opened),
            Trace(trace),
        )
        needed, masks = declared.needs_constraint, declared.masks
        self._requirements = Requirements(
            held, self.model, required=needed, masks=masks, sources=sources
        )
        self._defaults: dict[str, Any] = {"n": n, "seed": seed, "max_new_tokens": max_new_tokens}
        self.batch_size = batch_size or (1 if declared.streams else BATCH_SIZE)
        self.fields, self._strict = fields, strict
        self._others = _other_fields(self._reward, fields, strict_fields)
        self.reading: dict[str, Any] = {
            "template": template,
            "max_n": max_n,
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
        self._requirements.__exit__()

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

    def tasks(self) -> SampleTasks:
        """Return what turns records into tasks."""
        return SampleTasks(requirements=self._requirements, reward=self._reward, **self._defaults)

    def work(self, observer: Observer | None = None) -> Work:
        """Return what is done with tasks; the observer looks on."""
        draw = self._trace.watching(self._sampler.draw_batch, observer)
        greedy = self._trace.watching(greedily(self._sampler).draw_batch, observer)
        return at_temperatures(self.model, self._warping, draw, greedy)

    def done(self, tasks: Iterable[Task | None], work: Work, records: Records) -> Iterator[Done]:
        """Yield what becomes of tasks, in their order, batch by batch.

        Raises:
            CdecError: As ``sample``.
        """
        for batch in batches(tasks, self.batch_size):
            for done in work_off(batch, work, records):
                if done.error is not None and (self._strict or done.ends_run):
                    raise done.error
                yield done

    def take_notices(self) -> list[Notice]:
        """Return the warnings since the last call."""
        from cdec.core.validity.judge import JUDGE

        found = [*self._requirements.take_notices(), *JUDGE.take_notices()]
        if self._reward is not None:
            found += self._reward.notices
            self._reward.notices = []
        if self._others.warning is not None:
            found.append(Notice("W_UNREAD_FIELDS", self._others.warning))
            self._others.unread.clear()
        return found

    def write_traces(self, samples: Iterable[Sample]) -> None:
        """Give the lines of samples to whoever takes their traces."""
        for sample in samples:
            self._trace.write(sample)

    def _records(self, task: Task, samples: Sequence[Sample]) -> list[dict[str, object]]:
        self.write_traces(samples)
        return [sample.to_json(self.fields) for sample in samples]


def _other_fields(
    reward: Reward | None, fields: Sequence[str] | None, strict_fields: bool
) -> OtherFields:
    """Return what becomes of the fields of records that are not cdec's own."""
    return OtherFields(
        frozenset() if reward is None else reward.reads,
        passed_on=fields is None or "input" in fields,
        strict_fields=strict_fields,
    )


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
