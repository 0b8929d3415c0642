"""Counts of a run: its summary in one line, and warnings about all of its texts and masses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cdec.cli.frame.progress import duration, plural
from cdec.core.errors import CdecError, Notice
from cdec.core.sample import (
    FINISH_BUDGET,
    FINISH_COMPLETE,
    FINISH_DEAD_END,
    FINISH_LENGTH,
    FINISH_LOOP,
    FINISH_NO_MARKER,
    Sample,
)
from cdec.integrations.records.counts import Counts

BY_DRAWING = "draw more with -n, or take --method exact, or asap with --until-converged 0.1"
BY_TRYING = "draw more with -n or --mass-draws, or take --method exact"
BY_LEARNING = "draw more with -n, or bound the mass with cdec mass --until-converged 0.1"
BY_MEASURING = "raise --candidates, or bound it with --until-converged 0.1"
_ENDS = {
    FINISH_LENGTH: "cut by length",
    FINISH_LOOP: "stopped in a loop",
    FINISH_DEAD_END: "at a dead end",
    FINISH_BUDGET: "past the budget",
    FINISH_NO_MARKER: "without a marker",
}
"""How texts end that do not end by themselves, in words."""
_LEAST_BLANK = 16
"""Characters from which on a text may be called white space for the most part."""


@dataclass(frozen=True)
class Spent:
    """Time and work of a run.

    Attributes:
        wall: Seconds by the clock on the wall, loading included.
        seconds: Of each activity, ``loading`` among them; of several workers together.
        calls: Of the model; None where there is none.
        tokens: That the model read; None likewise.
    """

    wall: float
    seconds: Mapping[str, float]
    calls: int | None = None
    tokens: int | None = None

    def rate(self, tokens: int) -> float:
        """Return how many of these tokens came a second, loading left out."""
        worked = self.wall - self.seconds["loading"]
        return tokens / worked if worked > 0 else 0.0

    def shares(self) -> dict[str, float]:
        """Return the share of each activity in the time after loading."""
        own = {"loading"} if self.calls is not None else {"loading", "model", "masks"}
        shown = {name: took for name, took in self.seconds.items() if name not in own}
        whole = sum(shown.values())
        return {name: took / whole if whole > 0 else 0.0 for name, took in shown.items()}


@dataclass
class Tally(Counts):
    """Counts of a run, and what is said of them; whoever writes a result counts it.

    Attributes:
        codes: Of the errors that records became.
        first: The first of them.
        blank: Samples that the length limit cut off and that are white space, half and more.
        unmarked: Samples whose free text never came to where the constraint begins.
    """

    codes: Counter[str] = field(default_factory=Counter)
    first: CdecError | None = None
    blank: int = 0
    unmarked: int = 0

    def fail(self, error: CdecError) -> None:
        """Count a record that became an error object."""
        self.errors += 1
        self.codes[error.code] += 1
        self.first = self.first or error

    @property
    def has_results(self) -> bool:
        """True where some record did not fail."""
        return self.errors < self.records

    @property
    def failure(self) -> tuple[CdecError, str] | None:
        """The first error, and the counts by code; None where no record failed."""
        if self.first is None:
            return None
        counts = ", ".join(f"{count:,} {code}" for code, count in self.codes.most_common())
        share = f"{self.errors:,} of" if self.has_results else "all"
        return self.first, f"{share} {plural(self.records, 'records')} failed: {counts}"

    def count(self, sample: Sample) -> None:
        """Count a sample; one without a marker is not cut off, whatever its length."""
        before = self.cut
        super().count(sample)
        is_whole = sample.finish_reason == FINISH_COMPLETE  # it need not have one
        if sample.diagnostics.get("marker", "") is None and not is_whole:
            self.unmarked += 1
            self.cut = before
        self.blank += self.cut > before and _is_blank(sample.text or "")

    @property
    def incomplete(self) -> int:
        """Number of samples that are not whole texts that the method gave for good."""
        return self.samples - self.ends[FINISH_COMPLETE]

    def mass_notices(self, remedy: str) -> list[Notice]:
        """Return the warning of masses that cannot be relied on; ``remedy`` says what helps."""
        if not self.unreliable:
            return []
        counts: dict[str, object] = {"records": self.estimated, "unreliable": self.unreliable}
        message = (
            f"of {self.unreliable} of {self.estimated} prompts log_mass is not reliable: too much "
            "of the constraint's mass may be in texts not seen yet; trust log_mass_lower and "
            f"log_mass_upper, and {remedy}"
        )
        return [Notice("W_MASS_UNRELIABLE", message, counts)]

    def notices(self, *, required: bool) -> Iterator[Notice]:
        """Yield the warnings of texts that were cut off.

        Args:
            required: Whether all samples must be complete.
        """
        if self.cut:
            yield Notice(
                "W_CUT",
                f"{self.cut:,} of {self.samples:,} {_were(self.cut)} cut at `max_new_tokens`, or "
                f"where the model's context ends: {self._cure()}",
                {"count": self.cut, "samples": self.samples, "blank": self.blank},
            )
        if self.unmarked:
            yield Notice(
                "W_NO_MARKER",
                f"{self.unmarked:,} of {plural(self.samples, 'samples')} never wrote the text of "
                "`after`, where the constraint begins: give `budget`, after which the model is "
                "forced into it",
                {"count": self.unmarked, "samples": self.samples},
            )
        if required and self.incomplete:
            yield Notice(
                "W_INCOMPLETE",
                f"{self.incomplete:,} of {self.samples:,} {_were(self.incomplete)} not complete, "
                "which `require_complete` asks for",
                {"count": self.incomplete, "samples": self.samples},
            )

    def _cure(self) -> str:
        """Return what helps against texts that are cut."""
        if not self.blank:
            return "raise `max_new_tokens`"
        which = "they are" if self.blank == self.cut else f"{self.blank:,} of them are"
        return (
            f"{which} white space for the most part: compile a schema with `whitespace` usual or "
            "compact, a grammar with a smaller `max_whitespace`"
        )

    def line(self, spent: Spent) -> str:
        """Return the run in one line."""
        shown = plural(self.records, "records")
        texts = self.verdicts.total()
        if texts not in (0, self.records - self.errors):
            shown += f", {plural(texts, 'samples' if self.ends else 'texts')}"
        counts = [f"{self.verdicts['valid']:,} valid"] if texts > self.verdicts["unknown"] else []
        counts += [f"{self.ends[end]:,} {words}" for end, words in _ENDS.items() if self.ends[end]]
        counts += [plural(self.errors, "errors")] if self.errors else []
        took = f"{spent.wall:.1f} s" if spent.wall < 10 else duration(spent.wall)
        cost = took if spent.calls is None else f"{took}, {plural(spent.calls, 'model calls')}"
        said = f"{shown}{': ' if counts else ''}{', '.join(counts)}; {cost}"
        return f"{said}; {', '.join(self._speed(spent))}"

    def _speed(self, spent: Spent) -> Iterator[str]:
        """Yield how fast the run was, and the share of each activity."""
        if spent.calls is not None:
            rate = spent.rate(self._worked(spent))
            yield f"{rate:,.0f} tokens/s" if rate >= 10 else f"{rate:.1f} tokens/s"
        for name, share in spent.shares().items():
            yield f"{name} {share:.0%}"

    def _worked(self, spent: Spent) -> int:
        """Return the tokens of the samples; where none are drawn, those that the model read."""
        return self.tokens if self.ends else spent.tokens or 0

    def json_line(self, spent: Spent) -> str:
        """Return the run as one JSON object."""
        import orjson

        worked = self._worked(spent)
        said = {
            **self.to_json(),
            "tokens": worked,
            "calls": spent.calls,
            "tokens_per_second": spent.rate(worked),
            "wall": spent.wall,
            "seconds": spent.seconds,
        }
        return orjson.dumps(said).decode()


def _is_blank(text: str) -> bool:
    """Say whether half of a text and more is white space."""
    return len(text) >= _LEAST_BLANK and 2 * sum(map(str.isspace, text)) >= len(text)


def _were(count: int) -> str:
    return "sample was" if count == 1 else "samples were"
