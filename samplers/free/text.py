"""FreeDraw: one text on its way, its parts so far."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdec.core.record_fields.text_warnings import BUDGET, LOW_Z, shifted
from cdec.core.seeds import derive_seed

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.sample import Sample
    from cdec.core.tokens.vocabulary import Vocabulary

COSTS = ("target_calls", "target_tokens", "distinct_evaluations", "draft_calls")
"""Fields of samples that are summed over the parts of a text."""


@dataclass(frozen=True)
class Region:
    """A constrained part.

    Attributes:
        sample: What the method drew.
        first: Number of its first token in the text. begun: Bytes of it in the token before.
        start: Bytes of the text before the part. stop: Bytes up to its end, the text that ends a
            tagged region left out.
    """

    sample: Sample
    first: int
    begun: bytes
    start: int
    stop: int


@dataclass(eq=False)
class FreeDraw:
    """One text on its way; its parts are drawn in turn, free text first.

    Attributes:
        number: Of its request. position: Of the draw in its request. seed: Of the draw.
        tokens: Drawn so far.
        state: Of the markers, where free text goes on.
        written: Tokens of the free part under way.
        free_tokens: Tokens of all free parts.
        log_p: Log P of the tokens so far. free_log_p: Of those of free parts.
        free_log_z: Sum of log Z over the events of free parts.
        is_forced: Whether the free part under way is forced into its marker.
        was_forced: Whether any was.
        marker: Number of the last marker reached.
        onward: What its token had behind it.
        constraint: Of the constrained part that comes next; None while text is free.
        regions: Constrained parts so far.
        finish: Why the text ended; None while it goes on.
        costs: What was computed for the parts.
        warnings: Of the parts, loops left out.
        stages: Free parts and forced markers so far.
        trace: What an observer wrote of the parts, line by line; None where nobody looks on.
    """

    number: int
    position: int
    seed: int
    tokens: list[int] = field(default_factory=list)
    state: int = 0
    written: int = 0
    free_tokens: int = 0
    log_p: float = 0.0
    free_log_p: float = 0.0
    free_log_z: float = 0.0
    is_forced: bool = False
    was_forced: bool = False
    marker: int | None = None
    onward: bytes = b""
    constraint: Constraint | None = None
    regions: list[Region] = field(default_factory=list)
    finish: str | None = None
    costs: Counter[str] = field(default_factory=Counter)
    warnings: list[dict[str, object]] = field(default_factory=list)
    stages: int = 0
    trace: list[dict[str, object]] | None = None

    def free_seed(self) -> int:
        """Return the seed of the free part, or forced marker, that comes next."""
        self.stages += 1
        return derive_seed(self.seed, "free", self.stages - 1)

    def region_seed(self) -> int:
        """Return the seed of the constrained part that comes next: at first the draw's own."""
        number = len(self.regions)
        return self.seed if not number else derive_seed(self.seed, "region", number)

    def add_part(self, sample: Sample, *, is_free: bool) -> None:
        """Add what was computed for a part, and what an observer wrote of it."""
        if sample.trace is not None:
            self.trace = (self.trace or []) + [{**line, "free": is_free} for line in sample.trace]
        for name in COSTS:
            value = sample.diagnostics.get(name)
            if isinstance(value, int):
                self.costs[name] += value

    def force(self) -> None:
        """Let the free part under way be forced into its marker."""
        self.is_forced = self.was_forced = True

    def add_warnings(self, sample: Sample, vocabulary: Vocabulary) -> None:
        """Add what a part that comes next warns of; loops are those of the whole text."""
        own = [each for each in sample.warnings if each["code"] in (LOW_Z, BUDGET)]
        if own:
            self.warnings += shifted(own, len(self.tokens), len(vocabulary.decode(self.tokens)))
