"""Requests become draws: a task for each, of one prompt or several, done together with others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdec.core.errors import CdecError, ChatTemplateMissingError, FieldError
from cdec.integrations.openai_batch.body import MOST_LOGPROBS
from cdec.integrations.openai_batch.reading import BadRequest, BatchRequest
from cdec.integrations.openai_batch.responses import Draws, head_of, line_id
from cdec.integrations.records.drawing import SampleTasks
from cdec.integrations.records.tasks import Task, Work, own_error

if TYPE_CHECKING:
    from cdec.core.sample import Sample
    from cdec.data.prompts.record import BadRecord, PromptRecord
    from cdec.samplers.base import Observer


@dataclass
class BatchTasks:
    """Turns requests into tasks, leaving out those that an output to resume has answered.

    Attributes:
        inner: Makes the draws of one prompt, as for records.
    """

    inner: SampleTasks

    def of(self, records: Iterable[PromptRecord | BadRecord]) -> Iterator[Task | None]:
        """Yield a task for each request that is not answered, None in the place of one that is."""
        for record in records:
            if not self.inner.finished.missing(line_id(record.id), 1):
                self.inner.skipped += 1
                yield None
            elif isinstance(record, BatchRequest):
                yield self._task(record)
            elif isinstance(record, BadRequest):
                yield Task(record.id, record.error, head=head_of(record))

    def _task(self, asked: BatchRequest) -> Task:
        n = asked.n or self.inner.n
        request: Draws | CdecError
        try:
            request = Draws(
                asked,
                [
                    self.inner.request(record, n, first=place * n)
                    for place, record in enumerate(asked.of_each_prompt)
                ],
            )
        except Exception as error:
            request = _of_the_line(own_error(error))
        return Task(asked.id, request, asked.temperature, head=head_of(asked), top_p=asked.top_p)


def batch_work(work: Callable[[Observer | None], Work], size: int) -> Work:
    """Return work on tasks of ``Draws``; a result has the samples of all their prompts.

    Args:
        work: Returns work on tasks of single requests, with somebody who looks on or nobody.
        size: Most prompts decoded together.
    """
    from cdec.samplers.scoring.trace import Tracer

    plain, told = work(None), work(Tracer(max(MOST_LOGPROBS.values())))

    def done(tasks: Sequence[Task]) -> list[Any]:
        results: list[Any] = [[] for _ in tasks]
        for each, is_told in ((plain, False), (told, True)):
            parts = [
                (place, Task(task.name, request, task.temperature, top_p=task.top_p))
                for place, task in enumerate(tasks)
                if (task.request.asked.alternatives is not None) == is_told
                for request in task.request.requests
            ]
            for first in range(0, len(parts), size):
                chunk = parts[first : first + size]
                found = each([part for _, part in chunk])
                for (place, _), result in zip(chunk, found, strict=True):
                    results[place] = _joined(results[place], result)
        return results

    return done


def _joined(
    before: list[Sample] | CdecError, found: Sequence[Sample] | CdecError
) -> list[Sample] | CdecError:
    """Return the samples of some prompts of a request, or the first error that one of them met."""
    if isinstance(before, CdecError):
        return before
    return _of_the_line(found) if isinstance(found, CdecError) else [*before, *found]


def _of_the_line(error: CdecError) -> CdecError:
    """Return the error of one request: what all chats would miss is no fault of other requests."""
    if not isinstance(error, ChatTemplateMissingError):
        return error
    return FieldError(error.message, hint=error.hint, field="messages")
