"""Stages of texts with free parts, each drawn for all that are there together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from cdec.core.combine.free_part import FreePart, Reached
from cdec.core.combine.free_parts import FreeParts
from cdec.core.combine.markers import require_spelt
from cdec.core.combine.tagged import TaggedConstraint
from cdec.core.errors import CdecError, UsageError
from cdec.core.sample import FINISH_COMPLETE, FINISH_LENGTH, FINISH_NO_MARKER
from cdec.samplers.free.records import FreeDraw, Region, record
from cdec.samplers.free.writing import Written, write
from cdec.samplers.request import DEFAULT_MAX_NEW_TOKENS, MAX_NEW_TOKENS, TextPart
from cdec.samplers.walks.batch import require_same_vocabulary

if TYPE_CHECKING:
    from cdec.core.combine.free_text import FreeText
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.samplers.base import Draw, Drawn, Observer, Sampler
    from cdec.samplers.request import Request

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
        if self._observer is not None:
            self._observer.note_joined(results)
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
        draws = [
            FreeDraw(number, i, int(seed), is_thinking=free.thinking is not None)
            for i, seed in enumerate(request.seeds)
        ]
        for each, is_thinking in ((free.thinking, True), (free, False)):
            if each is not None:
                require_spelt(each, self._model.vocabulary)
                if each.owes(0):
                    self._part(request, is_thinking=is_thinking).forced_at(0, 1)
        self._draws += draws

    def _goes_on(self, draw: FreeDraw) -> bool:
        return draw.finish is None and draw.number not in self._errors

    def _part(self, request: Request, *, is_thinking: bool) -> FreePart:
        """Return what a free part of a request is held to: its thinking, or what comes then."""
        assert request.constraint is not None and request.free is not None  # opened
        part = self._parts.thinking if is_thinking else self._parts.part
        return part(request.constraint, request.free, strict=self._sampler.method.masks)

    def _stage(self, draw: FreeDraw) -> FreeText:
        """Return what the free part under way leads to."""
        free = self._requests[draw.number].free
        assert free is not None  # opened
        return free.thinking if draw.is_thinking and free.thinking is not None else free

    def _write(self, draws: Sequence[FreeDraw], kept: ExitStack) -> None:
        """Draw the next free part, or forced marker, of each text; ``kept`` ends what is held."""
        asked: dict[Hashable, list[FreeDraw]] = {}
        for draw in draws:
            most = self._room(draw)
            if most < 1:
                self._cut(draw)
                continue
            key = (
                draw.number,
                tuple(draw.tokens),
                draw.state,
                draw.is_forced,
                draw.is_thinking,
                most,
            )
            asked.setdefault(key, []).append(draw)
        groups = list(asked.values())
        for some in _bunches(groups):
            requests = [self._free_request(group) for group in some]
            held = [self._held(group[0]) for group in some]
            written = write(self._model, requests, held, kept, self._sampler, self._observer)
            for group, parts in zip(some, written, strict=True):
                if isinstance(parts, CdecError):
                    self._errors[group[0].number] = parts
                    continue
                for draw, part in zip(group, parts, strict=True):
                    self._add_free(draw, part)

    def _free_request(self, group: Sequence[FreeDraw]) -> Request:
        draw = group[0]
        return replace(
            self._requests[draw.number],
            seeds=[draw.free_seed() for draw in group],
            max_new_tokens=self._room(draw),
            **self._begun(group, is_free=True),
        )

    def _held(self, draw: FreeDraw) -> FreePart:
        """Return what the free part under way is held to."""
        request, most = self._requests[draw.number], self._room(draw)
        part = self._part(request, is_thinking=draw.is_thinking)
        return part.forced_at(draw.state, most) if draw.is_forced else part.at(draw.state, most)

    def _room(self, draw: FreeDraw) -> int:
        """Return how many tokens the free part under way may still have."""
        free, most = self._stage(draw), self._requests[draw.number].max_new_tokens
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
        draw.is_forced, draw.written = False, 0
        if draw.is_thinking:
            draw.end_thinking(read.onward, self._model.vocabulary)
            draw.state = self._part(request, is_thinking=False).state_after(read.onward)
            return
        draw.marker, draw.onward = read.marker, read.onward
        draw.constraint = self._parts.constrained(request.constraint, request.free, read.onward)

    def _end(self, draw: FreeDraw, part: Written) -> None:
        """The model ended the text: in its place it is forced into a marker that is owed."""
        free = self._stage(draw)
        if free.owes(len(draw.regions)):
            draw.force()
            # The end was not taken.
            draw.trace = draw.trace and draw.trace[:-1]
            draw.warnings = [each for each in draw.warnings if each["token"] != len(draw.tokens)]
        else:
            draw.log_p += part.log_end
            draw.free_log_p += part.log_end
            is_whole = free.end is not None or free.optional
            draw.finish = FINISH_COMPLETE if is_whole else FINISH_NO_MARKER

    def _cut(self, draw: FreeDraw) -> None:
        """The free part has all its tokens: it is forced into a marker, or the text is cut."""
        free = self._stage(draw)
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
        return replace(
            request,
            constraint=draw.constraint,
            seeds=[draw.region_seed() for draw in group],
            max_new_tokens=None if most is None else most - len(draw.tokens),
            **self._begun(group, is_free=False),
        )

    def _begun(self, group: Sequence[FreeDraw], *, is_free: bool) -> dict[str, Any]:
        """Return the fields of a request that say what its part is of."""
        draw = group[0]
        request = self._requests[draw.number]
        assert request.free is not None  # opened
        indices = request.indices
        return {
            "indices": [d.position if indices is None else indices[d.position] for d in group],
            "free": None,
            "begun": tuple(draw.tokens),
            "part": TextPart(request.free, is_free, draw.onward),
        }

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
        if rest is None or self._stage(draw).between is None:
            draw.finish = sample.finish_reason
        else:
            part = self._part(self._requests[draw.number], is_thinking=False)
            draw.state = part.state_after(rest)


def _bunches(groups: Sequence[list[FreeDraw]]) -> Iterable[Sequence[list[FreeDraw]]]:
    """Yield groups, some at a time."""
    for start in range(0, len(groups), _TOGETHER):
        yield groups[start : start + _TOGETHER]
