"""Grammar: the definition in which every front end ends, and which every later stage reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cdec.core.errors import Notice
from cdec.core.grammars.indenter import Indenter
from cdec.core.options import check_limits, limit

Lexer = Literal["contextual", "basic", "dynamic"]
NOTHING = r"[^\s\S]"
"""A pattern that matches no text."""
LEXERS: tuple[Lexer, ...] = ("contextual", "basic", "dynamic")


@dataclass(frozen=True, slots=True)
class Terminal:
    """A named regular expression or literal.

    Attributes:
        name: As in the source, or the name lark gives an anonymous one.
        pattern: Regular expression in Python's syntax with its flags inside, as ``re`` reads it.
        value: The literal's text (``is_string``), or the regular expression without its flags.
        is_string: A literal; it can be embedded in a regular-expression terminal as a keyword.
        flags: Of ``imslux``.
        priority: Higher wins where terminals compete.
        line, column: Where it is defined, from 1; 0 where unknown.
        words: Of a long list of literals that compete as one; ``value`` is then the regular
            expression of them, and ``is_string`` says that each could be a keyword.
        is_whole: It is all of a text: anchors hold at its ends, and its texts are those of
            ``re.fullmatch``, whatever order ``re`` tries them in.
        conjoined, denied: Patterns each of which, and none of which, such a text matches as well.
        noun: What messages call it.
        max_tokens: How many tokens a text of it may have; None: any number.
        is_set: Its texts are the members of a set that is given when texts are read; ``value`` is a
            character that stands for any of them.
    """

    name: str
    pattern: str
    value: str
    is_string: bool
    flags: frozenset[str] = frozenset()
    priority: int = 0
    line: int = 0
    column: int = 0
    words: tuple[str, ...] = ()
    is_whole: bool = False
    conjoined: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    noun: str = "terminal"
    is_set: bool = False
    max_tokens: int | None = None

    @property
    def literals(self) -> tuple[str, ...]:
        """The texts of a literal or of a list of them; of a regular expression none."""
        return (self.words or (self.value,)) if self.is_string else ()


@dataclass(frozen=True, slots=True)
class Rule:
    """``lhs -> rhs`` in plain BNF.

    Attributes:
        lhs: Nonterminal number.
        rhs: Symbols: terminal t as t >= 0, nonterminal n as ~n < 0. May be empty.
        priority: Decides reduce/reduce conflicts, as lark's rule priorities do.
    """

    lhs: int
    rhs: tuple[int, ...]
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Grammar:
    """A context-free grammar over regular terminals.

    Attributes:
        terminals: In the order in which they compete under ``contextual`` and ``basic``: the first
            that matches wins (lark's order: priority, width, length, name).
        nonterminals: Names by number; those that expand repetitions begin with ``__``.
        rules: Plain BNF; duplicates removed.
        start: Nonterminal number.
        ignored: Terminals dropped wherever they occur between others.
        lexer: Chosen in the source's dialect: None leaves it to the tables (contextual if LALR).
        refused: Terminals that compete everywhere and that no rule takes; under ``dynamic`` those
            that rules over their parts stand for, which compete nowhere.
        alone: Ignored terminals that never follow themselves at once.
        source: The text it was read from, imports resolved as far as the dialect needs.
        dialect: ``lark``, ``ebnf`` or ``regex``.
        notices: Warnings for the user.
        plain: The same grammar as Lark can load it, where Lark would write too many alternatives
            of ``source`` out, and a regular expression as ``re`` reads it, where that is another;
            else "".
        indenter: How indentation becomes terminals; None where it means nothing.
        rule_tokens: Names of rules, and how many tokens a text of one may have.
    """

    terminals: tuple[Terminal, ...]
    nonterminals: tuple[str, ...]
    rules: tuple[Rule, ...]
    start: int
    ignored: frozenset[int]
    lexer: Lexer | None
    source: str
    dialect: str
    notices: tuple[Notice, ...] = ()
    refused: frozenset[int] = frozenset()
    alone: frozenset[int] = frozenset()
    plain: str = ""
    indenter: Indenter | None = None
    rule_tokens: tuple[tuple[str, int], ...] = ()

    @property
    def everywhere(self) -> frozenset[int]:
        """Terminals that compete in every context of ``contextual``."""
        names = () if self.indenter is None else (self.indenter.NL_type,)
        return self.ignored | self.refused | self.named(names)

    def named(self, names: Collection[str]) -> frozenset[int]:
        """Return the terminals of some names that are not ignored."""
        found = (i for i, terminal in enumerate(self.terminals) if terminal.name in names)
        return frozenset(found) - self.ignored


@dataclass(frozen=True, slots=True)
class GrammarLimits:
    """Limits of compiling a grammar; passing one is a ``LimitError`` that names it.

    ``max_rules`` also bounds the named rules before repetitions are written out, ``max_nesting``
    and ``max_repeat`` hold in regular expressions, too, and ``max_states`` for the automaton of one
    terminal. ``compile_seconds`` and ``compile_megabytes`` (above what an idle process needs) bound
    the child process of ``compile_in_child``.

    Raises:
        UsageError: One is out of bounds.
    """

    max_grammar_bytes: int = limit(4 << 20, "Longest grammar text, bytes.", unit="bytes")
    max_rules: int = limit(50_000, "Most rules, once repetitions are written out.")
    max_nesting: int = limit(500, "Brackets within brackets.")
    max_repeat: int = limit(100_000, "Largest count of a repetition.")
    max_states: int = limit(500_000, "Most states of scanner or parser.")
    max_ambiguity: int = limit(
        32_768, "Most reductions that compete before one terminal, counted by state."
    )
    max_tree_nodes: int = limit(20_000_000, "Most nodes of all subterminal trees.")
    compile_seconds: float = limit(
        300.0, "CPU seconds for one grammar.", unit="seconds", at_least=0.1
    )
    compile_megabytes: int = limit(4096, "Memory for one grammar.", unit="MiB")

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(slots=True)
class ByteAutomaton:
    """A deterministic automaton over bytes, trimmed: every state can reach an accepting one.

    Attributes:
        delta: int32[n, 256] next state, -1 where the automaton stops. State 0 is the start.
        accepting: Per state: the terminal may end here. Under the prioritised reading the last
            accepting state on the path is where Python's ``re.match`` ends.
        is_open: What stands before or behind a text decides as well; the automaton has the texts
            that match in some surroundings.
        copies: Of counted repetitions (``states.CounterStates``); None where nothing is counted.
    """

    delta: object
    accepting: Sequence[bool] = field(default_factory=list)
    is_open: bool = False
    copies: Any = None
