"""Coverage by a vocabulary: literals out of its reach, places where every token runs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.automata.terminal import has_texts, within
from cdec.compilers.grammars.definition import ByteAutomaton, Grammar, Terminal
from cdec.core.errors import Notice, UntokenizableError

if TYPE_CHECKING:
    from cdec.compilers.grammars.scanner.build import Scanner
    from cdec.core.tokens.vocabulary import Vocabulary

_NAMED = 8
"""Bytes, or terminals, that a message names."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of a grammar by tokens.

    Attributes:
        is_whole: Wherever a text can go on in bytes, it can in tokens.
        reason: Why not; empty where it is whole.
        notices: ``W_TOKEN_DEAD_END`` where tokens run out for certain.
    """

    is_whole: bool
    reason: str = ""
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Alphabet:
    """The bytes that tokens have: texts with others are left out of every terminal.

    Attributes:
        vocabulary: Of the tokens.
        spelt: bool[256] bytes that stand in some ordinary token.
        left_out: Bytes that terminals lost, by the name of the terminal.
    """

    vocabulary: Vocabulary
    spelt: NDArray[np.bool_]
    left_out: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Alphabet | None:
        """Return the alphabet of a vocabulary, None where every byte is in it."""
        spelt = np.zeros(256, np.bool_)
        spelt[vocabulary.flat_bytes] = True
        return None if spelt.all() else cls(vocabulary, spelt)

    def within(self, terminal: Terminal, automaton: ByteAutomaton) -> ByteAutomaton:
        """Return the automaton of the texts of a terminal that the bytes of tokens can write.

        Raises:
            UntokenizableError: There are none, but for the empty text, which a text as a whole may
                be.
            UncountableError: As ``automata.terminal.within``.
        """
        kept = within(automaton, self.spelt)
        if kept is automaton:
            return automaton
        delta = np.asarray(automaton.delta)
        is_empty = terminal.is_whole and automaton.accepting[0]
        if has_texts(automaton) and not has_texts(kept) and not is_empty:
            raise _unspellable(terminal, self.vocabulary, self.spelt, delta)
        self.left_out[terminal.name] = (delta >= 0).any(axis=0) & ~self.spelt
        return kept

    def notices(self) -> tuple[Notice, ...]:
        """Return ``W_MISSING_BYTES`` where texts were left out."""
        if not self.left_out:
            return ()
        names = list(self.left_out)
        missing = bytes(np.flatnonzero(np.any(list(self.left_out.values()), axis=0)).tolist())
        return (missing_bytes(self.vocabulary, missing, f"of {', '.join(names[:_NAMED])}", names),)


def missing_bytes(
    vocabulary: Vocabulary, missing: bytes, where: str, names: Sequence[str] = ()
) -> Notice:
    """Return the notice about bytes that no token has, and where they would stand in texts."""
    shown = repr(missing[:_NAMED])[1:] + ("..." if len(missing) > _NAMED else "")
    name = vocabulary.name or "the vocabulary"
    return Notice(
        "W_MISSING_BYTES",
        f"no token of {name} has the bytes {shown}, so texts {where} with them are left out",
        {"bytes": missing.hex(), "terminals": list(names)},
    )


def single_bytes(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Return which bytes are tokens of their own, bool[256]."""
    alone = np.flatnonzero(vocabulary.byte_lengths == 1)
    found = np.zeros(256, np.bool_)
    found[vocabulary.flat_bytes[vocabulary.byte_offsets[alone]]] = True
    return found


def require_spellable(
    grammar: Grammar, automata: Sequence[ByteAutomaton], vocabulary: Vocabulary
) -> None:
    """Refuse a terminal that no sequence of tokens can spell, whatever stands around it.

    Raises:
        UntokenizableError: With the ``literal`` (or the terminal's ``name``) and its line.

    Cost: nothing where every byte is a token; else a search through the tokens for each literal
    with a byte that is none.
    """
    alone = single_bytes(vocabulary)
    if alone.all():
        return
    present = np.zeros(256, np.bool_)
    present[vocabulary.flat_bytes] = True
    pieces: _Pieces | None = None
    for terminal, automaton in zip(grammar.terminals, automata, strict=True):
        if terminal.is_set or not any(automaton.accepting):
            continue  # no text of it is missed
        delta = np.asarray(automaton.delta)
        if _accepts_within(delta, automaton.accepting, alone):
            continue
        is_one = terminal.is_string and not terminal.words
        text = terminal.value.encode() if is_one else b""
        pieces = pieces or _Pieces(vocabulary)
        if not _accepts_within(delta, automaton.accepting, present) or (
            text and "i" not in terminal.flags and not pieces.can_spell(text)
        ):
            raise _unspellable(terminal, vocabulary, present, delta)


def _accepts_within(
    delta: NDArray[np.int32], accepting: Sequence[bool], usable: NDArray[np.bool_]
) -> bool:
    """Say whether an accepting state can be reached by usable bytes alone."""
    final = np.asarray(accepting, np.bool_)
    seen = np.zeros(len(delta), np.bool_)
    seen[0] = True
    front = np.array([0])
    while len(front):
        if final[front].any():
            return True
        reached = np.unique(delta[front][:, usable])
        front = reached[(reached >= 0) & ~seen[reached]]
        seen[front] = True
    return False


class _Pieces:
    """The tokens as a set, with all their prefixes and suffixes, for words cut over tokens."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.whole = frozenset(filter(None, vocabulary.token_bytes))
        self.heads = {token[:i] for token in self.whole for i in range(1, len(token) + 1)}
        self.tails = {token[i:] for token in self.whole for i in range(len(token))}

    def can_spell(self, text: bytes) -> bool:
        """Say whether tokens can cover a text, the first and last perhaps reaching beyond it.

        Cost: O(length times the longest token); the bound is generous: what it refuses cannot be.
        """
        if any(text in token for token in self.whole):
            return True
        reached = np.zeros(len(text) + 1, np.bool_)
        reached[0] = True
        longest = max(map(len, self.whole), default=0)
        for end in range(1, len(text) + 1):
            starts = range(max(0, end - longest), end)
            # Either the first token began before the text, or a whole token ends here.
            reached[end] = text[:end] in self.tails or any(
                reached[start] and text[start:end] in self.whole for start in starts
            )
        if reached[len(text)]:
            return True
        return any(reached[at] and text[at:] in self.heads for at in range(len(text)))


def _unspellable(
    terminal: Terminal,
    vocabulary: Vocabulary,
    present: NDArray[np.bool_],
    delta: NDArray[np.int32],
) -> UntokenizableError:
    details: dict[str, Any] = {"name": terminal.name}
    shown = f"terminal {terminal.name}"
    if terminal.is_string and not terminal.words:
        details["literal"] = terminal.value
        shown = f"the literal {terminal.value!r}"
    if terminal.line:
        details |= {"line": terminal.line, "column": terminal.column}
        shown += f" (line {terminal.line})"
    missing = np.flatnonzero((delta >= 0).any(axis=0) & ~present)[:8]
    lacking = f"; in no token stand the bytes {bytes(missing.tolist())!r}" if len(missing) else ""
    return UntokenizableError(
        f"no tokens of {vocabulary.name or 'the vocabulary'} spell {shown}{lacking}",
        hint="leave it out of the grammar, or take a tokenizer with byte fallback",
        **details,
    )


def check_coverage(
    grammar: Grammar, scanner: Scanner, vocabulary: Vocabulary, *, lexing: bool
) -> Coverage:
    """Say whether tokens can complete every terminal from wherever tokens can lead.

    Sufficient: every terminal that can be completed from a scanner state can be so by bytes that
    are tokens of their own. Under a lexer that looks at all competing terminals the bytes matter as
    such, so there every byte in use must be a token.

    Returns:
        The finding. Cost: a few passes over the scanner.
    """
    alone = single_bytes(vocabulary)
    if alone.all():
        return Coverage(True)
    delta = np.asarray(scanner.delta)
    lively: NDArray[np.bool_] = np.any(delta >= 0, axis=0)
    used = lively[scanner.byte_class] & ~alone
    if not used.any():
        return Coverage(True)
    stuck = _stuck(scanner, alone)
    if stuck is None:
        if not lexing:
            return Coverage(True)
        return Coverage(False, "soundness unproved: some bytes in use are no tokens of their own")
    name = grammar.terminals[stuck].name
    lacking = bytes(np.flatnonzero(used)[:8].tolist())
    notice = Notice(
        "W_TOKEN_DEAD_END",
        f"inside {name} a text can come to where no token goes on: bytes such as {lacking!r} are "
        "no tokens of their own, so samples may end as dead_end",
        {"terminal": name, "bytes": lacking.hex()},
    )
    return Coverage(False, f"soundness unproved: tokens can run out inside {name}", (notice,))


def _stuck(scanner: Scanner, alone: NDArray[np.bool_]) -> int | None:
    """Return a terminal that some state can complete, but not by single-byte tokens; else None."""
    classes = np.unique(scanner.byte_class[np.flatnonzero(alone)])
    steps = np.asarray(scanner.delta)[:, classes]
    live_of, offsets = scanner.live_row, scanner.live_offsets
    for terminal in range(int(max(scanner.live_terminals, default=-1)) + 1):
        rows = np.searchsorted(offsets, np.flatnonzero(scanner.live_terminals == terminal), "right")
        wanted = np.isin(live_of, rows - 1)
        at = np.flatnonzero(scanner.match_terminals == terminal)
        matched = np.zeros(len(steps) + 1, np.bool_)  # the last stands for dead
        matched[np.searchsorted(scanner.match_offsets, at, "right") - 1] = True
        can = np.zeros(len(steps) + 1, np.bool_)
        while True:
            grown = can.copy()
            grown[:-1] |= (matched[steps] | can[steps]).any(axis=1)
            if (grown == can).all():
                break
            can = grown
        if (wanted & ~can[:-1]).any():
            return terminal
    return None
