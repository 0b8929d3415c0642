"""Requests as rewards see them; samples that are scored once they are drawn, without steering."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from cdec.core.errors import CdecError

if TYPE_CHECKING:
    from cdec.core.sample import Sample
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.samplers.request import Request
    from cdec.samplers.rewards.base import Asked, Reward

Drawn: TypeAlias = "list[Sample] | CdecError"
"""What became of a request: its samples, or its error."""


def asked_of(request: Request, vocabulary: Vocabulary) -> Asked:
    """Return what the texts of a request answer: its prompt or messages, as they were given.

    Token ids that stand for no other prompt are read as a text.
    """
    given = request.prompt if request.asked is None else request.asked
    if isinstance(given, str):
        return given
    if any(isinstance(part, Mapping) for part in given):
        return list(cast("Sequence[Mapping[str, Any]]", given))
    return vocabulary.decode(cast("Sequence[int]", given)).decode("utf-8", "replace")


def draw_and_score(
    reward: Reward,
    requests: Sequence[Request],
    draw: Callable[[list[Request]], list[Drawn]],
    vocabulary: Vocabulary,
) -> list[Drawn]:
    """Draw, and say in each sample how much a reward likes its text; all are scored together.

    A sample that has no text has null in the fields of the reward.

    Args:
        reward: Scores the text of each sample.
        requests: n requests.
        draw: Returns what becomes of requests.
        vocabulary: Of the model that draws.

    Returns:
        n results. A request whose record the reward refuses is not drawn for; one for which it
        fails has that error in place of its samples.
    """
    found = _refused(reward, requests)
    able = [number for number in range(len(requests)) if number not in found]
    if able:
        drawn = draw([requests[number] for number in able])
        found.update(zip(able, drawn, strict=True))
    for number, error in _score(reward, requests, found, vocabulary).items():
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
    asked = {number: asked_of(requests[number], vocabulary) for number in set(owners)}
    scores, errors = reward.evaluate(
        texts, [requests[n].input for n in owners], [asked[n] for n in owners]
    )
    fields = reward.satisfaction(scores)
    for row, sample in enumerate(scored):
        own = {name: values[row] for name, values in fields.items()}
        sample.diagnostics = {**sample.diagnostics, **own}
    # Of several errors of a request the first one counts.
    return {owners[row]: error for row, error in sorted(errors.items(), reverse=True)}
