"""Invariants of the columns of an indenter (``cdec.core.grammars.columns``)."""

from __future__ import annotations

from cdec.core.artifacts.checks import Columns, require, require_length, require_range
from cdec.core.grammars.columns import COLUMN_ROLE
from cdec.core.grammars.indenter import MAX_COLUMNS

__all__ = ["check_indent_shape", "check_indents"]


def check_indent_shape(arrays: Columns, states: int, terminals: int) -> None:
    """Check the columns of an indenter: all are there, or none is."""
    is_indented = len(arrays["indent_symbols"]) > 0
    require_length(arrays, "indent_symbols", 4 * is_indented, "four numbers, or none")
    require_length(arrays, "indent_roles", terminals * is_indented, "role a terminal")
    require_length(arrays, "state_column", states * is_indented, "column a scanner state")
    if len(arrays["lr_plain"]) > 0:
        require_length(arrays, "lr_plain", len(arrays["lr_context"]), "state an LR state")


def check_indents(arrays: Columns) -> None:
    """Check every number of an indenter's columns."""
    require_range(arrays, "state_column", 0, MAX_COLUMNS + 1)
    require_range(arrays, "indent_roles", 0, COLUMN_ROLE + 2 * MAX_COLUMNS + 2)
    require_range(arrays, "lr_plain", 0, len(arrays["lr_context"]))
    symbols = arrays["indent_symbols"]
    known = (symbols[:3] >= -1) & (symbols[:3] < len(arrays["ignored"]))
    require(known.all(), "indent_symbols", "terminals that are there")
    most = symbols[3:]
    require(((most >= 0) & (most <= MAX_COLUMNS)).all(), "indent_symbols", "a number of columns")
