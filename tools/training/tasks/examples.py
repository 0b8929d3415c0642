"""Examples of a task: rows to learn from, rows that are held out, and their separation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from cdec.core.errors import DataError


@dataclass(frozen=True)
class Example:
    """A row.

    Attributes:
        prompt: What the model is given.
        completion: What it is to write, with the space that separates it from the prompt.
        question: What is asked, without the order of its parts; rows of one question are all held
            out or all learnt from.
        reference: What is right, as ``cdec.data.metrics`` reads references.
        candidates: The texts that are allowed of this row; none where all of the task's are.
    """

    prompt: str
    completion: str
    question: str
    reference: Mapping[str, Any] = field(default_factory=dict)
    candidates: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Hash of the question, letters' case and spaces aside."""
        return sha256(" ".join(self.question.casefold().split()).encode()).hexdigest()

    @property
    def text(self) -> str:
        """The document to learn from."""
        return self.prompt + self.completion


Draw = Callable[[np.random.Generator], list[Example]]


@dataclass(frozen=True)
class Part:
    """A part of what is learnt from.

    Attributes:
        name: For the card.
        share: Of the training tokens, relative to the other parts.
        draw: Writes its examples once, in random order; perhaps new ones each time.
    """

    name: str
    share: float
    draw: Draw


@dataclass(frozen=True)
class Data:
    """A task's rows.

    Attributes:
        held_out: Measured on. Never learnt from: what parts draw is filtered by their keys.
        parts: Learnt from.
        members: The texts that are allowed of every row; none where rows have candidates, or the
            task has a schema.
    """

    held_out: Sequence[Example]
    parts: Sequence[Part]
    members: Sequence[str] = ()

    def documents(self, part: Part) -> Callable[[np.random.Generator], list[str]]:
        """Return what draws a part's documents without any question that is held out."""
        forbidden = {example.key for example in self.held_out}

        def draw(rng: np.random.Generator) -> list[str]:
            found = [e.text for e in part.draw(rng) if e.key not in forbidden]
            if not found:
                raise DataError(
                    f"all examples of {part.name} are held out", hint="give more data to learn from"
                )
            return found

        return draw


def in_any_order(examples: Sequence[Example]) -> Draw:
    """Return what writes all examples once, in random order."""
    return lambda rng: [examples[i] for i in rng.permutation(len(examples))]


def chosen(examples: Sequence[Example], count: int) -> list[Example]:
    """Return ``count`` examples by the hashes of their prompts, the same ones each time."""
    return sorted(examples, key=lambda e: (e.key, e.prompt))[:count]
