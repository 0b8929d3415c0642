"""One HTML page of a trace: text coloured by Z, and what else was at each token; no script."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cdec.cli.frame.console import escape
from cdec.cli.frame.typed import in_typed_words
from cdec.cli.traces.read import TracedSample
from cdec.core.record_fields.text_warnings import LEAST_Z, described

LEVELS = (0.9, 0.5, 0.1, 0.01, LEAST_Z)
"""The colours of a token change where Z falls below these."""
_COLOURS = ("#ffffff", "#fff7d6", "#ffe9a8", "#ffc98a", "#f79a7a", "#e0607e")
_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>cdec trace</title><style>
body {{ font: 16px/1.6 system-ui, sans-serif; margin: 2em auto; max-width: 60em; color: #222;
padding: 0 1rem 12rem; overflow-wrap: anywhere; }}
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
</style></head><body><h1>What the constraint did</h1>
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
    yield _HEAD.format(colours=colours, legend=legend)
    for sample in samples:
        summary = sample.summary()
        title = f"{sample.id} / {sample.index}"
        sums = f"log P {_number(summary['logprob'])}, sum of log Z {_number(summary['log_z_sum'])}"
        method = "" if sample.method is None else f"{sample.method}, "
        yield f'<h2>{_safe(title)} <span class="n">{_safe(method)}{sums}</span></h2>\n'
        if sample.prompt is not None:
            yield f'<p class="q">{_lines(sample.prompt)}</p>\n'
        yield "<pre>"
        yield from map(_span, sample.lines)
        yield "</pre>\n"
        for warning in sample.warnings:
            yield f'<p class="m">{_safe(shown_warning(warning))}</p>\n'
    yield "</body></html>\n"


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
    return "\n".join(map(_safe, rows))


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
    return "\n".join(map(_safe, text.split("\n")))


def _safe(text: str) -> str:
    return html.escape(escape(text))
