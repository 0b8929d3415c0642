"""What ``compile-schema`` prints of its report, as rows for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.summaries.grammars import shown_soundness
from cdec.cli.frame.tables import shown_bytes

if TYPE_CHECKING:
    from cdec.compilers.schemas.report import SchemaReport

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
