"""GrowingTexts: texts handed out piece by piece while they are decoded."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cdec.core.errors import CdecError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cdec.core.combine.free_text import FreeText
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.samplers.request import Request
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.candidates import Grown
    from cdec.samplers.walks.outcome import Outcome

STREAMED = ("masked", "greedy", "speculative")
"""Methods whose draws grow token by token, none of which is taken back."""


def require_streamed(method: str) -> None:
    """Refuse a method that chooses among texts which are done.

    Raises:
        UsageError: The hint has those whose texts grow.
    """
    if method not in STREAMED:
        raise UsageError(
            f"texts of `method` {method!r} are chosen when they are done, and cannot be streamed",
            hint=f"give one of {', '.join(STREAMED)}, whose texts grow token by token",
        )


FREE_TEXT, TEXT = "free_text", "text"
"""Fields of a record that pieces join to: what stands before a constraint, and the text."""


@dataclass(frozen=True)
class Piece:
    """What a text grew by.

    Attributes:
        id: Of the record. index: Number of the draw.
        part: The field that it belongs to.
        text: Whole characters; none in some last ones.
        is_last: Whether the text ends with it.
        is_shown: Whether the same was handed out before, as what stands before a constraint that
            the model never came to.
    """

    id: object
    index: int
    part: str
    text: str
    is_last: bool = False
    is_shown: bool = False


class GrowingTexts:
    """An observer that hands out what texts grow by; pieces joined are the fields of the sample.

    All pieces of ``free_text`` come before those of ``text``; tagged regions are within ``text``,
    with what stands around them. A piece is whole characters; what may turn out to be a suffix of
    the artifact's, or stands behind one of several prefixes, waits for the end. Where a batch is
    drawn anew without a record that failed, no piece comes twice.

    Args:
        method: That draws.
        write: Takes a piece.

    Raises:
        UsageError: A method whose texts do not grow so.
    """

    def __init__(self, method: str, write: Callable[[Piece], None]) -> None:
        require_streamed(method)
        self._write = write
        self._growing: dict[tuple[object, int], _Growing] = {}

    def watched(self, model: LanguageModel) -> LanguageModel:
        """Return the model, of which nothing is asked."""
        return model

    def told(
        self, batch: Batch, request: NDArray[np.int64], draw: NDArray[np.int64], grown: Grown
    ) -> None:
        """Hand out what is new; as ``Observer.told``."""
        tokens, depth = grown
        order = np.argsort(depth, kind="stable")
        rows = zip(request[order].tolist(), draw[order].tolist(), strict=True)
        touched: dict[tuple[object, int], Request] = {}
        for (number, position), place, token in zip(
            rows, depth[order].tolist(), tokens[order].tolist(), strict=True
        ):
            asked = batch.requests[number]
            index = position if asked.indices is None else asked.indices[position]
            key = (asked.id, index)
            if key not in self._growing:
                self._growing[key] = _Growing(batch.model.vocabulary)
            touched[key] = asked
            self._growing[key].put(len(asked.begun) + place, token)
        for (name, index), asked in touched.items():
            for part, text in self._growing[name, index].pieces(asked):
                self._write(Piece(name, index, part, text))

    def note(
        self, batch: Batch, outcome: Outcome, results: Sequence[list[Sample] | CdecError]
    ) -> None:
        """Hand out the rest of every text that has no other part; as ``Observer``."""
        for request, found in zip(batch.requests, results, strict=True):
            if request.part is None:
                self._end(found)

    def note_joined(self, results: Sequence[list[Sample] | CdecError]) -> None:
        """Hand out the rest of every text; as ``Observer``."""
        for found in results:
            self._end(found)

    def _end(self, found: list[Sample] | CdecError) -> None:
        for sample in [] if isinstance(found, CdecError) else found:
            growing = self._growing.pop((sample.id, sample.index), None)
            shown = {} if growing is None else growing.shown
            free, text = str(sample.diagnostics.get(FREE_TEXT, "")), sample.text or ""
            if rest := free[len(shown.get(FREE_TEXT, "")) :]:
                self._write(Piece(sample.id, sample.index, FREE_TEXT, rest))
            # A text that came to no marker is its own free text.
            is_shown = FREE_TEXT in sample.diagnostics and sample.diagnostics["marker"] is None
            rest = text[len(shown.get(TEXT, "")) :]
            self._write(Piece(sample.id, sample.index, TEXT, rest, True, is_shown))


@dataclass
class _Growing:
    """One text under way.

    Attributes:
        vocabulary: Of its tokens.
        tokens: So far, of all its parts.
        shown: What was handed out, by field.
    """

    vocabulary: Vocabulary
    tokens: list[int] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)

    def put(self, place: int, token: int) -> None:
        """Take token number ``place``; what stood there and behind it was drawn before."""
        del self.tokens[place:]
        self.tokens.append(token)

    def pieces(self, asked: Request) -> Iterator[tuple[str, str]]:
        """Yield what can be handed out now, by field; it counts as handed out."""
        for part, sure in self._sure(asked):
            before = self.shown.get(part, "")
            if new := sure[len(before) :]:
                self.shown[part] = before + new
                yield part, new

    def _sure(self, asked: Request) -> Iterator[tuple[str, str]]:
        """Yield the beginning of each field that no further token changes."""
        part = asked.part
        if part is None:
            yield TEXT, _whole(self._member(asked))
        elif part.free.end is not None:
            yield TEXT, _whole(self.vocabulary.decode(self.tokens))
        elif part.is_free:
            yield FREE_TEXT, _whole(self._free(part.free))
        else:
            free = self.vocabulary.decode(asked.begun)
            yield FREE_TEXT, free[: len(free) - len(part.onward)].decode("utf-8", "replace")
            yield TEXT, _whole(self._member(asked))

    def _free(self, free: FreeText) -> bytes:
        """Return free text, without what its last token has behind a marker."""
        data = self.vocabulary.decode(self.tokens)
        last = len(data) - len(self.vocabulary.decode(self.tokens[-1:]))
        for marker in map(str.encode, free.after):
            at = data.find(marker, max(0, last - len(marker) + 1))
            if at >= 0:
                data = data[: at + len(marker)]
        return data

    def _member(self, asked: Request) -> bytes:
        """Return what is sure of a member."""
        constraint, tokens = asked.constraint, self.tokens[len(asked.begun) :]
        if constraint is None:
            return self.vocabulary.decode(tokens)
        heads = {head for head, _ in constraint.facts.frames}
        waiting = max((len(tail) for _, tail in constraint.facts.frames), default=0)
        if asked.part is None or (not asked.part.onward and asked.part.free.closing is None):
            data = b"" if len(heads) > 1 else constraint.member_text(tokens)
        else:
            # What is left out before a member is told only where the member has ended.
            data = b"" if any(heads) else asked.part.onward + self.vocabulary.decode(tokens)
            waiting = max(waiting, len((asked.part.free.closing or "").encode()))
        return data[: max(0, len(data) - waiting)]


def _whole(data: bytes) -> str:
    """Return the whole characters that bytes begin with."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)
