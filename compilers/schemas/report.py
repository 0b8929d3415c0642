"""What a schema compilation reports: the phase it is in, and at the end what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cdec.compilers.child.report import SourceReport

PHASES = {
    "read": "reading the schema",
    "expand": "expanding the schema",
    "emit": "building automata",
    "write": "writing",
}
"""Every phase in its order, and what progress calls it."""


@dataclass(slots=True)
class SchemaReport(SourceReport):
    """What a schema compilation did.

    Attributes, beside those of every report:
        draft: Of JSON Schema, as ``$schema`` says: ``2020-12``, ``draft-07`` and so on.
        unenforced: Keywords that masks do not enforce, each an object with ``path`` (JSON pointer),
            ``keyword`` and ``reason``; empty unless compiled leniently.
        is_sound: After every allowed token the text still has a completion.
        sound_reason: What proves it, or what stood in the way.
        costs: What each keyword took, by keyword: ``uses``, ``seconds``, ``alternatives``.
    """

    draft: str = ""
    unenforced: list[dict[str, str]] = field(default_factory=list)
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    is_sound: bool = True
    sound_reason: str = "every state that can be reached has a completion by construction"

    def _described(self) -> dict[str, Any]:
        return {
            "draft": self.draft,
            "unenforced": self.unenforced,
            "costs": self.costs,
            "sound": self.is_sound,
            "sound_reason": self.sound_reason,
        }
