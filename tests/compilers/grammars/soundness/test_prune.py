"""Pruning of what no token sequence can complete, and the alphabet of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lark
import numpy as np
import pytest

from cdec.compilers import GrammarOptions, compile_grammar, compile_regex, grammar_constraint
from cdec.compilers.grammars.compile import build_grammar
from cdec.compilers.grammars.patterns import regex_constraint
from cdec.compilers.grammars.soundness import split
from cdec.core import Vocabulary
from cdec.core.artifacts.opened import open_artifact
from cdec.core.constraint import DEAD
from cdec.core.errors import CdecError, UntokenizableError
from tests.core.grammars.finite_language import accepts, alive_bytes, completes, walk
from tests.laws.grammar_cases import byte_vocabulary, random_grammar, texts_over
from tests.laws.sessions import assert_session_laws
from tests.laws.sizes import heavy_or

# --- What nothing completes is left out: every allowed token has a completion, and no text is
# lost.

VOCABULARY = byte_vocabulary()
LEFT_OUT = "what nothing completes is left out"
ISSUE = 'start: "r:" x | "s:" x ID\nx: ID "and" ID | ID\nID: /[a-z\u03b1-\u03c9]+/\n%ignore " "\n'
UNSOUND = {
    "a stack that nothing completes": ('start: "x" A | "y" A "a" "!"\nA: /a+/\n', "xya!"),
    "a stack deep down": (
        'start: "b" y "ab" | "c" y\ny: x | "b" y "c"\nx: A A?\nA: /a/\n%ignore /c{2}/\n',
        "abc",
    ),
    "half a character": (
        'start: "b" x | "c" x A\nx: A "ba" A | A\nA: /[abé]+/\n%ignore "c"',
        "abcé",
    ),
    "a longer terminal that may not come": ('start: N "." I\nN: /0+(\\.x)?/\nI: /x/\n', "0.x"),
    "what is ignored holds back": ('start: A "b" | "c" A\nA: /a+/\n%ignore /bb?a?/\n', "abc"),
    "ignored text at the start": ('start: "a" "b" | "c"\n%ignore /a{2}|b/\n', "abc"),
}
"""Grammars that are not proved sound, and their letters."""


def made(source: str, lexer: Any = "contextual", **options: Any) -> Any:
    options = {"max_whitespace": None} | options
    return grammar_constraint(source, VOCABULARY, lexer=lexer, **options)


def assert_left_out(constraint: Any, source: str, lexer: str, letters: str, longest: int) -> None:
    """Compare the language with lark's, and look for a completion after every allowed token."""
    parser = lark.Lark(source, parser="lalr", lexer=lexer)
    session = constraint.session("cpu")
    for text in texts_over(letters, longest):
        try:
            parser.parse(text)
            expected = True
        except lark.exceptions.LarkError:
            expected = False
        assert accepts(session, text.encode()) == expected, (text, source)
        for end in range(len(text.encode()) if expected else 0):
            assert alive_bytes(session, text.encode()[:end]), (text, end, source)
    alphabet = np.array(sorted(set(letters.encode())), np.int64)
    states = session.start(1)
    met = set(states.tolist())
    for _ in range(4):
        _, ids = session.allowed(states)
        counts = np.diff(session.allowed(states)[0])
        is_text = ids < VOCABULARY.size - 1
        reached = session.advance(np.repeat(states, counts)[is_text], ids[is_text])
        fresh = sorted(set(reached.tolist()) - met)
        for state in fresh:
            assert completes(session, state, alphabet), source
        met.update(fresh)
        states = np.array(fresh[:100], np.int64)
        if not fresh:
            break


@pytest.mark.parametrize(
    ("source", "example"),
    [
        (ISSUE, rb"r:a and\xce"),
        (UNSOUND["a stack that nothing completes"][0], b"y"),
        (UNSOUND["ignored text at the start"][0], b"ab"),
    ],
)
def test_a_text_that_would_lead_nowhere_is_shown(source: str, example: bytes) -> None:
    constraint = made(source)
    reason = constraint.metadata["cdec.sound_reason"]
    assert reason == f'{LEFT_OUT}, such as texts that begin "{example.decode()}"'


def test_bytes_of_a_longer_terminal_that_the_parser_refuses_are_not_allowed() -> None:
    constraint = made(ISSUE)
    assert constraint.facts.is_sound
    session = constraint.session("cpu")
    after = {
        text: {VOCABULARY.token_bytes[t] for t in session.allowed(walk(session, text.encode()))[1]}
        for text in ("r:ab and", "r:ab and ", "s:ab and")
    }
    assert after["r:ab and"] == {b" ", b" a"}
    assert {b"\xce", b"\xcf"} <= after["r:ab and "] & after["s:ab and"]


@pytest.mark.parametrize("lexer", ["contextual", "basic"])
@pytest.mark.parametrize("name", UNSOUND)
def test_every_allowed_token_has_a_completion(name: str, lexer: str) -> None:
    source, letters = UNSOUND[name]
    try:
        constraint = made(source, lexer)
    except CdecError as error:
        assert (lexer, error.code) == ("basic", "E_EMPTY_LANGUAGE")
        return
    assert constraint.facts.is_sound
    if lexer == "contextual":
        assert constraint.metadata["cdec.sound_reason"].startswith(LEFT_OUT)
    assert_left_out(constraint, source, lexer, letters, 5)


@pytest.mark.slow
@pytest.mark.parametrize("lexer", ["contextual", "basic"])
def test_random_grammars_lose_no_text_and_keep_no_dead_end(lexer: str) -> None:
    rng = np.random.default_rng(len(lexer))
    compared = 0
    for _ in range(100):
        source = random_grammar(rng, nullable=True).replace("b", "é" if rng.random() < 0.5 else "b")
        try:
            lark.Lark(source, parser="lalr", lexer=lexer)
        except (lark.exceptions.LarkError, AssertionError):
            continue
        try:
            constraint = made(source, lexer)
        except CdecError as error:
            assert error.code == "E_EMPTY_LANGUAGE", source
            continue
        assert constraint.facts.is_sound, source
        if constraint.metadata["cdec.sound_reason"].startswith(LEFT_OUT):
            compared += 1
            assert_left_out(constraint, source, lexer, "abcé", 4)
    assert compared >= 5


def test_what_is_too_large_to_tell_apart_is_said_to_be_unproved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(split, "MAX_STATES", 3)
    constraint = made(ISSUE)
    assert not constraint.facts.is_sound
    assert "not left out: more than 3 states" in constraint.metadata["cdec.sound_reason"]
    assert accepts(constraint.session("cpu"), b"s:ab and cd ef")


@pytest.mark.parametrize(("pattern", "is_sound"), [("[ab]+", True), ("a+(b!)?", False)])
def test_a_byte_without_a_token_matters_where_no_other_does(pattern: str, is_sound: bool) -> None:
    tokens = [bytes([byte]) for byte in range(256) if byte != ord("b")] + [b"ab", b""]
    end = len(tokens) - 1
    vocabulary = Vocabulary(tokens, [end], [end], name="no b")
    source = f'start: "x" A | "y" A "a" "?"\nA: /{pattern}/\n'
    constraint = grammar_constraint(source, vocabulary, lexer="contextual", max_whitespace=None)
    assert constraint.facts.is_sound == is_sound
    assert constraint.metadata["cdec.sound_reason"].startswith(
        LEFT_OUT if is_sound else "soundness unproved: tokens can run out inside A"
    )


@pytest.mark.parametrize("name", ["half a character", "what is ignored holds back"])
def test_the_laws_of_sessions_hold_without_what_nothing_completes(name: str) -> None:
    source, _ = UNSOUND[name]
    constraint, again = made(source), made(source)
    assert all(map(np.array_equal, constraint.arrays, again.arrays))
    assert_session_laws(constraint, [], np.random.default_rng(5), walks=6, max_steps=12)


def test_copies_of_a_terminal_have_one_name() -> None:
    constraint = made(ISSUE)
    inside = constraint.tree(state=0, width=80).live
    assert inside is not None and len(inside) == len(set(inside))
    *_, last = constraint.explain(list(b"s:ab and c"))
    viable = [name for reading in last["readings"] for name in reading["viable"]]
    assert len(viable) == len(set(viable)) > 1


# --- Vocabularies that lack bytes: texts have the bytes of tokens alone, and walks never get
# stuck.

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
    if constraint.facts.is_sound:
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
    return 1, constraint.facts.is_sound


@pytest.mark.slow
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
    assert regex_constraint("4{0,60000}a", toy).facts.is_sound
    assert regex_constraint("(4|a){0,60000}b", toy).facts.is_sound


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
