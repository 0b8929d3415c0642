"""Free text before a constraint or around it: what a model writes, and the markers that end it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cdec.core.errors import LimitError, UsageError
from cdec.core.options import Option, check_limits, limit

BUDGET = Option(name="budget", type=int, unit="tokens", at_least=0)
"""Most tokens of free text before a marker that is owed; then the model is forced into it."""
REGIONS = Option(name="regions", type=int, default=0, unit="regions", at_least=0)
"""Fewest tagged regions of a text."""


@dataclass(frozen=True, slots=True)
class MarkerLimits:
    """Limits of the markers of one text; they may come from strangers, as records' fields do.

    Raises:
        UsageError: One is out of bounds.
    """

    max_markers: int = limit(256, "Most texts at which free text of one record may end.")
    max_marker_bytes: int = limit(
        4096, "Longest texts at which free text of one record ends, bytes of all.", unit="bytes"
    )

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(frozen=True, slots=True)
class FreeText:
    """Text that the model writes freely, up to a marker at which the constraint begins.

    With ``after`` the constraint begins once and ends the text. With ``between`` it holds in tagged
    regions: any text, ``BEGIN``, a member, ``END``, any text, and so on; the model's own end of
    the text ends it.

    The law of a draw is P(free part) * Q(constrained part | free part), in turn where there are
    several regions; ``cdec.core.combine.free_part`` says which tokens the free part may not have.

    Attributes:
        after: Markers, the first of which to appear ends the free part. None where ``between`` is
            given.
        between: ``BEGIN`` and ``END`` of the tagged regions.
        budget: Most tokens of free text before a marker that is owed: the marker of ``after``, or
            one of the first ``regions`` regions. After that many, or where the model ends its text
            before, it is forced into the marker, from where it stands within one. None: free text
            may end without a marker, and nothing is forced but regions that are owed.
        regions: Fewest tagged regions. Where the model ends its text before, it is forced into the
            next one.
        limits: Of the markers; no part of what is asked for.
        thinking: What comes before all that: free text up to a marker of its own, its ``after``.
        closing: The text behind the constrained part of ``after``, which ends all.
        optional: Whether a text that ends without a marker of ``after`` is whole.

    Raises:
        UsageError: No marker or an empty one, both kinds, a number out of range, or a budget or a
            number of regions where nothing is owed.
        LimitError: Markers beyond the limits.
    """

    after: tuple[str, ...] = ()
    between: tuple[str, str] | None = None
    budget: int | None = None
    regions: int = 0
    limits: MarkerLimits = field(default_factory=MarkerLimits, compare=False, repr=False)
    thinking: FreeText | None = None
    closing: str | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        after = (self.after,) if isinstance(self.after, str) else tuple(self.after)
        object.__setattr__(self, "after", tuple(dict.fromkeys(after)))
        if self.between is not None:
            object.__setattr__(self, "between", tuple(self.between))
        BUDGET.check(self.budget)
        REGIONS.check(self.regions)
        self._require_markers()
        self._require_owed()

    @property
    def markers(self) -> tuple[str, ...]:
        """The texts at which the constraint begins."""
        return self.after if self.between is None else (self.between[0],)

    @property
    def end(self) -> str | None:
        """The text at which a tagged region ends; None where the constraint ends the text."""
        return None if self.between is None else self.between[1]

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that are to be found or spelt."""
        closing = () if self.closing is None else (self.closing,)
        return (*(self.after or self.between or ()), *closing)

    def owes(self, regions: int) -> bool:
        """Say whether free text must lead to a marker after so many regions."""
        return regions < self.regions if self.between is not None else self.budget is not None

    @classmethod
    def joined(
        cls,
        default: FreeText | None,
        *,
        after: tuple[str, ...] | None = None,
        between: tuple[str, str] | None = None,
        budget: int | None = None,
        regions: int | None = None,
        limits: MarkerLimits | None = None,
    ) -> FreeText | None:
        """Return what a record asks for, of which ``default`` says what it leaves open.

        Args:
            default: What holds where the record says nothing; None for no free text.
            after, between: The record's own markers; they replace those of ``default``.
            budget, regions: Replace those of ``default``.
            limits: Of the record's own markers; None takes those of ``default``.

        Raises:
            LimitError: As the constructor.
            UsageError: As the constructor; or a budget or regions, and no marker.
        """
        if after is not None or between is not None:
            is_alike = default is not None and (default.between is None) == (between is None)
            kept = default if is_alike else None
            if kept is not None:
                budget = kept.budget if budget is None else budget
                regions = kept.regions if regions is None else regions
            limits = limits or (MarkerLimits() if default is None else default.limits)
            thinking = None if default is None else default.thinking
            return cls(after or (), between, budget, regions or 0, limits, thinking)
        if default is None:
            if budget is None and not regions:
                return None
            raise UsageError(
                f"`{'regions' if budget is None else 'budget'}` is given, and no marker",
                hint="give `after` or `between` too, or leave it out",
            )
        return replace(
            default,
            budget=default.budget if budget is None else budget,
            regions=default.regions if regions is None else regions,
        )

    def _require_markers(self) -> None:
        if bool(self.after) == (self.between is not None):
            found = "both are" if self.after else "neither is"
            raise UsageError(
                f"free text ends at `after` or lies around `between`, and {found} given",
                hint="give one of the two",
            )
        if self.between is not None and len(self.between) != 2:
            raise UsageError(
                f"`between` has {len(self.between)} texts",
                hint="give the text that begins a region and the one that ends it",
            )
        name = "after" if self.between is None else "between"
        if self.between is not None and (self.closing is not None or self.optional):
            raise UsageError(
                "`closing` and `optional` are about `after`, and `between` is given",
                hint="leave them out: a tagged region has an end, and there may be none",
            )
        for marker in self.texts:
            if not isinstance(marker, str) or not marker:
                raise UsageError(
                    f"a marker of `{name}` is {shown(marker)}, expected a text that is not empty",
                    hint="give the text at which the constraint begins, or leave it out",
                )
            try:
                marker.encode()
            except UnicodeEncodeError as error:
                raise UsageError(
                    f"a marker of `{name}` has a lone surrogate at character {error.start}",
                    hint="write it as valid Unicode",
                ) from error
        self._require_few(name)

    def _require_few(self, name: str) -> None:
        markers, limits = self.after or self.between or (), self.limits
        size = sum(len(marker.encode()) for marker in markers)
        for found, unit, most, parameter in (
            (len(markers), "texts", limits.max_markers, "max_markers"),
            (size, "bytes", limits.max_marker_bytes, "max_marker_bytes"),
        ):
            if found > most:
                raise LimitError(
                    f"the markers of `{name}` are {found} {unit}; the limit is {most}",
                    hint=f"give fewer and shorter ones, or raise `{parameter}`",
                    limit=f"{parameter} {most}",
                )

    def _require_owed(self) -> None:
        if self.regions and self.between is None:
            raise UsageError(
                f"`regions` is {self.regions}, and `after` has none but one constrained part",
                hint="leave it out, or give `between`",
            )
        if self.budget is not None and self.between is not None and not self.regions:
            raise UsageError(
                f"`budget` is {self.budget}, and no region is owed that the model could be forced "
                "into",
                hint="give `regions` a number of 1 or more too, or leave `budget` out",
            )


def shown(text: object) -> str:
    """Return a marker for a message, cut to 40 characters."""
    return repr(text[:40] + "..." if isinstance(text, str) and len(text) > 40 else text)
