"""Texts that end at the first of some texts: drawn as without them, then cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdec.core.errors import FieldError

if TYPE_CHECKING:
    from cdec.core.sample import Sample
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.data.prompts.record import PromptRecord
    from cdec.integrations.records.tools import HeldCalls
    from cdec.samplers.request import Request


def require_stops(record: PromptRecord, calls: HeldCalls | None) -> None:
    """Refuse to cut texts that may call tools.

    Raises:
        FieldError: They are to end at some texts, and may call.
    """
    if record.stop and calls is not None:
        raise FieldError(
            f"line {record.line}: field 'stop' may cut a call of a tool in the midst",
            hint="leave it out, or give `tool_choice` none",
            field="stop",
            line=record.line,
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """A text up to the first text at which it is to end.

    Attributes:
        sample: The draw; ``valid`` is of what is left, None where free text stands before.
        text: What is left.
        tokens: How many of its tokens that is.
        stop: The text that it ended at; None where it came to none.
    """

    sample: Sample
    text: str | None
    tokens: int
    stop: str | None = None

    @property
    def as_sample(self) -> Sample:
        """The draw with the text that is left, which says where it was cut."""
        said = {**self.sample.diagnostics, "stop": self.stop}
        return replace(self.sample, text=self.text, diagnostics=said)


def cut(sample: Sample, stops: Sequence[str], request: Request, vocabulary: Vocabulary) -> Cut:
    """Return what a text is that ends at the first of some texts.

    Args:
        sample: Drawn without them.
        stops: The texts. request: What it was drawn for. vocabulary: Of its tokens.
    """
    ids = sample.token_ids
    data = vocabulary.decode(ids) if stops else b""
    found = {at: stop for stop in reversed(stops) if (at := data.find(stop.encode())) >= 0}
    if not found:
        return Cut(sample, sample.text, len(ids))
    end = min(found)
    kept = next(n for n in range(len(ids) + 1) if len(vocabulary.decode(ids[:n])) >= end)
    left, valid = data[:end], sample.valid
    if request.constraint is not None:
        left = request.constraint.text_of(left)
        valid = request.constraint.accepts(left) if request.free is None else None
    text = left.decode("utf-8", "replace")
    return Cut(replace(sample, valid=valid), text, kept, found[end])
