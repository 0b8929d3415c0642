"""Input files of a command: whether one can be opened, texts to leave out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


def require_input(source: str) -> None:
    """See whether an input can be opened, before anything that costs time.

    Raises:
        InputMissingError: It is not there or cannot be read.
    """
    from cdec.data.input.source import open_source

    path = Path(source)
    # subtle: a named pipe must be opened once only, or its writer meets a closed end.
    if source != "-" and (path.is_file() or not path.exists()):
        with open_source(source):
            pass


def read_denied(path: Path | None) -> list[str]:
    """Return the texts of ``--deny``, one a line, blank lines left out; none without a file."""
    from cdec.data.entities.source import read_entities

    batches = () if path is None else read_entities(path, format="text")
    return [text for batch in batches for text in batch.texts if text]
