"""What Lark itself makes of a grammar, and random grammars in its dialect."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

from lark.load_grammar import load_grammar

from cdec.compilers.grammars.definition import Grammar


class Plain(NamedTuple):
    """A grammar by names: terminals in order, rules with their priorities, ignored terminals."""

    terminals: list[tuple[str, str, int, bool, frozenset[str]]]
    rules: Counter[tuple[str, tuple[str, ...], int]]
    ignored: frozenset[str]


def as_lark_reads(text: str, start: str = "start") -> Plain:
    """Load and compile with Lark, and sort as its lexer does."""
    grammar, _ = load_grammar(text, "<string>", [], False)
    terminals, rules, ignored = grammar.compile([start], set())
    return plain_of_lark(terminals, rules, ignored)


def plain_of_lark(terminals: Any, rules: Any, ignored: Any) -> Plain:
    """Turn Lark's own objects into names."""

    def key(t: Any) -> Any:
        return -t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name

    return Plain(
        [
            (
                t.name,
                t.pattern.to_regexp(),
                t.priority,
                t.pattern.type == "str",
                frozenset(t.pattern.flags),
            )
            for t in sorted(terminals, key=key)
        ],
        Counter(
            (
                str(r.origin.name),
                tuple(str(s.name) for s in r.expansion),
                (r.options and r.options.priority) or 0,
            )
            for r in rules
        ),
        frozenset(ignored),
    )


def plain(grammar: Grammar) -> Plain:
    """Turn our grammar into names."""

    def name(symbol: int) -> str:
        return grammar.terminals[symbol].name if symbol >= 0 else grammar.nonterminals[~symbol]

    return Plain(
        [(t.name, t.pattern, t.priority, t.is_string, t.flags) for t in grammar.terminals],
        Counter(
            (grammar.nonterminals[r.lhs], tuple(map(name, r.rhs)), r.priority)
            for r in grammar.rules
        ),
        frozenset(grammar.terminals[t].name for t in grammar.ignored),
    )


_LITERALS = ['"a"', '"b"', '"if"i', '"+"', "/x+/", "/[0-9]+/", '"x"', "/y*z/i", '"a b"', '"A"']


class RandomGrammars:
    """Random grammars in Lark's dialect: brackets, counts, templates, aliases, priorities."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rules: list[str] = []
        self.templates: list[tuple[str, int]] = []

    def grammar(self) -> str:
        """Return the next grammar."""
        pick = self.random.choice
        names = ["start", "b", "c", "_d", "e"][: self.random.randint(2, 5)]
        self.rules = names
        self.templates = [("sep", 2), ("_opt", 1)] if self.random.random() < 0.4 else []
        lines = [self._rule(name) for name in names]
        if self.templates:
            self.templates = [("sep", 2)]
            self.rules = ["x", "b"]
            lines.append("_opt{x}: " + self._alternatives(1))
            self.templates, self.rules = [], ["x", "y", "b"]
            lines.append("sep{x, y}: " + self._alternatives(1))
        lines.append(pick(['A: "a"', 'A: "a"i', 'A: B | "z"~1..3 "b"? ("k"|"kk"|/l+/)*']))
        lines.append(pick(["B", "B.3", "B.-2"]) + pick([': "if"', ": /[a-z]+/", ': "q".."t"']))
        lines.append("_C: /c/x")
        extra = ['%ignore " "', "%ignore B", "%import common.WS\n%ignore WS", "%ignore /#.*/"]
        lines += [line for line in extra if self.random.random() < 0.3]
        return "\n".join(lines) + "\n"

    def _rule(self, name: str) -> str:
        pick = self.random.choice
        is_inlined = name.startswith("_")
        modifier = pick(["", "", "!"] if is_inlined else ["", "", "?", "!"])
        aliases = [""] if is_inlined and self.random.random() < 0.95 else ["", " -> p", " -> q"]
        parts = [self._sequence(2) + pick(aliases) for _ in range(self.random.randint(1, 3))]
        return f"{modifier}{name}{pick(['', '', '.2', '.-1'])}: " + pick([" | ", "\n | "]).join(
            parts
        )

    def _alternatives(self, depth: int) -> str:
        return " | ".join(self._sequence(depth) for _ in range(self.random.choice([1, 1, 2, 3])))

    def _sequence(self, depth: int) -> str:
        return " ".join(self._item(depth) for _ in range(self.random.choice([0, 1, 1, 2, 2, 3])))

    def _item(self, depth: int) -> str:
        atom, chance = self._atom(depth), self.random.random()
        if chance < 0.6:
            return atom
        if chance < 0.88:
            return atom + self.random.choice("?*+")
        n = self.random.choice([0, 1, 2, 3, 51, 60])
        return f"{atom}~{n}" if chance < 0.94 else f"{atom}~{n}..{n + self.random.choice([1, 55])}"

    def _atom(self, depth: int) -> str:
        chance, pick = self.random.random(), self.random.choice
        if depth and chance < 0.25:
            return f"({self._alternatives(depth - 1)})"
        if depth and chance < 0.32:
            return f"[{self._alternatives(depth - 1)}]"
        if chance < 0.6:
            return pick(self.rules)
        if chance < 0.75:
            return pick(["A", "B", "_C"])
        if self.templates and chance < 0.82:
            name, count = pick(self.templates)
            arguments = [pick(["A", '"x"', "b", "/q+/", *self.rules]) for _ in range(count)]
            return f"{name}{{{', '.join(arguments)}}}"
        return pick(_LITERALS)
