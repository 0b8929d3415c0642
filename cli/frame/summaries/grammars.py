"""What ``compile-grammar`` prints of its report, as rows for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.cli.frame.tables import shown_bytes

if TYPE_CHECKING:
    from cdec.compilers import GrammarReport


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
