"""A plain engine to compare with, and the grammars it is compared on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cdec.compilers.grammars.compile import build_grammar
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import PRECOMPUTE, GrammarOptions
from cdec.core.grammars.columns import GrammarArrays, arrays_from
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.grammars.session import DEFAULT_BUDGET, Engine, GrammarSession, Work
from cdec.core.tokens.vocabulary import Vocabulary

# --- The semantics of a compiled grammar in plain Python: every token stepped, stacks as tuples.
#
# Written from the text of ``cdec.core.grammars.columns`` alone. Trees, masks and memos are not
# used;
# only the scanner and the parse tables are.

Stack = tuple[int, ...]
"""LR states, the top last."""


@dataclass(frozen=True)
class ParserConfiguration:
    """One configuration: scanner state, whether it is at a terminal's start, possible stacks."""

    at: int
    fresh: bool
    stack: Stack
    depth: int = 0
    """Terminals that have ended within the token."""


@dataclass(frozen=True)
class PlainEngine:
    """Walks a grammar by definition.

    Attributes:
        arrays: The compiled grammar.
        general: Lexer ``dynamic``.
        end_ids: End-of-sequence ids.
        lookahead: As the session's.
    """

    arrays: GrammarArrays
    general: bool
    end_ids: tuple[int, ...]
    lookahead: int | None = None

    @cached_property
    def token_bytes(self) -> list[bytes]:
        offsets, flat = (
            self.arrays.vocabulary_offsets.tolist(),
            self.arrays.vocabulary_bytes.tobytes(),
        )
        return [flat[a:b] for a, b in pairwise(offsets)]

    @cached_property
    def delta(self) -> np.ndarray:
        return self.arrays.delta.reshape(len(self.arrays.live_row), -1)

    def _slice(self, offsets: str, values: str, at: int) -> list[int]:
        first, stop = getattr(self.arrays, offsets)[at : at + 2]
        return getattr(self.arrays, values)[first:stop].tolist()

    def actions(self, state: int, terminal: int) -> list[int]:
        terminals = self._slice("action_offsets", "action_terminals", state)
        values = self._slice("action_offsets", "action_values", state)
        return [v for t, v in zip(terminals, values, strict=True) if t == terminal]

    def goto(self, state: int, symbol: int) -> int | None:
        symbols = self._slice("goto_offsets", "goto_symbols", state)
        states = self._slice("goto_offsets", "goto_states", state)
        return states[symbols.index(symbol)] if symbol in symbols else None

    def shift(self, stack: Stack, terminal: int) -> set[Stack]:
        """Return all stacks after a terminal: every order of reductions is tried."""
        seen, todo, shifted = {stack}, [stack], set()
        while todo:
            stack = todo.pop()
            for value in self.actions(stack[-1], terminal):
                if value >= 0:
                    shifted.add((*stack, value))
                    continue
                length = int(self.arrays.rule_length[~value])
                if length >= len(stack):
                    continue
                base = stack[: len(stack) - length]
                target = self.goto(base[-1], int(self.arrays.rule_lhs[~value]))
                if target is not None and (*base, target) not in seen:
                    seen.add((*base, target))
                    todo.append((*base, target))
        return shifted

    def start(self) -> tuple[ParserConfiguration, ...]:
        context = self.arrays.lr_context[0]
        return (ParserConfiguration(int(self.arrays.context_start[context]), True, (0,)),)

    def _fresh(self, stack: Stack, terminal: int, depth: int) -> ParserConfiguration:
        arrays = self.arrays
        context = (
            arrays.terminal_context[terminal] if self.general else arrays.lr_context[stack[-1]]
        )
        return ParserConfiguration(int(arrays.context_start[context]), True, stack, depth)

    def _ended(self, each: ParserConfiguration, terminal: int) -> list[ParserConfiguration]:
        ignored = self.arrays.ignored[terminal]
        stacks = {each.stack} if ignored else self.shift(each.stack, terminal)
        return [self._fresh(stack, terminal, each.depth + 1) for stack in sorted(stacks)]

    def _live(self, at: int) -> list[int]:
        return self._slice("live_offsets", "live_terminals", int(self.arrays.live_row[at]))

    def step(
        self, configurations: tuple[ParserConfiguration, ...], byte: int
    ) -> tuple[ParserConfiguration, ...]:
        after: list[ParserConfiguration] = []
        for each in configurations:
            at = int(self.delta[each.at, self.arrays.byte_class[byte]])
            if at < 0:
                continue
            if self._live(at):
                after.append(ParserConfiguration(at, False, each.stack, each.depth))
            for terminal in self._slice("match_offsets", "match_terminals", at):
                after += self._ended(each, terminal)
            if not self.general and self._slice("match_offsets", "match_terminals", at):
                break
        return tuple(dict.fromkeys(after))

    def is_viable(self, each: ParserConfiguration) -> bool:
        return each.fresh or any(
            self.arrays.ignored[t] or self.shift(each.stack, t) for t in self._live(each.at)
        )

    def advance(
        self, configurations: tuple[ParserConfiguration, ...], text: bytes
    ) -> tuple[ParserConfiguration, ...]:
        """Return the configurations after a token's bytes; none if it is not allowed."""
        for byte in text:
            configurations = self.step(configurations, byte)
        limit = float("inf") if self.lookahead is None else self.lookahead
        if not any(
            self.is_viable(each) and each.depth - each.fresh <= limit for each in configurations
        ):
            return ()
        return tuple(ParserConfiguration(r.at, r.fresh, r.stack) for r in configurations)

    def may_end(self, configurations: tuple[ParserConfiguration, ...]) -> bool:
        end = len(self.arrays.ignored)
        return any(each.fresh and self.shift(each.stack, end) for each in configurations)

    def after(self, tokens: tuple[int, ...]) -> tuple[ParserConfiguration, ...]:
        configurations = self.start()
        for token in tokens:
            ended = token in self.end_ids
            configurations = () if ended else self.advance(configurations, self.token_bytes[token])
        return configurations

    def allowed(self, tokens: tuple[int, ...]) -> set[int]:
        """Return the allowed token ids after a prefix of tokens."""
        configurations = self.after(tokens)
        allowed = {
            token
            for token, text in enumerate(self.token_bytes)
            if text and self.advance(configurations, text)
        }
        return allowed | (set(self.end_ids) if self.may_end(configurations) else set())


# --- Small grammars and vocabularies for tests of the engine, compiled in memory.

JSON = r"""
start: value
value: object | array | STRING | NUMBER | "true" | "null"
object: "{" (pair ("," pair)*)? "}"
pair: STRING ":" value
array: "[" (value ("," value)*)? "]"
STRING: /"[^"]*"/
NUMBER: /-?[0-9]+(\.[0-9]+)?/
WS: / +/
%ignore WS
"""
RANGE = 'start: N ".." N\nN: /[0-9]+(\\.[0-9]+)?/\n'
COMMENTS = (
    'start: (ID "/" ID ";")+\nID: /[a-z]+/\nC: "/*" /(.|\\n)*?/ "*/"\n%ignore C\n%ignore " "\n'
)
KEYWORDS = 'start: "if" ID "then" ID\nID: /[a-z]+/\n%ignore " "\n'

LEXED = {
    "json": (JSON, ['{"', '"}', "],", '": ', '","', "[[", "]]", "12", ".5", "true", '": "', "  "]),
    "range": (RANGE, ["1..2", "..", "1.", ".2", "2.."]),
    "leftmost": ('start: A "b"* "c"\nA: /a|ab/\n', ["ab", "bb", "bc", "abb"]),
    "right": ('start: "a" start | "b"\n', ["aa", "ab", "aab"]),
    "comments": (COMMENTS, ["/*", "*/", "a/", "/b", "; ", "a/b;", "/* a */"]),
    "keywords": (KEYWORDS, ["if ", "ifa", "then", "if a then", "a t"]),
    "nested": ("start: X+\nX: /x(.*y)?/\n", ["xx", "xy", "xxy"]),
    "empty": ('start: ("a" | "b" "b")*\n', ["ab", "bb", "abb"]),
}
"""Name -> grammar and tokens of several bytes, for the lexing modes."""

GENERAL = {
    "json": LEXED["json"],
    "overlap": ("start: A B\nA: /ab*/\nB: /bc?/\n", ["ab", "bb", "bc"]),
    "comments": LEXED["comments"],
    "keywords": LEXED["keywords"],
    "ambiguous": ('start: start start | "a"\n', ["aa", "aaa"]),
    "palindromes": (
        'start: "a" start "a" | "b" start "b" | "a" | "b"\n',
        ["aa", "ab", "ba", "aba"],
    ),
    "cycle": ('start: a\na: b | "x" | a a\nb: a\n', ["xx"]),
    "nullable": ('start: a b c\na: "x"?\nb: a a\nc: b "y"?\n', ["xx", "xy"]),
    "hidden": ('start: a start "x" | "y"\na: "z"?\n', ["yx", "zy", "zz", "xx"]),
    "expression": (
        'start: e\ne: e "+" e | e "*" e | "(" e ")" | N\nN: /[0-9]+/\n',
        ["1+", "((", "))", "+(", "12"],
    ),
}
"""The same for ``dynamic``."""


@lru_cache(maxsize=8)
def byte_vocabulary(extra: tuple[str, ...] = (), width: int | None = None) -> Vocabulary:
    """Return all single bytes, some longer tokens, one of them twice, and two end ids."""
    tokens = [bytes([value]) for value in range(256)] + [text.encode() for text in extra]
    tokens += [tokens[-1], b"", b""]
    ends = [len(tokens) - 2, len(tokens) - 1]
    return Vocabulary(tokens, ends, ends, width=width)


def constraint_of(
    grammar: str,
    vocabulary: Vocabulary,
    lexer: str | None = None,
    *,
    precompute: int = PRECOMPUTE,
    limits: GrammarLimits | None = None,
    **options: Any,
) -> GrammarConstraint:
    """Compile a grammar in memory."""
    arrays, metadata, _ = build_grammar(
        grammar,
        vocabulary,
        GrammarOptions(
            lexer=lexer,  # type: ignore[arg-type]
            precompute=precompute,
            limits=limits or GrammarLimits(),
        ),
        Path("unwritten.arrow"),
    )
    return GrammarConstraint(arrays_from(arrays), vocabulary, metadata, **options)


def case(name: str, lexer: str) -> GrammarConstraint:
    """Return a named grammar's constraint."""
    grammar, extra = (GENERAL if lexer == "dynamic" else LEXED)[name]
    return constraint_of(grammar, byte_vocabulary(tuple(extra), 300), lexer)


def plain_engine(constraint: GrammarConstraint) -> PlainEngine:
    """Return the plain reference of a constraint."""
    return PlainEngine(
        constraint.arrays,
        constraint.lexer == "dynamic",
        constraint.vocabulary.eos_token_ids,
        constraint.facts.lookahead,
    )


def walk(session: Any, text: bytes) -> int:
    """Return the state after a text, byte by byte; every byte must be allowed."""
    state = session.start(1)
    for i, byte in enumerate(text):
        state = session.advance(state, np.array([byte]))
        assert state[0] >= 0, f"byte {i} of {text[:80]!r} is refused"
    return int(state[0])


def session_with(
    constraint: GrammarConstraint, *, budget: int = DEFAULT_BUDGET, **work: int
) -> GrammarSession:
    """Return a session over an engine of its own, made with other numbers than usual."""
    engine = Engine(
        constraint.arrays,
        general=constraint.lexer == "dynamic",
        end_ids=constraint.vocabulary.eos_token_ids,
        lookahead=constraint.facts.lookahead,
        budget=budget,
        work=Work(**work),
    )
    return GrammarSession(engine, constraint.vocabulary.width)
