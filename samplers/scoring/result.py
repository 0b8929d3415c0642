"""What is asked of scoring, and what it says of one text: the request and the result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdec.samplers.learning.tree.bracket import Bracket

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.models.base import Prompt


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """One text to score.

    Attributes:
        prompt: Text, token ids or chat messages.
        constraint: What the text is held to; None for the model alone.
        text: As ``Constraint.text_of`` takes it: what the artifact puts around members, such as a
            leading blank, may be there or not.
        token_ids: Its tokens, forced ones included; scored as they are. One of the two is needed.
        seed: Of the candidates, if it is the first text of its prompt.
        pool: Texts of one prompt and constraint share their bounds within a pool.
    """

    prompt: Prompt
    constraint: Constraint | None = None
    text: str | None = None
    token_ids: Sequence[int] | None = None
    seed: int = 0
    pool: int = 0


@dataclass(frozen=True, slots=True)
class Score:
    """What is known of one text; natural logs, None where a number is not known or not finite.

    Attributes:
        text: As given, or what the ids spell.
        token_ids: What was scored; the end id not among them.
        tokens: Their texts; bytes that are no UTF-8 as ``\\xNN``.
        scored_text: What they spell together: with what the artifact puts around ``text``.
        logprob: The model's unmasked log probability of the tokens and of the end event (all end
            ids together). None where the model gives them none at all.
        events: How many events that is.
        is_constrained: Whether the fields below apply.
        log_z_sum: Sum of log Z over the events; None where one is not allowed.
        member: Whether every event is allowed.
        valid: Verdict of a check independent of the walk; None if it ran out of time.
        first_refused: Of others: ``token`` (position of the first event that is not allowed, the
            number of tokens for the end) and ``byte`` (bytes before it), both from 0.
        bracket: Certified, of P(S).
        annotations: Fields of the constraint, such as ``entity_ids``.
    """

    text: str
    token_ids: Sequence[int]
    tokens: Sequence[str]
    scored_text: str
    logprob: float | None
    events: int
    is_constrained: bool = False
    log_z_sum: float | None = None
    member: bool | None = None
    valid: bool | None = None
    first_refused: Mapping[str, int] | None = None
    bracket: Bracket = field(default_factory=Bracket)
    annotations: Mapping[str, object] = field(default_factory=dict)

    @property
    def perplexity(self) -> float | None:
        """exp(-logprob / events); None where either is missing."""
        if self.logprob is None or not self.events:
            return None
        exponent = -self.logprob / self.events
        return math.exp(exponent) if exponent < 700 else None

    @property
    def log_masked(self) -> float | None:
        """Log of the probability that masked decoding draws this text; None for never."""
        if self.logprob is None or self.log_z_sum is None:
            return None
        return min(0.0, self.logprob - self.log_z_sum)

    @property
    def probability(self) -> float | None:
        """Q of the text, where P(S) is known; None for non-members."""
        return self._of_q["probability"]

    @property
    def probability_lower(self) -> float | None:
        """Certified lower bound of Q of the text; None for non-members."""
        return self._of_q["probability_lower"]

    @property
    def probability_upper(self) -> float | None:
        """Certified upper bound of Q of the text; None for non-members."""
        return self._of_q["probability_upper"]

    @property
    def log_mass_lower(self) -> float | None:
        """Certified lower bound of log P(S); None for no mass."""
        return self.bracket.fields()["log_mass_lower"]

    @property
    def log_mass_upper(self) -> float | None:
        """Certified upper bound of log P(S); None for no mass."""
        return self.bracket.fields()["log_mass_upper"]

    @property
    def _of_q(self) -> dict[str, float | None]:
        return self.bracket.probability_of(self.logprob if self.member else None)

    def to_json(self) -> dict[str, object]:
        """Return one JSON-ready object, keys in the documented order."""
        record: dict[str, object] = {
            "text": self.text,
            "token_ids": list(self.token_ids),
            "tokens": list(self.tokens),
            "scored_text": self.scored_text,
            **self.annotations,
            "logprob": self.logprob,
            "perplexity": self.perplexity,
            "events": self.events,
        }
        if not self.is_constrained:
            return record
        record |= {
            "log_z_sum": self.log_z_sum,
            "log_masked": self.log_masked,
            "member": self.member,
            "valid": self.valid,
        }
        if self.first_refused is not None:
            record["first_refused"] = dict(self.first_refused)
        return record | self.bracket.fields() | self._of_q
