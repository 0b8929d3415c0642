"""Where the records of a run come from: ``--prompt``, a file or stdin, perhaps with a template."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.options.shared import require_utf8
from cdec.cli.runs.pipeline import line_limits, require_input

if TYPE_CHECKING:
    from cdec.cli.options.prompts import PromptOptions
    from cdec.data.input.source import SourceStats
    from cdec.data.prompts.read import BadRecord, PromptRecord
    from cdec.data.prompts.templates import PromptTemplate


@dataclass(frozen=True)
class Prompts:
    """The input of a run that draws.

    Attributes:
        options: As typed.
        max_n: Most draws that a record may ask for; None for the default.
        texts: What ``--prompt`` gave.
        template: Fills prompts from fields; None where records bring them.
        stats: Counts and notices of the input.
    """

    options: PromptOptions
    max_n: int | None
    texts: tuple[str, ...]
    template: PromptTemplate | None
    stats: SourceStats

    @classmethod
    def open(cls, options: PromptOptions, *, max_n: int | None = None) -> Prompts:
        """Read the template, and see whether the input can be opened.

        Args:
            options: Where prompts come from.
            max_n: Most draws that a record may ask for; None for the default.

        Raises:
            InputMissingError: Template or input are not there.
            UsageError: A prompt or the template is malformed.
        """
        from cdec.data.input.source import SourceStats
        from cdec.data.prompts.templates import read_template

        texts = tuple(require_utf8(text, "--prompt") for text in options.prompt)
        template = None if options.template is None else read_template(options.template)
        if not texts:
            require_input(options.input)
        return cls(options, max_n, texts, template, SourceStats())

    def records(self) -> Iterator[PromptRecord | BadRecord]:
        """Return the records in their order.

        The ids of a file are read now, so that duplicates are refused before anything is opened;
        those of a pipe are met as they come.

        Raises:
            DuplicateIdError: Two records of a file name one id.
            CdecError: The file cannot be read.
        """
        records = self._read()
        if self.texts or not _is_file(self.options.input):
            return records
        return itertools.chain(list(itertools.islice(records, 1)), records)

    def _read(self) -> Iterator[PromptRecord | BadRecord]:
        from cdec.data.prompts.read import DEFAULT_MAX_N, prompts_from_texts, read_prompts

        if self.texts:
            yield from prompts_from_texts(self.texts, template=self.template)
            return
        yield from read_prompts(
            self.options.input,
            template=self.template,
            max_n=DEFAULT_MAX_N if self.max_n is None else self.max_n,
            limits=line_limits(self.options.max_line_bytes),
            stats=self.stats,
        )


def _is_file(source: str) -> bool:
    """Whether reading the input cannot wait for whoever writes it; ``-`` is stdin."""
    try:
        status = os.fstat(0) if source == "-" else Path(source).stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode)
