"""Names: what a grammar's terminals, rules and parser states are called, for messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cdec.core.grammars.columns import GrammarArrays


@dataclass(frozen=True)
class Names:
    """Names of a grammar's symbols, from the metadata of its artifact.

    Attributes:
        arrays: The compiled grammar.
        terminals: By number.
        nonterminals: By number.
        rules: (left side, right side) as names, by number.
        patterns: Regular expressions of terminals that are none literals, by name.
    """

    arrays: GrammarArrays
    terminals: tuple[str, ...]
    nonterminals: tuple[str, ...]
    rules: tuple[tuple[str, tuple[str, ...]], ...]
    patterns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_metadata(cls, arrays: GrammarArrays, metadata: Mapping[str, str]) -> Names:
        """Read ``cdec.names``; numbers stand for names that are missing."""
        try:
            stored = json.loads(metadata.get("cdec.names", "{}"))
            terminals = tuple(map(str, stored.get("terminals", ())))
            nonterminals = tuple(map(str, stored.get("nonterminals", ())))
            rules = tuple((str(a), tuple(map(str, b))) for a, b in stored.get("rules", ()))
            written = zip(terminals, stored.get("patterns", ()), strict=False)
            patterns = {name: str(pattern) for name, pattern in written if pattern}
        except (ValueError, TypeError, AttributeError, RecursionError):
            terminals, nonterminals, rules, patterns = (), (), (), {}
        return cls(arrays, terminals, nonterminals, rules, patterns)

    def terminal(self, number: int) -> str:
        """Return the name of a terminal; the end of the text is ``$END``."""
        if number == len(self.arrays.ignored):
            return "$END"
        known = 0 <= number < len(self.terminals)
        return self.terminals[number] if known else f"terminal {number}"

    def each(self, numbers: Iterable[int]) -> list[str]:
        """Return the names of terminals, each once: copies of a terminal have its name."""
        return list(dict.fromkeys(map(self.terminal, numbers)))

    def nonterminal(self, number: int) -> str:
        """Return the name of a nonterminal."""
        known = 0 <= number < len(self.nonterminals)
        return self.nonterminals[number] if known else f"nonterminal {number}"

    def item(self, rule: int, dot: int) -> str:
        """Return a rule with a dot where the parser stands."""
        if not 0 <= rule < len(self.rules):
            return f"rule {rule}, position {dot}"
        lhs, rhs = self.rules[rule]
        return f"{lhs} → {' '.join([*rhs[:dot], '•', *rhs[dot:]])}"

    @cached_property
    def access_symbols(self) -> dict[int, str]:
        """Return the symbol that leads to each LR state."""
        symbols: dict[int, str] = {0: "$START"}
        arrays = self.arrays
        for at in np.flatnonzero(arrays.action_values >= 0).tolist():
            symbols.setdefault(
                int(arrays.action_values[at]), self.terminal(int(arrays.action_terminals[at]))
            )
        for symbol, state in zip(
            arrays.goto_symbols.tolist(), arrays.goto_states.tolist(), strict=True
        ):
            symbols.setdefault(state, self.nonterminal(symbol))
        return symbols

    def items(self, state: int) -> list[str]:
        """Return the kernel items of an LR state."""
        first, stop = self.arrays.item_offsets[state : state + 2].tolist()
        rules, dots = self.arrays.item_rules[first:stop], self.arrays.item_dots[first:stop]
        return [self.item(*item) for item in zip(rules.tolist(), dots.tolist(), strict=True)]
