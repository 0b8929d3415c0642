"""Texts on their way, part by part, and the record that each becomes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cdec.core.sample import (
    FINISH_BUDGET,
    FINISH_COMPLETE,
    FINISH_DEAD_END,
    FINISH_LENGTH,
    FINISH_LOOP,
    Sample,
    read_value,
)
from cdec.core.seeds import derive_seed
from cdec.core.shown import TraceLines
from cdec.core.text_warnings import BUDGET, LOW_Z, shifted
from cdec.samplers.loops import loop_warnings

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.samplers.request import Request

COSTS = ("target_calls", "path_calls", "target_tokens", "distinct_evaluations", "draft_calls")
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
        is_thinking: Whether that is the thinking before all else.
        thinking: Bytes of it, where it has ended, and its tokens; their markers included.
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
    is_thinking: bool = False
    thinking: tuple[bytes, int] | None = None
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

    def add_part(self, sample: Sample, *, is_unconstrained: bool) -> None:
        """Add what was computed for a part, and what an observer wrote of it."""
        if sample.trace is not None:
            self.trace = (self.trace or []) + [
                {**line, "free": is_unconstrained} for line in sample.trace
            ]
        for name in COSTS:
            value = sample.diagnostics.get(name)
            if isinstance(value, int):
                self.costs[name] += value

    def end_thinking(self, onward: bytes, vocabulary: Vocabulary) -> None:
        """Let free text begin behind the thinking, of whose last token it has ``onward``."""
        text = vocabulary.decode(self.tokens)
        self.thinking = text[: len(text) - len(onward)], len(self.tokens)
        self.is_thinking = False

    def force(self) -> None:
        """Let the free part under way be forced into its marker."""
        self.is_forced = self.was_forced = True

    def add_warnings(self, sample: Sample, vocabulary: Vocabulary) -> None:
        """Add what a part that comes next warns of; loops are those of the whole text."""
        own = [each for each in sample.warnings if each["code"] in (LOW_Z, BUDGET)]
        if own:
            self.warnings += shifted(own, len(self.tokens), len(vocabulary.decode(self.tokens)))


_EXACTNESS = ("exact", "asymptotic", "divergence", "biased", "heuristic")
"""From the nearest to Q; of several parts the last counts."""

_CUT = (FINISH_LENGTH, FINISH_DEAD_END, FINISH_BUDGET, FINISH_LOOP)
"""Of texts without an end."""


def record(
    request: Request, draw: FreeDraw, method: str, exactness: str, vocabulary: Vocabulary
) -> Sample:
    """Return the sample of a text whose parts are drawn.

    Args:
        request: What was asked for.
        draw: The parts.
        method: Name of the method.
        exactness: Of a text without a constrained part.
        vocabulary: Of the model.
    """
    regions = [region.sample for region in draw.regions]
    index = draw.position if request.indices is None else request.indices[draw.position]
    base = Sample(
        id=request.id,
        index=index,
        text=None,
        token_ids=draw.tokens,
        logprob=None if math.isnan(draw.log_p) or draw.finish in _CUT else draw.log_p,
        log_weight=_sum([region.log_weight for region in regions]),
        log_candidate_weight=_sum([region.log_candidate_weight for region in regions]),
        finish_reason=draw.finish or FINISH_COMPLETE,
        valid=False,
        method=method,
        exactness=max([region.exactness for region in regions] or [exactness], key=_distance),
        seed=draw.seed,
        input=request.input,
        trace=_trace(draw, request.id, index, method),
        warnings=_warnings(draw, vocabulary),
    )
    assert request.free is not None  # opened
    if request.free.end is not None:
        return _tagged(base, request, draw, vocabulary)
    markers = request.free.markers
    base.diagnostics = _fields(draw, markers) | _free_text(draw, vocabulary)
    if not draw.regions and draw.finish == FINISH_COMPLETE:  # it need not have a marker
        text = vocabulary.decode(draw.tokens).decode("utf-8", "replace")
        return replace(base, text=text, valid=True)
    if not draw.regions:
        return replace(base, log_weight=None, log_candidate_weight=None)
    (region,) = draw.regions
    sample = region.sample
    return replace(
        base,
        text=sample.text,
        valid=sample.valid,
        seed=sample.seed,
        diagnostics={**sample.diagnostics, **base.diagnostics},
        annotations=sample.annotations,
        reader=sample.reader,
    )


def _warnings(draw: FreeDraw, vocabulary: Vocabulary) -> list[dict[str, object]]:
    """Return what the text warns of: budgets, the step that the model wanted least, its loops."""
    spent = [each for each in draw.warnings if each["code"] == BUDGET]
    least = sorted((each for each in draw.warnings if each["code"] == LOW_Z), key=_log_z)[:1]
    return [*spent, *least, *loop_warnings(vocabulary, draw.tokens, vocabulary.decode(draw.tokens))]


def _log_z(warning: Mapping[str, Any]) -> float:
    return float(warning["log_z"])


def _tagged(base: Sample, request: Request, draw: FreeDraw, vocabulary: Vocabulary) -> Sample:
    """Return the sample of a text with tagged regions."""
    whole = vocabulary.decode(draw.tokens)
    is_whole = base.finish_reason == FINISH_COMPLETE
    verdicts = [region.sample.valid for region in draw.regions]
    valid: bool | None = is_whole and all(verdicts)
    if is_whole and not valid and False not in verdicts:
        valid = None
    regions = [_region(region, whole) for region in draw.regions]
    return replace(
        base,
        text=whole.decode("utf-8", "replace"),
        log_weight=base.log_weight if is_whole else None,
        log_candidate_weight=base.log_candidate_weight if is_whole else None,
        valid=valid,
        diagnostics={**_fields(draw, ()), "regions": regions},
        reader=_reader(request, regions),
    )


def _fields(draw: FreeDraw, markers: tuple[str, ...]) -> dict[str, object]:
    """Return the fields of free parts, and what all parts cost."""
    costs = {name: draw.costs[name] for name in COSTS if name in draw.costs}
    is_known = math.isfinite(draw.free_log_z) and not draw.was_forced
    marker = (
        {} if not markers else {"marker": None if draw.marker is None else markers[draw.marker]}
    )
    return {
        **costs,
        "free_tokens": draw.free_tokens,
        "free_logprob": draw.free_log_p,
        "free_log_z": draw.free_log_z if is_known else None,
        **marker,
        "forced": draw.was_forced,
        **_thinking(draw),
    }


def _thinking(draw: FreeDraw) -> dict[str, object]:
    """Return the fields of thinking that comes before other free text; none where there is none."""
    if draw.thinking is None:
        return {"thinking": None, "thinking_tokens": len(draw.tokens)} if draw.is_thinking else {}
    text, tokens = draw.thinking
    return {"thinking": text.decode("utf-8", "replace"), "thinking_tokens": tokens}


def _free_text(draw: FreeDraw, vocabulary: Vocabulary) -> dict[str, object]:
    """Return the free part of a text that has one, its marker included."""
    text = vocabulary.decode(draw.tokens[: draw.free_tokens])
    onward = draw.regions[0].begun if draw.regions else draw.onward
    return {"free_text": text[: len(text) - len(onward)].decode("utf-8", "replace")}


def _trace(draw: FreeDraw, id: object, index: int, method: str) -> TraceLines | None:
    """Return what an observer wrote of all parts, as the trace of one text."""
    if draw.trace is None:
        return None
    whose = {"id": id, "index": index}
    lines = [{**line, **whose, "position": at} for at, line in enumerate(draw.trace)]
    # Of the parts' first lines that of the text alone says what it is.
    first = [{**line, "method": method} for line in lines[:1]]
    return TraceLines([*first, *(_without(line, ("method", "prompt")) for line in lines[1:])])


def _without(line: Mapping[str, object], names: Collection[str]) -> dict[str, object]:
    return {name: value for name, value in line.items() if name not in names}


def _region(region: Region, whole: bytes) -> dict[str, object]:
    """Return what a record says of one tagged region."""
    sample = region.sample
    own = {name: value for name, value in sample.diagnostics.items() if name not in COSTS}
    return {
        "text": sample.text,
        "start": _characters(whole[: region.start]),
        "end": _characters(whole[: region.stop]),
        "first_token": region.first,
        "tokens": len(sample.token_ids),
        **sample.annotations,
        "log_weight": sample.log_weight,
        "log_candidate_weight": sample.log_candidate_weight,
        "finish_reason": sample.finish_reason,
        "valid": sample.valid,
        **{name: _finite(value) for name, value in own.items()},
    }


def _reader(request: Request, regions: list[dict[str, Any]]) -> Callable[[str], list[Any]] | None:
    """Return what makes values of the regions' members; None where they are no more than texts."""
    reader = None if request.constraint is None else request.constraint.facts.reader
    if reader is None:
        return None
    texts = [region["text"] for region in regions]
    return lambda text: [read_value(reader, part) for part in texts]


def _sum(weights: list[float | None]) -> float | None:
    known = [weight for weight in weights if weight is not None]
    return sum(known, 0.0) if len(known) == len(weights) else None


def _distance(exactness: str) -> int:
    return _EXACTNESS.index(exactness)


def _characters(text: bytes) -> int:
    return len(text.decode("utf-8", "replace"))


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
