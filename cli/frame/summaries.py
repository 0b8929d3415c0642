"""Summaries of artifacts for people: reports of compilers, and what an artifact holds."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.console import notice_objects
from cdec.cli.frame.tables import shown_bytes
from cdec.core.schemas.forms import described_escapes, described_whitespace

if TYPE_CHECKING:
    from cdec.compilers.grammars.report import GrammarReport
    from cdec.compilers.schemas.report import SchemaReport
    from cdec.compilers.sets.report import SetReport


def grammar_rows(report: GrammarReport) -> list[tuple[str, str]]:
    """Return the report as names and values of a table."""
    counts = report.counts
    phases = ", ".join(f"{phase} {value:.2f}" for phase, value in report.seconds.items())
    return [
        ("artifact", str(report.path)),
        ("start rule", report.start),
        ("lexer", f"{report.lexer} ({report.lexer_reason})"),
        ("sound", shown_soundness(is_sound=report.is_sound, reason=report.sound_reason)),
        ("terminals", f"{counts['terminals']:,}, {counts['ignored']:,} of them ignored"),
        *([("ignored blanks", shown_whitespace(report.max_whitespace))] if report.blanks else []),
        *([("indentation", report.indenter)] if report.indenter else []),
        ("rules", f"{counts['rules']:,} of {counts['nonterminals']:,} nonterminals"),
        ("parser states", f"{counts['lr_states']:,}"),
        ("scanner states", f"{counts['scanner_states']:,} in {counts['contexts']:,} contexts"),
        ("trees", f"{counts['trees']:,} with {counts['path_nodes']:,} nodes"),
        ("token groups", f"{counts['groups']:,}"),
        ("size", shown_bytes(report.bytes)),
        ("seconds", phases),
    ]


def regex_rows(report: GrammarReport) -> list[tuple[str, str]]:
    """Return the report of a regular expression as names and values of a table."""
    counts = report.counts
    phases = ", ".join(f"{phase} {value:.2f}" for phase, value in report.seconds.items())
    return [
        ("artifact", str(report.path)),
        ("states", f"{counts['scanner_states']:,}, {counts['byte_classes']:,} classes of bytes"),
        ("sound", regex_soundness(is_sound=report.is_sound, reason=report.sound_reason)),
        ("token groups", f"{counts['groups']:,}"),
        ("size", shown_bytes(report.bytes)),
        ("seconds", phases),
    ]


def shown_whitespace(most: int | None) -> str:
    """Return the bound on ignored blanks as one phrase."""
    if most is None:
        return "any number"
    return f"at most {most} in a row (max_whitespace)" if most else "none (max_whitespace)"


def shown_soundness(*, is_sound: bool, reason: str) -> str:
    """Return the finding about soundness as one phrase, never claiming more than was proved."""
    if is_sound:
        return "yes" + (f": {reason}" if reason else "")
    return reason if reason.startswith("soundness") else f"unproved: {reason}"


def regex_soundness(*, is_sound: bool, reason: str) -> str:
    """Return the same of a regular expression, which has neither parser nor lexer to speak of."""
    return shown_soundness(is_sound=is_sound, reason="" if is_sound else reason)


COSTS = ("keyword", "uses", "alternatives", "seconds")
"""Header of ``cost_rows``."""


def schema_rows(report: SchemaReport) -> list[tuple[str, str]]:
    """Return the report as names and values of a table."""
    counts = report.counts
    phases = ", ".join(f"{phase} {value:.3f}" for phase, value in report.seconds.items())
    return [
        ("artifact", str(report.path)),
        ("draft", report.draft),
        ("unenforced", shown_unenforced(report.unenforced)),
        ("sound", shown_soundness(is_sound=report.is_sound, reason=report.sound_reason)),
        ("values", f"{counts['values']:,}"),
        ("objects", f"{counts['objects']:,} with {counts['slots']:,} kinds of property"),
        ("arrays", f"{counts['arrays']:,}"),
        ("automata", f"{counts['states']:,} states, {counts['edges']:,} edges"),
        ("size", shown_bytes(report.bytes)),
        ("seconds", phases),
    ]


def cost_rows(costs: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return what each keyword cost, the dearest first, as rows under ``COSTS``."""
    dearest = sorted(costs.items(), key=lambda item: -item[1].get("seconds", 0.0))
    return [
        [
            keyword,
            f"{cost.get('uses', 0):,}",
            f"{cost.get('alternatives', 0):,}",
            f"{cost.get('seconds', 0.0):.4f}",
        ]
        for keyword, cost in dearest
    ]


def shown_unenforced(unenforced: Sequence[Mapping[str, Any]]) -> str:
    """Return which keywords masks leave open as one phrase."""
    if not unenforced:
        return "nothing: masks hold every keyword"
    return ", ".join(str(item["path"]) for item in unenforced)


def set_summary(report: SetReport) -> dict[str, object]:
    """Return the report as one JSON-ready object."""
    return {
        "path": str(report.path),
        "entities": report.entities,
        "duplicates": report.duplicates,
        "skipped": report.skipped,
        "blank": report.blank,
        "denied": report.denied,
        "rows": report.rows,
        "tokens": report.tokens,
        "longest": report.longest,
        "nodes": report.nodes,
        "bytes": report.bytes,
        "seconds": {phase: round(value, 3) for phase, value in report.seconds.items()},
        "options": dict(report.options),
        "notices": notice_objects(report.notices),
    }


def set_rows(report: SetReport) -> list[tuple[str, str]]:
    """Return the report as names and values of a table."""
    phases = ", ".join(f"{phase} {value:.2f}" for phase, value in report.seconds.items())
    return [
        ("artifact", str(report.path)),
        ("entities", f"{report.entities:,}"),
        ("duplicates", f"{report.duplicates:,}"),
        ("skipped lines", f"{report.skipped:,}"),
        ("blank lines", f"{report.blank:,}"),
        ("denied", f"{report.denied:,}"),
        ("tokens", f"{report.tokens:,}, the longest entity {report.longest}"),
        ("trie nodes", f"{report.nodes:,}"),
        ("size", shown_bytes(report.bytes)),
        ("seconds", phases),
    ]


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
