"""Counts of a run: records, their samples and what became of them, in numbers that add up."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdec.core.sample import FINISH_LENGTH

if TYPE_CHECKING:
    from cdec.core.sample import Sample
    from cdec.integrations.records.tasks import Done

SAMPLING = "sampling"
"""Name in summaries of the time of drawing that is neither the model's nor the masks'."""
_VERDICTS = {True: "valid", False: "invalid", None: "unknown"}


@dataclass
class Counts:
    """Counts of records, of their samples, and of the work.

    Attributes:
        records: Records, bad ones included.
        errors: Those that became error objects.
        samples: Samples drawn.
        tokens: Tokens of the samples.
        cut: Samples under a constraint that the length limit cut off.
        estimated: Records of several samples with an estimate of their mass.
        unreliable: Those whose estimate is not to be relied on.
        verdicts: Texts that are ``valid``, ``invalid``, or of which that is ``unknown``.
        ends: Samples by ``finish_reason``.
    """

    records: int = 0
    errors: int = 0
    samples: int = 0
    tokens: int = 0
    cut: int = 0
    estimated: int = 0
    unreliable: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)

    def note(self, done: Done) -> None:
        """Count a record that was worked on."""
        self.records += 1
        self.errors += done.error is not None
        samples: Sequence[Sample] = done.result or ()
        if len(samples) > 1:
            # One draw alone can hardly tell.
            self.estimate(samples[0].diagnostics.get("log_mass_reliable"))
        for sample in samples:
            self.count(sample)

    def estimate(self, is_reliable: object) -> None:
        """Count one record by its ``log_mass_reliable``; None is not an estimate."""
        self.estimated += isinstance(is_reliable, bool)
        self.unreliable += is_reliable is False

    def judge(self, is_valid: bool | None) -> None:
        """Count a text by its verdict."""
        self.verdicts[_VERDICTS[is_valid]] += 1

    def count(self, sample: Sample) -> None:
        """Count a sample."""
        self.samples += 1
        self.tokens += len(sample.token_ids)
        self.judge(sample.valid)
        self.ends[sample.finish_reason] += 1
        # Without a constraint nobody says where a text ends, and nothing is invalid.
        self.cut += sample.finish_reason == FINISH_LENGTH and sample.valid is not None

    def add(self, other: Counts) -> None:
        """Add the counts of other records."""
        for each in dataclasses.fields(Counts):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a JSON-ready object."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(Counts)}
        return {**values, "verdicts": dict(self.verdicts), "ends": dict(self.ends)}

    @classmethod
    def from_json(cls, counts: Mapping[str, Any]) -> Counts:
        """Return what ``to_json`` gave; what is not there is zero."""
        known = {each.name: each for each in dataclasses.fields(cls)}
        given = {name: value for name, value in counts.items() if name in known}
        named = {name: Counter(given.pop(name, {})) for name in ("verdicts", "ends")}
        return cls(**{**given, **named})
