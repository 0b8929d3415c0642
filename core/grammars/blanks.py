"""Bounds on runs of ignored blanks: their regular expressions, and the check of a text.

A *run* is all that is ignored between two terminals, or around a comment, and is white space. Under
the bound N it holds at most N blanks on the line where it begins, then perhaps line breaks, at most
N characters, and behind them at most 4 N blanks of indentation. So a model cannot spend its tokens
on blanks, while texts as people and programs indent them stay what they are: with N = 8 eight
levels of four blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

LINE_BREAKS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
MAX_RUN = 1000
"""Largest bound N: each blank of a run is a state of the scanner."""
INDENTATION = 4
"""Blanks of indentation for each blank on a line."""


def run_pattern(characters: Iterable[str], most: int) -> str:
    """Return the regular expression of the runs that are allowed, none of them empty.

    Args:
        characters: All that is a blank here.
        most: The bound N, at least 1.
    """
    blanks, breaks, indented = _parts(characters, most)
    if not breaks:
        return f"{blanks}{{1,{most}}}"
    lines = f"{breaks}{{1,{most}}}"
    if not blanks:
        return lines
    lines += f"{blanks}{{0,{indented}}}"
    return f"{blanks}{{1,{most}}}(?:{lines})?|{lines}"


def overlong_pattern(characters: Iterable[str], most: int) -> str:
    """Return the regular expression of the shortest runs that are not allowed.

    Args:
        characters, most: As in ``run_pattern``.
    """
    blanks, breaks, indented = _parts(characters, most)
    if not breaks:
        return f"{blanks}{{{most + 1}}}"
    if not blanks:
        return f"{breaks}{{{most + 1}}}"
    lines = f"{breaks}{{1,{most}}}{blanks}"
    return (
        f"{blanks}{{{most + 1}}}|{blanks}{{0,{most}}}(?:{breaks}{{{most + 1}}}"
        f"|{lines}{{{indented + 1}}}|{lines}{{1,{indented}}}{breaks})"
    )


def _parts(characters: Iterable[str], most: int) -> tuple[str, str, int]:
    """Return classes of blanks on a line and of line breaks, "" for none, and the indentation."""
    known = sorted(characters)
    blanks = "".join(re.escape(c) for c in known if c not in LINE_BREAKS)
    breaks = "".join(re.escape(c) for c in known if c in LINE_BREAKS)
    return blanks and f"[{blanks}]", breaks and f"[{breaks}]", INDENTATION * most


class BlankRuns:
    """The runs of blanks that a lexer dropped from a text, as it drops them.

    Args:
        characters: All that is a blank here; "" bounds nothing.
        most: The bound N; None for none.
    """

    def __init__(self, characters: str, most: int | None) -> None:
        self._characters = frozenset(characters)
        self._allowed: re.Pattern[str] | None = None
        self._most = most
        if most and characters:
            self._allowed = re.compile(run_pattern(characters, most))
        self._runs: list[str] = []
        self._end = -1

    def clear(self) -> None:
        """Forget the last text."""
        self._runs, self._end = [], -1

    def note(self, token: Any) -> Any:
        """Note a token of lark's that is dropped; return it."""
        if self._characters.issuperset(token):
            if token.start_pos == self._end:
                self._runs[-1] += token
            else:
                self._runs.append(str(token))
            self._end = token.start_pos + len(token)
        return token

    @property
    def are_bounded(self) -> bool:
        """True where every run is allowed."""
        if self._most is None or not self._characters:
            return True
        allowed = self._allowed
        return all(allowed is not None and allowed.fullmatch(run) for run in self._runs)
