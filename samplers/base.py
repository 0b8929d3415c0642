"""Samplers: checked options, one batch for many requests, its draft, records, and an observer.

Free text and rewards are none of a sampler's business: they are drawn around it (``WRAPPERS``).
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from cdec.core.errors import CdecError, UsageError
from cdec.core.progress import Progress, silent
from cdec.samplers.drafts.base import Draft, DraftOptions
from cdec.samplers.method import Method
from cdec.samplers.request import DRAWS, Request
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.candidates import Told
from cdec.samplers.walks.outcome import Outcome, build_samples
from cdec.samplers.walks.randomness import draw_seeds
from cdec.samplers.wrappers import WRAPPERS, Wrapper, draft_of, imported

if TYPE_CHECKING:
    import numpy as np

    from cdec.core.combine.free_text import FreeText
    from cdec.core.constraint import Constraint
    from cdec.core.models.language_model import LanguageModel, Prompt
    from cdec.core.sample import Sample

Drawn: TypeAlias = "list[Sample] | CdecError"
"""Outcome of a request: its samples, or its error."""
Draw: TypeAlias = "Callable[[LanguageModel, Sequence[Request], Observer | None], list[Drawn]]"
"""Draws for requests, all together."""


class Observer(Protocol):
    """Looks on; decides nothing. Where there is none, nothing is computed for it."""

    @property
    def told(self) -> Told | None:
        """What is told of every token of the draws of masked and greedy decoding; None for none."""

    def watched(self, model: LanguageModel) -> LanguageModel:
        """Return a view of the model that tells what it evaluates."""

    def note(self, batch: Batch, outcome: Outcome, results: Sequence[Drawn]) -> None:
        """Take what was drawn, and write into the samples what is found of it.

        Args:
            batch: Still open.
            outcome: What the sampler decided.
            results: The samples of each request, in draw order, or its error.
        """

    def note_joined(self, results: Sequence[Drawn]) -> None:
        """Take the samples of texts with free parts, whose parts were noted one by one."""


class Wrapping(Protocol):
    """Draws around a sampler, of which it was made; see ``WRAPPERS``."""

    def __call__(
        self,
        draw: Draw,
        model: LanguageModel,
        requests: Sequence[Request],
        observer: Observer | None,
    ) -> list[Drawn]:
        """Return for each request its samples, or its error; ``draw`` is what lies within."""


class Sampler(ABC):
    """Draws texts from a model under a constraint.

    A subclass names its ``method``, whose options are the keywords of its constructor and become
    attributes, and implements ``run``. What runs it opens its draft and accounts for it. A method
    says of its own options what they do; those that several have are said in ``samplers.options``.

    Args:
        options: By name; those left out have their defaults.

    Attributes:
        method: What is declared of it, in ``METHODS``.
        name: As in ``METHODS``.
        drafting: The draft; None for none.
        draft_decides: Whether what is drawn depends on what a draft proposes.
        reward: What scores texts; None for nothing.
        tree: File of the tree of one record, for methods that keep one; None for none.
        stop_loops: Whether texts end where they loop.
        progress: Told how far a batch is, by methods that draw until a budget is spent; may be set.

    Raises:
        UsageError: An option out of range, or options that do not go together.
    """

    method: ClassVar[Method]
    name: ClassVar[str]
    draft_decides: ClassVar[bool] = False
    __signature__: ClassVar[inspect.Signature]
    tree: object = None
    stop_loops: bool = False
    reward: object

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "method" in vars(cls):
            cls.name = cls.method.name
            cls.__signature__ = cls.method.signature()

    def __init__(self, **options: Any) -> None:
        values = self.method.checked(options)
        self._wrappings: dict[Wrapper, Wrapping] = {}
        self.progress: Progress = silent
        self.require_consistent(values)
        for name, value in values.items():
            setattr(self, name, value)
        self._wrapped(())
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
        draft = draft_of(options, decides=cls.draft_decides)
        if draft is None and cls.method.needs_draft:
            raise UsageError(
                "there is no draft to propose tokens",
                hint="Give `draft` a smaller model of the same vocabulary, 'counts' or "
                "'prompt-lookup'.",
                option="draft",
            )
        return draft

    def _wrapped(self, requests: Sequence[Request]) -> list[Wrapping]:
        """Return what draws around this sampler, the innermost first."""
        asked = [wrapper for wrapper in WRAPPERS if wrapper.applies(self, requests)]
        for wrapper in asked:
            if wrapper not in self._wrappings:
                self._wrappings[wrapper] = imported(wrapper.home)(self)
        return [self._wrappings[wrapper] for wrapper in asked]

    @property
    @abstractmethod
    def exactness(self) -> str:
        """Relation of the law of the draws to Q = P(. | S).

        ``exact``, ``asymptotic``, ``divergence``, ``biased`` or ``heuristic``.
        """

    @property
    def takes_most_probable(self) -> bool:
        """True where texts are the most probable ones that are found: then so is free text."""
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
    ) -> list[Drawn]:
        """Draw for many prompts; all prompts and all their candidates decode together.

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
        draw: Draw = self._draw_batch
        for wrapping in self._wrapped(requests):
            draw = partial(wrapping, draw)
        return draw(model, requests, observer)

    def _draw_batch(
        self, model: LanguageModel, requests: Sequence[Request], observer: Observer | None
    ) -> list[Drawn]:
        """As ``draw_batch``, with nothing around it."""
        if self.tree is not None and len(requests) != 1:
            raise UsageError(
                f"a tree belongs to one record, and there are {len(requests)}",
                hint="Draw for one record at a time, each with a tree of its own.",
            )
        view = model if observer is None else observer.watched(model)
        try:
            how: dict[str, Any] = {"masks": self.method.masks, "stop_loops": self.stop_loops}
            how["told"] = None if observer is None else observer.told
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
            return [self._draw_batch(model, [one], observer)[0] for one in requests]
