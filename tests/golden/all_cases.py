"""The list of all golden cases."""

from __future__ import annotations

from case import Case
from commands import command_cases
from corpus import corpus_cases
from samples import sample_cases
from tabular import tabular_cases


def all_cases() -> list[Case]:
    """Return every case but the fixtures, which always run."""
    return [*tabular_cases(), *sample_cases(), *command_cases(), *corpus_cases()]
