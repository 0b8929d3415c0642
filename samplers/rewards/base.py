"""Rewards: scores of generated texts, failures that stay with a row, samples that are scored."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import CdecError, Notice, RewardError, UsageError

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.samplers.base import Draw, Drawn, Observer, Sampler
    from cdec.samplers.request import Request

Record = Mapping[str, object] | None
"""The other fields of a prompt's record: ``Request.input``."""
GivenPrompt: TypeAlias = str | Sequence[Mapping[str, Any]]
"""The prompt of a text as it was given: a string, or the chat messages."""

_SHOWN = 160
"""Characters of a text or of a foreign message in an error."""


class ShapeError(ValueError):
    """A reward returned something else than one number a text."""


class Reward(ABC):
    """Scores texts; the greater the better.

    A subclass takes the argument of its spec first, then its options as keywords.

    Args:
        argument: What follows the kind's colon in the spec, empty if nothing does.
        hard_threshold: A text satisfies the reward from this score on.

    Attributes:
        name: Kind, as in ``REWARDS``.
        fields: Names of the fields of samples that ``satisfaction`` gives.
        reads: Names of the fields of records that it reads; None where they may be any.
        notices: Warnings of what was scored so far.
    """

    name: ClassVar[str]
    fields: ClassVar[tuple[str, ...]] = ("reward", "satisfaction_soft", "satisfaction_hard")
    reads: ClassVar[frozenset[str] | None] = frozenset()

    def __init__(self, argument: str = "", *, hard_threshold: float = 1.0) -> None:
        self.notices: list[Notice] = []
        self.argument = argument
        self.hard_threshold = hard_threshold

    @property
    def title(self) -> str:
        """Name of the reward in messages."""
        return self.name

    def place_of(self, cause: Exception) -> str | None:
        """Return where in the user's own code an error arose, as ``file:line``; None elsewhere."""
        return None

    @abstractmethod
    def scores(
        self,
        texts: Sequence[str],
        records: Sequence[Record],
        prompts: Sequence[GivenPrompt] | None = None,
    ) -> NDArray[np.float64]:
        """Score generated texts.

        Args:
            texts: n texts, without their prompts. The same text, record and prompt give the same
                score, rounding apart, whatever else is scored.
            records: n records, text i belongs to record i.
            prompts: n prompts or lists of chat messages, which the texts answer; None where they
                are not known.

        Returns:
            float64[n].
        """

    def check(self, record: Record) -> None:  # noqa: B027  # most rewards read no record
        """Refuse a record that lacks what the reward reads; called before anything is drawn.

        Raises:
            FieldError: A field is missing or of the wrong type.
        """

    def is_satisfied(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return bool[n]: whether each score reaches ``hard_threshold``; NaN does not."""
        satisfied: NDArray[np.bool_] = np.asarray(scores, np.float64) >= self.hard_threshold
        return satisfied

    def satisfaction(self, scores: NDArray[np.float64]) -> dict[str, list[Any]]:
        """Return the fields of records with these scores (float64[n]), n values each."""
        values = scores, np.clip(scores, 0.0, 1.0), self.is_satisfied(scores)
        return {name: each.tolist() for name, each in zip(self.fields, values, strict=True)}

    def evaluate(
        self,
        texts: Sequence[str],
        records: Sequence[Record],
        prompts: Sequence[GivenPrompt] | None = None,
    ) -> tuple[NDArray[np.float64], dict[int, RewardError]]:
        """Score texts; a reward that fails on some of them fails for those rows alone.

        The texts are scored together. If that fails, or gives another number of scores, each is
        scored alone.

        Args:
            texts, records, prompts: As in ``scores``.

        Returns:
            float64[n] scores, NaN where the reward failed, and the error of each such row: it
            raised, or gave no finite number.
        """
        try:
            found = self._finite_or_nan(texts, records, prompts)
        except Exception as error:
            if len(texts) == 1:
                return np.full(1, np.nan), {0: self._error(texts[0], error)}
        else:
            bad = np.flatnonzero(np.isnan(found)).tolist()
            return found, {row: self._error(texts[row], None) for row in bad}
        found = np.full(len(texts), np.nan)
        errors: dict[int, RewardError] = {}
        for row, (text, record) in enumerate(zip(texts, records, strict=True)):
            asked = None if prompts is None else [prompts[row]]
            alone, failed = self.evaluate([text], [record], asked)
            found[row] = alone[0]
            if failed:
                errors[row] = failed[0]
        return found, errors

    def _finite_or_nan(
        self, texts: Sequence[str], records: Sequence[Record], prompts: Sequence[GivenPrompt] | None
    ) -> NDArray[np.float64]:
        """Score one batch, with NaN for what is no finite number.

        Raises:
            ShapeError: There is not one number a text.
            Exception: Whatever the reward raises.
        """
        found = as_scores(self.scores(texts, records, prompts), len(texts))
        found[~np.isfinite(found)] = np.nan
        return found

    def _error(self, text: str, cause: Exception | None) -> RewardError:
        if cause is None:
            problem, hint = "gave NaN or infinity", "Let it return a finite number."
        else:
            said = _cut(str(cause).strip().partition("\n")[0])
            place = self.place_of(cause)
            problem = f"failed with {type(cause).__name__}" + (f": {said}" if said else "")
            problem += f" at {place}" if place else ""
            hint = "Correct the reward, or what it reads of the record."
            if isinstance(cause, ShapeError):
                problem, hint = said, "Return a list of one number a text."
            elif isinstance(cause, CdecError):
                problem, hint = f"failed: {cause.message}", cause.hint or hint
        error = RewardError(
            f"the reward {self.title} {problem}, for the text {_cut(text)!r};"
            " expected one finite number",
            hint=hint,
            reward=self.name,
        )
        error.__cause__ = cause
        return error


def known_prompts(prompts: Sequence[GivenPrompt] | None) -> Sequence[GivenPrompt]:
    """Return the prompts, for a reward that cannot do without.

    Raises:
        RewardError: They are not known.
    """
    if prompts is None:
        raise RewardError(
            "the reward reads prompts, and they are not known here",
            hint="Give the prompts beside texts and records.",
        )
    return prompts


def as_scores(found: object, count: int) -> NDArray[np.float64]:
    """Return what a reward returned, as float64[count] of its own.

    Args:
        found: Of any type.
        count: Texts that were scored.

    Raises:
        ShapeError: It is not one number a text.
    """
    try:
        scores = np.array(found, np.float64)
    except (TypeError, ValueError) as error:
        kind = type(found).__name__
        held = f", not of numbers, {shown(found)}," if isinstance(found, list | tuple) else ""
        what = f"a {kind}{held}"
        raise ShapeError(f"returned {what} for {_counted(count, 'text')}") from error
    if found is None:
        raise ShapeError(f"returned None for {_counted(count, 'text')}")
    if scores.shape != (count,):
        number = "a number, no list," if scores.ndim == 0 else f"an array of shape {scores.shape}"
        what = _counted(len(scores), "number") if scores.ndim == 1 else number
        raise ShapeError(f"returned {what} for {_counted(count, 'text')}")
    return scores


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def shown(value: object) -> str:
    """Return a value of a record as JSON, cut to the length of a message."""
    try:
        written = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        written = repr(value)
    return _cut(written)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def prompt_of(request: Request, vocabulary: Vocabulary) -> GivenPrompt:
    """Return what the texts of a request answer: its prompt or messages, as they were given.

    Token ids that stand for no other prompt are read as a text.
    """
    given = request.prompt if request.asked is None else request.asked
    if isinstance(given, str):
        return given
    if any(isinstance(part, Mapping) for part in given):
        return list(cast("Sequence[Mapping[str, Any]]", given))
    return vocabulary.decode(cast("Sequence[int]", given)).decode("utf-8", "replace")


def require_reward(reward: object) -> None:
    """Refuse what is no reward.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(reward, Reward):
        raise UsageError(
            f"`reward` is {reward!r}, expected a Reward",
            hint="Build one with cdec.samplers.rewards.build_reward('coverage').",
            option="reward",
        )


class ScoredDrawing:
    """Drawing whose samples say how much a reward likes their texts; all are scored together.

    A sample that has no text has null in the fields of the reward. A request whose record the
    reward refuses is not drawn for; one for which it fails has that error in place of its samples.

    Args:
        sampler: Its ``reward`` scores.

    Raises:
        UsageError: That is no reward.
    """

    def __init__(self, sampler: Sampler) -> None:
        require_reward(sampler.reward)
        self._sampler = sampler

    def __call__(
        self,
        draw: Draw,
        model: LanguageModel,
        requests: Sequence[Request],
        observer: Observer | None,
    ) -> list[Drawn]:
        """Draw and score; see ``Wrapping``."""
        reward: Any = self._sampler.reward
        found = _refused(reward, requests)
        able = [number for number in range(len(requests)) if number not in found]
        if able:
            drawn = draw(model, [requests[number] for number in able], observer)
            found.update(zip(able, drawn, strict=True))
        for number, error in _score(reward, requests, found, model.vocabulary).items():
            found[number] = error
        return [found[number] for number in range(len(requests))]


def _refused(reward: Reward, requests: Sequence[Request]) -> dict[int, Drawn]:
    """Return the error of each request whose record lacks what the reward reads, by number."""
    refused: dict[int, Drawn] = {}
    for number, request in enumerate(requests):
        try:
            reward.check(request.input)
        except CdecError as error:
            refused[number] = error
    return refused


def _score(
    reward: Reward, requests: Sequence[Request], drawn: Mapping[int, Drawn], vocabulary: Vocabulary
) -> dict[int, CdecError]:
    """Add the reward's fields to all samples; return the error of each request it fails for."""
    texts, owners, scored = [], [], []
    for number, samples in drawn.items():
        for sample in () if isinstance(samples, CdecError) else samples:
            if sample.text is None:
                unknown = dict.fromkeys(reward.fields)
                sample.diagnostics = {**sample.diagnostics, **unknown}
            else:
                texts.append(sample.text)
                owners.append(number)
                scored.append(sample)
    if not texts:
        return {}
    asked = {number: prompt_of(requests[number], vocabulary) for number in set(owners)}
    scores, errors = reward.evaluate(
        texts, [requests[n].input for n in owners], [asked[n] for n in owners]
    )
    fields = reward.satisfaction(scores)
    for row, sample in enumerate(scored):
        own = {name: values[row] for name, values in fields.items()}
        sample.diagnostics = {**sample.diagnostics, **own}
    # Of several errors of a request the first one counts.
    return {owners[row]: error for row, error in sorted(errors.items(), reverse=True)}
