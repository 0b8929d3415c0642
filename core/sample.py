"""Sample: one output record, and its JSON object."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdec.core.errors import UsageError
from cdec.core.shown import TraceLines, cut, line, table

SCHEMA_VERSION = 1

_UNSHOWN = frozenset({"schema_version", "token_ids", "seed"})
"""Fields that no notebook shows: programs read them."""

FINISH_COMPLETE = "complete"
FINISH_LENGTH = "length"
FINISH_DEAD_END = "dead_end"
FINISH_BUDGET = "budget"
FINISH_NO_MARKER = "no_marker"
FINISH_LOOP = "loop"


def read_value(reader: Callable[[str], Any], text: str) -> Any:
    """Return the value that a reader makes of a text, None where it makes none."""
    try:
        return reader(text)
    except Exception:  # a type's validators are programs: they may raise anything
        return None


@dataclass(slots=True)
class Sample:
    """One drawn text and what is known of its faithfulness to the model.

    Diagnostics and annotations are attributes, too: ``sample.log_mass``, ``sample.entity_ids``.

    Attributes:
        id: The record's id, as given.
        index: Number of the draw within its record, from 0.
        text: The member alone, without forced prefix and suffix; None where a budget ended the
            draw before there was any text, or free text never reached its marker. Of tagged regions
            the whole text.
        token_ids: The drawn tokens, forced prefix and suffix included, the end token not.
        logprob: The (warped) model's unmasked natural-log probability of the tokens and of the
            end event; None where the text was cut before its end.
        log_weight: Factor (natural log) that makes weighted records target Q = P(. | S);
            None where the law is intractable.
        log_candidate_weight: log x of the candidate, x the product of step masses Z.
        finish_reason: ``complete``, ``length``, ``dead_end``, ``budget``, ``no_marker``, ``loop``.
        valid: Verdict of a check independent of the sampler's state; None if it timed out, or
            where there is no text.
        method: Name of the sampler.
        exactness: ``exact``, ``asymptotic``, ``divergence``, ``biased`` or ``heuristic``.
        seed: The seed this draw's generator was made from.
        diagnostics: Fields that apply to the method (``draws``, ``accepted``, ``log_mass``, ...),
            a field that applies but is not known being None.
        annotations: Fields of the constraint, such as ``entity_ids``.
        input: The prompt record's other fields, passed through.
        warnings: What is amiss with the text, JSON-ready, as ``text_warnings`` says.
        reader: What makes a value of the text; None where texts are no more than texts. It is in no
            record and no pickle.
        trace: What happened at each token, one JSON-ready object a token, where that was asked for;
            None otherwise. It is in no record.
    """

    id: object
    index: int
    text: str | None
    token_ids: Sequence[int]
    logprob: float | None
    log_weight: float | None
    log_candidate_weight: float | None
    finish_reason: str
    valid: bool | None
    method: str
    exactness: str
    seed: int
    diagnostics: Mapping[str, object] = field(default_factory=dict)
    annotations: Mapping[str, object] = field(default_factory=dict)
    input: Mapping[str, object] | None = None
    warnings: Sequence[Mapping[str, object]] = ()
    reader: Callable[[str], Any] | None = field(default=None, repr=False, compare=False)
    trace: Sequence[Mapping[str, object]] | None = field(default=None, repr=False, compare=False)

    @property
    def parsed(self) -> Any:
        """The value that the text stands for, read and validated: JSON, or of the schema's type.

        None where it cannot be read, and ``valid`` is false then.

        Raises:
            UsageError: The constraint's texts stand for nothing else, or this text has no end.
        """
        if self.reader is None:
            raise UsageError(
                "this sample's text stands for no other value",
                hint="draw it with a constraint that was made of a schema or a type",
            )
        if self.text is None or self.finish_reason != FINISH_COMPLETE:
            raise UsageError(
                f"this sample's text is not finished: {self.finish_reason}",
                hint="raise `max_new_tokens`, or look at `finish_reason` first",
            )
        return read_value(self.reader, self.text)

    def value(self) -> Any:
        """Return what ``parsed`` is, or the text where it stands for itself; raises as that."""
        return (self if self.reader is not None else replace(self, reader=str)).parsed

    def __repr__(self) -> str:
        said = {True: "valid", False: "not valid", None: "not judged"}[self.valid]
        weight = "" if self.log_weight is None else f"log_weight={self.log_weight:.4g}"
        return line(
            "Sample",
            "no text" if self.text is None else cut(self.text),
            self.finish_reason,
            said,
            "" if self.logprob is None else f"logprob={self.logprob:.4g}",
            weight,
            f"method={self.method!r}",
            f"id={self.id!r}",
            f"index={self.index}",
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the fields that are known, and the trace if there is."""
        fields = self.to_json()
        rows = [(k, v) for k, v in fields.items() if v not in (None, [], {}) and k not in _UNSHOWN]
        shown = table(rows)
        return shown if self.trace is None else shown + TraceLines(self.trace)._repr_html_()

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return what is pickled: all but the reader, which belongs to this process."""
        return None, {n: getattr(self, n) for n in Sample.__slots__} | {"reader": None}

    def __getattr__(self, name: str) -> Any:
        """Return a diagnostic or an annotation; what applies to the method is there.

        Raises:
            AttributeError: It does not apply; the message names what does.
        """
        # subtle: a copy or a pickle asks for fields before they are set.
        if not name.startswith("_") and name not in Sample.__slots__:
            for known in (self.diagnostics, self.annotations):
                if name in known:
                    return known[name]
            applying = ", ".join([*self.diagnostics, *self.annotations]) or "none"
            raise AttributeError(
                f"a sample has no {name!r}; what applies to {self.method} beside its fields: "
                f"{applying}"
            )
        raise AttributeError(f"a sample has no {name!r}")

    def __dir__(self) -> list[str]:
        """Return all names, those of diagnostics and annotations included."""
        return sorted({*object.__dir__(self), *self.diagnostics, *self.annotations})

    def to_json(self, fields: Sequence[str] | None = None) -> dict[str, object]:
        """Return the record as one JSON-ready object.

        Args:
            fields: Keep these keys only, in this order; None keeps all that apply.

        Returns:
            Keys in the documented order. Non-finite numbers become None: JSON has none.
        """
        record: dict[str, object] = {
            "schema_version": SCHEMA_VERSION,
            "id": self.id,
            "index": self.index,
            "text": self.text,
            "token_ids": list(self.token_ids),
            **self.annotations,
            "logprob": self.logprob,
            "log_weight": self.log_weight,
            "log_candidate_weight": self.log_candidate_weight,
            "finish_reason": self.finish_reason,
            "valid": self.valid,
            "warnings": [dict(each) for each in self.warnings],
            "method": self.method,
            "exactness": self.exactness,
            "seed": self.seed,
            **self.diagnostics,
        }
        if self.input is not None:
            record["input"] = dict(self.input)
        if fields is not None:
            record = {key: record[key] for key in fields if key in record}
        return {key: _finite(value) for key, value in record.items()}


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
