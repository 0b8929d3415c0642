"""cdec inspect and cdec check: what they say of an artifact and of texts."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from cdec.compilers import ChildCompiler
from cdec.compilers import verify as again
from tests.forging import arrays_of, rebuild

from .conftest import MEMBERS, Runner


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


@pytest.mark.parametrize("command", ["inspect", "check"])
def test_what_is_no_artifact_is_an_error(cdec: Runner, command: str) -> None:
    Path("x.arrow").write_bytes(b"ARROW1\0\0 not at all")
    result = cdec(command, "x.arrow")
    assert (result.status, result.error_code) == (65, "E_ARTIFACT_FORMAT")
    missing = cdec(command, "nope.arrow")
    assert (missing.status, missing.error_code) == (66, "E_NOINPUT")


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


def test_options_without_effect_are_refused(cdec: Runner, cities: Path) -> None:
    for words in (
        ("inspect", cities, "--depth", "2"),
        ("check", cities, "--token-ids", "--field", "x"),
        ("check", cities, "--explain", "--fail"),
    ):
        result = cdec(*words)
        assert (result.status, result.error_code) == (2, "E_USAGE")


def test_no_escape_reaches_stdout_without_a_terminal(cdec: Runner, cities: Path) -> None:
    for words in (("inspect", cities), ("inspect", cities, "--tree"), ("doctor",)):
        result = cdec(*words)
        assert "\x1b" not in result.stdout.decode() + result.stderr
