"""What a person wants to know of an artifact first: what it is, made of what, what to type next."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any

from cdec.cli.frame.summaries.grammars import regex_soundness, shown_soundness
from cdec.cli.frame.summaries.schemas import shown_unenforced
from cdec.cli.frame.tables import shown_bytes
from cdec.core.schemas.forms import described_escapes, described_whitespace

Rows = list[tuple[str, str]]
_EMBEDDED = "embedded"
_SHOWN = 60
"""Characters of a pattern."""
_LEFT_OUT = ("duplicates", "skipped", "blank", "denied")


def overview(path: str, written: float, described: Mapping[str, Any]) -> Rows:
    """Return names and values of a table.

    Args:
        path: Of the artifact, as it may be shown.
        written: When that was written, seconds since the epoch.
        described: What ``inspect --json`` prints of it.
    """
    what, rows = OVERVIEWS.get(described["kind"], _unknown)(described)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(written))
    return [
        ("artifact", f"{path}: {what}, {shown_bytes(described['bytes'])}"),
        ("made from", f"{described.get('source') or 'unnamed'}; written {when}"),
        ("tokenizer", f"{_model(described)}, {_count(described, 'vocabulary_size')} tokens"),
        *rows,
    ]


def next_commands(path: str, described: Mapping[str, Any]) -> list[str]:
    """Return what to type next: a draw with the model that it was compiled for, a check, more."""
    model = [] if _model(described) == _EMBEDDED else ["-m", _model(described)]
    sample = shlex.join(["cdec", "sample", "-a", path, *model])
    inspect = shlex.join(["cdec", "inspect", path])
    return [
        f'{sample} --prompt "TEXT"',
        shlex.join(["cdec", "check", path, "-i", "TEXTS"]),
        f"{inspect} --all  # hashes, sizes, columns; or --tree, --json",
    ]


def _set(described: Mapping[str, Any]) -> tuple[str, Rows]:
    counts, options = _part(described, "counts"), _part(described, "options")
    forced = [f"{name} {options[name]!r}" for name in ("prefix", "suffix") if options.get(name)]
    left = [f"{_count(counts, name)} {name}" for name in _LEFT_OUT if counts.get(name)]
    rows = [
        ("tokenised", "; ".join([f"leading space {options.get('leading_space', '?')}", *forced])),
        ("members", f"{_count(counts, 'rows')} rows, at most {_count(counts, 'longest')} tokens"),
    ]
    rows += [("left out", ", ".join(left))] if left else []
    rows += [("sound", "yes: every allowed token leads to a member")]
    return f"a set of {_count(counts, 'entities')} texts", rows


def _grammar(described: Mapping[str, Any]) -> tuple[str, Rows]:
    counts, options = _part(described, "counts"), _part(described, "options")
    reason = str(described.get("sound_reason", ""))
    is_sound = bool(described.get("sound"))
    if options.get("dialect") == "regex":
        return f"the regular expression {_shortened(described['grammar'])}", [
            *(("and", _shortened(pattern)) for pattern in options.get("conjoined", ())),
            *(("but not", _shortened(pattern)) for pattern in options.get("deny_regex", ())),
            ("states", _count(counts, "scanner_states")),
            ("sound", regex_soundness(is_sound=is_sound, reason=reason)),
        ]
    return f"a grammar of {_count(counts, 'rules')} rules", [
        ("terminals", f"{_count(counts, 'terminals')}, {_count(counts, 'ignored')} ignored"),
        ("start rule", str(options.get("start", "?"))),
        ("lexer", f"{options.get('lexer', '?')}: {options.get('lexer_reason', '')}"),
        ("sound", shown_soundness(is_sound=is_sound, reason=reason)),
    ]


def _shortened(pattern: str) -> str:
    return pattern if len(pattern) <= _SHOWN else pattern[:_SHOWN] + "..."


def _schema(described: Mapping[str, Any]) -> tuple[str, Rows]:
    counts, options = _part(described, "counts"), _part(described, "options")
    unenforced = described.get("unenforced")
    reason = "every allowed token leads to a value of the schema"
    if not described.get("sound"):
        reason = str(described.get("sound_reason", ""))
    return f"a JSON Schema of {_count(counts, 'values')} kinds of value", [
        ("draft", str(options.get("draft", "?"))),
        ("properties", f"{options.get('property_order', '?')} order"),
        ("white space", described_whitespace(options)),
        ("escapes", described_escapes(options)),
        ("unenforced", shown_unenforced(unenforced if isinstance(unenforced, list) else [])),
        ("sound", shown_soundness(is_sound=bool(described.get("sound")), reason=reason)),
    ]


def _unknown(described: Mapping[str, Any]) -> tuple[str, Rows]:
    return f"a {described['kind']}", []


OVERVIEWS: dict[str, Callable[[Mapping[str, Any]], tuple[str, Rows]]] = {
    "set": _set,
    "grammar": _grammar,
    "schema": _schema,
}
"""Kind of artifact → what it is, and rows of its own."""


def _model(described: Mapping[str, Any]) -> str:
    return str(described.get("vocabulary_name") or "MODEL")


def _part(described: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = described.get(name)
    return part if isinstance(part, Mapping) else {}


def _count(counts: Mapping[str, Any], name: str) -> str:
    value = counts.get(name)
    return f"{value:,}" if isinstance(value, int) else "?"
