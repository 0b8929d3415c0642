"""Reference of the ``dynamic`` language: Earley over characters, terminals matched by ``re``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from cdec.compilers.grammars.definition import Grammar

LAZY = re.compile(r"[*+?}]\?")
"""Of such a terminal the texts count that ``re.match`` takes as a whole, as lark takes them."""
Item = tuple[int, int, int]
"""Rule, dot, position where the rule began."""


def accepts(grammar: Grammar, text: str) -> bool:
    """Return whether some segmentation of ``text`` into terminals is in the grammar's language.

    Ignored terminals may stand before, between and after the others. J. Earley, "An Efficient
    Context-Free Parsing Algorithm", CACM 1970, with the treatment of empty rules of Aycock and
    Horspool, "Practical Earley Parsing", 2002. Cost: O(n^3) in the characters, times ``re``.

    Args:
        grammar: Any front end's; priorities and the order of terminals play no part.
        text: Any text.
    """
    return _Chart(grammar, text).run()


class _Chart:
    def __init__(self, grammar: Grammar, text: str) -> None:
        self.grammar = grammar
        self.text = text
        self.patterns = [re.compile(terminal.pattern) for terminal in grammar.terminals]
        self.rules_of: dict[int, list[int]] = {}
        for number, rule in enumerate(grammar.rules):
            self.rules_of.setdefault(rule.lhs, []).append(number)
        self.empty_terminals = {
            number for number, pattern in enumerate(self.patterns) if pattern.fullmatch("")
        }
        self.nullable = nullable_nonterminals(grammar, self.empty_terminals)
        self.ends = cache(self._ends)
        self.after_ignored = cache(self._after_ignored)
        self.sets: list[dict[Item, None]] = [{} for _ in range(len(text) + 1)]
        self.waiting: list[dict[int, list[Item]]] = [{} for _ in range(len(text) + 1)]

    def run(self) -> bool:
        starts = self.after_ignored(0)
        start_rules = self.rules_of.get(self.grammar.start, [])
        for begin in starts:
            self.sets[begin].update({(rule, 0, begin): None for rule in start_rules})
        for position in range(len(self.text) + 1):
            self._complete_set(position)
        last = self.sets[len(self.text)]
        return any(
            (rule, len(self.grammar.rules[rule].rhs), begin) in last
            for rule in start_rules
            for begin in starts
        )

    def _complete_set(self, position: int) -> None:
        items = self.sets[position]
        queue = list(items)
        predicted: set[int] = set()
        waiting = self.waiting[position]
        while queue:
            item = queue.pop()
            rule, dot, begin = item
            rhs = self.grammar.rules[rule].rhs
            if dot == len(rhs):
                lhs = self.grammar.rules[rule].lhs
                parents = self.waiting[begin].get(lhs, []) if begin < position else []
                self._add(items, queue, [(r, d + 1, b) for r, d, b in parents])
                continue
            symbol = rhs[dot]
            if symbol >= 0:
                if symbol in self.empty_terminals:
                    self._add(items, queue, [(rule, dot + 1, begin)])
                for end in self.ends(symbol, position):
                    self.sets[end][(rule, dot + 1, begin)] = None
                continue
            waiting.setdefault(~symbol, []).append(item)
            if ~symbol not in predicted:
                predicted.add(~symbol)
                fresh = [(number, 0, position) for number in self.rules_of.get(~symbol, [])]
                self._add(items, queue, fresh)
            if ~symbol in self.nullable:
                self._add(items, queue, [(rule, dot + 1, begin)])

    @staticmethod
    def _add(items: dict[Item, None], queue: list[Item], fresh: Iterable[Item]) -> None:
        for item in fresh:
            if item not in items:
                items[item] = None
                queue.append(item)

    def _ends(self, terminal: int, begin: int) -> list[int]:
        """Return where the terminal, and whatever is ignored after it, may end; never at once."""
        spans = self._spans(terminal, begin)
        return sorted({after for end in spans for after in self.after_ignored(end)})

    def _spans(self, terminal: int, begin: int) -> list[int]:
        pattern, text = self.patterns[terminal], self.text
        ends = range(begin + 1, len(text) + 1)
        if LAZY.search(pattern.pattern):
            found = ((end, pattern.match(text, begin, end)) for end in ends)
            return [end for end, match in found if match and match.end() == end]
        return [end for end in ends if pattern.fullmatch(text, begin, end)]

    def _after_ignored(self, begin: int) -> list[int]:
        seen, queue = {begin}, [begin]
        while queue:
            at = queue.pop()
            for terminal in self.grammar.ignored:
                fresh = [end for end in self._spans(terminal, at) if end not in seen]
                seen.update(fresh)
                queue.extend(fresh)
        return sorted(seen)


def nullable_nonterminals(grammar: Grammar, empty_terminals: set[int]) -> set[int]:
    """Return the nonterminals that derive the empty text, by going round until nothing changes.

    Args:
        grammar: Any.
        empty_terminals: Terminals whose pattern matches the empty text.
    """
    found: set[int] = set()
    while True:
        fresh = {
            rule.lhs
            for rule in grammar.rules
            if rule.lhs not in found
            and all(_empty(symbol, found, empty_terminals) for symbol in rule.rhs)
        }
        if not fresh:
            return found
        found |= fresh


def _empty(symbol: int, nonterminals: set[int], terminals: set[int]) -> bool:
    return symbol in terminals if symbol >= 0 else ~symbol in nonterminals
