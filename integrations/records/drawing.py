"""Records become draws: a task for each that is not finished, the traces of its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from cdec.core.errors import FieldError
from cdec.data.output.lines import FinishedRecords
from cdec.data.prompts.record import BadRecord, PromptRecord
from cdec.integrations.records.stops import require_stops
from cdec.integrations.records.tasks import Task, own_error
from cdec.samplers.request import Request

if TYPE_CHECKING:
    from cdec.core.sample import Sample
    from cdec.integrations.records.resolver import ConstraintResolver
    from cdec.samplers.base import Observer
    from cdec.samplers.rewards import Reward


@dataclass(kw_only=True)
class SampleTasks:
    """Turns records into tasks, leaving out what an output to resume holds already.

    Attributes:
        resolver: What the texts of a record must belong to.
        n: Draws of records that ask for no number.
        seed: Of records that bring none.
        max_new_tokens: Of records that bring no ``max_tokens``; None as in ``Request``.
        finished: What is done already.
        reward: Looks at the fields of each record; None for no reward.
        keeps_input: Whether error objects say what their records brought, as samples do.
        skipped: Records left out so far.
        is_streamed: Whether texts are handed out while they grow, which cannot be cut then.
        has_keys: Whether the constraints of tasks so far have what tokens are guessed by.
    """

    resolver: ConstraintResolver
    n: int = 1
    seed: int = 0
    max_new_tokens: int | None = None
    finished: FinishedRecords = field(default_factory=FinishedRecords)
    reward: Reward | None = None
    keeps_input: bool = False
    skipped: int = 0
    is_streamed: bool = False
    has_keys: set[bool] = field(default_factory=set)

    def of(self, records: Iterable[PromptRecord | BadRecord]) -> Iterator[Task | None]:
        """Yield a task for each record that is not finished, None in the place of one that is."""
        for record in records:
            n = draws_of(record, self.n)
            missing = self.finished.missing(record.id, n)
            if not missing:
                self.skipped += 1
                yield None
            elif isinstance(record, BadRecord):
                yield Task(record.id, record.error, head=self._head(record), ends_run=True)
            else:
                yield self._task(record, n, frozenset(missing))

    def _task(self, record: PromptRecord, n: int, missing: frozenset[int]) -> Task:
        try:
            request = self.request(record, n)
            self._require_stops(record, request)
        except Exception as error:
            return Task(record.id, own_error(error), head=self._head(record))
        free = (record.after, record.between, record.budget, record.regions)
        own = (record.n, record.max_tokens, record.temperature, *free)
        ends_run = all(value is None for value in own)
        return Task(
            record.id,
            request,
            record.temperature,
            head=self._head(record),
            missing=missing,
            ends_run=ends_run,
            stops=record.stop,
        )

    def _require_stops(self, record: PromptRecord, request: Request) -> None:
        """Refuse to cut texts that cannot be.

        Raises:
            FieldError: They may call tools, have free text, or are handed out before they are cut.
        """
        if not record.stop:
            return
        require_stops(record, self.resolver.calls_of(record))
        why = "begins with free text" if request.free is not None else None
        if self.is_streamed:
            why = "is handed out while it grows"
        if why is not None:
            raise FieldError(
                f"line {record.line}: field 'stop' cuts a text that is drawn, and this one {why}",
                hint="leave one of the two out",
                field="stop",
                line=record.line,
            )

    def _head(self, record: PromptRecord | BadRecord) -> dict[str, object]:
        has_input = self.keeps_input and record.input is not None
        return {"input": record.input} if has_input else {}

    def request(self, record: PromptRecord, n: int, first: int = 0) -> Request:
        """Return what is drawn for a record: ``n`` texts, of which the first is number ``first``.

        Raises:
            Exception: The record asks for what cannot be had.
        """
        prompt, constraint = self.resolver.of(
            record, max_new_tokens=self.max_new_tokens, takes_free=True
        )
        free = self.resolver.free_text_of(record)
        self.has_keys.add(constraint is not None and constraint.facts.has_speculation_keys)
        if self.reward is not None:
            self.reward.check(record.input)
        longest = record.max_tokens
        return Request.numbered(
            prompt,
            constraint,
            id=record.id,
            n=n,
            first=first,
            seed=self.seed if record.seed is None else record.seed,
            max_new_tokens=self.max_new_tokens if longest is None else longest,
            input=record.input,
            asked=record.messages if record.prompt is None else record.prompt,
            free=free,
        )


def draws_of(record: PromptRecord | BadRecord, n: int) -> int:
    """Return how many records of an output a record asks for; ``n`` where it says nothing."""
    return 1 if isinstance(record, BadRecord) else record.n or n


class Trace:
    """Destination of traces, if any.

    Args:
        append: Takes each line; None takes nothing, and nothing is computed.
    """

    def __init__(self, append: Callable[[Mapping[str, object]], None] | None = None) -> None:
        self._append = append

    def watching(
        self, draw_batch: Callable[..., Any], observer: Observer | None = None
    ) -> Callable[..., Any]:
        """Return a sampler's ``draw_batch`` with somebody who looks on, if traces are written.

        Args:
            draw_batch: Of the sampler.
            observer: Who looks on in any case; None for nobody.
        """
        if self._append is None and observer is None:
            return draw_batch
        from cdec.samplers.scoring.trace import Tracer

        return partial(draw_batch, observer=observer or Tracer())

    def write(self, sample: Sample) -> None:
        """Write the lines of a sample."""
        if self._append is None:
            return
        from cdec.samplers.scoring.trace import traced_lines

        for line in traced_lines(sample):
            self._append(line)
