"""The commands inspect and check, for sets and for grammars."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from cdec.compilers import ChildCompiler
from cdec.compilers import verify as again
from tests.cli.conftest import MEMBERS, Runner
from tests.forging import arrays_of, rebuild

# --- cdec inspect and cdec check: what they say of an artifact and of texts.


def test_inspect_shows_kind_sizes_tokenizer_and_hashes(cdec: Runner, cities: Path) -> None:
    text = cdec("inspect", cities, "--all").stdout.decode()
    for word in (
        "kind",
        "set",
        "vocabulary_hash",
        "tokenization_hash",
        "statistics.rows",
        "digest",
    ):
        assert word in text
    (described,) = cdec("inspect", cities, "--json").records
    assert described["kind"] == "set"
    assert described["counts"]["entities"] == len(MEMBERS)
    assert described["bytes"] == cities.stat().st_size


def test_inspect_begins_with_what_a_person_wants_to_know(cdec: Runner) -> None:
    Path("towns.txt").write_text("Oslo\nRome\nRome\n")
    assert cdec("compile-set", "towns.txt", "--suffix", ">").status == 0
    text = cdec("inspect", "towns.arrow").stdout.decode()
    lines = text.splitlines()
    assert lines[0].startswith("artifact   towns.arrow: a set of 2 texts, ")
    for said in (
        "made from  towns.txt; written 20",
        "tokenizer  embedded, 4,096 tokens",
        "suffix '>'",
        "left out   1 duplicates",
        "sound      yes",
        '  cdec sample -a towns.arrow --prompt "TEXT"',
    ):
        assert any(line.startswith(said) or said in line for line in lines), said
    assert max(map(len, lines)) <= 80 and len(lines) <= 14
    assert "hash" not in text.partition("Next:")[0] and "digest" not in text


def test_verify_compiles_again_and_compares(
    cdec: Runner, cities: Path, grammar_child: ChildCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "ChildCompiler", lambda source: nullcontext(grammar_child))
    assert cdec("compile-grammar", "arithmetic").status == 0
    grammar = Path("arithmetic.arrow").absolute()
    for artifact in (cities, grammar):
        assert "Verified: " in cdec("inspect", artifact, "--verify").stdout.decode()
        (described,) = cdec("inspect", artifact, "--verify", "--json").records
        assert described["verified"]["same"] and described["verified"]["given"]
        assert "verified" not in cdec("inspect", artifact, "--json").records[0]
    forged = Path("forged.arrow")
    tokens = arrays_of(grammar.read_bytes())["tokens"]
    tokens[0] = tokens[1]
    forged.write_bytes(rebuild(grammar.read_bytes(), {"tokens": tokens}))
    assert cdec("inspect", forged).status == 0
    result = cdec("inspect", forged, "--verify")
    assert (result.status, result.error_code) == (65, "E_ARTIFACT_INVALID")
    assert "differ" in result.stderr and "tokens" in result.stderr


def test_tree_depth_and_width_bound_what_is_shown(cdec: Runner, cities: Path) -> None:
    def nodes(*words: object) -> int:
        (described,) = cdec("inspect", cities, "--json", "--tree", *words).records

        def count(node: dict[str, object]) -> int:
            children = node["children"]
            assert isinstance(children, list)
            return 1 + sum(map(count, children))

        return count(described["tree"])

    assert "tree" not in cdec("inspect", cities, "--json").records[0]
    assert nodes("--depth", "1") < nodes("--depth", "4")
    assert nodes("--width", "1") < nodes("--width", "8")
    text = cdec("inspect", cities, "--tree").stdout.decode()
    assert '" Oslo"' in text and "member" in text
    for wrong in (("--depth", "0"), ("--width", "0")):
        assert cdec("inspect", cities, "--tree", *wrong).error_code == "E_USAGE"


@pytest.mark.parametrize("command", ["inspect", "check", "sample", "score"])
def test_a_tree_that_was_kept_is_told_from_an_artifact(
    cdec: Runner, letters: Path, command: str
) -> None:
    words = ("--prompt", "x", "--tree", "tree.arrow", "--candidates", "20")
    assert cdec("mass", "-a", letters, *words).status == 0
    place = ("-a", "tree.arrow") if command in ("sample", "score") else ("tree.arrow",)
    result = cdec(command, *place, stdin=b"a\n")
    assert (result.status, result.error_code, result.stdout) == (2, "E_USAGE", b"")
    assert "tree that --tree kept" in result.stderr and "cdec mass" in result.stderr
    damaged = bytearray(Path("tree.arrow").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    Path("tree.arrow").write_bytes(damaged)
    assert cdec(command, *place, stdin=b"a\n").status == 65


def test_check_names_the_first_byte_at_which_no_member_goes_on(cdec: Runner, cities: Path) -> None:
    texts = ["Paris", "Paris, Tex", "Parma", "Oslo!", "S\u00e3o Paul", "S\u00e0o", "", "paris"]
    result = cdec("check", cities, stdin="".join(f"{text}\n" for text in texts).encode())
    assert result.status == 0
    verdicts = {record["text"]: record for record in result.records}
    assert list(verdicts) == texts
    assert verdicts["Paris"] == {"text": "Paris", "valid": True, "entity_ids": ["Q0"]}
    assert [verdicts[text]["byte"] for text in texts[1:]] == [10, 3, 4, 9, 2, 0, 0]
    assert verdicts["Oslo!"]["may_end"] is True
    assert verdicts["Paris, Tex"]["may_end"] is False
    assert any(piece.startswith("as") for piece in verdicts["Paris, Tex"]["allowed"])
    assert any(piece.startswith("i") for piece in verdicts["Parma"]["allowed"])


def test_check_fails_where_a_text_is_invalid_if_it_is_asked_to(cdec: Runner, cities: Path) -> None:
    told = cdec("check", cities, stdin=b"Parys\nOslo\n")
    failed = cdec("check", cities, "--fail", stdin=b"Parys\nOslo\n")
    assert (told.status, failed.status) == (0, 1)
    assert failed.stdout == told.stdout and failed.error_code is None
    assert cdec("check", cities, "--fail", stdin=b"Oslo\n").status == 0
    assert cdec("check", cities, "--fail", stdin=b"").status == 0
    rows = cdec("check", cities, "--fail", "--token-ids", stdin=b"[]\n")
    assert (rows.status, rows.records[0]["valid"]) == (1, False)


def test_check_reads_files_and_fields(cdec: Runner, cities: Path) -> None:
    Path("s.jsonl").write_text('{"title": "Oslo"}\n{"title": "Osaka"}\n')
    words = ("check", cities, "-i", "s.jsonl")
    assert [r["valid"] for r in cdec(*words, "--field", "title").records] == [True, False]
    raw = cdec(*words, "--format", "text").records
    assert [record["text"] for record in raw] == Path("s.jsonl").read_text().splitlines()


def test_check_bounds_the_continuations_it_lists(cdec: Runner, cities: Path) -> None:
    (few,) = cdec("check", cities, "--allowed", "1", stdin=b"X\n").records
    (all_,) = cdec("check", cities, "--allowed", "100", stdin=b"X\n").records
    assert len(few["allowed"]) == 1
    assert len(all_["allowed"]) == few["allowed_count"] > 1
    assert cdec("check", cities, "--allowed", "-1", stdin=b"X\n").error_code == "E_USAGE"


def test_check_takes_token_ids(cdec: Runner, cities: Path) -> None:
    from cdec.core import open_artifact

    vocabulary = open_artifact(cities).vocabulary
    paris = _row(cities, "Paris")
    end = vocabulary.eos_token_ids[0]
    rows = [paris, [*paris, end], paris[:-1], [*paris, paris[0]], [end]]
    data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    records = cdec("check", cities, "--token-ids", stdin=data).records
    assert [record["valid"] for record in records] == [True, True, False, False, False]
    assert records[0]["entity_ids"] == ["Q0"]
    assert records[3]["position"] == len(paris)
    assert end in records[3]["allowed_ids"] and records[3]["may_end"]


def _row(artifact: Path, text: str) -> list[int]:
    from cdec.core import open_artifact

    constraint = open_artifact(artifact)
    (row,) = constraint.rows.of_text(text.encode())
    ids: list[int] = constraint.arrays.row(int(row)).tolist()
    return ids


def test_samples_can_be_piped_into_check(cdec: Runner, cities: Path) -> None:
    Path("s.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in MEMBERS))
    records = cdec("check", cities, "-i", "s.jsonl", "--field", "text").records
    assert all(record["valid"] for record in records)


def test_forced_prefix_and_suffix_do_not_count_as_bytes(cdec: Runner) -> None:
    words = ("-o", "x.arrow", "--prefix", "Entity: <", "--suffix", ">")
    assert cdec("compile-set", "-", *words, stdin=b"Paris\nRome\n").status == 0
    records = cdec("check", "x.arrow", stdin=b"Paris\nPart\nRome>\n").records
    assert [record["valid"] for record in records] == [True, False, False]
    assert [record.get("byte") for record in records] == [None, 3, 5]


def test_json_in_a_pipe_has_the_characters_as_they_are(cdec: Runner, cities: Path) -> None:
    text = "a\x7f\x9b31m\u202eb\u2028c"
    result = cdec("check", cities, stdin=f"{text}\n".encode())
    assert result.records[0]["text"] == text
    assert all(character in result.stdout.decode() for character in "\x7f\x9b\u202e\u2028")


def test_no_escape_reaches_stdout_without_a_terminal(cdec: Runner, cities: Path) -> None:
    for words in (("inspect", cities), ("inspect", cities, "--tree"), ("doctor",)):
        result = cdec(*words)
        assert "\x1b" not in result.stdout.decode() + result.stderr


# --- cdec check and cdec inspect on grammar artifacts: places, stacks, steps, trees.

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
