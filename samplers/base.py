"""What every sampler shares: the request, the base class, validation of options."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cdec.core.errors import CdecError, UsageError
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.outcome import Outcome, build_samples
from cdec.samplers.walks.randomness import draw_seeds

if TYPE_CHECKING:
    import numpy as np

    from cdec.core.constraint import Constraint
    from cdec.core.models.base import LanguageModel, Prompt
    from cdec.core.sample import Sample

DEFAULT_MAX_WALKS = 2048
"""Candidates that decode together; more are decoded in chunks, which changes no result."""


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt, its constraint and its draws.

    Attributes:
        prompt: Text, token ids or chat messages.
        constraint: What samples must belong to; None for the model alone.
        seeds: One seed a draw, so ``len(seeds)`` samples are asked for.
        id: Copied into the samples.
        indices: Number of each draw within its record; ``0..n-1`` if None.
        max_new_tokens: Most tokens of a text, end event not counted; None takes the constraint's
            longest member, or 256.
        input: Fields passed through to the samples.
    """

    prompt: Prompt
    constraint: Constraint | None
    seeds: Sequence[int]
    id: object = None
    indices: Sequence[int] | None = None
    max_new_tokens: int | None = None
    input: Mapping[str, object] | None = None


class Sampler(ABC):
    """Draws texts from a model under a constraint.

    A subclass declares its options as keyword arguments of its constructor and implements ``run``.

    Attributes:
        name: As in ``SAMPLERS``.
        masks: Whether constraints forbid events while walking.
        exactness: How the law of the draws relates to Q = P(. | S): ``exact``, ``asymptotic``,
            ``divergence``, ``biased`` or ``heuristic``.
    """

    name: ClassVar[str]
    masks: ClassVar[bool] = True
    exactness: str

    @abstractmethod
    def run(self, batch: Batch) -> Outcome:
        """Draw one text for every draw of ``batch``."""

    def draw(
        self,
        model: LanguageModel,
        constraint: Constraint | None,
        prompt: Prompt,
        *,
        n: int = 1,
        rng: np.random.Generator,
        max_new_tokens: int | None = None,
        id: object = None,
    ) -> list[Sample]:
        """Draw ``n`` texts for one prompt.

        Args:
            model: Its vocabulary must be the constraint's.
            constraint: None draws from the model alone.
            prompt: Text, token ids or chat messages.
            n: Number of draws.
            rng: Gives each draw its seed.
            max_new_tokens: As in ``Request``.
            id: Copied into the samples.

        Returns:
            ``n`` samples, in draw order.

        Raises:
            CdecError: The prompt does not fit the model, or the constraint does not.
        """
        require("n", n, at_least=1)
        request = Request(
            prompt, constraint, draw_seeds(rng, n), id=id, max_new_tokens=max_new_tokens
        )
        samples = self.draw_batch(model, [request])[0]
        if isinstance(samples, CdecError):
            raise samples
        return samples

    def draw_batch(
        self, model: LanguageModel, requests: Sequence[Request]
    ) -> list[list[Sample] | CdecError]:
        """Draw for many prompts; all prompts and all their candidates decode together.

        Returns:
            For each request its samples, in draw order, or the error that its record met. On a
            tabular model the results do not depend on what else is in the batch.

        Raises:
            UsageError: Several requests, and a sampler that keeps the tree of one.
        """
        tree = getattr(self, "tree", None)
        if tree is not None and len(requests) != 1:
            raise UsageError(
                f"a tree belongs to one record, and there are {len(requests)}",
                hint="Draw for one record at a time, each with a tree of its own.",
            )
        try:
            with Batch(model, requests, masks=self.masks) as batch:
                if not batch.seeds:
                    return [batch.errors.get(i, []) for i in range(len(requests))]
                return build_samples(self.name, batch, self.run(batch))
        except CdecError as error:
            if len(requests) == 1:
                return [error]
            # One record failed while decoding and took the others with it: each alone, then.
            return [self.draw_batch(model, [request])[0] for request in requests]


def require(name: str, value: object, *, at_least: int, at_most: int | None = None) -> int:
    """Return an integer option.

    Raises:
        UsageError: It is no integer, below ``at_least``, or above ``at_most``.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise UsageError(
            f"{name} is {value!r}, expected an integer of at least {at_least}",
            hint=f"Give {name} a value of {at_least} or more.",
            option=name,
        )
    if at_most is not None and value > at_most:
        raise UsageError(
            f"{name} is {value}, expected an integer of at most {at_most}",
            hint=f"Give {name} a value of {at_most} or less: memory grows with it.",
            option=name,
        )
    return value


def require_number(
    name: str,
    value: object,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    infinite: bool = False,
) -> float:
    """Return an option that is a number within bounds, finite unless ``infinite`` ones will do.

    Raises:
        UsageError: It is none, or out of range.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    number = float(value) if is_number else math.nan  # type: ignore[arg-type]
    fits = least <= number <= most and (above < number < below or (infinite and number == below))
    if not fits:
        bounds = (("of {:g} or more", least), ("of {:g} or less", most))
        strict = (("above {:g}", above), ("below {:g}", below))
        said = [form.format(bound) for form, bound in (*bounds, *strict) if math.isfinite(bound)]
        raise UsageError(
            f"{name} is {value!r}, expected a number {' and '.join(said) or 'that is finite'}",
            hint=f"Give {name} such a number, or leave it out for the default.",
            option=name,
        )
    return number
