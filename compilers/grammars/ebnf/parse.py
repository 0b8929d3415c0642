"""Parser of `::=` grammars: tokens to rules over a flat list of nodes, children before parents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cdec.compilers.grammars.automata.characters import EVERYTHING, Ranges
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.ebnf.lex import Source, Token, class_ranges, literal_text, tokens_of
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import GrammarDuplicateError, GrammarSyntaxError
from cdec.core.grammars.special import is_stand_in

_MARKS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_LONG_COUNT = 18


@dataclass(frozen=True, slots=True)
class Node:
    """One expression; its parts have smaller numbers than itself.

    Attributes:
        kind: What it is.
        parts: Node numbers: of a sequence in order, of a choice its alternatives, of a repetition
            the one repeated.
        text: Of a literal; the rule's name of a reference.
        ranges: Of a class.
        least, most: Counts of a repetition; most None for no bound.
        offset: In the source.
    """

    kind: Literal["literal", "class", "reference", "sequence", "choice", "repeat"]
    parts: tuple[int, ...] = ()
    text: str = ""
    ranges: Ranges = ()
    least: int = 0
    most: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class NamedRule:
    """``name ::= body``: the nodes ``first .. body``, the body last.

    Attributes:
        name: As written.
        first: First node of the rule.
        body: Its last node.
        offset: Of the name in the source.
    """

    name: str
    first: int
    body: int
    offset: int


@dataclass(slots=True)
class _Open:
    """A bracket that is still open, or a rule: alternatives so far and the one under way."""

    offset: int
    alternatives: list[int] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    repeatable: bool = False


def parse_rules(source: Source, limits: GrammarLimits) -> tuple[list[NamedRule], list[Node]]:
    """Return the rules of a grammar in order, and their nodes.

    A rule ends where the next line begins with ``NAME ::=``. O(size of the text), no recursion.

    Raises:
        GrammarSyntaxError: Text that is no grammar.
        GrammarUnsupportedError: A construct of another dialect.
        GrammarDuplicateError: A name that is defined twice.
        LimitError: More rules, deeper brackets or larger counts than ``limits`` allows.
    """
    return _Parser(source, limits).run()


class _Parser:
    def __init__(self, source: Source, limits: GrammarLimits) -> None:
        self.source = source
        self.limits = limits
        self.nodes: list[Node] = []
        self.rules: dict[str, NamedRule] = {}
        self.open: list[_Open] = []
        self.head: Token | None = None
        self.first = 0

    def run(self) -> tuple[list[NamedRule], list[Node]]:
        tokens = tokens_of(self.source)
        token = next(tokens)
        while token.kind != "end":
            after = next(tokens)
            if token.kind == "name" and after.kind == "define":
                self._begin_rule(token)
                token = next(tokens)
                continue
            if self.head is None:
                raise self._syntax(token, "expected a rule", "begin with NAME ::= ...")
            self._take(token)
            token = after
        self._end_rule(token)
        return list(self.rules.values()), self.nodes

    def _begin_rule(self, name: Token) -> None:
        if not self.source.first_on_line(name.offset):
            hint = "begin each rule on its own line"
            raise self._syntax(name, f"the rule {name.text!r} begins inside a line", hint)
        self._end_rule(name)
        if name.text in self.rules:
            line = self.source.position(self.rules[name.text].offset)[0]
            raise self.source.error(
                GrammarDuplicateError,
                name.offset,
                f"the rule {name.text!r} is defined again; first on line {line}",
                "join both with |, or rename one",
                name=name.text,
            )
        if len(self.rules) >= self.limits.max_rules:
            raise LimitError(
                f"more than {self.limits.max_rules} rules",
                hint="raise `max_rules`, or split the grammar",
                limit="max_rules",
            )
        self.head, self.first = name, len(self.nodes)
        self.open = [_Open(name.offset)]

    def _end_rule(self, at: Token) -> None:
        if self.head is None:
            return
        if len(self.open) > 1:
            line, column = self.source.position(self.open[-1].offset)
            message = f"the bracket of line {line}, column {column} is not closed"
            raise self._syntax(at, message, "close it with )")
        body = self._close(self.open.pop())
        self.rules[self.head.text] = NamedRule(self.head.text, self.first, body, self.head.offset)
        self.head = None

    def _take(self, token: Token) -> None:
        frame = self.open[-1]
        kind = token.kind
        if kind == "literal":
            text = literal_text(self.source, token)
            self._item(Node("literal", text=text, offset=token.offset))
        elif kind == "class":
            ranges = class_ranges(self.source, token)
            self._item(Node("class", ranges=ranges, offset=token.offset))
        elif kind == ".":
            self._item(Node("class", ranges=EVERYTHING, offset=token.offset))
        elif kind == "but":
            self._any_but(token)
        elif kind == "name":
            self._item(Node("reference", text=token.text, offset=token.offset))
        elif kind == "(":
            self._open_bracket(token)
        elif kind == ")":
            self._close_bracket(token)
        elif kind == "|":
            self._end_alternative(frame)
        elif kind == "define":
            raise self._syntax(token, "::= without a rule's name", "write NAME ::= ...")
        else:
            self._repeat(token, frame)

    def _any_but(self, token: Token) -> None:
        """Take any text in which special tokens that the grammar names stand, but for one."""
        others = sorted({*filter(is_stand_in, self.source.text)} - {token.text[2]})
        first = len(self.nodes)
        self.nodes.append(Node("class", ranges=EVERYTHING, offset=token.offset))
        self.nodes += [Node("literal", text=other, offset=token.offset) for other in others]
        parts = tuple(range(first, len(self.nodes)))
        self.nodes.append(Node("choice", parts, offset=token.offset))
        least = 1 if token.text[-1] == "+" else 0
        part = (len(self.nodes) - 1,)
        self._item(Node("repeat", part, least=least, most=None, offset=token.offset))

    def _open_bracket(self, token: Token) -> None:
        if len(self.open) > self.limits.max_nesting:
            line, column = self.source.position(token.offset)
            raise LimitError(
                f"line {line}, column {column}: more than {self.limits.max_nesting} brackets "
                "within each other",
                hint="name the inner parts as rules of their own, or raise `max_nesting`",
                limit="max_nesting",
                line=line,
                column=column,
            )
        self.open.append(_Open(token.offset))

    def _close_bracket(self, token: Token) -> None:
        if len(self.open) == 1:
            raise self._syntax(token, "a ) without its (", "leave it out, or quote it")
        inner = self._close(self.open.pop())
        self.open[-1].items.append(inner)
        self.open[-1].repeatable = True

    def _repeat(self, token: Token, frame: _Open) -> None:
        if not frame.repeatable:
            hint = "put it behind a literal, a class, a name or a bracket"
            raise self._syntax(token, f"{token.text} has nothing to repeat", hint)
        least, most = _MARKS[token.kind] if token.kind in _MARKS else self._counts(token)
        part = frame.items.pop()
        self.nodes.append(
            Node("repeat", (part,), least=least, most=most, offset=self.nodes[part].offset)
        )
        frame.items.append(len(self.nodes) - 1)

    def _counts(self, token: Token) -> tuple[int, int | None]:
        low, comma, high = (part.strip() for part in token.text[1:-1].partition(","))
        if not low and not high:
            raise self._syntax(token, "a count without a number", "write {m}, {m,}, {,n} or {m,n}")
        least, most = (self._number(token, digits or "0") for digits in (low, high))
        if comma and not high:
            return least, None
        if not comma:
            return least, least
        if most < least:
            message = f"the counts {token.text} are swapped: at least {least}, at most {most}"
            raise self._syntax(token, message, f"write {{{most},{least}}}")
        return least, most

    def _number(self, token: Token, digits: str) -> int:
        # subtle: a number of thousands of digits must not even be converted.
        number = int(digits) if len(digits.lstrip("0")) <= _LONG_COUNT else None
        if number is None or number > self.limits.max_repeat:
            line, column = self.source.position(token.offset)
            raise LimitError(
                f"line {line}, column {column}: the count {digits[:_LONG_COUNT]} is more than "
                f"{self.limits.max_repeat}",
                hint="raise `max_repeat`, or repeat without a bound",
                limit="max_repeat",
                line=line,
                column=column,
            )
        return number

    def _item(self, node: Node) -> None:
        self.nodes.append(node)
        self.open[-1].items.append(len(self.nodes) - 1)
        self.open[-1].repeatable = True

    def _end_alternative(self, frame: _Open) -> None:
        items = frame.items
        if len(items) != 1:
            self.nodes.append(Node("sequence", tuple(items), offset=frame.offset))
            items = [len(self.nodes) - 1]
        frame.alternatives.append(items[0])
        frame.items, frame.repeatable = [], False

    def _close(self, frame: _Open) -> int:
        self._end_alternative(frame)
        if len(frame.alternatives) == 1:
            return frame.alternatives[0]
        self.nodes.append(Node("choice", tuple(frame.alternatives), offset=frame.offset))
        return len(self.nodes) - 1

    def _syntax(self, token: Token, message: str, hint: str) -> Exception:
        return self.source.error(GrammarSyntaxError, token.offset, message, hint)
