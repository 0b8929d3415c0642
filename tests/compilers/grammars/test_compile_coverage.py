"""What a vocabulary cannot spell of a grammar: literals out of reach, and places where it stops."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from cdec.compilers.grammars.definition import ByteAutomaton, Grammar, Rule, Terminal
from cdec.compilers.grammars.soundness.coverage import (
    check_coverage,
    require_spellable,
    single_bytes,
)
from cdec.core.errors import UntokenizableError
from cdec.core.tokens.vocabulary import Vocabulary

E_ACUTE = "\u00e9".encode()


def _literal(text: str) -> tuple[Terminal, ByteAutomaton]:
    data = text.encode()
    delta = np.full((len(data) + 1, 256), -1, np.int32)
    for i, byte in enumerate(data):
        delta[i, byte] = i + 1
    accepting = [False] * len(data) + [True]
    terminal = Terminal(text.upper(), text, text, is_string=True, line=1, column=8)
    return terminal, ByteAutomaton(delta, accepting)


def _grammar(*texts: str) -> tuple[Grammar, list[ByteAutomaton]]:
    pairs = [_literal(text) for text in texts]
    rule = Rule(0, tuple(range(len(pairs))))
    terminals = tuple(terminal for terminal, _ in pairs)
    grammar = Grammar(terminals, ("start",), (rule,), 0, frozenset(), None, "", "lark")
    return grammar, [automaton for _, automaton in pairs]


def _vocabulary(*tokens: bytes) -> Vocabulary:
    return Vocabulary([*tokens, b""], [len(tokens)], name="toy")


@dataclass
class _Scanner:
    """One literal's automaton as a scanner with one class a byte."""

    automaton: ByteAutomaton
    byte_class: object = field(default_factory=lambda: np.arange(256, dtype=np.int32))

    def __post_init__(self) -> None:
        n = len(self.automaton.accepting)
        self.delta = np.asarray(self.automaton.delta)
        matches = np.array(self.automaton.accepting, np.int64)
        self.match_offsets = np.concatenate([[0], np.cumsum(matches)])
        self.match_terminals = np.zeros(int(matches.sum()), np.int32)
        self.live_row = np.array([0] * (n - 1) + [1], np.int32)
        self.live_offsets = np.array([0, 1, 1])
        self.live_terminals = np.array([0], np.int32)
        self.context_start = np.array([0], np.int32)


def test_bytes_that_are_tokens_are_found() -> None:
    found = single_bytes(_vocabulary(b"a", b"bc", b"d"))
    assert np.flatnonzero(found).tolist() == [ord("a"), ord("d")]


def test_a_literal_whose_byte_is_in_no_token_is_named() -> None:
    grammar, automata = _grammar("{", "}")
    with pytest.raises(UntokenizableError) as caught:
        require_spellable(grammar, automata, _vocabulary(b"a", b"}", b"b}"))
    assert caught.value.details["literal"] == "{"
    assert caught.value.details["line"] == 1
    assert "b'{'" in caught.value.message


@pytest.mark.parametrize(
    ("tokens", "is_spellable"),
    [
        ([b"ab", E_ACUTE], True),
        ([b"a", b"b" + E_ACUTE], True),  # the token begins in the literal before
        ([b"a", b"b", E_ACUTE[:1], E_ACUTE[1:]], True),
        ([b"a", b"b", E_ACUTE[:1] + b"x", E_ACUTE[1:]], False),
        ([b"a", b"b", E_ACUTE[:1], E_ACUTE[1:] + b"q"], True),  # ... or ends in the one after
        ([b"ab", E_ACUTE[1:]], False),
    ],
)
def test_a_literal_may_share_its_tokens_with_its_neighbours(
    tokens: list[bytes], is_spellable: bool
) -> None:
    grammar, automata = _grammar("\u00e9")
    if is_spellable:
        require_spellable(grammar, automata, _vocabulary(*tokens))
        return
    with pytest.raises(UntokenizableError):
        require_spellable(grammar, automata, _vocabulary(*tokens))


def test_every_byte_a_token_is_whole_coverage() -> None:
    grammar, automata = _grammar("\u00e9")
    every = _vocabulary(*(bytes([byte]) for byte in range(256)))
    require_spellable(grammar, automata, every)
    assert check_coverage(grammar, _Scanner(automata[0]), every, lexing=True).is_whole  # type: ignore[arg-type]


@pytest.mark.parametrize("lexing", [True, False])
def test_a_place_where_no_token_goes_on_is_warned_of(lexing: bool) -> None:
    grammar, automata = _grammar("ab\u00e9")
    vocabulary = _vocabulary(b"a", b"b", b"ab", b"b" + E_ACUTE)
    require_spellable(grammar, automata, vocabulary)
    found = check_coverage(grammar, _Scanner(automata[0]), vocabulary, lexing=lexing)  # type: ignore[arg-type]
    assert not found.is_whole
    assert [notice.code for notice in found.notices] == ["W_TOKEN_DEAD_END"]
    assert found.notices[0].details["terminal"] == "AB\u00c9"
    assert "unproved" in found.reason


def test_bytes_without_tokens_that_have_alternatives_matter_to_lexers_alone() -> None:
    terminal, automaton = _literal("a")
    delta = np.asarray(automaton.delta)
    delta[0, ord("b")] = 1  # a or b, and b is no token of its own
    grammar = Grammar((terminal,), ("start",), (Rule(0, (0,)),), 0, frozenset(), None, "", "lark")
    vocabulary = _vocabulary(b"a", b"ab")
    scanner = _Scanner(automaton)
    assert check_coverage(grammar, scanner, vocabulary, lexing=False).is_whole  # type: ignore[arg-type]
    found = check_coverage(grammar, scanner, vocabulary, lexing=True)  # type: ignore[arg-type]
    assert not found.is_whole and not found.notices
