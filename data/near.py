"""Hints about names that are not there: the one that was meant, where it is near."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def near_hint(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return the hint of an error about a name that is not there.

    Args:
        name: That was asked for.
        names: That there are.
        otherwise: What to do where none of them is near, or in any case.
    """
    known = {each.casefold(): each for each in names}
    found = get_close_matches(name.casefold(), known, n=1)
    return f"did you mean {known[found[0]]!r}? {otherwise}" if found else otherwise
