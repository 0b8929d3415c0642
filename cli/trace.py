"""``cdec trace``: what the constraint did to samples, token by token, as a table or a page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.command import Run
from cdec.cli.frame.console import escape, in_typed_words
from cdec.cli.frame.declaration import CommonOptions, limits, option
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options import shared
from cdec.core.errors import FieldError, Notice, UsageError
from cdec.core.files.whole import refuse_existing, whole_file
from cdec.core.text_warnings import (
    BUDGET,
    CYCLE,
    LEAST_Z,
    LOW_Z,
    WHITESPACE,
    described,
)
from cdec.data.input.source import PROMPT_LIMITS, InputLimits, source_name
from cdec.data.reports.page import PAGE_END, page_head, safe

if TYPE_CHECKING:
    from cdec.data.input.source import Source


_HEADER = ("", "token", "P", "Z", "model's own", "P", "struck out", "P", "")


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec trace``; the documented defaults stand here."""

    file: str = option(
        MISSING, "What `--trace` wrote; `-` is stdin.", metavar="FILE", positional=True
    )
    html: Path | None = option(
        None,
        "Write one page for a browser to this file: text coloured by Z, and the "
        "alternatives of each token.",
        shared.OUTPUT,
        metavar="OUT.html",
        common=True,
        typed_only=True,
    )
    json: bool = option(
        False, "Print one JSON object a sample: sums over its tokens.", shared.OUTPUT, common=True
    )
    force: bool = shared.force_option()
    input_limits: InputLimits = limits(PROMPT_LIMITS, shared.INPUT)


def execute(options: Options, run: Run) -> int:
    """Show what the constraint did to samples, token by token.

    FILE is what `cdec sample --trace FILE` wrote. A row a token: its probability under the model, Z
    (the model's mass that the constraint left), what the model would have taken itself, and the
    most probable token that was struck out. The logarithms of Z add up to the sample's
    `log_candidate_weight` where a method draws by masks alone. Below the rows stand the warnings
    of the sample's record: where the model fought the constraint, and where the text loops.

    \b
    Examples:
      cdec sample -a titles.arrow --method masked --prompt "A title: " --trace t.jsonl
      cdec trace t.jsonl
      cdec trace t.jsonl --html t.html
      cdec trace t.jsonl --json | jq .least_log_z
    """
    if options.json and options.html is not None:
        raise UsageError("--json and --html were both given", hint="give one of them")
    if options.html is None and options.force:
        raise UsageError("--force means nothing without --html", hint="leave it out")
    if options.html is not None and str(options.html) == "-":
        raise UsageError("--html is a file, and was given as -", hint="name a file")
    samples = _noticed(read_traces(options.file, options.input_limits), options.file, run)
    if options.html is not None:
        shared.refuse_among(options.html, [options.file], "page", "--html")
        refuse_existing(options.html, force=options.force)
        with whole_file(options.html, force=options.force) as file:
            for part in page(samples):
                file.write(part.encode("utf-8", "backslashreplace"))
        return 0
    _print(samples, options, run)
    return 0


def _noticed(samples: Iterator[TracedSample], file: str, run: Run) -> Iterator[TracedSample]:
    """Yield the samples; warn where there are none."""
    first = next(samples, None)
    if first is None:
        run.console.warn([Notice("W_NO_INPUT", f"{source_name(file)} holds no trace")])
        return
    yield first
    yield from samples


def _print(samples: Iterator[TracedSample], options: Options, run: Run) -> None:
    """Print samples one by one."""
    for number, sample in enumerate(samples):
        if options.json:
            print_json(run.console, sample.summary())
            continue
        if number:
            run.console.data("")
        run.console.data(escape(f"{sample.id} / {sample.index}"))
        print_columns(run.console, _HEADER, [_row(line) for line in sample.lines])
        sums = sample.summary()
        run.console.data(f"log P {_sum(sums['logprob'])}, log Z {_sum(sums['log_z_sum'])}")
        for warning in sample.warnings:
            run.console.data(f"warning: {shown_warning(warning)}")


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a token as cells."""
    choice, struck = line["choice"], line["struck"]
    own = [shown_event(choice), _share(choice["logprob"])]
    if choice["token_id"] == line["token_id"] and line["event"] != "none":
        own = ["same", ""]
    out = [shown_event(struck[0]), _share(struck[0]["logprob"])] if struck else ["", ""]
    first = (
        str(line["position"]),
        shown_event(line),
        _share(line["logprob"]),
        _share(line["log_z"]),
    )
    words = [name for name in ("free", "forced") if line.get(name)]
    return (*first, *own, *out, ", ".join(words))


def _share(log_p: float | None) -> str:
    return "0" if log_p is None else f"{math.exp(min(0.0, log_p)):.3g}"


def _sum(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float | int) else "-"


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
        """Warnings of the sample's record, in the order of its lines."""
        return [warning for line in self.lines for warning in line["warnings"]]

    def summary(self) -> dict[str, object]:
        """Return what all lines say together, JSON-ready; null where a line has no number."""
        masses = [line["log_z"] for line in self.lines]
        # What a constraint left is that of the constrained part, as in the sample's weights.
        held = [line["log_z"] for line in self.lines if not line.get("free")]
        known = [z for z in held if z is not None]
        log_ps = [line["logprob"] for line in self.lines]
        depths = [-math.inf if z is None else z for z in masses]
        least = depths.index(min(depths)) if depths else None
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


def read_traces(source: Source, limits: InputLimits) -> Iterator[TracedSample]:
    """Yield the samples of a trace as they stand in it.

    Raises:
        InputMissingError: The file cannot be read.
        DataError: A line is none of a trace.
    """
    lines = _trace_lines(source, limits)
    for (id, index), found in itertools.groupby(lines, lambda line: (line["id"], line["index"])):
        yield TracedSample(id, index, tuple(found))


def _trace_lines(source: Source, limits: InputLimits) -> Iterator[Mapping[str, Any]]:
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
    """Return a line of a trace."""
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
    """Refuse what lacks a field, or has one of another type."""
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


LEVELS = (0.9, 0.5, 0.1, 0.01, LEAST_Z)
"""The colours of a token change where Z falls below these."""
_COLOURS = ("#ffffff", "#fff7d6", "#ffe9a8", "#ffc98a", "#f79a7a", "#e0607e")
_STYLE = """body {{ padding-bottom: 12rem; }}
pre {{ font: 15px/1.7 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }}
h2 {{ font-size: 1em; margin: 2em 0 0; }} .n {{ color: #666; }}
.f {{ border-bottom: 1px dotted #777; }} .e {{ color: #777; }} .w {{ font-style: italic; }}
.b {{ outline: 2px solid #b00020; }} .m {{ color: #b00020; margin: 0; }}
.q {{ margin: 0; padding-left: 1em; border-left: 3px solid #ccc; white-space: pre-wrap; }}
.t {{ cursor: pointer; }} .t:focus {{ outline: 2px solid #1a4fb4; }}
.o {{ display: none; position: fixed; left: 1rem; right: 1rem; bottom: 1rem; max-width: 58em;
max-height: 10.5rem; overflow: auto; margin: auto; padding: 0.5em 1em; color: #222;
background: #fff; border: 1px solid #777; border-radius: 4px; font-style: normal; z-index: 1; }}
.t:hover > .o, .t:focus > .o {{ display: block; }} .t:hover > .o {{ z-index: 2; }}
{colours}
"""
_LEGEND = """<h1>What the constraint did</h1>
<p>Z is the share of the model's mass that the constraint left at a token:
{legend}. A dotted line marks what was forced, a frame what a warning is about,
italics what the model wrote freely. What else was there: point at a token, tap it, or go to it
with the tab key.</p>
"""


def page(samples: Iterable[TracedSample]) -> Iterator[str]:
    """Yield the parts of the page; nothing of a trace stands in it unescaped."""
    colours = "\n".join(f".z{i} {{ background: {c}; }}" for i, c in enumerate(_COLOURS))
    words = [f"at least {LEVELS[0]:g}", *(f"below {level:g}" for level in LEVELS)]
    legend = ", ".join(f'<span class="z{i}">{word}</span>' for i, word in enumerate(words))
    yield page_head("cdec trace", _STYLE.format(colours=colours))
    yield _LEGEND.format(legend=legend)
    for sample in samples:
        summary = sample.summary()
        title = f"{sample.id} / {sample.index}"
        sums = f"log P {_number(summary['logprob'])}, sum of log Z {_number(summary['log_z_sum'])}"
        method = "" if sample.method is None else f"{sample.method}, "
        yield f'<h2>{safe(title)} <span class="n">{safe(method)}{sums}</span></h2>\n'
        if sample.prompt is not None:
            yield f'<p class="q">{_lines(sample.prompt)}</p>\n'
        yield "<pre>"
        yield from map(_span, sample.lines)
        yield "</pre>\n"
        for warning in sample.warnings:
            yield f'<p class="m">{safe(shown_warning(warning))}</p>\n'
    yield PAGE_END


def _span(line: Mapping[str, Any]) -> str:
    """Return one token as it stands in the text."""
    classes = f"z{level(line['log_z'])}{' f' if line['forced'] else ''}"
    classes += " w" if line.get("free") else ""
    classes += "" if line["event"] == "token" else " e"
    classes += " b" if line["warnings"] else ""
    shown = line["text"] if line["event"] == "token" else f"[{shown_event(line)}]"
    told = f'<span class="o">{_others(line)}</span>'
    return f'<span class="t {classes}" tabindex="0">{_lines(shown)}{told}</span>'


def level(log_z: float | None) -> int:
    """Return which colour a mass has, from 0 for nearly all of it."""
    z = 0.0 if log_z is None else math.exp(min(0.0, log_z))
    return sum(z < bound for bound in LEVELS)


def _others(line: Mapping[str, Any]) -> str:
    """Return what else was there, a line each."""
    rows = [f"{shown_event(line)}: {_probability(line['logprob'])}"]
    rows.append(f"log Z {_number(line['log_z'])}; taken away {line['taken']:.3g}")
    rows.append(f"the model's own: {_told(line['choice'])}")
    for name, events in (("allowed", line["alternatives"]), ("struck out", line["struck"])):
        rows += [f"{name}: {_told(event)}" for event in events]
    rows += [f"warning: {shown_warning(warning)}" for warning in line["warnings"]]
    return "\n".join(map(safe, rows))


def _told(event: Mapping[str, Any]) -> str:
    return f"{shown_event(event)} {_probability(event['logprob'])}"


def shown_warning(warning: Mapping[str, Any]) -> str:
    """Return a warning in words, options as they are typed."""
    return in_typed_words(described(warning))


def shown_event(event: Mapping[str, Any]) -> str:
    """Return a token in quotes, or what stands for the end of the text, or for nothing."""
    if event["token_id"] is not None:
        return f'"{event["text"]}"'
    return "nothing" if event.get("event") == "none" else "end"


def _probability(log_p: float | None) -> str:
    return "0" if log_p is None else f"{math.exp(min(0.0, log_p)):.3g}"


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | int) else "-"


def _lines(text: str) -> str:
    """Return text whose new lines stay new lines; all other control characters are written out."""
    return "\n".join(map(safe, text.split("\n")))
