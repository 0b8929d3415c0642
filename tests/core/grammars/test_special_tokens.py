"""Special tokens as terminals of grammars: masks, verdicts, artifacts, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import compile_grammar, grammar_constraint, verify_artifact
from cdec.core import Vocabulary, open_artifact
from cdec.core.artifacts.opened import read_artifact
from cdec.core.constraint import DEAD, DONE, text_verdicts
from cdec.core.errors import ArtifactInvalidError, CdecError, TokenizerMismatchError
from cdec.core.grammars.artifact import check_grammar_shape
from cdec.core.grammars.columns import stand_in
from cdec.core.grammars.errors import GrammarUndefinedError, GrammarUnsupportedError
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.grammars.special import KEY
from tests.core.grammars.test_sets_within import assert_same_masks
from tests.laws.sessions import (
    assert_batch_is_rows,
    assert_ends_are_near,
    assert_members,
    assert_states_agree,
    assert_threads_agree,
    random_prefixes,
    state_masks,
    states_after,
)
from tests.laws.set_cases import document_case, set_case

PIECES = (b"ab", b"hi", b"a\x80", b"hia", b"x\xff", b"\xfe\x80", b"user")
WORDS = ("<|im_start|>", "<|im_end|>", "</think>", "</s>")
FIRST = 256 + len(PIECES)
START, CLOSE, THINK, END = range(FIRST, FIRST + 4)
CHAT = """
start: turn+ (<|im_end|> | NOTE?)
turn: <|im_start|> role NOTE (</think> NOTE)? <|im_end|>   // <|nothing|>
role: "user" | "hi"
NOTE: /[^\\x01-\\x03]+/
"""
GBNF = f"""
root ::= turn+ (<|im_end|> | note?)   # <|nothing|>
turn ::= <|im_start|> role note (<[{THINK}]> note)? <[{CLOSE}]>
role ::= "user" | 'hi'
note ::= [^\\x01-\\x03]+
"""


def vocabulary(spelt: bool = False, name: str = "special") -> Vocabulary:
    """Return bytes, pieces and special tokens; or ordinary tokens of one byte in their place."""
    tokens = [bytes([byte]) for byte in range(256)] + [*PIECES]
    if spelt:
        tokens[1:4] = [b"", b"", b""]
        tokens = [b"" if b"\xfe" in token else token for token in tokens]
        return Vocabulary([*tokens, b"\x01", b"\x02", b"\x03", b""], [END], name=name)
    words = {word: FIRST + number for number, word in enumerate(WORDS)}
    ids = list(words.values())
    return Vocabulary([*tokens, *[b""] * 4], [END], ids, name=name, special_tokens=words)


def as_bytes(grammar: str) -> str:
    for number, word in enumerate(WORDS[:3], 1):
        grammar = grammar.replace(word, f'"\\x0{number}"')
    return grammar


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_masks_are_those_of_ordinary_tokens_that_nothing_else_spells(lexer: Any) -> None:
    model = vocabulary()
    mine = grammar_constraint(CHAT, model, lexer=lexer)
    other = grammar_constraint(as_bytes(CHAT), vocabulary(True), lexer=lexer)
    rng = np.random.default_rng(0)
    for _ in range(12):
        one, two = mine.session(), other.session()
        states, walked = (one.start(1), two.start(1)), list[int]()
        for _ in range(14):
            masks = [
                state_masks(session, at, model.width)[0]
                for session, at in zip((one, two), states, strict=True)
            ]
            # Bytes that the other vocabulary spells the tokens with have no place there.
            for mask in masks:
                mask[1:4] = False
            differing = np.flatnonzero(masks[0] != masks[1])
            assert not len(differing), (walked, differing)
            ids = np.flatnonzero(masks[0])
            special = [token for token in ids.tolist() if token >= FIRST]
            token = int(rng.choice(special if special and rng.random() < 0.4 else ids))
            walked.append(token)
            if token == END:
                break
            states = one.advance(states[0], [token]), two.advance(states[1], [token])


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_sessions_keep_the_laws(lexer: Any) -> None:
    constraint = grammar_constraint(CHAT, vocabulary(), lexer=lexer)
    assert constraint.facts.is_sound
    members = [(START, *b"hi", *b"x", CLOSE), (START, FIRST - 1, 97, THINK, 256, CLOSE, CLOSE)]
    session, rng = constraint.session(), np.random.default_rng(1)
    assert_members(session, members)
    prefixes = sorted(random_prefixes(session, rng, 4, 12))
    states = np.append(states_after(session, prefixes), [DONE, DEAD])
    masks = assert_states_agree(session, states, constraint.vocabulary)
    np.testing.assert_array_equal(masks.any(1), (states != DONE) & (states != DEAD))
    assert_ends_are_near(session, states, constraint.vocabulary)
    assert_batch_is_rows(session, states[-16:], constraint.vocabulary)
    assert_threads_agree(constraint, prefixes[-40:], masks[:-2][-40:])
    for member in members:
        text = constraint.member_text(member)
        assert text.count(b"<|im_end|>") == member.count(CLOSE)
        assert constraint.accepts(text)


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
def test_verdicts_see_them(lexer: Any) -> None:
    constraint = grammar_constraint(CHAT, vocabulary(), lexer=lexer)
    texts = {
        b"<|im_start|>hia<|im_end|>": None,
        b"<|im_start|>hia</think>b<|im_end|>": None,
        b"<|im_start|>hi</think>b<|im_end|>": 14,
        "<|im_start|>hié\nb".encode(): 18,
        b"hi": 0,
        b"<|im_start|>hia<|im_end|><|im_start|>x": 37,
    }
    for (text, byte), found in zip(
        texts.items(), text_verdicts(constraint, list(texts)), strict=True
    ):
        assert found["valid"] is (byte is None) and found["text"] == text.decode()
        assert constraint.accepts(text) is (byte is None)
        assert byte is None or found["byte"] == byte
    (refused,) = text_verdicts(constraint, [b"<|im_start|>hia</think>"])
    assert refused["stack"][:2] == ["$START", "<|im_start|>"] and refused["line"] == 1
    (second,) = text_verdicts(constraint, ["<|im_start|>hié\nb".encode()])
    assert (second["line"], second["column"]) == (2, 2)


def test_an_artifact_holds_to_its_special_tokens(tmp_path: Path) -> None:
    path, model = tmp_path / "chat.arrow", vocabulary()
    compile_grammar(CHAT, model, path)
    text = b"<|im_start|>hia<|im_end|>"
    for opened in (open_artifact(path, vocabulary=model), open_artifact(path)):
        assert opened.accepts(text) and opened.member_text([START, 97, CLOSE]) == (
            b"<|im_start|>a<|im_end|>"
        )
        assert opened.summary()["grammar"].strip() == CHAT.strip()
        assert opened.vocabulary.vocabulary_hash == model.vocabulary_hash
    tokens = list(model.token_bytes)
    for words in ({}, dict(zip(WORDS, (CLOSE, START, THINK, END), strict=True))):
        other = Vocabulary(tokens, [END], model.special_token_ids, special_tokens=words)
        with pytest.raises(TokenizerMismatchError, match=r"<\|im_"):
            open_artifact(path, vocabulary=other)


@pytest.mark.share(1)
@pytest.mark.parametrize(
    ("grammar", "format"),
    [
        (CHAT, "lark"),
        (GBNF, "gbnf"),
        (f"root ::= <[{THINK}]> <[{THINK}]>   </think> !<|im_end|>*", "gbnf"),
        ("start: <|im_end|> CITY\n%declare CITY\n", "lark"),
    ],
)
def test_an_artifact_is_compiled_again_and_compared(
    grammar: str, format: Any, tmp_path: Path
) -> None:
    path = tmp_path / "chat.arrow"
    compile_grammar(grammar, vocabulary(), path, format=format)
    assert "cdec.grammar" in verify_artifact(read_artifact(path)).same


@pytest.mark.parametrize("said", ["[", "[]", '{"ids": 3}', '{"ids": [["a", -1]], "marked": []}'])
def test_what_an_artifact_says_of_them_is_checked(said: str) -> None:
    made = grammar_constraint("start: <|im_end|>", vocabulary())
    arrays, metadata = made.arrays._asdict(), dict(made.metadata) | {KEY: said}
    with pytest.raises(ArtifactInvalidError, match="special_tokens"):
        check_grammar_shape(arrays, metadata)


@pytest.mark.parametrize(
    ("grammar", "kind", "said", "line", "column"),
    [
        ('start: "a" <|im_edn|>', GrammarUndefinedError, r"near is <\|im_end\|>", 1, 12),
        ('start: "a"\n   </s>', GrammarUnsupportedError, "ends texts", 2, 4),
        ('start: A\nA: "a" <|im_end|>', GrammarUnsupportedError, "in a terminal", 2, 8),
        ('start: <|im_end|> "\U0010ff80"', GrammarUnsupportedError, "stands for", 1, 20),
        ("start: <|im_end|> start )", CdecError, "line 1", 1, 25),
    ],
)
def test_what_cannot_be_is_an_error_of_its_place(
    grammar: str, kind: Any, said: str, line: int, column: int
) -> None:
    with pytest.raises(kind, match=said) as caught:
        grammar_constraint(grammar, vocabulary())
    details = caught.value.details
    assert (details["line"], details["column"]) == (line, column)


def test_words_in_quotes_patterns_and_comments_are_text() -> None:
    grammar = 'start: "<|im_end|>" | /<.im_start.>/ // </s>\n# <|none|>\n'
    constraint = grammar_constraint(grammar, vocabulary())
    session = constraint.session()
    assert CLOSE not in session.allowed(session.start(1))[1]
    assert constraint.accepts(b"<|im_end|>") and constraint.accepts(b"<|im_start|>")


def test_they_stand_beside_long_lists_of_literals() -> None:
    words = [f"w{number}" for number in range(300)]
    listed = " | ".join(['"' + word + '"' for word in words[:150]] + ["<|im_end|>"])
    listed += "".join(f' | "{word}"' for word in words[150:])
    constraint = grammar_constraint(f"start: (<|im_start|> each)+\neach: {listed}\n", vocabulary())
    for word in ("w7", "w299", "<|im_end|>"):
        assert constraint.accepts(f"<|im_start|>{word}".encode())
        assert constraint._refusal(constraint.session(), f"<|im_start|>{word}".encode(), 1) is None
    assert constraint.accepts("<|im_start|>\U0010ff81".encode()) is None


def test_ebnf_names_them_by_word_and_by_number() -> None:
    model = vocabulary()
    ebnf = grammar_constraint(GBNF, model, format="gbnf")
    lark = grammar_constraint(CHAT, model, lexer="dynamic")
    assert assert_same_masks(ebnf, lark, 0, 60) > 12
    for text in (b"<|im_start|>hia<|im_end|>", b"<|im_start|>hia</think>b<|im_end|><|im_end|>"):
        assert ebnf.accepts(text) and lark.accepts(text)
        assert not ebnf.accepts(text[1:]) and not ebnf.accepts(text + b"</think>")
    shown = ebnf.summary()["grammar"]
    assert "(</think>" in shown and f"note)? <[{CLOSE}]>" in shown


@pytest.mark.parametrize("sign", "*+")
def test_any_tokens_but_one_are_any_text_with_the_others(sign: str) -> None:
    body = "root ::= <|im_start|> thought </think> [a-z]*\nthought ::= "
    model = vocabulary()
    ours = grammar_constraint(f"{body}!</think>{sign}", model, format="gbnf")
    plain = grammar_constraint(f"{body}(. | <|im_start|>){sign}", model, format="gbnf")
    assert assert_same_masks(ours, plain, 1, 60) > 8
    assert ours.accepts(b"<|im_start|></think>a") is (sign == "*")
    assert ours.accepts("<|im_start|>é<|im_start|></think>".encode())


@pytest.mark.parametrize(
    ("grammar", "kind", "said", "column"),
    [
        ("root ::= <|im_edn|>", GrammarUndefinedError, r"near is <\|im_end\|>", 10),
        ("root ::= <[999]>", GrammarUndefinedError, "999 is no special token", 10),
        ("root ::= <[256]>", GrammarUnsupportedError, 'is the text "ab"', 10),
        ("root ::= </s>", GrammarUnsupportedError, "ends texts", 10),
        ("root ::= !<|im_end|>", GrammarUnsupportedError, "counts tokens", 11),
        ("root ::= !<|im_end|>{2}", GrammarUnsupportedError, "counts tokens", 11),
        ("<|im_end|> ::= [a]", GrammarUnsupportedError, "angle brackets", 1),
        ("root ::= \"<|nothing|>\" [<x>] '<y>' )", CdecError, "without its", 36),
    ],
)
def test_what_cannot_be_in_ebnf_is_an_error_of_its_place(
    grammar: str, kind: Any, said: str, column: int
) -> None:
    with pytest.raises(kind, match=said) as caught:
        grammar_constraint(grammar, vocabulary(), format="ebnf")
    assert caught.value.details["column"] == column


def beside_sets(city: str = "%declare CITY") -> GrammarConstraint:
    rules = 'start: (<|im_start|> CITY ("," CITY)* </think>?)+ <|im_end|>?\n' + city + "\n"
    made = grammar_constraint(rules, vocabulary(), lexer="dynamic")
    assert isinstance(made, GrammarConstraint)
    return made


CITIES = ("hi", "hia", "user", "ab,ab", "é")


@pytest.mark.parametrize("is_quoted", [False, True])
def test_masks_beside_sets_are_those_of_alternatives(is_quoted: bool) -> None:
    case = document_case("hi, ab") if is_quoted else set_case(*CITIES)
    whole = beside_sets("CITY: " + " | ".join(f'"{text}"' for text in case.texts))
    ours = beside_sets().with_sets({"CITY": case.given})
    assert assert_same_masks(ours, whole, 2, 120) > 60


def test_members_beside_them_are_found_and_refused_at_their_place() -> None:
    ours = beside_sets().with_sets({"CITY": set_case(*CITIES).given})
    members = [(START, *b"hi", 44, 256, 44, 256, THINK, START, *"é".encode(), CLOSE)]
    session = ours.session()
    assert_members(session, members)
    prefixes = sorted(random_prefixes(session, np.random.default_rng(3), 3, 12))
    assert_states_agree(session, states_after(session, prefixes), ours.vocabulary)
    text = ours.member_text(members[0])
    assert text == "<|im_start|>hi,ab,ab</think><|im_start|>é<|im_end|>".encode()
    found, refused = text_verdicts(ours, [text, b"<|im_start|>hi</think><|im_start|>hix"])
    assert found["valid"] and found["members"] == [
        {"set": "CITY", "start": 12, "end": 14, "id": "1", "text": "hi"},
        {"set": "CITY", "start": 15, "end": 20, "id": "4", "text": "ab,ab"},
        {"set": "CITY", "start": 40, "end": 41, "id": "5", "text": "é"},
    ]
    assert (refused["byte"], refused["column"]) == (36, 37)
    assert refused["reason"].startswith("no member of CITY begins with 'hix'")
    assert ours.accepts(text) and not ours.accepts(text.replace(b"ab,ab", b"ab,"))
    assert ours.accepts(f"<|im_start|>{stand_in(0)}".encode()) is None


def test_indentation_beside_them_is_refused() -> None:
    lines = "%declare _INDENT _DEDENT\nstart: <|im_end|> _NL\n_NL: /(\\r?\\n[\\t ]*)+/\n"
    with pytest.raises(GrammarUnsupportedError, match="indenter"):
        grammar_constraint(
            lines, vocabulary(), indenter="NL_type=_NL,OPEN_PAREN_types=,CLOSE_PAREN_types="
        )
