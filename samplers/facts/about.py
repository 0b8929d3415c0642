"""About: what users are told of a method: its law, weight, cost, source, and when to take it.

P is the model's law, S the texts that satisfy the constraint, Q = P(. | S), and Z the model's mass
on what is allowed at one step. A pass is one evaluation of the model, for one token of one text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class About:
    """What help, ``cdec methods`` and the reference say of a method.

    Attributes:
        summary: What it draws, one sentence of at most 61 characters.
        law: How its draws relate to Q, at most 15 characters.
        law_in_full: The same, one or two sentences.
        weight: What ``log_weight`` is, at most 16 characters.
        weight_in_full: The same, one sentence.
        cost: Passes of the model, at most 18 characters.
        cost_in_full: The same, one sentence.
        source: Paper or origin.
        when: When to take it, one sentence.
        takes_best: Whether it takes the most probable tokens, at whatever temperature.
    """

    summary: str
    law: str
    law_in_full: str
    weight: str
    weight_in_full: str
    cost: str
    cost_in_full: str
    source: str
    when: str
    takes_best: bool = False

    def is_greedy(self, values: Mapping[str, Any]) -> bool:
        """Return whether the most probable tokens are taken, with these options of the method."""
        return self.takes_best or bool(values.get("greedy"))
