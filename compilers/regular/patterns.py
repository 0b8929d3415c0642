"""Automata of regular expressions: of the texts in which one is found, or that it matches."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import numpy as np

from cdec.compilers.grammars.automata.characters import (
    Atoms,
    TooManyStatesError,
    byte_tree,
    expand,
    partition,
)
from cdec.compilers.grammars.automata.determinise import (
    CharacterAutomaton,
    Followers,
    determinise_looking,
    subsets,
)
from cdec.compilers.grammars.automata.pattern_checks import (
    parse_pattern,
    shortened,
    too_many_states,
)
from cdec.compilers.grammars.automata.program import (
    END_OF_TEXT,
    ENTER,
    LEAVE,
    MATCH,
    START_OF_TEXT,
    Program,
    parse_program,
)
from cdec.compilers.grammars.definition import GrammarLimits, Terminal
from cdec.compilers.grammars.regex import python_pattern
from cdec.compilers.regular.automaton import MAX_STATES, Automaton, smallest

_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")
_LIMITS = GrammarLimits(max_states=MAX_STATES)
_BEGIN, _END, _LINE_END = 1, 2, 3


@lru_cache(maxsize=1024)
def pattern_automaton(pattern: str, search: bool = True) -> Automaton:
    """Return the texts in which a pattern is found, or that it matches as a whole.

    Args:
        pattern: In the syntax that ECMA-262 and ``re`` share; ``\\d \\w \\s`` are Unicode's. ``$``
            is the end alone, not before a last newline.
        search: As ``re.search``; otherwise as ``re.fullmatch``.

    Raises:
        RegexSyntaxError: It is no pattern.
        RegexUnsupportedError: It is not regular.
        LimitError: Its automaton is too large.
    """
    terminal = _whole(python_pattern(pattern), search)
    program = parse_program(terminal, _LIMITS)
    kinds = {node: _kind(program, node) for node in program.looks}
    ends = len(program.reads)
    program.reads.append(len(program.charsets))
    program.goes.append((MATCH,))
    program.guard.append(0)
    program.charsets.append(())
    for node, kind in kinds.items():
        if kind == _LINE_END:
            program.reads[program.looks[node].body] = program.reads[ends]
    atoms = partition(program.charsets)
    if all(kinds.values()):
        found = _determinised(program, atoms, kinds, ends)
    else:
        looking = determinise_looking(program, atoms, _LIMITS, whole=True, most=MAX_STATES)
        found = looking and looking[0]
    if found is None:
        raise too_many_states(terminal, _LIMITS)
    try:
        byte_class, rows = expand(found.delta, byte_tree(atoms.runs), MAX_STATES)
    except TooManyStatesError:
        raise too_many_states(terminal, _LIMITS) from None
    labels = np.zeros(len(rows), np.int32)
    labels[: len(found.accepting)] = found.accepting
    return smallest(byte_class, rows, labels)


def _whole(text: str, search: bool) -> Terminal:
    """Write the pattern so that it matches whole texts, flags for all of it in front.

    Raises:
        RegexSyntaxError: It is no pattern, as it stands: brackets of one do not close ours.
    """
    alone = Terminal(repr(shortened(text)), text, text, is_string=False, noun="pattern")
    parse_pattern(alone, _LIMITS)
    flags = _FLAGS.match(text)
    body = text[flags.end() :] if flags else text
    verbose = "\n" if flags and "x" in flags[1] else ""
    free = r"(?s:.*)" if search else ""
    whole = f"{flags[0] if flags else ''}{free}(?:{body}{verbose}){free}"
    return replace(alone, pattern=whole, value=whole)


def _kind(program: Program, node: int) -> int:
    """Say which anchor at an end of the text a node is; 0 for other look-around."""
    look = program.looks[node]
    charset, goes = program.reads[look.body], program.goes[look.body]
    if look.is_negative or charset < 0:
        return 0
    reads = program.charsets[charset]
    if not look.is_ahead:
        return _BEGIN if reads == ((START_OF_TEXT, START_OF_TEXT),) and goes == (MATCH,) else 0
    if goes == (MATCH,):
        return _END if reads == ((END_OF_TEXT, END_OF_TEXT),) else 0
    behind = program.reads[goes[0]]
    is_end = behind >= 0 and program.charsets[behind] == ((END_OF_TEXT, END_OF_TEXT),)
    return _LINE_END if is_end and reads == ((10, 10),) else 0


def _determinised(
    program: Program, atoms: Atoms, kinds: dict[int, int], ends: int
) -> CharacterAutomaton | None:
    """Do the subset construction with anchors at the ends of the text; None: it grows too large.

    Args:
        kinds: Of nodes that look around.
        ends: Node of a thread that has matched if the text ends here.
    """
    followers = _followers(program, kinds, ends)
    first = np.sort(followers.first)
    found = subsets(program, atoms, followers, first, _LIMITS, prioritised=False)
    return found and CharacterAutomaton(found.delta, found.holding(MATCH, ends))


def _followers(program: Program, kinds: dict[int, int], ends: int) -> Followers:
    lists = [_closure(program, program.start, kinds, ends, at_start=True)]
    number_of: dict[int, int] = {}
    list_of = np.full(len(program.reads), -1, np.int32)
    for node, (reads, goes) in enumerate(zip(program.reads, program.goes, strict=True)):
        if reads >= 0 and node != ends:
            if goes[0] not in number_of:
                number_of[goes[0]] = len(lists)
                lists.append(_closure(program, goes[0], kinds, ends, at_start=False))
            list_of[node] = number_of[goes[0]]
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return Followers(list_of, offsets, np.array([node for own in lists for node in own], np.int32))


def _closure(
    program: Program, start: int, kinds: dict[int, int], ends: int, *, at_start: bool
) -> list[int]:
    """Return the nodes that read, MATCH, and ``ends`` where only the text's end leads to a match.

    subtle: iterations that read nothing are followed as ``re`` does, see ``automata.determinise``.
    """
    found: dict[int, None] = {}
    seen: set[tuple[int, int, bool]] = set()
    todo = [(start, 0, False)]
    while todo:
        place = todo.pop()
        node, entered, at_end = place
        if program.reads[node] >= 0 or node == MATCH:
            if node == MATCH or not at_end:
                found[ends if at_end else node] = None
            continue
        if place in seen:
            continue
        seen.add(place)
        goes = program.goes[node]
        if node in kinds:
            if kinds[node] == _END or (kinds[node] == _BEGIN and at_start):
                todo.append((goes[0], entered, at_end or kinds[node] == _END))
        elif program.guard[node] == ENTER:
            todo.append((goes[0], entered + 1, at_end))
        elif program.guard[node] == LEAVE:
            todo.append((goes[0], entered - 1, at_end) if entered else (goes[1], 0, at_end))
        else:
            todo.extend((target, entered, at_end) for target in goes)
    return list(found)
