"""Vocabularies that lack bytes: texts have the bytes of tokens alone, and walks never get stuck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cdec.compilers import GrammarOptions, compile_grammar, compile_regex
from cdec.compilers.grammars.compile import build_grammar, grammar_constraint
from cdec.compilers.grammars.patterns import regex_constraint
from cdec.core.artifacts.opened import open_artifact
from cdec.core.constraint import DEAD
from cdec.core.errors import CdecError, UntokenizableError
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.grammars.walks import accepts, completes
from tests.laws.grammar_cases import byte_vocabulary, random_grammar, texts_over
from tests.laws.sizes import heavy_or

LETTERS = "abcé"
LONGER = ["ab", "bc", "ca", "abc", "cc", "ba", "aé", "é"]
REFUSED = ("E_EMPTY_LANGUAGE", "E_UNTOKENIZABLE", "E_GRAMMAR_CONFLICT", "E_GRAMMAR_EMPTY_TERMINAL")
_LONGEST = 5
"""Bytes of texts that are compared."""


def lacking(*missing: bytes, more: tuple[bytes, ...] = ()) -> Vocabulary:
    """Return the single bytes but for some, and other tokens."""
    alone = [bytes([byte]) for byte in range(256) if bytes([byte]) not in missing]
    return Vocabulary([*alone, *more, b""], [len(alone) + len(more)], name="toy")


def random_vocabulary(rng: np.random.Generator) -> Vocabulary:
    """Return some bytes of the letters, and some texts over them, which may have other bytes."""
    alone = [bytes([byte]) for byte in LETTERS.encode() if rng.random() < 0.75]
    longer = [text.encode() for text in LONGER if rng.random() < 0.3]
    tokens = [*alone, *longer] or [b"a"]
    return Vocabulary([*tokens, b""], [len(tokens)], name="toy")


def reached(session: Any, vocabulary: Vocabulary) -> dict[bytes, set[int]]:
    """Return the states that masks let tokens come to, by the text so far."""
    table = vocabulary.token_bytes
    found: dict[bytes, set[int]] = {b"": {int(session.start(1)[0])}}
    todo = [(b"", state) for state in found[b""]]
    for text, state in todo:  # grows
        for token in session.allowed(np.array([state]))[1].tolist():
            after = int(session.advance(np.array([state]), np.array([token]))[0])
            longer = text + table[token]
            if not table[token] or len(longer) > _LONGEST:
                continue
            assert after != DEAD, (text, token)
            if after not in found.setdefault(longer, set()):
                found[longer].add(after)
                todo.append((longer, after))
    return found


def spellable(text: bytes, vocabulary: Vocabulary) -> bool:
    """Say whether a text is tokens one after another."""
    ends = {0}
    for end in range(1, len(text) + 1):
        if any(text[at:end] in vocabulary.token_bytes for at in tuple(ends)):
            ends.add(end)
    return len(text) in ends


def check(constraint: Any, full: Any) -> None:
    """Assert that texts are those of ``full`` that tokens spell, and that none gets stuck."""
    session = constraint.session("cpu")
    states = reached(session, constraint.vocabulary)
    complete = {
        text for text, own in states.items() if session.is_complete(np.array(sorted(own))).any()
    }
    whole = full.session("cpu")
    texts = [text.encode() for text in texts_over(LETTERS, _LONGEST)]
    wanted = {t for t in texts if len(t) <= _LONGEST and spellable(t, constraint.vocabulary)}
    assert complete == {text for text in wanted if accepts(whole, text)}
    if constraint.is_sound:
        ordinary = np.flatnonzero(constraint.vocabulary.byte_lengths)
        for text, own in states.items():
            assert all(completes(session, state, ordinary) for state in own), text


def compared(rng: np.random.Generator, make: Callable[[Vocabulary], Any]) -> tuple[int, int]:
    """Compare one constraint; return whether that was done, and whether it is proved sound."""
    vocabulary = random_vocabulary(rng)
    try:
        full = make(byte_vocabulary(()))
        constraint = make(vocabulary)
    except CdecError as error:
        assert error.code in REFUSED, error.message
        return 0, 0
    check(constraint, full)
    return 1, constraint.is_sound


@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
def test_random_grammars_never_get_stuck_where_that_is_proved(lexer: Any) -> None:
    rng, counts = np.random.default_rng([13, len(lexer)]), np.zeros(2, int)
    for _ in range(heavy_or(30, 400)):
        source = random_grammar(rng, nullable=True).replace("b", "é" if rng.random() < 0.3 else "b")
        counts += compared(
            rng,
            lambda v, s=source: grammar_constraint(s, v, lexer=lexer, max_whitespace=None),  # type: ignore[misc]
        )
    assert counts[0] >= 10 and counts[1] >= 5, counts


def test_random_regexes_never_get_stuck_where_that_is_proved() -> None:
    rng, counts = np.random.default_rng(12), np.zeros(2, int)
    parts = ["a", "b", "[abc]", "é", "(a|bé)", "(ab|ca)*", "c?", "[^a]", "(?:é|b){1,9}", "."]
    for _ in range(heavy_or(40, 400)):
        pattern = "".join(rng.choice(parts, int(rng.integers(1, 5))))
        if rng.random() < 0.5:
            pattern += "|" + "".join(rng.choice(parts, 2))
        counts += compared(rng, lambda v, p=pattern: regex_constraint(p, v))  # type: ignore[misc]
    assert counts[0] >= 15 and counts[1] >= 8, counts


def test_what_the_issue_names_is_sound(tmp_path: Any) -> None:
    toy = lacking(b"4", b"6")
    report = compile_regex(r"x4|y|[0-9]{2}z?", toy, tmp_path / "x.arrow")
    assert report.is_sound
    (notice,) = report.notices
    assert notice.code == "W_MISSING_BYTES" and notice.details["bytes"] == b"46".hex()
    session: Any = open_artifact(tmp_path / "x.arrow", vocabulary=toy).session("cpu")
    assert not {b"x", b"4"} & {toy.token_bytes[t] for t in session.allowed(session.start(1))[1]}
    source = 'start: A "b" | B+\nA: /x(4|56|57)+/\nB: /[46]4|c/\n'
    report = compile_grammar(source, toy, tmp_path / "y.arrow")
    assert report.is_sound and report.notices[0].details["terminals"] == ["A", "B"]


def test_a_terminal_without_texts_is_refused_and_one_of_the_empty_text_is_not() -> None:
    toy = lacking(b"4")
    for lexer in ("contextual", "dynamic"):
        with pytest.raises(UntokenizableError) as caught:
            grammar_constraint('start: "a" B?\nB: /4+/\n', toy, lexer=lexer)  # type: ignore[arg-type]
        assert caught.value.details["name"] == "B" and "b'4'" in caught.value.message
    with pytest.raises(UntokenizableError):
        regex_constraint("a4+", toy)
    assert reached(regex_constraint("4*", toy).session("cpu"), toy).keys() == {b""}
    assert regex_constraint("4{0,60000}a", toy).is_sound
    assert regex_constraint("(4|a){0,60000}b", toy).is_sound


def test_bytes_within_longer_tokens_are_part_of_the_language() -> None:
    toy = lacking(b"4", more=(b"a4",))
    session = regex_constraint("[a-c]4?x|y", toy).session("cpu")
    assert {b"a4x", b"ax", b"bx", b"cx", b"y"} <= reached(session, toy).keys()


def test_nothing_changes_where_every_byte_of_the_texts_is_a_token(tmp_path: Any) -> None:
    whole, most = lacking(), lacking(b"\xff", b"\xc0")
    for source in ("start: /[^x]+/ /\\w{2,70}/ | X\nX: /x.*y/s\n", 'start: "a" start "é" | "b"'):
        arrays, metadata, report = build_grammar(source, whole, GrammarOptions(), tmp_path)
        others, _, other = build_grammar(source, most, GrammarOptions(), tmp_path)
        assert report.notices == other.notices and report.is_sound == other.is_sound
        for name in ("delta", "byte_class", "match_terminals", "action_values"):
            assert (arrays[name] == others[name]).all()
        assert metadata["cdec.sound"] == "1"
