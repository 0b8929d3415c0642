"""A quick proof: wherever a terminal ends, the lexer lets every terminal follow that rules allow.

Where the tables hold every action of the rules, and every rule derives some text, whatever the
parser has shifted is the beginning of a sequence of terminals that the rules derive (Knuth 1965:
the stack is a viable prefix). If in addition no pending match bars any terminal that the parser has
an action for, the lexer lets this very sequence pass, so no stack has to be looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdec.compilers.grammars.parser.conflicts import bits
from cdec.compilers.grammars.parser.tables import ParseTables
from cdec.compilers.grammars.soundness.adjacency import Letter
from cdec.compilers.grammars.soundness.completions import Boundary


def is_unhindered(
    tables: ParseTables,
    letters: Sequence[Letter],
    ahead: Mapping[Boundary, int],
    ignored: frozenset[int],
) -> bool:
    """Say whether every stack has a completion because no boundary withholds a terminal.

    Args:
        tables: LALR(1) tables.
        letters: Letters by number.
        ahead: Per boundary that can occur: the letters that can follow, as bits, ignored terminals
            between left out of account.
        ignored: Ignored terminals: the parser does not see them where a rule names them, either.

    Returns:
        True is a proof; False decides nothing. Cost: of the letters of every distinct set.
    """
    if not tables.is_whole:
        return False
    following: dict[int, frozenset[int]] = {}
    for (state, _), numbers in ahead.items():
        if numbers not in following:
            found = frozenset(letters[number].terminal for number in bits(numbers))
            following[numbers] = found - ignored
        if not tables.accepts[state] <= following[numbers]:
            return False
    return True
