"""cdec check and cdec inspect on grammar artifacts: places, stacks, steps, trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Runner

LIST = 'start: "[" (item ("," item)*)? "]"\nitem: WORD | start\nWORD: /[a-z]+/\n%ignore /[ \\n]+/\n'


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar artifact of nested lists of words, for the embedded tokenizer."""
    from cdec.compilers import compile_grammar
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.data.assets import embedded_model_path

    path = tmp_path_factory.mktemp("lists") / "lists.arrow"
    compile_grammar(LIST, Vocabulary.from_tokenizer(embedded_model_path()), path)
    return path


def test_a_refusal_names_byte_line_stack_and_what_was_allowed(cdec: Runner, lists: Path) -> None:
    texts = ["[]", "[ab, [c]]", "[ab,, c]", "[ab", "ab]", "", "[]]"]
    lines = "".join(f"{text}\n" for text in texts).encode()
    result = cdec("check", lists, stdin=lines)
    assert result.status == 0, result.stderr
    records = result.records
    assert [record["text"] for record in records] == texts
    assert [record["valid"] for record in records] == [True, True] + [False] * 5
    assert [record["byte"] for record in records[2:]] == [4, 3, 0, 0, 2]
    double = records[2]
    assert (double["line"], double["column"]) == (1, 5)
    assert {"WORD", '"["'} <= set(double["terminals"])
    assert '","' not in double["terminals"]
    assert double["stack"][-1] == '","'
    assert any("item" in rule and "\u2022" in rule for rule in double["rules"])
    assert "[" in double["allowed"] and "," not in double["allowed"]
    assert records[3]["may_end"] is False and records[6]["may_end"] is True


def test_lines_and_columns_count_characters(cdec: Runner, lists: Path) -> None:
    Path("deep.txt").write_text("[ab,\n  cd,\n  3]\n")
    (record,) = cdec("check", lists, "--whole", "-i", "deep.txt").records
    assert (record["line"], record["column"], record["byte"]) == (3, 3, 13)


def test_whole_takes_the_input_as_one_text(cdec: Runner, lists: Path) -> None:
    data = b"[a,\nb]\n"
    assert [r["valid"] for r in cdec("check", lists, stdin=data).records] == [False, False]
    assert [r["valid"] for r in cdec("check", lists, "--whole", stdin=data).records] == [True]
    broken = cdec("check", lists, "--whole", stdin=b"[\xff]").records
    assert [(record["valid"], record["byte"]) for record in broken] == [(False, 1)]


def test_long_texts_are_followed_to_the_byte(cdec: Runner, lists: Path) -> None:
    depth = 20_000
    data = b"[" * depth + b"a" + b"]" * depth
    lines = data + b"\n" + data + b"}\n" + data[: depth + 1] + b"}\n"
    first, second, third = cdec("check", lists, stdin=lines).records
    assert first["valid"] is True
    assert (second["valid"], second["byte"]) == (False, 2 * depth + 1)
    assert (third["valid"], third["byte"]) == (False, depth + 1)
    assert third["stack"][0] == "..." and third["stack"][-1] == '"["'


def test_allowed_bounds_what_is_listed(cdec: Runner, lists: Path) -> None:
    (few,) = cdec("check", lists, "--allowed", "1", stdin=b"[1\n").records
    (more,) = cdec("check", lists, "--allowed", "5", stdin=b"[1\n").records
    assert (len(few["allowed"]), len(more["allowed"])) == (1, 5)
    assert few["allowed_count"] == more["allowed_count"] > 5


def test_token_ids_are_checked_as_they_are(cdec: Runner, lists: Path) -> None:
    from cdec.core import open_artifact

    vocabulary = open_artifact(lists).vocabulary
    ids = {token: i for i, token in enumerate(vocabulary.token_bytes)}
    row = [ids[b"["], ids[b"a"], ids[b"]"]]
    end = vocabulary.eos_token_ids[0]
    rows = [row, [*row, end], row[:2], [row[0], row[0], end], [*row, end, end]]
    data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    records = cdec("check", lists, "--token-ids", stdin=data).records
    assert [record["valid"] for record in records] == [True, True, False, False, False]
    assert records[2]["position"] == 2 and records[3]["position"] == 2
    assert end not in records[3]["allowed_ids"]


def test_lookahead_takes_tokens_that_bridge_terminals_away(cdec: Runner) -> None:
    from cdec.compilers import compile_grammar
    from cdec.core.tokens.vocabulary import Vocabulary

    singles = [bytes([byte]) for byte in range(256)]
    compile_grammar(LIST, Vocabulary([*singles, b"[[", b"a]", b""], [258]), "toy.arrow")
    rows = b"[256, 97, 93, 93]\n[91, 257]\n[91, 97, 93]\n"
    for words, expected in (
        ((), [True, True, True]),
        (("--lookahead", "1"), [True, True, True]),
        (("--lookahead", "0"), [False, False, True]),
    ):
        records = cdec("check", "toy.arrow", "--token-ids", *words, stdin=rows).records
        assert [record["valid"] for record in records] == expected
    (wide,) = cdec("check", "toy.arrow", stdin=b"!\n").records
    (narrow,) = cdec("check", "toy.arrow", "--lookahead", "0", stdin=b"!\n").records
    assert narrow["allowed_count"] == wide["allowed_count"] - 1


def test_explain_steps_through_a_text(cdec: Runner, lists: Path) -> None:
    steps = cdec("check", lists, "--explain", "--json", stdin=b"[ab, [c]]\n").records
    assert all(step["is_allowed"] for step in steps)
    assert "".join(step["token"] for step in steps) == "[ab, [c]]"
    assert [step["byte"] for step in steps] == sorted({step["byte"] for step in steps})
    assert steps[-1]["may_end"] is True and steps[0]["may_end"] is False
    assert steps[0]["allowed_count"] > 0
    inside = [name for step in steps for r in step["readings"] for name in r["under_way"]]
    assert "WORD" in inside
    table = cdec("check", lists, "--explain", stdin=b"[ab]\n").stdout.decode().splitlines()
    assert table[0].split()[:3] == ["byte", "token", "allowed"]
    assert any("in WORD" in line for line in table)


def test_explain_stops_where_a_token_is_refused(cdec: Runner, lists: Path) -> None:
    steps = cdec("check", lists, "--explain", "--json", stdin=b"[ab,,c]\n").records
    assert [step["is_allowed"] for step in steps][-1] is False
    assert steps[-1]["refused_byte"] == 4
    assert "WORD" in steps[-1]["terminals"]
    table = cdec("check", lists, "--explain", stdin=b"[ab,,c]\n").stdout.decode()
    assert "refused at byte 4" in table


def test_explain_cuts_as_the_tokenizer_does(cdec: Runner, lists: Path) -> None:
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.data.assets import embedded_model_path

    text = "[alpha, beta]"
    expected = Vocabulary.from_tokenizer(embedded_model_path()).encode([text])[0]
    words = ("check", lists, "--explain", "--json", "--tokenizer", embedded_model_path())
    steps = cdec(*words, stdin=text.encode() + b"\n").records
    assert [step["token_id"] for step in steps] == expected
    data = f"{expected}\n".encode()
    rows = cdec("check", lists, "--explain", "--json", "--token-ids", stdin=data).records
    assert rows == steps


def test_explain_wants_one_text(cdec: Runner, lists: Path) -> None:
    result = cdec("check", lists, "--explain", stdin=b"[]\n[]\n")
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert cdec("check", lists, "--explain", stdin=b"").error_code == "E_DATA"
    assert cdec("check", lists, "--explain", "--whole", stdin=b"[]\n[]\n").status == 0


def test_options_of_the_other_kind_are_refused(cdec: Runner, lists: Path, cities: Path) -> None:
    for words in (
        ("check", cities, "--explain"),
        ("check", cities, "--lookahead", "1"),
        ("check", lists, "--json"),
        ("check", lists, "--lookahead", "-1"),
        ("check", lists, "--whole", "--field", "x"),
        ("inspect", cities, "--tree", "--state", "1"),
        ("inspect", lists, "--tree", "--depth", "2"),
        ("inspect", lists, "--state", "1"),
        ("inspect", lists, "--tree", "--state", "100000"),
    ):
        result = cdec(*words, stdin=b"[]\n")
        assert (result.status, result.error_code) == (2, "E_USAGE"), words


def test_inspect_shows_lexer_soundness_and_sizes(cdec: Runner, lists: Path) -> None:
    (described,) = cdec("inspect", lists, "--json").records
    assert described["kind"] == "grammar"
    assert described["options"]["lexer"] == "contextual"
    assert described["sound"] is True
    assert described["grammar"] == LIST
    assert described["statistics"]["scanner_states"] == described["counts"]["scanner_states"] > 3
    short = cdec("inspect", lists).stdout.decode().partition("Next:")[0]
    for said in (
        "a grammar of ",
        "lexer contextual: ",
        "sound yes",
        "start rule start",
    ):
        # A long path wraps.
        assert said in " ".join(short.split())
    assert "digest" not in short and max(map(len, short.splitlines()[1:])) <= 80
    table = cdec("inspect", lists, "--all").stdout.decode()
    for word in ("options.lexer", "sound", "statistics.groups", "counts.terminals", "digest"):
        assert word in table
    assert "WORD:" not in table and "columns.delta" in table


def test_a_subterminal_tree_is_shown(cdec: Runner, lists: Path) -> None:
    def tree(*words: object) -> dict[str, Any]:
        (described,) = cdec("inspect", lists, "--json", "--tree", *words).records
        shown: dict[str, Any] = described["tree"]
        return shown

    states = cdec("inspect", lists, "--json").records[0]["statistics"]["scanner_states"]
    seen = set()
    for state in range(states):
        shown = tree("--state", state, "--width", "100")
        assert shown["state"] == state
        seen |= {name for group in shown["groups"] for b in group["branches"] for name in b["path"]}
        assert all(group["tokens"] >= len(group["samples"]) > 0 for group in shown["groups"])
    assert {'"["', "WORD"} <= seen
    assert len(tree("--width", "1")["groups"]) == 1
    text = cdec("inspect", lists, "--tree").stdout.decode()
    assert "scanner state 0" in text and "tokens:" in text


def test_explain_fits_80_columns_and_shows_the_patterns(cdec: Runner, lists: Path) -> None:
    text = b"[" + b"ab, [c, " * 8 + b"!]\n"
    table = cdec("check", lists, "--explain", stdin=text).stdout.decode()
    assert max(map(len, table.splitlines())) <= 80
    assert "refused at byte" in table and "expected  " in table and "stack     " in table
    (pattern,) = [line for line in table.splitlines() if line.startswith("WORD ")]
    assert pattern.split(maxsplit=1)[1].startswith("/")


def test_a_document_over_several_lines_is_told_of_whole(cdec: Runner, lists: Path) -> None:
    result = cdec("check", lists, stdin=b"[a,\nb\n")
    assert [record["valid"] for record in result.records] == [False, False]
    assert "W_LINES" in result.stderr and "--whole takes" in result.stderr
    for fine in (b"[a,\n", b"[a]\n[b]\n", b"x\ny\n"):
        assert "W_LINES" not in cdec("check", lists, stdin=fine).stderr
    assert "W_LINES" not in cdec("check", lists, "--whole", stdin=b"[a,\nb\n").stderr


def test_a_broken_json_file_is_told_of_whole(cdec: Runner, lists: Path) -> None:
    for broken in ('{\n  "a": [1, 2\n}\n', '{"a": 1}\n'):
        Path("document.json").write_text(broken)
        result = cdec("check", lists, "-i", "document.json")
        assert result.status == 65 and "hint: give --whole to check the input" in result.stderr
        whole = cdec("check", lists, "-i", "document.json", "--whole")
        assert [record["valid"] for record in whole.records] == [False]


def test_a_json_document_is_no_grammar(cdec: Runner) -> None:
    Path("s.json").write_text('{"type": "object"}')
    result = cdec("compile-grammar", "s.json")
    assert (result.status, result.error_code) == (65, "E_DATA")
    assert "cdec compile-schema" in result.stderr
    assert "cdec compile-grammar json" in result.stderr
    near = cdec("compile-grammar", "jsn")
    assert "did you mean the shipped grammar json?" in near.stderr
