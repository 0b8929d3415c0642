"""The grammars that ship with the package, read by lark itself: what they accept and refuse."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import lzma
from collections import Counter
from pathlib import Path

import lark
import pytest

from cdec.compilers.grammars.ebnf.read import read_ebnf
from cdec.core.errors import InputMissingError
from cdec.data.assets import grammar_names, grammar_path

NAMES = ["arithmetic", "c", "csv", "json", "jsonl", "sexpr", "sql", "toy_asap", "xml"]

BOOK = (
    '<book id="k1" lang="en-GB"><title>Ideas &amp; N&#246;tes</title><author><given>Ada</given>'
    "<family>Lovelace</family></author><year>1843</year><publisher>Taylor</publisher>"
    "<isbn>978-0-19-852011-5</isbn></book>"
)
ARTICLE = (
    '<article id="k2"> <title>On x</title>\n <author> <family>Turing</family> </author>'
    "<year>1936</year><journal><name>Proc.</name><volume>42</volume></journal>"
    '<pages from="230" to="265"/><doi>10.1112/plms/s2-42.1.230</doi>'
    "<note>see <em>also <em>this</em></em>.</note></article>"
)
EXAMPLES: dict[str, tuple[list[str], list[str]]] = {
    "arithmetic": (
        ["1", "-2 * (x1 + 3.5e-2)^2 / max(y, 4)", "f()", "a = -b\n", "2^-3^.5", "- - 1 % 2."],
        ["", "1 +", "(1", "1 2", "a = b = c", "f(,)", "2 ** 3", "1..2"],
    ),
    "c": (
        [
            "static int square(int x) { return x * x; } /* a comment */",
            '#include <stdio.h>\nint main(void) { printf("%d\\n" "x", 1); return 0; }',
            "typedef struct node { int key; struct node *next; } node_t; node_t a, *b;",
            "void f(T *x, ...) { T y = {.a = 1, [2] = {3}}; x->z = (int)y ? 1 : 2; l: goto l; }",
            "int (*table[3])(const char *, double); enum e { A, B = 2, };",
            "int f(int n) { if (n) if (n > 1) return 1; else return 2; switch (n) { case 1: "
            "break; default: ; } for (int i = 0;;) continue; do n--; while (n); }",
            "unsigned long x = 0xFFul + sizeof(int *) + 'a' + '\\n'; double y = .5e3f;",
        ],
        [
            "",
            "int main( { }",
            "int f() { return 1 }",
            "int x = ;",
            "int 1x;",
            "f() { if () ; }",
            "int a[;",
            "/* never closed",
            'char *s = "open;',
        ],
    ),
    "csv": (
        ["", "a", "a,b\r\n1,2\r\n", 'x\n"Lovelace, ""Ada""",1815\n', '"a\nb",\n,é', ",,"],
        ['a"b', '"open', '"a"b', '"a" ,b', "a\rb"],
    ),
    "json": (
        ['{"a": [1, -2.5E+3, "\\u00e9\\"", {}], "b": null}', " true\n", '""', "0", "[[],[]]"],
        ["", "{a: 1}", "[1,]", "01", "+1", "'a'", '"\t"', "[1 2]", '{"a" 1}', "\ufeff1", "NaN"],
    ),
    "jsonl": (
        ['{"id": 1}\n{"id": 2}\n', "1", "[1, 2]\r\ntrue", ' "a" \n 2 \n'],
        ["", "\n", "1\n\n2", "[1,\n2]", "1 2", "{}\n{"],
    ),
    "sexpr": (
        ['(define (square x) "squares x" (* x x)) ; a comment', "a", "'(1 `(2 ,x ,@y)) [b]", "()"],
        ["", "(", ")", "(a]", "'", '"open', "; only a comment"],
    ),
    "sql": (
        [
            "SELECT * FROM t",
            "select a.name, COUNT(*) AS n FROM authors a LEFT JOIN books AS b ON b.author = a.id "
            "WHERE b.year BETWEEN 1990 AND 2000 AND a.x NOT IN (1, 2) GROUP BY a.name "
            "HAVING COUNT(*) > 1 ORDER BY n DESC NULLS LAST LIMIT 10 OFFSET 5;",
            "WITH x (a) AS (SELECT 1) SELECT (SELECT MAX(a) FROM x) + -1.5e3 UNION ALL SELECT 2",
            "SELECT CASE WHEN a IS NOT NULL THEN 'it''s' ELSE \"q\"\"x\" END, CAST(a AS "
            "DECIMAL(10, 2)), f(DISTINCT b) OVER (PARTITION BY c ORDER BY d) -- why\nFROM s.t",
            "SELECT 1 WHERE EXISTS (SELECT 1) OR NOT a LIKE '%x' /* c */",
        ],
        [
            "",
            "SELECT",
            "SELECT a FROM",
            "SELECT a FROM t WHERE",
            "SELECT (a FROM t",
            "SELECT 'open FROM t",
            "DELETE FROM t",
            "SELECT a FROM t; SELECT b FROM t",
            "SELECT a FROM t LIMIT x",
        ],
    ),
    "xml": (
        [
            "<bibliography></bibliography>",
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<bibliography>\n{BOOK}\n{ARTICLE}</bibliography>\n",
        ],
        [
            "",
            "<bibliography>",
            f"<bibliography>{BOOK}",
            f"<bibliography>{BOOK.replace('<year>1843</year>', '')}</bibliography>",
            f"<bibliography>{BOOK.replace('1843', 'long ago')}</bibliography>",
            f"<bibliography>{BOOK.replace('&amp;', '&')}</bibliography>",
            f"<bibliography>{BOOK.replace('</book>', '</article>')}</bibliography>",
            f"<bibliography>{ARTICLE.replace('</em></em>', '</em>')}</bibliography>",
        ],
    ),
}


@functools.cache
def parser(name: str, lexer: str = "contextual") -> lark.Lark:
    return lark.Lark(grammar_path(name).read_text(), parser="lalr", lexer=lexer)


def parses(name: str, text: str, lexer: str = "contextual") -> bool:
    try:
        parser(name, lexer).parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


def test_the_shipped_grammars_are_listed() -> None:
    assert grammar_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_grammar_says_what_it_is(name: str) -> None:
    path = grammar_path(name)
    mark = "#" if path.suffix == ".ebnf" else "//"
    header = "".join(
        itertools.takewhile(lambda line: line.startswith(mark), path.read_text().splitlines(True))
    )
    assert "Lexer: " in header and "Example: " in header


def test_an_unknown_grammar_names_those_there_are() -> None:
    with pytest.raises(InputMissingError, match=r"arithmetic, c, csv"):
        grammar_path("yaml")
    with pytest.raises(InputMissingError):
        grammar_path("../assets")


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_accepted_and_mistakes_refused(name: str) -> None:
    inside, outside = EXAMPLES[name]
    assert [text for text in inside if not parses(name, text)] == []
    assert [text for text in outside if parses(name, text)] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [("sql", "SELECT FROM t"), ("sql", "SELECT a, FROM t"), ("c", "int return = 1;")],
)
def test_keywords_are_names_where_none_may_stand_unless_the_lexer_is_basic(
    name: str, text: str
) -> None:
    assert parses(name, text)
    assert not parses(name, text, "basic")


@pytest.mark.parametrize("name", ["sql", "c"])
def test_the_basic_lexer_accepts_the_examples_too(name: str) -> None:
    assert [text for text in EXAMPLES[name][0] if not parses(name, text, "basic")] == []


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_example_of_the_header_is_accepted(name: str) -> None:
    lines = [line.removeprefix("//") for line in grammar_path(name).read_text().splitlines()]
    first = next(i for i, line in enumerate(lines) if line.startswith(" Example: "))
    block = itertools.takewhile(str.strip, lines[first:])
    text = "\n".join(line.strip() for line in block).removeprefix("Example: ")
    assert parses(name, text), text


def test_the_toy_is_the_set_of_the_paper() -> None:
    grammar = read_ebnf(grammar_path("toy_asap").read_text())
    assert [terminal.pattern for terminal in grammar.terminals] == ["00000|1[01][01][01][01]"]


@pytest.mark.slow
def test_json_agrees_with_the_test_suite(shared: Path) -> None:
    """Every document that must be accepted is, every one that must be refused is not."""
    wrong = []
    counts: Counter[str] = Counter()
    rows = lzma.decompress((shared / "data/json_test_suite/cases.jsonl.xz").read_bytes())
    for case in map(json.loads, rows.splitlines()):
        try:
            text = case.get("text") or base64.b64decode(case.get("bytes_b64") or "").decode()
            accepted = parses("json", text)
        except UnicodeDecodeError:
            accepted = False
        counts[case["expect"]] += 1
        if case["expect"] in ("accept", "reject") and accepted != (case["expect"] == "accept"):
            wrong.append(case["name"])
    assert not wrong
    assert (counts["accept"], counts["reject"]) == (95, 188)


@pytest.mark.share(1)
@pytest.mark.parametrize(
    ("lexer", "refused", "least"),
    [("contextual", 93, 71), ("basic", 97, 71)],
)
def test_c_programs_are_accepted_and_refused_as_labelled(
    shared: Path, lexer: str, refused: int, least: int
) -> None:
    """All valid programs of the compiler tests, and at least as many of the rest as measured.

    The remaining refusals are of meaning rather than of syntax (two storage classes, ...), and the
    remaining c-testsuite programs need the preprocessor.
    """
    counts = {name: c_verdicts(shared, name, lexer) for name in ("wacc_tests", "c_testsuite")}
    assert counts["wacc_tests"]["accept", True] == 672
    assert counts["wacc_tests"]["accept", False] == 0
    assert counts["wacc_tests"]["reject", False] >= refused
    assert counts["c_testsuite"]["accept", True] >= least


def c_verdicts(shared: Path, name: str, lexer: str) -> Counter[tuple[str, bool]]:
    rows = lzma.decompress((shared / f"data/c_programs/{name}.jsonl.xz").read_bytes())
    cases = [json.loads(row) for row in rows.splitlines()]
    return Counter((case["expect"], parses("c", case["text"], lexer)) for case in cases)


def test_csv_accepts_every_document_of_the_spectrum(shared: Path) -> None:
    lines = (shared / "data/sample_documents/csv_spectrum.jsonl").read_text().splitlines()
    texts = [row.get("csv") or row["text"] for row in map(json.loads, lines)]
    assert len(texts) == 11
    assert [text for text in texts if not parses("csv", text)] == []
