"""Grammars and regular expressions compiled on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.core.artifacts.opened import read_artifact
from tests.cli.conftest import Runner

# --- cdec compile-grammar: files, shipped grammars, dialects, tokenizers, what it prints.

pytestmark = pytest.mark.usefixtures("grammar_child")

LIST = 'start: "[" (X ("," X)*)? "]"\nX: /[a-z]+/\n'
LARGE = "start: /[ab]*a[ab]{17}c|d/\n"
NOT_LALR = 'start: a "x" "c" | b "x" "d"\na: "q"\nb: "q"\n'


def _metadata(path: str) -> dict[str, Any]:
    metadata = read_artifact(Path(path)).metadata
    options: dict[str, Any] = json.loads(metadata["cdec.options"])
    return options | {"name": metadata["cdec.vocabulary_name"], "grammar": metadata["cdec.grammar"]}


def test_the_artifact_lies_beside_the_input_and_is_summed_up(cdec: Runner) -> None:
    Path("deep").mkdir()
    Path("deep/list.lark").write_text(LIST)
    result = cdec("compile-grammar", "deep/list.lark")
    assert result.status == 0, result.stderr
    assert Path("deep/list.arrow").is_file()
    shown = result.stdout.decode()
    for word in ("contextual", "LALR(1)", "sound", "scanner states", "token groups", "seconds"):
        assert word in shown
    assert "tokenizer: embedded" in result.stderr
    assert _metadata("deep/list.arrow")["name"] == "embedded"
    assert _metadata("deep/list.arrow")["grammar"] == LIST


def test_json_and_quiet_change_what_is_printed(cdec: Runner) -> None:
    Path("list.lark").write_text(LIST)
    (report,) = cdec("compile-grammar", "list.lark", "--json").records
    assert report["lexer"] == "contextual" and report["sound"] is True
    assert report["terminals"] == 4 and report["bytes"] == Path("list.arrow").stat().st_size
    assert report["seconds"]["total"] > 0
    quiet = cdec("compile-grammar", "list.lark", "--quiet", "--force")
    assert (quiet.status, quiet.stdout, quiet.stderr) == (0, b"", "")


def test_what_exists_is_kept_without_force(cdec: Runner) -> None:
    Path("list.lark").write_text(LIST)
    Path("list.arrow").write_text("mine")
    result = cdec("compile-grammar", "list.lark")
    assert (result.status, result.error_code) == (73, "E_EXISTS")
    assert Path("list.arrow").read_text() == "mine"
    assert cdec("compile-grammar", "list.lark", "--force").status == 0
    result = cdec("compile-grammar", "list.lark", "-o", "list.lark")
    assert (result.status, result.error_code) == (2, "E_USAGE")


def test_stdin_needs_a_name_for_the_output(cdec: Runner) -> None:
    result = cdec("compile-grammar", "-", stdin=LIST.encode())
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert "-o" in result.stderr
    assert cdec("compile-grammar", "-", "-o", "x.arrow", stdin=LIST.encode()).status == 0


def test_shipped_grammars_have_names_and_files_win(cdec: Runner) -> None:
    assert cdec("compile-grammar", "arithmetic").status == 0
    assert "start" in _metadata("arithmetic.arrow")["grammar"]
    Path("arithmetic").write_text(LIST)
    assert cdec("compile-grammar", "arithmetic", "--force").status == 0
    assert _metadata("arithmetic.arrow")["grammar"] == LIST
    result = cdec("compile-grammar", "nonsense")
    assert (result.status, result.error_code) == (66, "E_NOINPUT")
    assert "arithmetic" in result.stderr and "json" in result.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("g.gbnf", ()),
        ("g.ebnf", ()),
        ("g.txt", ("--format", "gbnf")),
        ("g.txt", ("--format", "ebnf")),
    ],
)
def test_ebnf_is_told_by_ending_or_option(cdec: Runner, name: str, words: tuple[str, ...]) -> None:
    Path(name).write_text('root ::= "a" root | "b"\n')
    result = cdec("compile-grammar", name, "-o", "g.arrow", *words)
    assert result.status == 0, result.stderr
    assert _metadata("g.arrow")["dialect"] == "ebnf"
    assert _metadata("g.arrow")["lexer"] == "dynamic"


def test_a_dialect_that_was_named_wins_over_the_ending(cdec: Runner) -> None:
    Path("g.gbnf").write_text(LIST)
    assert cdec("compile-grammar", "g.gbnf").error_code == "E_GRAMMAR_SYNTAX"
    assert cdec("compile-grammar", "g.gbnf", "--format", "lark").status == 0


def test_start_picks_the_rule(cdec: Runner) -> None:
    Path("g.lark").write_text('start: "a"\nother: "b"\n')
    assert cdec("compile-grammar", "g.lark", "--start", "other").status == 0
    records = cdec("check", "g.arrow", stdin=b"a\nb\n").records
    assert [record["valid"] for record in records] == [False, True]
    assert _metadata("g.arrow")["start"] == "other"
    result = cdec("compile-grammar", "g.lark", "--start", "nowhere", "--force")
    assert result.error_code == "E_GRAMMAR_NO_START"


def test_the_lexer_is_part_of_the_meaning(cdec: Runner) -> None:
    Path("g.lark").write_text("start: A B\nA: /a+/\nB: /ab/\n")
    accepted = {}
    for lexer in ("contextual", "basic", "dynamic"):
        words = ("-o", f"{lexer}.arrow", "--lexer", lexer)
        result = cdec("compile-grammar", "g.lark", *words)
        if result.status == 0:
            records = cdec("check", f"{lexer}.arrow", stdin=b"aab\n").records
            accepted[lexer] = [record["valid"] for record in records]
        else:
            accepted[lexer] = [result.error_code]
    assert accepted["dynamic"] == [True]
    assert accepted["contextual"] == accepted["basic"] == ["E_EMPTY_LANGUAGE"]


def test_a_grammar_that_is_not_lalr_gets_the_dynamic_lexer_with_a_note(cdec: Runner) -> None:
    Path("g.lark").write_text(NOT_LALR)
    result = cdec("compile-grammar", "g.lark", "--json")
    assert result.records[0]["lexer"] == "dynamic"
    assert "warning W_DYNAMIC_LEXER" in result.stderr
    refused = cdec("compile-grammar", "g.lark", "--lexer", "contextual", "--force")
    assert (refused.status, refused.error_code) == (65, "E_GRAMMAR_CONFLICT")
    asked = cdec("compile-grammar", "g.lark", "--lexer", "dynamic", "--force")
    assert "W_DYNAMIC_LEXER" not in asked.stderr


def test_terminals_that_can_be_empty_need_the_dynamic_lexer(cdec: Runner) -> None:
    Path("g.lark").write_text('start: A "b"\nA: /a*/\n')
    refused = cdec("compile-grammar", "g.lark")
    assert (refused.status, refused.error_code) == (65, "E_GRAMMAR_EMPTY_TERMINAL")
    assert cdec("compile-grammar", "g.lark", "--lexer", "dynamic").status == 0
    records = cdec("check", "g.arrow", stdin=b"b\naab\na\n").records
    assert [record["valid"] for record in records] == [True, True, False]


def test_imports_stay_inside_the_folder_that_was_allowed(cdec: Runner) -> None:
    Path("lib").mkdir()
    Path("lib/words.lark").write_text("WORD: /[a-z]+/\n")
    Path("secret.lark").write_text("WORD: /[0-9]+/\n")
    Path("g.lark").write_text("%import .words.WORD\nstart: WORD\n")
    assert cdec("compile-grammar", "g.lark").error_code == "E_GRAMMAR_IMPORT"
    allowed = cdec("compile-grammar", "g.lark", "--allow-imports", "lib")
    assert allowed.status == 0, allowed.stderr
    assert [r["valid"] for r in cdec("check", "g.arrow", stdin=b"abc\n12\n").records] == [
        True,
        False,
    ]
    Path("g.lark").write_text("%import ..secret.WORD\nstart: WORD\n")
    escaped = cdec("compile-grammar", "g.lark", "--allow-imports", "lib", "--force")
    assert escaped.error_code == "E_GRAMMAR_IMPORT"
    missing = cdec("compile-grammar", "g.lark", "--force", "--allow-imports", "nowhere")
    assert (missing.status, missing.error_code) == (66, "E_NOINPUT")


def test_errors_name_file_line_and_column(cdec: Runner) -> None:
    Path("g.lark").write_text('start: "a"\n\nb: missing\n')
    result = cdec("compile-grammar", "g.lark")
    assert "g.lark: line 3, column 4" in result.stderr
    assert "missing" in result.stderr
    (line, *_) = result.stderr.splitlines()[1:]
    assert line.startswith("error E_GRAMMAR_UNDEFINED: ")


@pytest.mark.parametrize(
    ("text", "words", "limit"),
    [
        (LIST, ("--max-grammar-bytes", "10"), "max_grammar_bytes"),
        (LIST, ("--max-rules", "1"), "max_rules"),
        ('start: (((((("a"))))))\n', ("--max-nesting", "4"), "max_nesting"),
        ('start: "a"~50\n', ("--max-repeat", "49"), "max_repeat"),
        (LIST, ("--max-states", "2"), "max_states"),
        (LIST, ("--max-tree-nodes", "1"), "max_tree_nodes"),
        (
            'start: start start | "a"\n',
            ("--lexer", "dynamic", "--max-ambiguity", "1"),
            "max_ambiguity",
        ),
        (LARGE, ("--compile-megabytes", "32"), "compile_megabytes"),
    ],
)
def test_every_limit_is_an_option(
    cdec: Runner, text: str, words: tuple[str, ...], limit: str
) -> None:
    Path("g.lark").write_text(text)
    result = cdec("compile-grammar", "g.lark", *words)
    assert (result.status, result.error_code) == (75, "E_LIMIT"), result.stderr
    assert "--" + limit.replace("_", "-") in result.stderr
    if text != LARGE:
        assert cdec("compile-grammar", "g.lark").status == 0


def test_another_tokenizer_makes_another_artifact(cdec: Runner, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    vocabulary = {chr(code): code - 33 for code in range(33, 127)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    Path("g.lark").write_text('start: "ab"\n')
    words = ("--tokenizer", tmp_path / "tokenizer.json")
    result = cdec("compile-grammar", "g.lark", *words)
    assert result.status == 0, result.stderr
    assert "tokenizer.json" in result.stderr
    both = cdec("compile-grammar", "g.lark", *words, "--model", "other", "--force")
    assert both.error_code == "E_USAGE"


def test_config_gives_defaults(cdec: Runner) -> None:
    Path("cdec.toml").write_text('[compile-grammar]\nlexer = "dynamic"\nmax-rules = 500\n')
    Path("g.lark").write_text(LIST)
    assert cdec("compile-grammar", "g.lark", "--json").records[0]["lexer"] == "dynamic"


def test_the_file_name_of_a_shipped_grammar_means_it_where_there_is_no_such_file(
    cdec: Runner,
) -> None:
    named = cdec("compile-grammar", "json")
    assert (named.status, "grammar: the shipped json\n" in named.stderr) == (0, True)
    Path("json.arrow").unlink()
    Path("json").mkdir()
    assert cdec("compile-grammar", "json").status == 0
    Path("json.arrow").unlink()
    filed = cdec("compile-grammar", "json.lark")
    said = "grammar: the shipped json; there is no file json.lark here\n"
    assert (filed.status, said in filed.stderr) == (0, True)
    assert Path("json.arrow").is_file()
    Path("json.lark").write_text('start: "a"\n')
    own = cdec("compile-grammar", "json.lark", "--force", "--json")
    assert (own.status, "shipped" in own.stderr) == (0, False)
    for elsewhere in ("grammars/json.lark", "./json2.lark", "json.ebnf", "json.lark.gz"):
        assert cdec("compile-grammar", elsewhere).error_code == "E_NOINPUT"


def test_the_next_command_is_on_stderr_alone(cdec: Runner) -> None:
    Path("a b.lark").write_text('start: "a"\n')
    result = cdec("compile-grammar", "a b.lark")
    assert result.stderr.splitlines()[-1].startswith("next: cdec sample -a 'a b.arrow' --prompt ")
    assert b"next" not in result.stdout
    for quiet in ("--json", "--quiet"):
        assert "next:" not in cdec("compile-grammar", "a b.lark", "--force", quiet).stderr


# --- cdec compile-regex: where the pattern comes from, what narrows it, what it prints; records.


def _valid(cdec: Runner, *texts: str) -> list[str]:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    words = ("check", "x.arrow", "--field", "text", "--format", "jsonl")
    verdicts = [record["valid"] for record in cdec(*words, stdin=lines.encode()).records]
    return [text for text, valid in zip(texts, verdicts, strict=True) if valid]


def test_a_typed_pattern_needs_a_name_for_the_output(cdec: Runner) -> None:
    refused = cdec("compile-regex", "a+")
    assert (refused.status, refused.error_code) == (2, "E_USAGE") and "-o" in refused.stderr
    result = cdec("compile-regex", r"\d{4}-\d{2}", "-o", "x.arrow")
    assert result.status == 0, result.stderr
    for word in ("states", "sound", "token groups", "seconds"):
        assert word in result.stdout.decode()
    assert _valid(cdec, "2024-01", "2024-1", "24-01") == ["2024-01"]
    again = cdec("compile-regex", r"\d{4}-\d{2}", "-o", "x.arrow")
    assert (again.status, "up to date" in again.stderr) == (0, True)
    other = cdec("compile-regex", r"\d{4}", "-o", "x.arrow")
    assert (other.status, other.error_code) == (73, "E_EXISTS")


def test_a_file_names_the_artifact_and_ends_with_a_line_break(cdec: Runner) -> None:
    Path("plate.re").write_bytes(b"\xef\xbb\xbf[A-Z]+\r\n")
    (report,) = cdec("compile-regex", "--file", "plate.re", "--json").records
    assert report["path"] == "plate.arrow" and report["dialect"] == "regex"
    Path("plate.arrow").rename("x.arrow")
    assert _valid(cdec, "AB", "AB\n") == ["AB"]
    for words in ((), ("a", "--file", "plate.re"), ("--file", "-")):
        refused = cdec("compile-regex", *words, stdin=b"a")
        assert (refused.status, refused.error_code) == (2, "E_USAGE")
    assert cdec("compile-regex", "--file", "nope").error_code == "E_NOINPUT"


def test_other_patterns_narrow_it(cdec: Runner) -> None:
    words = ("--and", ".{3,4}", "--and", "[^c]*", "--deny-regex", "b.*", "--deny-regex", ".*b")
    assert cdec("compile-regex", "[a-c]*", "-o", "x.arrow", *words).status == 0
    texts = ("aa", "aaa", "aaaa", "baa", "aab", "aca", "aba", "aaaaa")
    assert _valid(cdec, *texts) == ["aaa", "aaaa", "aba"]
    refused = cdec("compile-regex", "[a-c]*", "-o", "x.arrow")
    assert "was compiled with another --and" in refused.stderr
    empty = cdec("compile-regex", "a", "--and", "b", "-o", "y.arrow")
    assert (empty.status, empty.error_code) == (65, "E_EMPTY_LANGUAGE")
    assert "--and" in empty.stderr
    look = cdec("compile-regex", "(?!b)[a-c]", "-o", "y.arrow")
    assert (look.error_code, "--deny-regex" in look.stderr) == ("E_REGEX_UNSUPPORTED", True)


def test_inspect_tells_the_pattern(cdec: Runner) -> None:
    words = ("--and", ".{2,9}", "--deny-regex", "YES")
    assert cdec("compile-regex", "(?i)yes|no", "-o", "x.arrow", *words).status == 0
    shown = cdec("inspect", "x.arrow").stdout.decode()
    for word in ("the regular expression (?i)yes|no", "and        .{2,9}", "but not    YES"):
        assert word in shown
    (described,) = cdec("inspect", "x.arrow", "--json").records
    assert described["grammar"] == "(?i)yes|no"


def test_an_artifact_for_another_tokenizer_says_how_it_was_made(cdec: Runner) -> None:
    from cdec.cli.runs.artifacts import recompiling
    from cdec.core.artifacts.opened import open_artifact

    cdec("compile-regex", "-o", "x.arrow", "--deny-regex", "-", "--", "-x?|b")
    again = recompiling(Path("x.arrow"), open_artifact(Path("x.arrow")).summary(), "gpt2")
    assert again is not None and "jq -r .grammar | cdec compile-regex --file -" in again
    assert "--deny-regex=-" in again


@pytest.mark.usefixtures("loaded")
def test_records_bring_regexes_of_their_own(cdec: Runner) -> None:
    records = [
        {"id": 1, "prompt": "a", "regex": "[ab]{3}"},
        {"id": 2, "prompt": "b", "regex": "(a)\\1"},
        {"id": 3, "prompt": "c", "regex": "[ab]{3}"},
        {"id": 4, "prompt": "d", "regex": "yes|no"},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records).encode()
    result = cdec("sample", "--method", "masked", "--seed", "1", stdin=lines)
    assert result.status == 3, result.stderr
    one, bad, three, four = result.records
    assert (
        bad["error"]["code"] == "E_REGEX_UNSUPPORTED" and "field 'regex'" in bad["error"]["message"]
    )
    for record in (one, three):
        assert len(record["text"]) == 3 and set(record["text"]) <= {"a", "b"}
    assert four["text"] in ("yes", "no")
    assert all(record["valid"] is True for record in (one, three, four))


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("method", ["exact", "topn", "greedy"])
def test_artifacts_of_regexes_are_combined_and_drawn_from(cdec: Runner, method: str) -> None:
    assert cdec("compile-regex", "[ab]{2,3}|no", "-o", "x.arrow").status == 0
    assert cdec("compile-regex", "(?s).{2}", "-o", "two.arrow").status == 0
    Path("denied.txt").write_text("no\n")
    words = ("--and", "two.arrow", "--deny", "denied.txt", "--method", method, "--seed", "1")
    result = cdec("sample", "-a", "x.arrow", "--prompt", "a", *words)
    assert result.status == 0, result.stderr
    assert {record["text"] for record in result.records} <= {"aa", "ab", "ba", "bb"}
    assert all(record["valid"] is True for record in result.records)
