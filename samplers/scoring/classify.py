"""Classification: the probability of every label for every prompt, from one pass over their trie.

log P(label | prompt) is the log probability of the label's tokens and of the end event behind them,
as in ``score``; normalised over the labels it is the law Q = P(. | labels), without drawing. Labels
that begin alike share their prefixes, and all prompts of a batch go through the model together.

Contextual calibration (Zhao et al., "Calibrate before use", ICML 2021, arXiv 2102.09690, section 5)
weighs labels by what the model says of them without content. With p a prompt's probabilities
normalised over the labels, and c the mean of those after content-free prompts, calibrated
probabilities are q proportional to p / c:

    log q = log p - log c - logsumexp(log p - log c).

The paper multiplies by W = diag(c)^-1, adds b = 0 and takes a softmax of W p. That orders labels
alike, but is nearly uniform whatever p: with two labels and c uniform, p = (1, 0) becomes (.88,
.12). So p / c is normalised here instead, which leaves p as it is where c is uniform.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import Constraint
from cdec.core.constraint_source import Held, made_for
from cdec.core.errors import CdecError, ContextLengthError, UsageError
from cdec.core.options import Option
from cdec.samplers.request import Request
from cdec.samplers.scoring.labels import CHUNK_BYTES, LabelTrie, label_log_probs
from cdec.samplers.walks.batch import Batch, require_same_vocabulary

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel, Prompt, Usage
    from cdec.core.models.warping import Warping


@dataclass(frozen=True, slots=True)
class LabelProbability:
    """One label of one prompt.

    Attributes:
        text: The label.
        entity_ids: Its ids, or the lines it came from; empty where labels were given as texts.
        probability: Among the labels, calibrated if that was asked for; None where all have 0.
        logprob: log P(label and its end | prompt), natural, over all texts; None for 0.
    """

    text: str
    entity_ids: Sequence[str]
    probability: float | None
    logprob: float | None

    def to_json(self) -> dict[str, object]:
        """Return one JSON-ready object; ``id`` is the first id, and all are there if several."""
        ids = list(self.entity_ids)
        record: dict[str, object] = {"text": self.text}
        if ids:
            record["id"] = ids[0]
        if len(ids) > 1:
            record["entity_ids"] = ids
        return record | {"probability": self.probability, "logprob": self.logprob}


@dataclass(frozen=True, slots=True)
class Classification:
    """The labels of one prompt.

    Attributes:
        labels: Best first, those of one probability by their text.
        log_mass: log of what the model gives to all labels together; None for 0.
        calibrate: How probabilities were calibrated.
        target_calls, target_tokens, distinct_evaluations: What they cost, as in samples.
    """

    labels: Sequence[LabelProbability]
    log_mass: float | None
    calibrate: str = "none"
    target_calls: int = field(default=0, kw_only=True)
    target_tokens: int = field(default=0, kw_only=True)
    distinct_evaluations: int = field(default=0, kw_only=True)

    @property
    def label(self) -> str | None:
        """The best label's text; None where the model gives 0 to all."""
        best = self.labels[0]
        return None if best.probability is None else best.text

    def to_json(self) -> dict[str, object]:
        """Return one JSON-ready object, keys in the documented order."""
        return {
            "label": self.label,
            "labels": [label.to_json() for label in self.labels],
            "log_mass": self.log_mass,
            "calibrate": self.calibrate,
            "target_calls": self.target_calls,
            "target_tokens": self.target_tokens,
            "distinct_evaluations": self.distinct_evaluations,
        }


def normalized(log_p: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return log probabilities float64[L] normalised to sum to one, and log of their sum before.

    Where all are -inf they stay so.
    """
    largest = float(log_p.max())
    if largest == -math.inf:
        return log_p, largest
    total = largest + math.log(float(np.exp(log_p - largest).sum()))
    return log_p - total, total


def best_labels(
    trie: LabelTrie,
    log_p: NDArray[np.float64],
    log_baseline: NDArray[np.float64] | None,
    top: int | None,
) -> tuple[list[LabelProbability], float | None]:
    """Return the labels of one prompt, best first, and the log of their mass.

    Args:
        trie: The labels, L of them.
        log_p: float64[L] log P of each.
        log_baseline: float64[L] of the calibration; None without one.
        top: How many labels to return; None for all.
    """
    log_q, log_mass = normalized(log_p)
    if log_baseline is not None:
        log_q, _ = normalized(log_q - log_baseline)
    # The texts stand sorted, so a stable sort puts those of one probability in their order.
    order = np.argsort(-log_q, kind="stable")[:top].tolist()
    is_none = math.isinf(log_mass)
    probability = np.exp(log_q)
    labels = [
        LabelProbability(
            trie.texts[i],
            trie.entity_ids[i],
            None if is_none else float(probability[i]),
            float(log_p[i]) if math.isfinite(log_p[i]) else None,
        )
        for i in order
    ]
    return labels, None if is_none else log_mass


Calibration: TypeAlias = Literal["none", "contextual"]

CALIBRATE = Option(name="calibrate", type=("none", "contextual"), default="none")
CONTENT_FREE = "N/A"
"""Stands for content where nothing else is said; a word of the paper's."""


def baseline(
    scored: Sequence[NDArray[np.float64] | CdecError],
) -> NDArray[np.float64] | CdecError:
    """Return log c, float64[L].

    Args:
        scored: float64[L] log P of the labels after each content-free prompt, all counting alike,
            or the error that it met.

    Returns:
        The log of the mean of the normalised probabilities; or the first error, or that of a label
        without probability.
    """
    found = []
    for log_p in scored:
        if isinstance(log_p, CdecError):
            return log_p
        found.append(normalized(log_p)[0])
    log_c: NDArray[np.float64] = np.logaddexp.reduce(found, axis=0) - math.log(len(found))
    if np.isinf(log_c).any():
        return UsageError(
            "a label has no probability without content, so there is nothing to divide by",
            hint="give other `content_free` prompts, or leave `calibrate` out",
        )
    return log_c


TOP = Option(name="top", type=int, unit="labels", at_least=1)
_NODES_AT_ONCE = 1 << 16
"""Most prefixes of prompts that are open together: their caches are released together."""


@overload
def classify(  # type: ignore[overload-overlap]  # a text is a sequence of texts, too
    model: LanguageModel,
    labels: Held | Sequence[str],
    prompts: str,
    *,
    top: int | None = None,
    calibrate: Calibration = "none",
    content_free: Sequence[Prompt] = (CONTENT_FREE,),
) -> Classification: ...


@overload
def classify(
    model: LanguageModel,
    labels: Held | Sequence[str],
    prompts: Sequence[Prompt],
    *,
    top: int | None = None,
    calibrate: Calibration = "none",
    content_free: Sequence[Prompt] = (CONTENT_FREE,),
) -> list[Classification]: ...


def classify(
    model: LanguageModel,
    labels: Held | Sequence[str],
    prompts: str | Sequence[Prompt],
    *,
    top: int | None = None,
    calibrate: Calibration = "none",
    content_free: Sequence[Prompt] = (CONTENT_FREE,),
) -> Classification | list[Classification]:
    """Return the probability of every label for every prompt.

        found = classify(model, ["red", "green"], "The colour of grass is")
        found.label, found.labels[0].probability

    Args:
        model: Its warping belongs to every probability.
        labels: Texts, tokenised as a set's members are by default; or a set, or its source, of
            which all members are labels.
        prompts: A text, or a sequence of prompts: texts, token ids, lists of chat messages.
        top: Return the most probable labels alone; None returns all. Normalised over all.
        calibrate: ``contextual`` divides by the labels' probabilities without content.
        content_free: Prompts without content, otherwise like the others; for ``contextual``.

    Returns:
        For a text its result, for a sequence one for each prompt. Cost: every distinct prefix of
        the labels is evaluated once a prompt.

    Raises:
        UsageError: No labels, or a constraint whose members are no list.
        CdecError: A prompt that the model cannot take, or without room for the longest label.
    """
    many: Sequence[Prompt] = [prompts] if isinstance(prompts, str) else prompts
    classifier = Classifier(top=top, calibrate=calibrate, content_free=content_free)
    given: Constraint | LabelTrie
    if isinstance(labels, Held):
        given = made_for(labels, model.vocabulary)
    else:
        given = LabelTrie.of_texts(labels, model.vocabulary)
    found = []
    for result in classifier.run(model, [ClassifyRequest(prompt, given) for prompt in many]):
        if isinstance(result, CdecError):
            raise result
        found.append(result)
    return found[0] if isinstance(prompts, str) else found


@dataclass(frozen=True, slots=True)
class ClassifyRequest:
    """One prompt and its labels.

    Attributes:
        prompt: Text, token ids or chat messages.
        labels: A constraint whose members they are, or their trie; None is refused.
    """

    prompt: Prompt
    labels: Constraint | LabelTrie | None


class Classifier:
    """Classifies prompts, each among labels of its own.

    Args:
        top, calibrate, content_free: As in ``classify``.
        chunk_bytes: Most bytes of distributions evaluated at a time; changes no result.

    Raises:
        UsageError: An option out of range; calibration without a prompt.
    """

    def __init__(
        self,
        *,
        top: int | None = None,
        calibrate: Calibration = "none",
        content_free: Sequence[Prompt] = (CONTENT_FREE,),
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self.top = TOP.check(top)
        self.calibrate = CALIBRATE.check(calibrate)
        if isinstance(content_free, str) or not content_free:
            raise UsageError(
                f"`content_free` is {content_free!r}, expected prompts", hint="give a list of them"
            )
        self.content_free = tuple(content_free) if calibrate == "contextual" else ()
        self._chunk_bytes = chunk_bytes
        self._tries: dict[Constraint, LabelTrie | CdecError] = {}
        self._baselines: dict[tuple[LabelTrie, Warping], NDArray[np.float64] | CdecError] = {}

    def run(
        self, model: LanguageModel, requests: Sequence[ClassifyRequest]
    ) -> list[Classification | CdecError]:
        """Classify prompts; those of one constraint share its trie.

        Args:
            model: Its vocabulary must be the labels'.
            requests: Prompts and labels.

        Returns:
            For each request what was found, or the error it met. On a tabular model the results do
            not depend on what else is asked for.
        """
        kept = self._tries
        # Those of this call are kept for the next one, which mostly asks for the same.
        self._tries = {}
        found: dict[int, Classification | CdecError] = {}
        asked: list[tuple[int, Prompt, LabelTrie]] = []
        for i, request in enumerate(requests):
            trie = self._trie(request.labels, kept, model)
            if isinstance(trie, CdecError):
                found[i] = trie
            else:
                asked.append((i, request.prompt, trie))
        baselines = self._baselines_of(model, list(dict.fromkeys(trie for _, _, trie in asked)))
        scored = self._scored(model, [(prompt, trie) for _, prompt, trie in asked])
        for (i, _, trie), result in zip(asked, scored, strict=True):
            found[i] = self._classified(trie, result, baselines.get(trie))
        return [found[i] for i in range(len(requests))]

    def _trie(
        self,
        labels: Constraint | LabelTrie | None,
        kept: Mapping[Constraint, LabelTrie | CdecError],
        model: LanguageModel,
    ) -> LabelTrie | CdecError:
        if isinstance(labels, LabelTrie):
            return labels
        if labels is None:
            return UsageError("a prompt has no labels", hint="give it a constraint")
        if labels not in self._tries:
            try:
                require_same_vocabulary(model, labels)
                self._tries[labels] = kept[labels] if labels in kept else LabelTrie.of(labels)
            except CdecError as error:
                self._tries[labels] = error
        return self._tries[labels]

    def _baselines_of(
        self, model: LanguageModel, tries: Sequence[LabelTrie]
    ) -> dict[LabelTrie, NDArray[np.float64] | CdecError]:
        """Return the baseline of each trie, as ``calibration.baseline``; none without prompts."""
        if not self.content_free:
            return {}
        kept, n, self._baselines = self._baselines, len(self.content_free), {}
        new = [trie for trie in tries if (trie, model.warping) not in kept]
        asked = [(prompt, trie) for trie in new for prompt in self.content_free]
        scored = [r if isinstance(r, CdecError) else r.log_p for r in self._scored(model, asked)]
        found = {trie: baseline(scored[n * i : n * (i + 1)]) for i, trie in enumerate(new)}
        for trie in tries:
            key = (trie, model.warping)
            found[trie] = self._baselines[key] = found[trie] if trie in found else kept[key]
        return found

    def _scored(
        self, model: LanguageModel, asked: Sequence[tuple[Prompt, LabelTrie]]
    ) -> list[_Scored | CdecError]:
        """Return log P of the labels of each prompt, or its error."""
        return [found for part in _parts(asked) for found in self._scored_together(model, part)]

    def _scored_together(
        self, model: LanguageModel, asked: Sequence[tuple[Prompt, LabelTrie]]
    ) -> list[_Scored | CdecError]:
        try:
            with Batch(model, [Request(prompt, None, ()) for prompt, _ in asked]) as batch:
                return self._of_batch(batch, [trie for _, trie in asked])
        except CdecError as error:
            if len(asked) == 1:
                return [error]
            # One prompt failed and took the others with it: each alone, then.
            return [self._scored_together(model, [one])[0] for one in asked]

    def _of_batch(self, batch: Batch, tries: Sequence[LabelTrie]) -> list[_Scored | CdecError]:
        model, found = batch.model, dict[int, _Scored | CdecError](batch.errors)
        for i, trie in enumerate(tries):
            room = None if i in found else model.max_new_tokens(int(batch.roots[i]))
            if room is not None and trie.depth > room:
                found[i] = _no_room(trie.depth, room)
        live = [i for i in range(len(tries)) if i not in found]
        if live:
            roots, held = batch.roots[live], [tries[i] for i in live]
            scores = label_log_probs(model, roots, held, chunk_bytes=self._chunk_bytes)
            for i, log_p in zip(live, scores, strict=True):
                found[i] = _Scored(log_p, model.usage(int(batch.roots[i])))
        return [found[i] for i in range(len(tries))]

    def _classified(
        self,
        trie: LabelTrie,
        scored: _Scored | CdecError,
        log_baseline: NDArray[np.float64] | CdecError | None,
    ) -> Classification | CdecError:
        if isinstance(scored, CdecError):
            return scored
        if isinstance(log_baseline, CdecError):
            return log_baseline
        labels, log_mass = best_labels(trie, scored.log_p, log_baseline, self.top)
        usage = scored.usage
        return Classification(
            labels,
            log_mass,
            self.calibrate,
            target_calls=usage.calls,
            target_tokens=usage.tokens,
            distinct_evaluations=usage.evaluations,
        )


class _Scored(NamedTuple):
    """log P of the labels of one prompt, float64[L], and what was computed for it."""

    log_p: NDArray[np.float64]
    usage: Usage


def _parts(
    asked: Sequence[tuple[Prompt, LabelTrie]],
) -> Iterator[Sequence[tuple[Prompt, LabelTrie]]]:
    """Cut prompts into parts of ``_NODES_AT_ONCE`` prefixes at most, of one prompt at least."""
    start = nodes = 0
    for stop, (_, trie) in enumerate(asked):
        if stop > start and nodes + len(trie.parent) > _NODES_AT_ONCE:
            yield asked[start:stop]
            start, nodes = stop, 0
        nodes += len(trie.parent)
    if start < len(asked):
        yield asked[start:]


def _no_room(longest: int, room: int) -> ContextLengthError:
    return ContextLengthError(
        f"the longest label has {longest} tokens, the model's context has room for {room} behind "
        "the prompt",
        hint="Shorten the labels or the prompt.",
        length=longest,
        limit=room,
    )
