"""Languages of Lark grammars as lark itself has them."""

from __future__ import annotations

import importlib.util
import itertools
import random
import re
from pathlib import Path
from typing import Any

import lark
import pytest
from lark import Lark
from lark.exceptions import LarkError

from cdec.compilers import compile_grammar
from cdec.compilers.grammars.automata.pattern_checks import bracket_depth, examine
from cdec.compilers.grammars.definition import GrammarLimits, Lexer
from cdec.compilers.grammars.lark import expansion, terminals
from cdec.compilers.grammars.lark.outline import read_outline
from cdec.compilers.grammars.lark.source import read_lark
from cdec.compilers.grammars.options import GrammarOptions
from cdec.compilers.grammars.source import read_grammar
from cdec.core.artifacts.opened import open_artifact
from cdec.core.constraint import DEAD
from cdec.core.errors import CdecError, LimitError
from cdec.core.grammars.errors import GrammarSyntaxError
from cdec.core.tokens.vocabulary import Vocabulary
from tests.compilers.grammars.lark.lark_reference import (
    RandomGrammars,
    as_lark_reads,
    plain,
    plain_of_lark,
)
from tests.core.grammars.finite_language import accepts
from tests.core.grammars.test_language import lark_accepts
from tests.laws.grammar_cases import compiled, texts_over

# --- A grammar read here is the grammar that Lark reads: terminals, their order, rules, ignored.

GRAMMARS = {
    "keywords": 'start: "if" ID "then" ID\nID: /[a-z]+/\n%ignore / +/\n',
    "priorities": "start: A B | b\nb.3: A B\nA.2: /a+/\nB.-1: /a/\n",
    "flags": 'start: "select"i ID /x+/is "Ab"i\nID: /[a-z]/i\n',
    "templates": '_sep{x, s}: x (s x)*\nstart: _sep{NUM, ","} _sep{NUM, ";"}\nNUM: /[0-9]+/\n',
    "template of a template": 'twice{f, x}: f{x} f{x}\nopt{x}: x?\nstart: twice{opt, "a"}\n',
    "placeholders": '!start: ["a"] b ["c"]\nb: "d" ["e" "f"]\n',
    "inlined and expanded": 'start: _x y\n_x: "a" | "b"\n?y: "c" -> z | "d"\n',
    "large counts": 'start: "a"~3..7 b~60 "c"~2..140\nb: "d" | "e"\n',
    "shared repetitions": 'start: "a"* b | ("a")* | "a"+\nb: "a"+ "c"\n',
    "terminals of terminals": 'start: A B\nA: (B | "xy" | "xyz")+ "q"~2..3\nB: "b" /c/i ["d"]\n',
    "ranges": 'start: A\nA: "0".."9" | "a".."f"\n',
    "names of literals": 'start: "+" "++" "\\n" "é" "a_1" "A" A\nA: "zz"\n',
    "a rule in a circle": 'start: "a"\nx: y\ny: x "b"\n',
    "unused": 'start: "a"\nx: y "b"\ny: z\nz: "c" C\nC: "d"\n',
    "escapes": 'start: "\\"" "\\\\" "\\t" "\\u00e9" /\\// /\\"/ /\'/ "\'"\n',
    "extend": 'start: a\na: "x"\n%extend a: "y" "z"\n%override a: "q"\n%extend a: "r"\n',
    "ignored terminals": 'start: "a"\nWS: " "\n%ignore WS\n%ignore /#[^\\n]*/ | "//"\n%ignore WS\n',
    "imports": "start: INT x\nx: CNAME\n%import common (INT, CNAME, WS)\n%ignore WS\n",
    "renamed import": "start: N\n%import common.SIGNED_NUMBER -> N\n",
    "override": 'start: INT\n%import common.INT\n%override INT: "0" | /[1-9]/\n',
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_small_grammars_read_as_lark_reads_them(name: str) -> None:
    assert plain(read_lark(GRAMMARS[name])) == as_lark_reads(GRAMMARS[name])


@pytest.mark.parametrize("name", GRAMMARS)
def test_terminals_compete_in_the_order_of_the_lexer_lark_builds(name: str) -> None:
    try:
        lark = Lark(GRAMMARS[name], parser="lalr", lexer="basic")
    except LarkError:
        pytest.skip("not LALR(1)")
    lexer: Any = lark.parser.lexer
    lexer.scanner  # noqa: B018  built lazily
    grammar = read_lark(GRAMMARS[name])
    assert [t.name for t in grammar.terminals] == [t.name for t in lexer.terminals]
    assert plain(grammar) == plain_of_lark(lark.terminals, lark.rules, lark.ignore_tokens)


@pytest.mark.share(1)
@pytest.mark.parametrize("seed", range(4))
def test_random_grammars_read_as_lark_reads_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expansion, "WRITTEN_OUT", 1 << 60)
    grammars = RandomGrammars(seed)
    compared = 0
    for _ in range(40):
        text = grammars.grammar()
        ours: Any
        try:
            ours = plain(read_lark(text))
        except LimitError:
            continue  # alternatives multiply out: Lark would try to make them all
        except CdecError as error:
            ours = error
        if isinstance(ours, tuple) and len(ours[1]) > 2000:
            continue  # right, but Lark takes seconds for it
        try:
            theirs = as_lark_reads(text)
        except (LarkError, AssertionError):
            assert isinstance(ours, CdecError), text
            continue
        assert ours == theirs, text
        compared += 1
    assert compared >= 10


def test_the_workloads_read_as_lark_reads_them(shared: Path) -> None:
    spec = importlib.util.spec_from_file_location("workloads", shared / "bench" / "workloads.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    grammars = [getattr(module, name) for name in dir(module) if name.endswith("_LARK")]
    assert len(grammars) >= 4
    for text in grammars:
        assert plain(read_lark(text)) == as_lark_reads(text)


UNREADABLE = {
    "python.lark": "E_GRAMMAR_UNSUPPORTED",
    "python2.lark": "E_GRAMMAR_UNSUPPORTED",
}


def test_the_grammars_of_lark_itself_read_as_it_reads_them(shared: Path) -> None:
    folder = shared / "data" / "grammars" / "lark"
    compared = 0
    for path in sorted(folder.rglob("*.lark")):
        text = path.read_text(encoding="utf-8")
        try:
            grammar = read_lark(text, allow_imports=path.parent)
        except CdecError as error:
            assert error.code == UNREADABLE.get(path.name, "E_GRAMMAR_NO_START"), path
            assert error.hint
            continue
        assert path.name not in UNREADABLE
        theirs = Lark(text, parser="earley", lexer="basic", import_paths=[str(path.parent)],
                      source_path=str(path))  # fmt: skip
        ours, expected = (
            plain(grammar),
            plain_of_lark(theirs.terminals, theirs.rules, theirs.ignore_tokens),
        )
        assert ours.rules == expected.rules and ours.ignored == expected.ignored, path
        assert [t[0] for t in ours.terminals] == [t[0] for t in expected.terminals], path
        compared += 1
    assert compared >= 20


def test_a_rule_as_start_keeps_what_it_uses() -> None:
    text = 'start: "a" b\nb: "b" c\nc: "c"\n'
    assert plain(read_lark(text, start="b")) == as_lark_reads(text, "b")


def test_places_are_those_of_definitions_and_literals() -> None:
    text = '%import common.INT\nstart: "a" INT\n  | NAME\nNAME.2: /x/\n'
    places = {t.name: (t.line, t.column) for t in read_lark(text).terminals}
    assert places == {"INT": (1, 9), "A": (2, 8), "NAME": (4, 1)}


def test_two_alternatives_that_only_placeholders_tell_apart_are_refused_as_in_lark() -> None:
    text = 'start: [A] [A]\nA: "a"\n'
    with pytest.raises(LarkError):
        as_lark_reads(text)
    with pytest.raises(CdecError) as caught:
        read_lark(text)
    assert caught.value.code == "E_GRAMMAR_DUPLICATE"
    assert caught.value.details["line"] == 1


# --- Regular expressions of terminals: what they contain.


def test_the_strings_of_larks_common_grammar_are_read() -> None:
    (terminal,) = read_lark("%import common.ESCAPED_STRING\nstart: ESCAPED_STRING\n").terminals
    for text in ('"a"', '""', '"\\""', '"\\\\"', '"a\\', '"\\"', '"a\n"'):
        match = re.match(terminal.pattern, text)
        assert (match is not None) == (text in ('"a"', '""', '"\\""', '"\\\\"')), text


@pytest.mark.parametrize(
    ("pattern", "features"),
    [
        ("a(b|c)*?[d-f]{2,3}", ()),
        (r"^(?=a)(?<!b)a\b", ()),
        (r"(a)\1", ("back-reference",)),
        (r"(?P<x>a)(?P=x)", ("back-reference",)),
        (r"(a)?(?(1)b|c)", ("conditional group",)),
        ("(?>a+)b", ("atomic group",)),
        ("a*+b", ("possessive quantifier",)),
        (r"((a|(?:b(?=(c)\3))+)*)", ("back-reference",)),
    ],
)
def test_constructs_that_are_not_regular_are_found(pattern: str, features: tuple[str]) -> None:
    assert examine(pattern).features == features


def test_counts_are_found_wherever_they_stand() -> None:
    assert examine("(a|b{7,}(c{3,9})*){2}").largest_count == 9
    assert examine("a*b+?").largest_count == 1


def test_brackets_are_counted_outside_of_classes_and_escapes() -> None:
    assert bracket_depth(r"((a)[((]\(b(c(d)))") == 3


# --- Terminals joined from pieces of regular expressions, which Lark only reads as a whole.

PIECES = {
    "a name that is not reserved": (
        'start: (NAME | R) ("," (NAME | R))*\nR: "a" | "ab"\n'
        "NAME: /(?!(/ R /)(,|$))/ WORD\nWORD: /[ab]+/\n"
    ),
    "the issue": 'start: NAME ","?\nR: "a"\nNAME: /(?!/ R /)/ WORD\nWORD: /[ab]+/\n',
    "a bracket over several": 'start: A ","?\nA: /(/ "a" B /){2,3}/ ["b"]\nB: /b|/ ","\n',
    "halves in terminals of their own": (
        'start: A\nA: OPEN ("a" | "b") "b"? CLOSE\nOPEN: "ab" /(?:/\nCLOSE: /)/ "a"\n'
    ),
    "a class in two": "start: A\nA: /[a/ /b]+/ B\nB: /(?=,|$)/ /,?/\n",
    "flags of a piece": 'start: A\nA: /(?!b/i /)/ WORD\nWORD: "a"i | /b/i\n',
    "ignored": 'start: "a" "b"+\n%ignore /(/ "," /)+/\n',
    "halves that no rule uses": 'start: "a" C\nB: /(/\nC: B /b|/ D\nD: "a" /)/\nE: /[/\n',
}


@pytest.mark.parametrize("name", PIECES)
def test_pieces_are_read_as_lark_reads_them(name: str, tmp_path: Path) -> None:
    source = PIECES[name]
    parser: Any = lark.Lark(source, parser="lalr")
    assert plain(read_lark(source)) == as_lark_reads(source)
    session = compiled(source, tmp_path, lexer="contextual").session("cpu")
    texts = list(texts_over("abB,", 5))
    members = [text for text in texts if lark_accepts(parser, text)]
    assert members
    assert members == [text for text in texts if accepts(session, text.encode())]


def _cut(draw: random.Random, pattern: str) -> str:
    """Return a terminal's definition that says a pattern in pieces, some of them names."""
    parts, begin = [], 0
    cuts = sorted(draw.sample(range(1, len(pattern)), min(draw.randint(1, 3), len(pattern) - 1)))
    for end in [*cuts, len(pattern)]:
        piece = pattern[begin:end]
        begin = end
        if piece in ("a", "b", "ab") and draw.random() < 0.7:
            parts.append(draw.choice([f'"{piece}"', f'("{piece}")', "W" if piece == "a" else "V"]))
        else:
            parts.append(f"/{piece}/" if draw.random() < 0.8 else f"(/{piece}/)")
    return " ".join(parts)


ATOMS = ["a", "b", "ab", "[ab]", "(a|b)", "(?:ab)?", "a{1,2}", "(?!ab)", "(?=a)", ",", "(b|,)+"]


@pytest.mark.share(1)
@pytest.mark.parametrize("part", range(3))
def test_random_pieces_are_read_as_lark_reads_them(part: int, tmp_path: Path) -> None:
    draw, read, compared = random.Random(part), 0, 0
    for _ in range(60):
        pattern = "".join(draw.choices(ATOMS, k=draw.randint(2, 4)))
        others = draw.choice(["", ' | "b"', " | W V", " | /a,/"])
        source = f'start: A "b"? | W\nA: {_cut(draw, pattern)}{others}\nW: "a"\nV: /b/\n'
        try:
            parser: Any = lark.Lark(source, parser="lalr")
        except Exception:  # what Lark raises is re's error, or that of the regex module
            with pytest.raises(CdecError):
                compiled(source, tmp_path, lexer="contextual")
            continue
        read += 1
        assert plain(read_lark(source)) == as_lark_reads(source), source
        if compared >= 8:
            continue
        try:
            session = compiled(source, tmp_path, lexer="contextual").session("cpu")
        except CdecError as error:
            assert error.code == "E_EMPTY_LANGUAGE", source
            assert not any(lark_accepts(parser, text) for text in texts_over("ab,", 5)), source
            continue
        compared += 1
        for text in texts_over("ab,", 5):
            assert accepts(session, text.encode()) == lark_accepts(parser, text), (text, source)
    assert read >= 20 and compared == 8


@pytest.mark.parametrize(
    ("source", "code", "line", "column"),
    [
        ("start: A\nA: /(/ B\nB: /b/\n", "E_REGEX_SYNTAX", 2, 4),
        ('start: A\nA: "a" B\nB: /b/ /)/\n', "E_REGEX_SYNTAX", 3, 8),
        ('start: A\nA: (/(/ | "bb") "a" /)/\n', "E_REGEX_SYNTAX", 2, 5),
        ("start: /(/ A /)/\nA: /b/\n", "E_REGEX_SYNTAX", 1, 8),
        ('start: A\nA: /(a)/ "b" /\\1/\n', "E_REGEX_UNSUPPORTED", 2, 1),
        ('start: A\nA: /(?P<x>/ "b" /)(?P=x)/\n', "E_REGEX_UNSUPPORTED", 2, 1),
        ('start: A\nA: /a{2/ /,1}/\n', "E_REGEX_SYNTAX", 2, 1),
        ('start: A\nA: /[[:/ /\\p{L}/\n', "E_REGEX_SYNTAX", 2, 4),
    ],
)  # fmt: skip
def test_pieces_that_make_no_pattern_are_named(
    source: str, code: str, line: int, column: int
) -> None:
    with pytest.raises(CdecError) as caught:
        read_lark(source)
    error = caught.value
    assert error.code == code, error.message
    assert (error.details["line"], error.details["column"]) == (line, column), error.message


def test_limits_hold_for_what_pieces_make() -> None:
    with pytest.raises(LimitError) as caught:
        read_lark("start: A\nA: /a{9999/ /99}/\n")
    assert caught.value.details["limit"] == "max_repeat"
    with pytest.raises(LimitError) as caught:
        halves = "/((((/ " * 8 + '"a"' + " /))))/" * 8
        read_lark(f"start: A\nA: {halves}\n", limits=GrammarLimits(max_nesting=20))
    assert caught.value.details["limit"] == "max_nesting"


def test_pieces_may_come_from_an_imported_file(tmp_path: Path) -> None:
    (tmp_path / "a.lark").write_text('NO: /(?!/\nR: "a"\nNAME: NO R /)/ /[ab]+/\n')
    options = GrammarOptions(allow_imports=tmp_path, name="main.lark")
    grammar = read_grammar("%import .a.NAME\nstart: NAME\n", options)
    (terminal,) = grammar.terminals
    assert re.fullmatch(terminal.pattern, "ba") and not re.match(terminal.pattern, "ab")
    assert [t.pattern for t in read_lark(grammar.source).terminals] == [terminal.pattern]


# --- Long lists of literals that Lark is not shown: the same language, at once.

VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), b"ab", b"ba", b",a", b""], [259])
LISTS = {
    "alone": 'start: "a" | "ab" | "abb" | "b"\n',
    "a terminal": 'start: X\nX: "a" | "ab" | "abb" | "b"\n',
    "repeated": 'start: ("a" | "ab" | "bb")+\n',
    "separated": 'start: w ("," w)*\nw: "a" | "ba" | "abb"\n',
    "two lists at one place": 'start: x "," | y "b"?\nx: "a" | "abb"\ny: "ab" | "ba" | "bbb"\n',
    "another literal between": 'start: w+ | "ab" ","\nw: "a" | "abb" | "b" "b"?\n',
    "used elsewhere": 'start: w "," "a"\nw: "a" | "ab" | "ba" | "bb"\n',
    "all are keywords": 'start: ("a" | "ab" | "ba") "," | ID\nID: /[ab]+/\n',
    "some are keywords": 'start: ("a" | "ab" | ",b" | ",") ID?\nID: /[ab]+/\n',
    "some are keywords of one": 'start: ("a" | "ab" | "b" | "abb") P | Q ","\nP: /,+/\nQ: /ab*/\n',
    "as wide as a pattern": 'start: ("ab" | "ba" | "b")+ | P ","\nP: /[ab]./\n',
    "priority": 'start: ("a" | "ab" | "b")+ | P ","\nP.2: /ab|b/\n',
    "escapes and cases": 'start: ("a" | "\\x61b" | "b"i | "bb") ","\n',
    "in brackets": 'start: ["a" | "ab" | "b"] "," ["ba" | "bb"]\n',
    "lines": 'start: "a"\n  | "ab"\n  | "b" // one\n  | "bb"\nother: start "x"\n',
    "ignored": 'start: ("a" | "ab" | "b")+\n%ignore ","\n',
    "all tokens kept": '!start: ["a" | "ab" | "b"] ["," | "ba"]\n',
}
TEXTS = ["".join(letters) for n in range(6) for letters in itertools.product("ab,", repeat=n)]


def verdicts(grammar: str, path: Path, lexer: Lexer | None) -> list[tuple[bool, bool]]:
    """Say of each text whether it may begin a member, and whether it is one."""
    compile_grammar(grammar, VOCABULARY, path, lexer=lexer)
    session: Any = open_artifact(path).session("cpu")
    states = session.advance_bytes(session.start(len(TEXTS)), [t.encode() for t in TEXTS])
    return list(zip((states != DEAD).tolist(), session.is_complete(states).tolist(), strict=True))


@pytest.mark.share(26)
@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_is_cut_out_has_the_language_of_its_literals(
    name: str, lexer: Lexer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = verdicts(LISTS[name], tmp_path / "plain.arrow", lexer)
    if lexer != "dynamic":
        lark = Lark(LISTS[name], parser="lalr", lexer=lexer)

        def parses(text: str) -> bool:
            try:
                lark.parse(text)
            except LarkError:
                return False
            return True

        assert [is_member for _, is_member in plain] == [parses(text) for text in TEXTS]
    monkeypatch.setattr(terminals, "_LEAST", 2)
    assert terminals.find_word_lists(read_outline(LISTS[name]))[1]
    assert verdicts(LISTS[name], tmp_path / "cut.arrow", lexer) == plain


def test_what_follows_a_list_keeps_its_place_in_messages() -> None:
    words = "\n | ".join(f'"w{i}"' for i in range(150))
    with pytest.raises(GrammarSyntaxError, match="line 151"):
        read_lark(f"start: ({words}) other\nother: ]\n")
    grammar = read_lark(f"start: ({words}) OTHER\nOTHER: /x/\n")
    assert [(t.name, t.line, t.column) for t in grammar.terminals] == [
        ("_WORDS_0", 1, 9),
        ("OTHER", 151, 1),
    ]


def test_twenty_thousand_literals_are_one_terminal_however_they_are_written() -> None:
    words = " | ".join(f'"{i:05}"' for i in range(20_000))
    for text in (f"start: X\nX: {words}\n", f"start: {words}\n", f"start: ({words})+\n"):
        grammar = read_lark(text)
        assert len(grammar.terminals) == 1 and len(grammar.rules) <= 3
        assert len(grammar.terminals[0].words) == 20_000
