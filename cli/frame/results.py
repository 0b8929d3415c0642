"""Results of records on stdout, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cdec.cli.frame.command import SOME_RECORDS_FAILED
from cdec.cli.frame.tables import print_json

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run


def print_results(run: Run, records: Iterable[dict[str, object]]) -> int:
    """Print results as they come, each whole before a signal takes effect.

    Returns:
        The exit status: ``SOME_RECORDS_FAILED`` if one of them is an error object.
    """
    failed = 0
    for record in records:
        failed += "error" in record
        with run.signals.shield():
            print_json(run.console, record)
    return SOME_RECORDS_FAILED if failed else 0
