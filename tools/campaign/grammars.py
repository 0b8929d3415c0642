"""Fuzzed grammars, regular expressions and schemas, compiled in the limited child."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from cdec.compilers import ChildCompiler
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.options import GrammarOptions
from cdec.core import open_artifact
from cdec.core.constraint import DEAD, DONE
from cdec.core.errors import CdecError
from tests.laws.grammar_cases import AWKWARD, byte_vocabulary, random_grammar
from tools.campaign.attack import Try
from tools.campaign.targets import DYNAMIC, GRAMMAR, walk

LEXERS: tuple[Literal["contextual", "basic", "dynamic"] | None, ...] = (
    None,
    None,
    "basic",
    "dynamic",
)
LIMITS = GrammarLimits(compile_seconds=5)
_PIECES = (
    "start", "x", "A", "B", '"a"', '"b"i', "/a+/", "/[^b]/", "/a|ab/", "/a*?b/", "(", ")", "[", "]",
    "|", "?", "*", "+", "~2", "~1..3", ":", "\n", "%ignore A", "%import common.INT", "_x", "!x",
    "?x", "->", "//", ".2", "{", "}", "\\", "\"", "/", "é", "\x00", "/(?=a)/", "/\\b/", "/(a)\\1/",
    "/a{0,400}/", "/(a{20}){20}/", "/[\\ud800]/", "/[😀-🙏]/i", "~10000", "%declare X", "$",
)  # fmt: skip


def mutated_grammar(rng: np.random.Generator) -> str:
    """Return a good grammar, or one with pieces put in, left out, repeated or exchanged."""
    kind = float(rng.random())
    if kind < 0.3:
        text = random_grammar(rng, nullable=bool(rng.random() < 0.5))
    else:
        sources = [GRAMMAR, DYNAMIC, *(source for source, _ in AWKWARD.values())]
        text = sources[int(rng.integers(len(sources)))]
    if kind < 0.15:
        return text
    for _ in range(int(rng.integers(1, 4))):
        a, b = sorted(int(i) for i in rng.integers(len(text) + 1, size=2))
        piece = _PIECES[int(rng.integers(len(_PIECES)))]
        match int(rng.integers(5)):
            case 0:
                text = text[:a] + text[min(b, a + 5) :]
            case 1:
                text = text[:b] + text[a:b] + text[b:]
            case 2:
                text += f"\nx: {piece} {piece}\n"
            case _:
                text = f"{text[:a]} {piece} {text[a:]}"
    return text


def open_grammars(folder: Path) -> Try:
    """Return what compiles a mutant; one that compiles is walked and asked of its own texts."""
    vocabulary = byte_vocabulary()
    child = ChildCompiler()
    path = folder / "mutant.arrow"
    child.compile(GRAMMAR, vocabulary, path, GrammarOptions())

    def compile_one(seed: int) -> str:
        rng = np.random.default_rng(seed)
        lexer = LEXERS[int(rng.integers(len(LEXERS)))]
        options = GrammarOptions(limits=LIMITS, lexer=lexer, name="mutant")
        try:
            child.compile(mutated_grammar(rng), vocabulary, path, options, force=True)
        except CdecError as error:
            assert error.exit_status != 70, error
            return error.code
        constraint = open_artifact(path, vocabulary=vocabulary)
        assert walk(constraint, rng), "mask, allowed, check and advance differ"
        for text in _texts(constraint, rng):
            assert constraint.accepts(text) is not False, f"lark refuses {text!r}"
        return "compiled"

    return compile_one


def _texts(constraint: object, rng: np.random.Generator) -> list[bytes]:
    """Return up to two texts that tokens drawn at random led to and that may end."""
    session = constraint.session()  # type: ignore[attr-defined]
    token_bytes = constraint.vocabulary.token_bytes  # type: ignore[attr-defined]
    found: list[bytes] = []
    states, text = session.start(1), b""
    for _ in range(12):
        if session.is_complete(states)[0] and text not in found:
            found.append(text)
        _, ids = session.allowed(states)
        if not len(ids):
            break
        token = int(rng.choice(ids))
        states = session.advance(states, np.array([token]))
        if states[0] in (DEAD, DONE):
            break
        text += token_bytes[token]
    return found[-2:]
