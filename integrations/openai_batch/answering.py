"""``answer_batch``: requests of a batch file in, the lines that answer them out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdec.core.errors import UsageError
from cdec.core.tokens.locations import EMBEDDED
from cdec.integrations.openai_batch.body import Asking
from cdec.integrations.openai_batch.drawing import BatchTasks, batch_work
from cdec.integrations.openai_batch.reading import requests_from_objects
from cdec.integrations.openai_batch.responses import Responses, refusal
from cdec.integrations.records.sampling import RecordSampler
from cdec.integrations.serving.settings import AskedLimits, ServingSettings
from cdec.samplers.facts import ABOUT
from cdec.samplers.registry import METHODS

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.integrations.records.tasks import Task

_OF_RECORDS = ("strict_fields", "template")


def answer_batch(
    requests: Iterable[Mapping[str, object]],
    model: str | LanguageModel = EMBEDDED,
    *,
    allow: Collection[str] = (),
    limits: AskedLimits | None = None,
    served_name: str | None = None,
    **settings: Any,
) -> Iterator[dict[str, Any]]:
    """Yield the lines that answer the requests of an OpenAI batch file, in their order.

    Args:
        requests: JSON-ready objects, as the lines of the file are.
        model: A name or path, or a model; the embedded one if not given.
        allow: Of ``candidates``, ``grammar``, ``regex``, ``schema``: what requests may bring to be
            compiled, in the limited child.
        limits: How many candidates, and how much text, a request may ask; None: the defaults.
        served_name: What requests call the model; if None the name that it was loaded by.
        settings: As ``RecordSampler`` takes them: ``constraint`` are the artifacts that requests
            may name, ``artifact`` holds those that name none.

    Returns:
        An iterator of lines; a request that cannot be answered as it asks has its own error there.

    Raises:
        CdecError: As ``RecordSampler``; what all requests would meet.
    """
    for name in _OF_RECORDS:
        if settings.get(name):
            raise UsageError(f"`{name}` is about records, not about requests", hint="leave it out")
    method = METHODS.get(settings.get("method", "disc"))
    called = served_name or (model if isinstance(model, str) else None)
    with RecordSampler(model, **settings) as sampler:
        asking = Asking(
            ServingSettings.of_requests(settings.get("constraint") or {}, allow, limits),
            model=called,
            n=settings.get("n", 1),
            max_n=sampler.reading["max_n"],
            is_greedy=method is not None and ABOUT[method.name].is_greedy(settings),
        )
        responses = Responses(sampler.model, called or "", sampler.fields)
        tasks = BatchTasks(sampler.tasks()).of(requests_from_objects(requests, asking))
        work = batch_work(sampler.work, sampler.batch_size)

        def answered(task: Task, samples: Sequence[Sample]) -> list[dict[str, object]]:
            sampler.write_traces(samples)
            return [responses.of(task.head, task.request, samples)]

        for done in sampler.done(tasks, work, answered):
            if done.error is not None:
                yield refusal(done.task.head, done.error)
            else:
                yield from map(dict, done.records)
