"""Reads the file of a trace: lines checked, those of one sample together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdec.core.errors import FieldError
from cdec.core.record_fields.text_warnings import BUDGET, CYCLE, LOW_Z, WHITESPACE

if TYPE_CHECKING:
    from cdec.data.input.source import InputLimits, Source

_NUMBER = (int, float)
_NULL = type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    "id": (str, int, _NULL),
    "index": (int,),
    "position": (int,),
    "event": (str,),
    "token_id": (int, _NULL),
    "text": (str,),
    "logprob": (*_NUMBER, _NULL),
    "choice": (dict,),
    "log_z": (*_NUMBER, _NULL),
    "taken": _NUMBER,
    "struck": (list,),
    "alternatives": (list,),
    "forced": (bool,),
    "seconds": _NUMBER,
}
"""Fields of every line."""
_OPTIONAL: dict[str, tuple[type, ...]] = {
    "free": (bool,),
    "method": (str,),
    "prompt": (str, list),
}
"""Of texts that begin with free text, and of a sample's first line."""
_WARNING_TYPES: dict[str, tuple[type, ...]] = {"code": (str,), "token": (int,), "byte": (int,)}
_MORE_TYPES: dict[str, dict[str, tuple[type, ...]]] = {
    LOW_Z: {"log_z": _NUMBER},
    WHITESPACE: {"bytes": (int,)},
    CYCLE: {"bytes": (int,), "period": (int,)},
    BUDGET: {"needed": (int,), "max_draws": (int,)},
}
"""Of a warning, by its code."""
_EVENT_TYPES = {name: _TYPES[name] for name in ("token_id", "text", "logprob")}


@dataclass(frozen=True)
class TracedSample:
    """The lines of one sample, in the order of its tokens."""

    id: object
    index: int
    lines: tuple[Mapping[str, Any], ...]

    @property
    def method(self) -> str | None:
        """The method that drew it; None in older traces."""
        return self.lines[0].get("method") if self.lines else None

    @property
    def prompt(self) -> str | None:
        """The text that was asked, messages as ``role: content``; None in older traces."""
        prompt = self.lines[0].get("prompt") if self.lines else None
        if not isinstance(prompt, list):
            return prompt
        said = [each if isinstance(each, dict) else {} for each in prompt]
        return "\n".join(f"{each.get('role')}: {each.get('content')}" for each in said)

    @property
    def warnings(self) -> list[Mapping[str, Any]]:
        """What the sample's record warns of, in the order of its lines."""
        return [warning for line in self.lines for warning in line["warnings"]]

    def summary(self) -> dict[str, object]:
        """Return what all lines say together, JSON-ready; null where a line has no number."""
        masses = [line["log_z"] for line in self.lines]
        # What a constraint left is that of the constrained part, as in the sample's weights.
        held = [line["log_z"] for line in self.lines if not line.get("free")]
        known = [z for z in held if z is not None]
        log_ps = [line["logprob"] for line in self.lines]
        least = None if not self.lines else min(range(len(masses)), key=lambda i: _depth(masses[i]))
        return {
            "id": self.id,
            "index": self.index,
            "text": "".join(line["text"] for line in self.lines),
            "events": len(self.lines),
            "free": sum(line.get("free", False) for line in self.lines),
            "forced": sum(line["forced"] for line in self.lines),
            "logprob": sum(log_ps) if None not in log_ps else None,
            "log_z_sum": sum(known) if len(known) == len(held) else None,
            "least_log_z": None if least is None else masses[least],
            "least_at": least,
            "seconds": round(sum(line["seconds"] for line in self.lines), 6),
            "warnings": self.warnings,
        }


def _depth(log_z: float | None) -> float:
    return -float("inf") if log_z is None else log_z


def read_traces(source: Source, limits: InputLimits) -> Iterator[TracedSample]:
    """Yield the samples of a trace as they stand in it.

    Raises:
        InputMissingError: The file cannot be read.
        DataError: A line is none of a trace.
    """
    lines = _lines(source, limits)
    for (id, index), found in itertools.groupby(lines, lambda line: (line["id"], line["index"])):
        yield TracedSample(id, index, tuple(found))


def _lines(source: Source, limits: InputLimits) -> Iterator[Mapping[str, Any]]:
    from cdec.data.input.json_text import parse_json
    from cdec.data.input.lines import LineBlocks, LongLine, numbered_lines
    from cdec.data.input.source import SourceStats, open_source, read_chunks, source_name

    name = source_name(source)
    with open_source(source) as stream:
        chunks = read_chunks(stream, name, limits=limits, stats=SourceStats())
        for block in LineBlocks(chunks, name, limits, keep_going=False):
            # An overlong line has raised; the type cannot say so.
            if isinstance(block, LongLine):
                raise block.error(name, limits)
            for number, offset, data in numbered_lines(block):
                if data.strip():
                    line = parse_json(data, name, number, offset)
                    yield _checked(line, f"{name}, line {number}")


def _checked(line: Any, place: str) -> Mapping[str, Any]:
    """Return a line of a trace.

    Raises:
        FieldError: It is none.
    """
    _require(line, _TYPES, place)
    _require(line, {name: kinds for name, kinds in _OPTIONAL.items() if name in line}, place)
    for event in (line["choice"], *line["struck"], *line["alternatives"]):
        _require(event, _EVENT_TYPES, place)
    # Older traces have none.
    warnings = line.get("warnings", [])
    _require({"warnings": warnings}, {"warnings": (list,)}, place)
    for warning in warnings:
        _require(warning, _WARNING_TYPES, place)
        _require(warning, _MORE_TYPES.get(warning["code"], {}), place)
    return {**line, "warnings": [each for each in warnings if each["code"] in _MORE_TYPES]}


def _require(found: object, types: Mapping[str, tuple[type, ...]], place: str) -> None:
    """Refuse what lacks a field, or has one of another type.

    Raises:
        FieldError: It does.
    """
    fields = found if isinstance(found, dict) else {}
    for name, allowed in types.items():
        value = fields.get(name)
        is_right = isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool))
        if name not in fields or not is_right:
            raise FieldError(
                f"{place} is no line of a trace: {name!r} is missing or of another type",
                hint="give the file that `trace` of a sample run wrote",
                field=name,
            )
