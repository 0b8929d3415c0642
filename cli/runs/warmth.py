"""Tasks of one batch whose records may ask for temperatures of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from cdec.core.errors import CdecError, ChatTemplateMissingError

if TYPE_CHECKING:
    from cdec.core.models.base import LanguageModel
    from cdec.core.models.warping import Warping

ResultT = TypeVar("ResultT")


class WarmTask(Protocol):
    """A record on its way."""

    @property
    def request(self) -> object:
        """What a sampler or scorer takes, or the error that the record met."""

    @property
    def temperature(self) -> float | None:
        """The record's own; None takes the run's."""


def by_temperature(
    tasks: Sequence[WarmTask],
    model: LanguageModel,
    warping: Warping,
    work: Callable[[LanguageModel, list[Any]], Sequence[ResultT | CdecError]],
) -> list[ResultT | CdecError]:
    """Return a result or an error for each task; tasks of one temperature are done together.

    Args:
        tasks: In any order.
        model: As it was loaded.
        warping: The run's; a task's own temperature stands in the place of its temperature.
        work: Returns the results of requests, in their order, under a warped model.

    Raises:
        ChatTemplateMissingError: One is missing, and so it is for all records.
    """
    results: dict[int, ResultT | CdecError] = {}
    groups: dict[float, list[int]] = {}
    for i, task in enumerate(tasks):
        if isinstance(task.request, CdecError):
            results[i] = task.request
        else:
            warmth = warping.temperature if task.temperature is None else task.temperature
            groups.setdefault(warmth, []).append(i)
    for warmth, members in groups.items():
        view = model.with_warping(warmth, warping.top_k, warping.top_p)
        found = work(view, [tasks[i].request for i in members])
        results.update(zip(members, found, strict=True))
    ordered = [results[i] for i in range(len(tasks))]
    for result in ordered:
        if isinstance(result, ChatTemplateMissingError):
            raise result
    return ordered
