"""What a place between two terminals says about the text around it, besides the parser's stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cdec.compilers.grammars.automata.look_distance import outer_looks
from cdec.compilers.grammars.automata.regex import MATCH, Program, parse_program
from cdec.compilers.grammars.definition import Grammar, GrammarLimits


class Boundary(NamedTuple):
    """Between two terminals.

    Attributes:
        history: Of ``automata.looking``: what look-behind will ask of the text before.
        wants: What look-ahead still wants of the text behind.
        rivals: States of terminals that were under way when this reading began another; if one
            completes, the reading is void. Ascending.
    """

    history: int
    wants: tuple[int, ...]
    rivals: tuple[int, ...]

    @property
    def is_settled(self) -> bool:
        """Whether no text that follows can make the reading void."""
        return not self.wants and not self.rivals


class Programs(NamedTuple):
    """The patterns of several terminals as one program.

    Attributes:
        program: All nodes.
        starts: First node of each terminal.
        far: Patterns of the look-behind that may see what stands before its terminal.
    """

    program: Program
    starts: Mapping[int, int]
    far: frozenset[int]


def join_programs(grammar: Grammar, numbers: list[int], limits: GrammarLimits) -> Programs:
    """Join the programs of some terminals; sets of characters that are equal are one."""
    joined = Program()
    starts: dict[int, int] = {}
    far: set[int] = set()
    charsets: dict[object, int] = {}
    for number in numbers:
        own = parse_program(grammar.terminals[number], limits)
        shift = len(joined.reads) - 1

        def moved(node: int, shift: int = shift) -> int:
            return MATCH if node == MATCH else node + shift

        for ranges in own.charsets:
            if charsets.setdefault(ranges, len(charsets)) == len(joined.charsets):
                joined.charsets.append(ranges)
        for node in range(1, len(own.reads)):
            reads = own.reads[node]
            joined.reads.append(reads if reads < 0 else charsets[own.charsets[reads]])
            joined.goes.append(tuple(map(moved, own.goes[node])))
            joined.guard.append(own.guard[node])
        for node, look in own.looks.items():
            joined.looks[moved(node)] = look._replace(body=moved(look.body))
        far.update(moved(own.looks[node].body) for node in outer_looks(own))
        starts[number] = moved(own.start)
    return Programs(joined, starts, frozenset(far))
