"""Stages of texts with free parts, each drawn for all that are there together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from cdec.core.combine.free_part import FreePart, Reached
from cdec.core.combine.markers import require_spelt
from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.combine.tagged import StartedConstraint, TaggedConstraint
from cdec.core.errors import CdecError, UsageError
from cdec.core.record_fields.text_warnings import BUDGET, LOW_Z, shifted
from cdec.core.sample import FINISH_COMPLETE, FINISH_LENGTH, FINISH_NO_MARKER
from cdec.core.seeds import derive_seed
from cdec.samplers.free.records import record
from cdec.samplers.free.writing import Written, write
from cdec.samplers.request import MAX_NEW_TOKENS
from cdec.samplers.walks.batch import DEFAULT_MAX_NEW_TOKENS, require_same_vocabulary

if TYPE_CHECKING:
    from cdec.core.combine.free_text import FreeText
    from cdec.core.constraint import Constraint
    from cdec.core.models.base import LanguageModel
    from cdec.core.sample import Sample
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.samplers.base import Draw, Drawn, Observer, Sampler
    from cdec.samplers.request import Request

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

    def force(self) -> None:
        """Let the free part under way be forced into its marker."""
        self.is_forced = self.was_forced = True

    def add_warnings(self, sample: Sample, vocabulary: Vocabulary) -> None:
        """Add what a part that comes next warns of; loops are those of the whole text."""
        own = [each for each in sample.warnings if each["code"] in (LOW_Z, BUDGET)]
        if own:
            self.warnings += shifted(own, len(self.tokens), len(vocabulary.decode(self.tokens)))


_KEPT = 64
"""Constraints whose free parts are kept."""


class FreeParts:
    """What free parts are drawn under, kept from batch to batch: by vocabulary and constraint."""

    def __init__(self) -> None:
        self._tokens: dict[Vocabulary, SortedTokens] = {}
        self._parts: dict[Hashable, FreePart] = {}
        self._tagged: dict[Hashable, TaggedConstraint] = {}
        self._begun: dict[Hashable, Constraint] = {}

    def part(self, constraint: Constraint, free: FreeText, *, strict: bool) -> FreePart:
        """Return the free part before a constraint, or before a region of it."""
        key = constraint, free, strict
        if key not in self._parts:
            inner = constraint if free.end is None else self._region(constraint, free)
            tokens = self._sorted(constraint)
            self._parts[key] = FreePart(inner, free.markers, tokens, strict=strict)
            _forget(self._parts)
        return self._parts[key]

    def constrained(self, constraint: Constraint, free: FreeText, begun: bytes) -> Constraint:
        """Return what holds behind a marker, from the bytes on that its token has behind it."""
        inner = constraint if free.end is None else self._region(constraint, free)
        if not begun:
            return inner
        key = inner, begun
        if key not in self._begun:
            if isinstance(inner, TaggedConstraint):
                self._begun[key] = inner.started(begun)
            else:
                self._begun[key] = StartedConstraint(inner, begun)
            _forget(self._begun)
        return self._begun[key]

    def _region(self, constraint: Constraint, free: FreeText) -> TaggedConstraint:
        key = constraint, free.between
        if key not in self._tagged and free.between is not None:
            begin, end = (marker.encode() for marker in free.between)
            tokens = self._sorted(constraint)
            self._tagged[key] = TaggedConstraint(constraint, end, begin, tokens)
            _forget(self._tagged)
        return self._tagged[key]

    def _sorted(self, constraint: Constraint) -> SortedTokens:
        vocabulary = constraint.vocabulary
        if vocabulary not in self._tokens:
            self._tokens.clear()
            self._tokens[vocabulary] = SortedTokens(vocabulary)
        return self._tokens[vocabulary]


def _forget(kept: dict[Hashable, Any]) -> None:
    """Drop the oldest of what is kept, where there is too much."""
    while len(kept) > _KEPT:
        del kept[next(iter(kept))]


_TOGETHER = 32
"""Prompts of constrained parts that decode together; bounds memory, changes no result."""


class FreeTextDrawing:
    """Drawing of which some requests have free text; those and the others each together.

    Args:
        sampler: Draws the constrained parts; free parts are drawn as it draws.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._parts = FreeParts()

    def __call__(
        self,
        draw: Draw,
        model: LanguageModel,
        requests: Sequence[Request],
        observer: Observer | None,
    ) -> list[Drawn]:
        """Draw the parts of each text in turn; see ``Wrapping``."""
        if self._sampler.tree is not None:
            raise UsageError(
                "a tree belongs to one prompt, and free text leads to many",
                hint="leave `tree` out, or `after` and `between`",
            )
        free = [request for request in requests if request.free is not None]
        plain = [request for request in requests if request.free is None]
        found = iter(FreeDraws(self._sampler, self._parts, draw, model, free, observer).results())
        others = iter(draw(model, plain, observer) if plain else [])
        return [next(others if request.free is None else found) for request in requests]


class FreeDraws:
    """The draws of one batch of requests with free text, from their prompts to their ends.

    Args:
        sampler: Draws the constrained parts.
        parts: What free parts are drawn under.
        draw: The sampler at work.
        model: The language model.
        requests: Each with ``free``.
        observer: Is shown the free parts; None for nobody.
    """

    def __init__(
        self,
        sampler: Sampler,
        parts: FreeParts,
        draw: Draw,
        model: LanguageModel,
        requests: Sequence[Request],
        observer: Observer | None = None,
    ) -> None:
        self._sampler = sampler
        self._parts = parts
        self._draw = draw
        self._model = model
        self._requests = requests
        self._observer = observer
        self._errors: dict[int, CdecError] = {}
        self._draws: list[FreeDraw] = []
        for number, request in enumerate(requests):
            try:
                self._open(number, request)
            except CdecError as error:
                self._errors[number] = error

    def results(self) -> list[Drawn]:
        """Return for each request its samples in draw order, or the error that it met."""
        kept = ExitStack()
        try:
            while going := [draw for draw in self._draws if self._goes_on(draw)]:
                # What the model has read of a text stays until its next part has been read on.
                before, kept = kept, ExitStack()
                with before:
                    self._write([draw for draw in going if draw.constraint is None], kept)
                self._constrain([draw for draw in going if draw.constraint is not None])
        finally:
            kept.close()
        results: list[Drawn] = []
        for number, request in enumerate(self._requests):
            if number in self._errors:
                results.append(self._errors[number])
                continue
            own = [draw for draw in self._draws if draw.number == number]
            how = self._sampler.name, self._sampler.exactness, self._model.vocabulary
            results.append([record(request, draw, *how) for draw in own])
        return results

    def _open(self, number: int, request: Request) -> None:
        constraint, free = request.constraint, request.free
        if constraint is None or free is None:
            raise UsageError(
                "free text ends where a constraint begins, and there is none",
                hint="give a constraint, or leave `after` and `between` out",
            )
        if request.begun:
            raise UsageError("a text with free parts was begun already", hint="leave `begun` out")
        require_same_vocabulary(self._model, constraint)
        MAX_NEW_TOKENS.check(request.max_new_tokens)
        require_spelt(free, self._model.vocabulary)
        if free.owes(0):
            self._part(request).forced_at(0, 1)
        self._draws += [FreeDraw(number, i, int(seed)) for i, seed in enumerate(request.seeds)]

    def _goes_on(self, draw: FreeDraw) -> bool:
        return draw.finish is None and draw.number not in self._errors

    def _part(self, request: Request) -> FreePart:
        assert request.constraint is not None and request.free is not None  # opened
        return self._parts.part(request.constraint, request.free, strict=self._sampler.method.masks)

    def _write(self, draws: Sequence[FreeDraw], kept: ExitStack) -> None:
        """Draw the next free part, or forced marker, of each text; ``kept`` ends what is held."""
        asked: dict[Hashable, list[FreeDraw]] = {}
        for draw in draws:
            most = self._room(draw)
            if most < 1:
                self._cut(draw)
                continue
            key = draw.number, tuple(draw.tokens), draw.state, draw.is_forced, most
            asked.setdefault(key, []).append(draw)
        groups = list(asked.values())
        for some in _bunches(groups):
            requests = [self._free_request(group) for group in some]
            held = [self._held(group[0]) for group in some]
            written = self._written(requests, held, kept)
            for group, parts in zip(some, written, strict=True):
                if isinstance(parts, CdecError):
                    self._errors[group[0].number] = parts
                    continue
                for draw, part in zip(group, parts, strict=True):
                    self._add_free(draw, part)

    def _written(
        self, requests: Sequence[Request], held: Sequence[FreePart], kept: ExitStack
    ) -> list[list[Written] | CdecError]:
        sampler = self._sampler
        return write(
            self._model,
            requests,
            held,
            kept,
            is_greedy=sampler.takes_most_probable,
            stop_loops=sampler.stop_loops,
            observer=self._observer,
        )

    def _free_request(self, group: Sequence[FreeDraw]) -> Request:
        draw = group[0]
        return replace(
            self._requests[draw.number],
            seeds=[draw.free_seed() for draw in group],
            indices=None,
            max_new_tokens=self._room(draw),
            free=None,
            begun=tuple(draw.tokens),
        )

    def _held(self, draw: FreeDraw) -> FreePart:
        """Return what the free part under way is held to."""
        part, most = self._part(self._requests[draw.number]), self._room(draw)
        return part.forced_at(draw.state, most) if draw.is_forced else part.at(draw.state, most)

    def _room(self, draw: FreeDraw) -> int:
        """Return how many tokens the free part under way may still have."""
        request = self._requests[draw.number]
        free = request.free
        assert free is not None  # opened
        most = request.max_new_tokens
        left = (
            DEFAULT_MAX_NEW_TOKENS - draw.free_tokens if most is None else most - len(draw.tokens)
        )
        if draw.is_forced or (free.budget is not None and free.owes(len(draw.regions))):
            # Neither needs another limit, and the marker has no more tokens than bytes.
            owed = max(len(marker.encode()) for marker in free.markers)
            own = owed if draw.is_forced else (free.budget or 0) - draw.written
            return own if most is None else min(left, own)
        return left

    def _add_free(self, draw: FreeDraw, part: Written) -> None:
        """Take a free part in, and see what comes next."""
        sample = part.sample
        draw.add_warnings(sample, self._model.vocabulary)
        draw.tokens += sample.token_ids
        draw.written += len(sample.token_ids)
        draw.free_tokens += len(sample.token_ids)
        draw.log_p += part.log_p
        draw.free_log_p += part.log_p
        draw.free_log_z += part.log_z
        draw.add_part(sample, is_unconstrained=True)
        if isinstance(part.read, Reached):
            self._reach(draw, part.read)
            return
        draw.state = part.read
        if sample.finish_reason == FINISH_LENGTH:
            self._cut(draw)
        elif sample.finish_reason != FINISH_COMPLETE:
            draw.finish = sample.finish_reason
        else:
            self._end(draw, part)

    def _reach(self, draw: FreeDraw, read: Reached) -> None:
        request = self._requests[draw.number]
        assert request.constraint is not None and request.free is not None  # opened
        draw.marker, draw.onward = read.marker, read.onward
        draw.is_forced, draw.written = False, 0
        draw.constraint = self._parts.constrained(request.constraint, request.free, read.onward)

    def _end(self, draw: FreeDraw, part: Written) -> None:
        """The model ended the text: in its place it is forced into a marker that is owed."""
        free = self._requests[draw.number].free
        assert free is not None  # opened
        if free.owes(len(draw.regions)):
            draw.force()
            # The end was not taken.
            draw.trace = draw.trace and draw.trace[:-1]
            draw.warnings = [each for each in draw.warnings if each["token"] != len(draw.tokens)]
        else:
            draw.log_p += part.log_end
            draw.free_log_p += part.log_end
            draw.finish = FINISH_COMPLETE if free.end is not None else FINISH_NO_MARKER

    def _cut(self, draw: FreeDraw) -> None:
        """The free part has all its tokens: it is forced into a marker, or the text is cut."""
        free = self._requests[draw.number].free
        assert free is not None  # opened
        is_owed = free.budget is not None and free.owes(len(draw.regions))
        if is_owed and not draw.is_forced and draw.written >= (free.budget or 0):
            draw.force()
        else:
            draw.finish = FINISH_LENGTH

    def _constrain(self, draws: Sequence[FreeDraw]) -> None:
        """Draw the next constrained part of each text."""
        asked: dict[Hashable, list[FreeDraw]] = {}
        for draw in draws:
            most = self._requests[draw.number].max_new_tokens
            if most is not None and most <= len(draw.tokens):
                draw.finish = FINISH_LENGTH
                continue
            key = draw.number, tuple(draw.tokens), draw.constraint
            asked.setdefault(key, []).append(draw)
        groups = list(asked.values())
        for some in _bunches(groups):
            requests = [self._constrained_request(group) for group in some]
            for group, samples in zip(
                some, self._draw(self._model, requests, self._observer), strict=True
            ):
                if isinstance(samples, CdecError):
                    self._errors[group[0].number] = samples
                    continue
                for draw, sample in zip_longest(group, samples):
                    if sample is None:  # a method that ranks has no text left for it
                        self._draws.remove(draw)
                    else:
                        self._add_region(draw, sample)

    def _constrained_request(self, group: Sequence[FreeDraw]) -> Request:
        draw = group[0]
        request = self._requests[draw.number]
        most = request.max_new_tokens
        indices = request.indices
        return replace(
            request,
            constraint=draw.constraint,
            seeds=[draw.region_seed() for draw in group],
            indices=[d.position if indices is None else indices[d.position] for d in group],
            max_new_tokens=None if most is None else most - len(draw.tokens),
            free=None,
            begun=tuple(draw.tokens),
        )

    def _add_region(self, draw: FreeDraw, sample: Sample) -> None:
        """Take a constrained part in, and see whether free text comes next."""
        constraint, vocabulary = draw.constraint, self._model.vocabulary
        first, begun = len(draw.tokens), draw.onward
        start = len(vocabulary.decode(draw.tokens)) - len(begun)
        draw.add_warnings(sample, vocabulary)
        draw.tokens += sample.token_ids
        draw.add_part(sample, is_unconstrained=False)
        stop, rest = len(vocabulary.decode(draw.tokens)), None
        if isinstance(constraint, TaggedConstraint) and sample.finish_reason == FINISH_COMPLETE:
            rest = constraint.parted(sample.token_ids)[1]
            stop -= 0 if rest is None else len(rest) + len(constraint.end)
        draw.regions.append(Region(sample, first, begun, start, stop))
        draw.log_p += float("nan") if sample.logprob is None else sample.logprob
        draw.constraint, draw.onward = None, b""
        if rest is None:
            draw.finish = sample.finish_reason
        else:
            draw.state = self._part(self._requests[draw.number]).state_after(rest)


def _bunches(groups: Sequence[list[FreeDraw]]) -> Iterable[Sequence[list[FreeDraw]]]:
    """Yield groups, some at a time."""
    for start in range(0, len(groups), _TOGETHER):
        yield groups[start : start + _TOGETHER]
