"""GrowingTexts: texts handed out piece by piece while they are decoded."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cdec.core.errors import CdecError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cdec.core.constraint import Constraint
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.core.tokens.vocabulary import Vocabulary
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


class GrowingTexts:
    """An observer that hands out what texts grow by; the pieces of a sample are its ``text``.

    A piece is whole characters; what may turn out to be a suffix of the artifact's, or stands
    behind one of several prefixes, waits for the end. Where a batch is drawn anew without a record
    that failed, no piece comes twice.

    Args:
        method: That draws.
        write: Takes the id of a record, the number of the draw, a piece, and whether it is the
            last, which may be empty.

    Raises:
        UsageError: A method whose texts do not grow so.
    """

    def __init__(self, method: str, write: Callable[[object, int, str, bool], None]) -> None:
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
        touched: dict[tuple[object, int], _Growing] = {}
        for (number, position), place, token in zip(
            rows, depth[order].tolist(), tokens[order].tolist(), strict=True
        ):
            asked = batch.requests[number]
            index = position if asked.indices is None else asked.indices[position]
            key = (asked.id, index)
            if key not in self._growing:
                vocabulary = batch.model.vocabulary
                self._growing[key] = _Growing(asked.constraint, vocabulary)
            touched[key] = self._growing[key]
            touched[key].put(place, token)
        for (name, index), text in touched.items():
            if piece := text.piece():
                self._write(name, index, piece, False)

    def note(
        self, batch: Batch, outcome: Outcome, results: Sequence[list[Sample] | CdecError]
    ) -> None:
        """Hand out the rest of every text; as ``Observer``."""
        for found in results:
            for sample in [] if isinstance(found, CdecError) else found:
                growing = self._growing.pop((sample.id, sample.index), None)
                shown = "" if growing is None else growing.shown
                text = sample.text or ""
                self._write(sample.id, sample.index, text[len(shown) :], True)


@dataclass
class _Growing:
    """One text under way.

    Attributes:
        constraint: That it is held to; None for none.
        vocabulary: Of its tokens.
        tokens: So far.
        shown: What was handed out.
    """

    constraint: Constraint | None
    vocabulary: Vocabulary
    tokens: list[int] = field(default_factory=list)
    shown: str = ""

    def put(self, place: int, token: int) -> None:
        """Take token number ``place``; what stood there and behind it was drawn before."""
        del self.tokens[place:]
        self.tokens.append(token)

    def piece(self) -> str:
        """Return what can be handed out now, which counts as handed out."""
        new = self._sure()[len(self.shown) :]
        self.shown += new
        return new

    def _sure(self) -> str:
        """Return the beginning of the text that no further token changes."""
        data, waiting = self.vocabulary.decode(self.tokens), 0
        if self.constraint is not None:
            frames = self.constraint.facts.frames
            if len({head for head, _ in frames}) > 1:
                return ""
            data = self.constraint.member_text(self.tokens)
            waiting = max((len(tail) for _, tail in frames), default=0)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(data[: max(0, len(data) - waiting)])
