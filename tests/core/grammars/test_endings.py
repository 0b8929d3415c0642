"""Ways to the end of a grammar's texts: texts that nest without end are closed in time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cdec.compilers import grammar_constraint
from cdec.core.combine.distances import distances_of
from cdec.core.combine.fitting import fit
from cdec.core.constraint import CONSERVATIVE
from cdec.core.errors import CdecError, FitError
from cdec.core.session import FAR
from tests.laws.grammar_cases import byte_vocabulary, compiled, deep_grammar, random_grammar
from tests.laws.sessions import assert_session_laws

PAIRS = ["))", '"}', '{"', '",', '":', "[[", "]]", "  ", "if ", " end", "\n  ", "a\n", "]}"]
VOCABULARY = byte_vocabulary(["ab", "ba", "abc", "12", *PAIRS])
JSON = r"""
start: value
?value: object | array | STRING | NUMBER | "true" | "null"
object: "{" [pair ("," pair)*] "}"
pair: STRING ":" value
array: "[" [value ("," value)*] "]"
STRING: /"[^"\\]*"/
NUMBER: /-?[0-9]+(\.[0-9]+)?/
%ignore /[ \n]+/
"""
WORDS = r"""
start: s+
s: "if" NAME "then" s+ "end" | NAME "=" e ";"
e: NAME | e NAME | "(" e ")"
NAME: /[a-z]+/
%ignore " "
"""
BLOCKS = r"""
start: (_NEWLINE | s)*
s: NAME _NEWLINE | NAME ":" _NEWLINE _INDENT s+ _DEDENT | "(" NAME ")" _NEWLINE
NAME: /[a-z]+/
_NEWLINE: /(\r?\n[ ]*)+/
%declare _INDENT _DEDENT
%ignore / /
"""
GRAMMARS = {
    "brackets": 'start: "(" start ")" | "a"',
    "palindromes": 'start: "a" start "a" | "b" start "b" | "c" | "d" start',
    "json": JSON,
    "words": WORDS,
    "lists": 'start: "x" ["(" start ("," start)* ")"]',
    "long ends": 'start: "a" start "bcbcbcbcb" | "a" "end of all" | "ab" "c"~3..9',
}


@pytest.mark.parametrize("lexer", ["contextual", "dynamic"])
@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.share(2)
def test_texts_that_nest_end_in_time(name: str, lexer: str) -> None:
    constraint = grammar_constraint(GRAMMARS[name], VOCABULARY, lexer=lexer)
    rng = np.random.default_rng(0)
    assert constraint.facts.reach == CONSERVATIVE
    assert_session_laws(constraint, [], rng, walks=8, max_states=60)
    with pytest.raises(FitError) as found:
        fit(constraint, 0, max_steps=0)
    for more in (0, 5):
        fitted = fit(constraint, found.value.details["shortest"] + more, max_steps=0)
        assert (fitted.facts.fit, fitted.facts.is_sound) == (CONSERVATIVE, True)
        assert_session_laws(fitted, [], rng, walks=8, max_states=60)


def test_blocks_by_indentation_end_in_time() -> None:
    constraint = grammar_constraint(BLOCKS, VOCABULARY, indenter="python")
    fitted = fit(constraint, 9, max_steps=0)
    assert_session_laws(fitted, [], np.random.default_rng(0), walks=20, max_states=100)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.share(20)
def test_random_grammars_are_never_cut(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    source = random_grammar(rng, nullable=bool(seed % 2))
    try:
        constraint = compiled(source, tmp_path, VOCABULARY, lexer=["basic", "dynamic"][seed % 2])
    except CdecError:
        return  # conflicts, or no text at all
    session = constraint.session()
    if constraint.facts.reach != CONSERVATIVE or session.fewest_tokens(session.start(1))[0] == FAR:
        return
    assert_session_laws(constraint, [], rng, walks=6, max_states=40)
    fitted = fit(constraint, int(session.fewest_tokens(session.start(1))[0]) + 3, max_steps=0)
    assert_session_laws(fitted, [], rng, walks=6, max_states=40)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.share(3)
def test_deep_stacks_are_closed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    deep = deep_grammar(rng, ambiguous=bool(seed % 2))
    constraint = grammar_constraint(deep.source, VOCABULARY)
    fitted = fit(constraint, 30, max_steps=0)
    assert_session_laws(fitted, [], rng, walks=6, max_steps=30, max_states=80)


@pytest.mark.parametrize("source", ['start: "a" "b"? | "ab" "c"', "start: /a{1,3}/ [/b+/]"])
def test_bounds_are_no_less_than_what_following_every_token_finds(source: str) -> None:
    constraint = grammar_constraint(source, VOCABULARY)
    session = constraint.session()
    found = distances_of(session, np.array(VOCABULARY.eos_token_ids), most_steps=1 << 26)
    assert found is not None
    assert (session.fewest_tokens(found.states) >= found.fewest).all()
    assert (session.fewest_tokens(session.start(1)) == found.fewest_tokens(session.start(1))).all()
