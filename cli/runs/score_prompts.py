"""Where prompts of scored texts come from: the record, ``--prompts`` by its id, ``--prompt``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.core.errors import FieldError, Notice

if TYPE_CHECKING:
    from cdec.data.input.source import InputLimits
    from cdec.data.prompts.read import BadRecord, PromptRecord
    from cdec.data.prompts.score_records import ScoreRecord


@dataclass(frozen=True)
class ScorePrompts:
    """The prompts of a run.

    Attributes:
        text: What ``--prompt`` gave.
        by_id: What ``--prompts`` gave, by ``id_key``; None without it.
        name: How ``--prompts`` calls its file.
        notices: Warnings about that file.
    """

    text: str | None
    by_id: Mapping[bytes, PromptRecord | BadRecord] | None = None
    name: str = ""
    notices: list[Notice] = field(default_factory=list)

    @classmethod
    def read(
        cls, text: str | None, path: str | None, template: Path | None, limits: InputLimits
    ) -> ScorePrompts:
        """Read the prompts of a file whole; ids come out as ``cdec sample`` derived them.

        Raises:
            CdecError: The file or the template cannot be read.
        """
        if path is None:
            return cls(text)
        from cdec.data.input.source import SourceStats
        from cdec.data.prompts.ids import id_key
        from cdec.data.prompts.read import read_prompts
        from cdec.data.prompts.templates import read_template

        filled = None if template is None else read_template(template)
        stats = SourceStats()
        # How many draws a record asks for does not matter here.
        records = read_prompts(path, template=filled, max_n=2**63, limits=limits, stats=stats)
        by_id = {id_key(record.id): record for record in records}
        return cls(text, by_id, path, list(stats.notices))

    def of(self, record: ScoreRecord) -> PromptRecord:
        """Return the prompt of a record, with the options its prompt record had.

        Raises:
            CdecError: It has none, or the prompt's own record is bad.
        """
        from cdec.data.prompts.ids import id_key
        from cdec.data.prompts.read import BadRecord, PromptRecord

        if record.prompt is not None or record.messages is not None:
            given = record.id if record.id is not None else f"line {record.line}"
            return PromptRecord(given, record.line, record.prompt, record.messages)
        if self.by_id is not None and record.id is not None:
            found = self.by_id.get(id_key(record.id))
            if isinstance(found, BadRecord):
                raise found.error
            if found is not None:
                return found
            raise FieldError(
                f"no record of {self.name} has the id {record.id!r}",
                hint="give the file that cdec sample read the prompts from",
                field="id",
            )
        if self.text is not None:
            return PromptRecord(f"line {record.line}", record.line, self.text)
        missing = "id" if self.by_id is not None else "prompt"
        raise FieldError(
            f"line {record.line} has no {missing}, so its prompt is not known",
            hint="give the record a prompt, or give --prompt TEXT or --prompts FILE",
            field=missing,
        )
