"""Regular expressions as strings of a schema, and automata that they are held to besides.

Expressions nest, so that no automaton is all of them; the library follows them
(``native/schemas/regexes.h``), side by side with an automaton. No dead end arises where that goes
on with any text, and from everywhere to an end by characters that stand for themselves: whatever
was begun can be closed, and these written behind it. Others are refused, by name.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cdec.compilers.regular.edges import Edges
from cdec.compilers.regular.strings import Strings
from cdec.core.schemas.errors import SchemaUnsupportedError
from cdec.core.schemas.regexes import is_regex

_SYNTAX = b'"\\^$*+?()[]{}'
"""Characters of printable ASCII that do not stand for themselves, and the quote."""
_PLAIN = np.array([byte not in _SYNTAX and byte >= 0x20 and byte != 0x7F for byte in range(256)])
_FEW = 10_000
"""Strings that are looked at one by one."""


class Regexes:
    """Regular expressions of ECMA-262; there is one such object, ``REGEXES``."""

    def among(self, strings: Strings) -> Strings:
        """Return strings of which those that are expressions are meant: a list where few are."""
        few = strings.finite(_FEW)
        return strings if few is None else Strings.words(word for word in few if is_regex(word))

    def are_listed(self, strings: Strings) -> bool:
        """Say whether strings are so few that ``among`` lists them."""
        return strings.finite(_FEW) is not None

    def parts(self, strings: Strings) -> Iterator[tuple[Edges, int]]:
        """Yield automata of strings among which they are, and fewest characters.

        Raises:
            SchemaUnsupportedError: One of them might lead to a dead end.
        """
        for edges, low, high in strings.parts():
            if high >= 0 or not goes_on(edges):
                raise SchemaUnsupportedError(
                    "strings of format 'regex' must satisfy something else as well, and which "
                    "beginnings of them can still do so is not decided",
                    hint="keep minLength, an enum, or a pattern that is found anywhere "
                    "beside the format; leave maxLength and patterns of the whole string out",
                    keyword="format",
                )
            yield edges, low

    def __str__(self) -> str:
        return "regular expressions"


REGEXES = Regexes()


def goes_on(edges: Edges) -> bool:
    """Say whether any text leads on, and from everywhere to an end by plain characters."""
    if not edges.state_free[0]:
        return False
    sources = np.repeat(np.arange(len(edges.state_label)), np.diff(edges.state_edges))
    plain = np.concatenate([[0], np.cumsum(_PLAIN)])
    is_plain = plain[edges.edge_high.astype(int) + 1] > plain[edges.edge_low]
    found = edges.state_label >= 0
    while True:
        more = found.copy()
        more[sources[is_plain & found[edges.edge_target]]] = True
        if (more == found).all():
            break
        found = more
    reached = np.zeros(len(found), np.bool_)
    reached[0] = True
    while True:
        more = reached.copy()
        more[edges.edge_target[reached[sources]]] = True
        if (more == reached).all():
            break
        reached = more
    # Others are within a character.
    return bool(found[reached & (edges.state_free > 0)].all())
