"""Choice of a lexer and a parser for a grammar, with the automata of its terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cdec.compilers.grammars.analysis import analyse, hidden_left_recursive
from cdec.compilers.grammars.automata.determinise import open_terminal
from cdec.compilers.grammars.automata.pattern_checks import empty_terminal, ends_early
from cdec.compilers.grammars.automata.program import Counting
from cdec.compilers.grammars.automata.terminal import compile_terminal, without_empty
from cdec.compilers.grammars.definition import (
    ByteAutomaton,
    Grammar,
    GrammarLimits,
    Lexer,
    Terminal,
)
from cdec.compilers.grammars.parser.shifting import shift_notice, text_lost_by_shifting
from cdec.compilers.grammars.parser.tables import build_tables, refuse_ambiguity
from cdec.compilers.grammars.scanner.competition import with_ignored_copies, with_keyword_copies
from cdec.compilers.grammars.scanner.division import (
    compile_narrowed,
    with_split_patterns,
    without_overlaps,
)
from cdec.compilers.grammars.soundness.coverage import Alphabet
from cdec.compilers.grammars.states import UncountableError, lacks_some
from cdec.core.errors import LimitError, Notice
from cdec.core.grammars.columns import MOST_SETS
from cdec.core.grammars.errors import (
    EmptyLanguageError,
    GrammarConflictError,
    GrammarError,
    GrammarUnsupportedError,
    RegexUnsupportedError,
)

if TYPE_CHECKING:
    from cdec.compilers.grammars.parser.tables import ParseTables


ASKED_FOR = "asked for"
"""The reason of a lexer that was named, among ``lexer_reason``."""


class Costs(NamedTuple):
    """Limits of tables and automata, what may be left out, terminals that cost too much, and the
    bytes that texts may have."""

    limits: GrammarLimits
    counting: Counting | None
    too_large: dict[Terminal, LimitError]
    alphabet: Alphabet | None = None

    def within(self, terminal: Terminal, automaton: ByteAutomaton) -> ByteAutomaton:
        """Return the automaton of the texts that tokens have the bytes of."""
        if self.alphabet is None or terminal.is_set:
            return automaton
        return self.alphabet.within(terminal, automaton)


@dataclass(frozen=True, slots=True)
class ParserChoice:
    """A lexer with what goes with it.

    Attributes:
        lexer: ``contextual``, ``basic`` or ``dynamic``.
        reason: Why this one.
        written: The grammar with its own terminals; some ignored ones have copies. Rules that
            can never be completed are in it but for ``dynamic``.
        grammar: What tables and automata are of: ``written``, but that under ``dynamic`` its
            overlapping terminals are divided.
        tables: LALR(1) tables; generalised ones for ``dynamic``.
        automata: One a terminal, none accepting the empty text.
        notices: ``W_DYNAMIC_LEXER`` where the grammar's conflicts made the choice;
            ``W_SHIFT_REDUCE`` where they were decided as lark decides them.
    """

    lexer: Lexer
    reason: str
    written: Grammar
    grammar: Grammar
    tables: ParseTables
    automata: Sequence[ByteAutomaton]
    notices: tuple[Notice, ...] = ()


def choose_parser(
    grammar: Grammar,
    lexer: Lexer | None,
    limits: GrammarLimits,
    counting: Counting | None = None,
    *,
    alphabet: Alphabet | None = None,
    emptied: EmptyLanguageError | None = None,
) -> ParserChoice:
    """Build tables and automata for a lexer, or for the first one that the grammar allows.

    Conflicts between shifting and reducing are decided for shifting, as lark does, where that
    leaves the language as it is (the dangling else), with a notice. Whether it does is undecidable:
    a text that would be lost is looked for (``parser.shifting``), and one that is found makes
    the grammar what hidden left recursion makes it without a search: not LALR(1).

    Args:
        grammar: From a front end.
        lexer: None: ``contextual`` where the grammar is LALR(1), or no text is found that shifting
            loses; else ``dynamic``.
        counting: What may be left out of counted repetitions; None: nothing.
        alphabet: Of the tokens; None: every byte.
        emptied: What became of the choice before: a lexer that leaves no text. Then it is
            ``dynamic``, if that can read the grammar.

    Raises:
        EmptyLanguageError: The start produces no text, or it is ``emptied``.
        GrammarConflictError: ``contextual`` or ``basic`` were asked for and it is not LALR(1).
        EmptyTerminalError: A terminal that matches the empty text under a lexer that cannot
            have it, or nothing else.
        UntokenizableError: A terminal of which tokens have the bytes of no text.
        LimitError, RegexUnsupportedError, UncountableError: As ``build_tables``,
            ``refuse_ambiguity`` and ``compile_terminal``.
    """
    analysed, costs = analyse(grammar), Costs(limits, counting, {}, alphabet)
    if sets := [terminal for terminal in grammar.terminals if terminal.is_set]:
        return _with_sets(analysed, sets, lexer, costs)
    if grammar.indenter is not None:
        lexer = lexer or "contextual"  # there is no other way to read what it makes
    if emptied is not None:
        return _instead(analysed, emptied, costs)
    if lexer == "dynamic":
        is_ebnf = grammar.dialect == "ebnf"
        reason = "::= rules: every way to cut the text counts" if is_ebnf else ASKED_FOR
        return _generalised(analysed, reason, costs, ())
    # subtle: what lark's tables hold of rules that can never be completed decides what competes.
    grammar = analyse(grammar, keep_unproductive=True)
    try:
        tables = build_tables(grammar, generalised=False, limits=limits)
    except GrammarConflictError as conflict:
        if lexer is not None:
            raise
        return _not_lalr(analysed, conflict.message, conflict.details, costs)
    hidden = hidden_left_recursive(analysed) if tables.resolved and lexer is None else []
    if hidden:
        why = f"{', '.join(hidden[:3])} can begin with itself behind something empty"
        return _not_lalr(analysed, why, {"rules": hidden}, costs)
    try:
        automata = _automata(grammar, tables, lexer, costs)
    except LimitError as error:
        if lexer is not None or error not in costs.too_large.values():
            raise
        return _too_large(analysed, error, costs)
    lost = None
    if tables.resolved and lexer != "basic":
        if any(lacks_some(automaton.copies) for automaton in automata):
            raise UncountableError  # texts are spelled by the automata
        lost = text_lost_by_shifting(grammar, tables, automata)
    # subtle: `dynamic` does not follow terminals that look around; then lark's way is what is left.
    looks_around = any(automaton.is_open for automaton in automata)
    if lost is not None and lexer is None and not looks_around:
        why = f"where a rule could end or go on, going on as Lark does would refuse {lost!r}"
        try:
            return _not_lalr(analysed, why, {"text": lost}, costs)
        except RegexUnsupportedError:
            pass  # a terminal that `dynamic` cannot read: the notice says what is lost
    return _lalr(grammar, tables, automata, lexer, costs, lost)


def _with_sets(
    grammar: Grammar, sets: Sequence[Terminal], lexer: Lexer | None, costs: Costs
) -> ParserChoice:
    """Return the choice where members of sets are terminals: no lexer could try them all.

    Raises:
        GrammarUnsupportedError: Another lexer than ``dynamic`` was asked for, or too many sets.
    """
    if len(sets) > MOST_SETS:
        raise GrammarUnsupportedError(
            f"{len(sets)} sets stand within the grammar, and {MOST_SETS} are the most",
            hint="make one set of several",
        )
    if lexer not in (None, "dynamic"):
        raise GrammarUnsupportedError(
            f"%declare {sets[0].name} is a set, whose members are no pattern that a lexer tries",
            hint="leave `lexer` out: every way to cut the text into terminals counts",
            name=sets[0].name,
        )
    reason = "members of sets are terminals: every way to cut the text counts"
    return _generalised(grammar, reason, costs, ())


def _automata(
    grammar: Grammar, tables: ParseTables, lexer: Lexer | None, costs: Costs
) -> list[ByteAutomaton]:
    competing = grammar.everywhere.union(*tables.competing)
    return [
        _lexed(terminal, costs, lexer == "basic" or number in competing)
        for number, terminal in enumerate(grammar.terminals)
    ]


def _lalr(
    grammar: Grammar,
    tables: ParseTables,
    automata: list[ByteAutomaton],
    lexer: Lexer | None,
    costs: Costs,
    lost: str | None,
) -> ParserChoice:
    copied = with_keyword_copies(grammar, automata)
    if copied is not grammar:
        added = copied.terminals[len(automata) :]
        automata += [_lexed(terminal, costs, True) for terminal in added]
        grammar, tables = copied, build_tables(copied, generalised=False, limits=costs.limits)
    reason = "the grammar is LALR(1)" if lexer is None else ASKED_FOR
    if grammar.dialect == "regex":
        reason = "the text is one terminal"
    notices: tuple[Notice, ...] = ()
    if tables.resolved:
        notices = (shift_notice(grammar, tables, lost),)
        reason = "LALR(1) but for places where shifting wins" if lexer is None else reason
    return ParserChoice(lexer or "contextual", reason, grammar, grammar, tables, automata, notices)


def _instead(grammar: Grammar, emptied: EmptyLanguageError, costs: Costs) -> ParserChoice:
    notice = Notice(
        "W_DYNAMIC_LEXER",
        f"{emptied.message}; so every way to cut the text into terminals counts (`lexer` dynamic)",
        dict(emptied.details),
    )
    reason = f"{emptied.details['lexer']} leaves no text"
    try:
        return _generalised(grammar, reason, costs, (notice,))
    except GrammarError:
        raise emptied from None


def _not_lalr(grammar: Grammar, why: str, details: dict[str, object], costs: Costs) -> ParserChoice:
    notice = Notice(
        "W_DYNAMIC_LEXER",
        "the grammar is not LALR(1), so every way to cut the text into terminals counts "
        f"(`lexer` dynamic): {why}",
        dict(details),
    )
    return _generalised(grammar, "the grammar is not LALR(1)", costs, (notice,))


def _generalised(
    grammar: Grammar, reason: str, costs: Costs, notices: tuple[Notice, ...]
) -> ParserChoice:
    grammar = with_ignored_copies(grammar)
    read, compiled = with_split_patterns(
        grammar, lambda t: _compiled(t, ends_early(t), costs), costs.limits
    )
    automata, nullable, barren = [], set(), set()
    for number, terminal in enumerate(read.terminals):
        automaton = costs.within(terminal, compiled[number])
        if automaton.is_open:
            raise open_terminal(terminal)
        if automaton.accepting[0]:
            nullable.add(number)
            automaton = without_empty(automaton)
            if not any(automaton.accepting):
                raise empty_terminal(terminal, "nothing but the empty text")
        if not any(automaton.accepting):
            barren.add(number)
        automata.append(automaton)
    divided, parts, nullable_parts = without_overlaps(
        read, automata, frozenset(nullable), costs.limits
    )
    tables = build_tables(
        divided,
        generalised=True,
        limits=costs.limits,
        nullable_terminals=nullable_parts,
        barren_terminals=frozenset(barren),
    )
    refuse_ambiguity(tables, costs.limits)
    return ParserChoice("dynamic", reason, grammar, divided, tables, parts, notices)


def _too_large(grammar: Grammar, error: LimitError, costs: Costs) -> ParserChoice:
    """Read a grammar with terminals that are too large for a lexer as ``dynamic`` does.

    Raises:
        LimitError: ``error``, where they cannot be cut in two.
    """
    notice = Notice(
        "W_DYNAMIC_LEXER",
        f"{error.message}, so it is read in two parts, and every way to cut the text into "
        "terminals counts (`lexer` dynamic)",
        dict(error.details),
    )
    if grammar.dialect == "regex":
        told = f"{error.message}, so texts are read in two parts, which takes longer"
        notice = Notice("W_LARGE_AUTOMATON", told, dict(error.details))
    try:
        return _generalised(grammar, "a terminal is too large for a lexer", costs, (notice,))
    except LimitError:
        raise error from None


def _compiled(terminal: Terminal, prioritised: bool, costs: Costs) -> ByteAutomaton:
    if terminal in costs.too_large:
        raise costs.too_large[terminal]
    try:
        if terminal.conjoined or terminal.denied:
            made = compile_narrowed(terminal, costs.limits, costs.counting)
        else:
            made = compile_terminal(
                terminal, prioritised=prioritised, limits=costs.limits, counting=costs.counting
            )
    except LimitError as error:
        if error.details.get("limit") == "max_states":
            costs.too_large[terminal] = error
        raise
    return costs.within(terminal, made)


def _lexed(terminal: Terminal, costs: Costs, competes: bool) -> ByteAutomaton:
    automaton = _compiled(terminal, not terminal.is_whole, costs)
    if automaton.accepting[0]:
        if terminal.is_whole or not competes:
            return without_empty(automaton)
        raise empty_terminal(terminal, "the empty text")
    return automaton
