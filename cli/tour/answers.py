"""Five answers to one question: what masked decoding draws, what the law is, what exact draws.

The picture of the README and the last table of ``cdec demo``. Question and answers were searched
for, among some hundred questions and then all choices of three from 19 further answers, as a case
in which masked decoding is far from the law: they show an effect that can occur, not how often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdec.core.models.base import LanguageModel

QUESTION = "Would you like some tea?"
ANSWERS = ("yes please", "some other time", "no thanks", "maybe", "never mind")
DRAWS = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the answers.

    Attributes:
        text: The answer.
        masked: Share of the draws of masked decoding. exact: That of ``exact``.
        law: Its probability, given that the text is one of the answers.
    """

    text: str
    masked: float
    law: float
    exact: float


def five_answers(model: LanguageModel, seed: int = 0, draws: int = DRAWS) -> Sequence[Answer]:
    """Draw the answers by both methods, and compute their law.

    Args:
        model: The embedded one.
        seed: Of every draw.
        draws: Texts drawn by each method.

    Returns:
        The answers, in the order of ``ANSWERS``. Cost: some five dozen prefixes evaluated.
    """
    from cdec.compilers import set_constraint
    from cdec.samplers import classify, sample

    constraint = set_constraint(ANSWERS, model.vocabulary)
    (law,) = classify(model, constraint, [QUESTION])
    probabilities = {label.text: label.probability or 0.0 for label in law.labels}
    shares = {}
    for method in ("masked", "exact"):
        drawn = sample(model, constraint, QUESTION, method=method, n=draws, seed=seed)
        shares[method] = Counter(each.text for each in drawn)
    return [
        Answer(
            text,
            shares["masked"][text] / draws,
            probabilities[text],
            shares["exact"][text] / draws,
        )
        for text in ANSWERS
    ]
