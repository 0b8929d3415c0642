"""Sampler, the base of all: checked options, one batch for many requests, its draft, records."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from cdec.core.errors import CdecError, UsageError
from cdec.core.progress import Progress, silent
from cdec.samplers.drafts.base import Draft, DraftOptions, draft_of
from cdec.samplers.facts import Method
from cdec.samplers.request import DRAWS, Request
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.outcome import Outcome, build_samples
from cdec.samplers.walks.randomness import draw_seeds

if TYPE_CHECKING:
    import numpy as np

    from cdec.core.combine.free.free_text import FreeText
    from cdec.core.constraint import Constraint
    from cdec.core.models.base import LanguageModel, Prompt
    from cdec.core.sample import Sample
    from cdec.samplers.free.draws import FreeParts
    from cdec.samplers.observer import Observer
    from cdec.samplers.rewards.base import Reward


class Sampler(ABC):
    """Draws texts from a model under a constraint.

    A subclass names its ``method``, whose options are the keywords of its constructor and become
    attributes, and implements ``run``. What runs it opens its draft and accounts for it.

    Args:
        options: By name; those left out have their defaults.

    Attributes:
        method: What is declared of it, in ``METHODS``.
        name: As in ``METHODS``.
        drafting: The draft; None for none.
        reward: What texts are scored by; None for nothing.
        tree: File of the tree of one record, for methods that keep one; None for none.
        stop_loops: Whether texts end where they loop.
        progress: Told how far a batch is, by methods that draw until a budget is spent; may be set.

    Raises:
        UsageError: An option out of range, or options that do not go together.
    """

    method: ClassVar[Method]
    name: ClassVar[str]
    __signature__: ClassVar[inspect.Signature]
    tree: object = None
    stop_loops: bool = False
    reward: Reward | None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "method" in vars(cls):
            cls.name = cls.method.name
            cls.__signature__ = cls.method.signature()

    def __init__(self, **options: Any) -> None:
        values = self.method.checked(options)
        self._free_parts: FreeParts | None = None
        self.progress: Progress = silent
        self.require_consistent(values)
        for name, value in values.items():
            setattr(self, name, value)
        self._require_reward()
        self.drafting = self.draft_of(values)

    @classmethod
    def require_consistent(cls, options: Mapping[str, Any]) -> None:
        """Refuse options that do not go together; what is given may be an object or its name.

        Args:
            options: The value of every option.

        Raises:
            UsageError: They do not.
        """
        return

    @classmethod
    def draft_of(cls, options: Mapping[str, Any]) -> DraftOptions | None:
        """Return the draft that options name; None for none.

        Args:
            options: The value of every option.

        Raises:
            UsageError: It is none, or there is none and the method needs one.
        """
        draft = draft_of(options)
        if draft is None and cls.method.needs_draft:
            raise UsageError(
                "there is no draft to propose tokens",
                hint="Give `draft` a smaller model of the same vocabulary, 'counts' or "
                "'prompt-lookup'.",
                option="draft",
            )
        return draft

    def _require_reward(self) -> None:
        """Refuse what is no reward, and none where one is needed."""
        if self.reward is None and not self.method.needs_reward:
            return
        from cdec.samplers.rewards.base import Reward

        if not isinstance(self.reward, Reward):
            raise UsageError(
                f"`reward` is {self.reward!r}, expected a Reward",
                hint="Build one with cdec.samplers.rewards.build_reward('coverage').",
                option="reward",
            )

    @property
    @abstractmethod
    def exactness(self) -> str:
        """How the law of the draws relates to Q = P(. | S).

        ``exact``, ``asymptotic``, ``divergence``, ``biased`` or ``heuristic``.
        """

    @property
    def takes_most_probable(self) -> bool:
        """Whether texts are the most probable ones that are found: then so is free text."""
        return False

    @abstractmethod
    def run(self, batch: Batch, draft: Draft | None) -> Outcome:
        """Draw one text for every draw of ``batch``, with the draft opened for it."""

    def outcome_of(self, batch: Batch) -> Outcome:
        """Open the draft for ``batch``, if there is one, run, and account for it."""
        if self.drafting is None:
            return self.run(batch, None)
        with self.drafting.on(batch) as draft:
            return draft.account(self.run(batch, draft))

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
        free: FreeText | None = None,
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
            free: As in ``Request``.

        Returns:
            ``n`` samples, in draw order; of ``topn`` fewer where fewer texts exist.

        Raises:
            CdecError: The prompt does not fit the model, or the constraint does not.
        """
        DRAWS.check(n)
        seeds = draw_seeds(rng, n)
        request = Request(
            prompt, constraint, seeds, id=id, max_new_tokens=max_new_tokens, free=free
        )
        samples = self.draw_batch(model, [request])[0]
        if isinstance(samples, CdecError):
            raise samples
        return samples

    def draw_batch(
        self,
        model: LanguageModel,
        requests: Sequence[Request],
        *,
        observer: Observer | None = None,
    ) -> list[list[Sample] | CdecError]:
        """Draw for many prompts; all prompts and all their candidates decode together.

        A reward scores the texts once they are drawn, unless the method itself does so.

        Args:
            model: Its vocabulary must be the constraints'.
            requests: What to draw.
            observer: Is shown what was drawn; changes no sample's text or weight.

        Returns:
            For each request its samples, in draw order, or the error that its record met. On a
            tabular model the results do not depend on what else is in the batch.

        Raises:
            UsageError: Several requests, and a sampler that keeps the tree of one; or it keeps one,
                and a request has free text.
        """
        if self.reward is None or self.method.needs_reward:
            return self._unscored(model, requests, observer)
        from cdec.samplers.rewards.base import draw_and_score

        drawing = partial(self._unscored, model, observer=observer)
        return draw_and_score(self.reward, requests, drawing, model.vocabulary)

    def _unscored(
        self, model: LanguageModel, requests: Sequence[Request], observer: Observer | None = None
    ) -> list[list[Sample] | CdecError]:
        """As ``draw_batch``, before a reward scores what was drawn."""
        if any(request.free is not None for request in requests):
            return self._draw_free(model, requests, observer)
        if self.tree is not None and len(requests) != 1:
            raise UsageError(
                f"a tree belongs to one record, and there are {len(requests)}",
                hint="Draw for one record at a time, each with a tree of its own.",
            )
        view = model if observer is None else observer.watched(model)
        try:
            how = {"masks": self.method.masks, "stop_loops": self.stop_loops}
            with Batch(view, requests, **how) as batch:
                if not batch.seeds:
                    return [batch.errors.get(i, []) for i in range(len(requests))]
                outcome = self.outcome_of(batch)
                results = build_samples(self.name, batch, outcome)
                if observer is not None:
                    observer.note(batch, outcome, results)
                return results
        except CdecError as error:
            if len(requests) == 1:
                return [error]
            # One record failed while decoding and took the others with it: each alone, then.
            return [self._unscored(model, [one], observer)[0] for one in requests]

    def _draw_free(
        self, model: LanguageModel, requests: Sequence[Request], observer: Observer | None
    ) -> list[list[Sample] | CdecError]:
        """Draw for requests of which some have free text, each kind together."""
        if self.tree is not None:
            raise UsageError(
                "a tree belongs to one prompt, and free text leads to many",
                hint="leave `tree` out, or `after` and `between`",
            )
        from cdec.samplers.free.draws import FreeDraws, FreeParts

        self._free_parts = self._free_parts or FreeParts()
        free = [request for request in requests if request.free is not None]
        plain = [request for request in requests if request.free is None]
        draws = FreeDraws(
            model,
            free,
            self._free_parts,
            partial(self._unscored, observer=observer),
            method=self.name,
            exactness=self.exactness,
            masks=self.method.masks,
            stop_loops=self.stop_loops,
            is_greedy=self.takes_most_probable,
            observer=observer,
        )
        found = iter(draws.results())
        others = iter(self._unscored(model, plain, observer) if plain else [])
        return [next(others if request.free is None else found) for request in requests]
