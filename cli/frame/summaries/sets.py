"""What ``compile-set`` prints of its report: an object for programs, rows for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.cli.frame.tables import shown_bytes
from cdec.cli.frame.typed import notice_objects

if TYPE_CHECKING:
    from cdec.compilers import SetReport


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
