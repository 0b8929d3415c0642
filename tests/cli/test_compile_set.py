"""Sets compiled on the command line: reports, refusals, what is kept, blanks before texts."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from cdec.core.kinds import SOURCE_KINDS
from tests.cli.conftest import MEMBERS, Result, Runner

# --- compile-set end to end: every option changes the artifact or the report.


def _write(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def _compile(cdec: Runner, *words: object, stdin: bytes = b"") -> dict[str, Any]:
    result = cdec("compile-set", *words, "--json", stdin=stdin)
    assert result.status == 0, result.stderr
    (report,) = result.records
    return report


def _accepts(cdec: Runner, artifact: str, *texts: str) -> list[bool]:
    result = cdec("check", artifact, stdin="".join(f"{text}\n" for text in texts).encode())
    return [record["valid"] for record in result.records]


def test_output_defaults_beside_the_input_and_the_tokenizer_is_named(cdec: Runner) -> None:
    result = cdec("compile-set", _write("wiki.txt", "Paris\nRome\n"))
    assert result.status == 0
    assert Path("wiki.arrow").is_file()
    assert "tokenizer: embedded" in result.stderr
    assert "entities" in result.stdout.decode()


def test_the_artifact_holds_no_path_of_the_embedded_model(cdec: Runner) -> None:
    _compile(cdec, _write("a.txt", "a\n"))
    (described,) = cdec("inspect", "a.arrow", "--json").records
    assert described["vocabulary_name"] == "embedded"


def test_stdin_needs_an_output(cdec: Runner) -> None:
    result = cdec("compile-set", "-", stdin=b"a\n")
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert _compile(cdec, "-", "-o", "x.arrow", stdin=b"a\n")["entities"] == 1


def test_an_existing_output_is_kept_unless_forced(cdec: Runner) -> None:
    source = _write("a.txt", "a\n")
    _compile(cdec, source)
    before = Path("a.arrow").read_bytes()
    _write("a.txt", "b\n")
    result = cdec("compile-set", source)
    assert (result.status, result.error_code) == (73, "E_EXISTS")
    assert Path("a.arrow").read_bytes() == before
    _compile(cdec, source, "--force")
    assert _accepts(cdec, "a.arrow", "a", "b") == [False, True]


def test_the_output_may_not_be_the_input(cdec: Runner) -> None:
    source = _write("a.txt", "a\n")
    result = cdec("compile-set", source, "-o", source, "--force")
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert Path(source).read_text() == "a\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"name": "Paris", "q": "Q90"}\n{"name": "Rome", "q": "Q220"}\n'),
        ("a.csv", "q,name\nQ90,Paris\nQ220,Rome\n"),
    ],
)
def test_fields_and_ids_are_taken_from_records(cdec: Runner, name: str, text: str) -> None:
    _compile(cdec, _write(name, text), "--field", "name", "--id-field", "q")
    (verdict,) = cdec("check", "a.arrow", stdin=b"Rome\n").records
    assert verdict == {"text": "Rome", "valid": True, "entity_ids": ["Q220"]}


def test_format_overrides_the_extension(cdec: Runner) -> None:
    source = _write("a.jsonl", '{"text": "x"}\n')
    _compile(cdec, source, "--format", "text")
    assert _accepts(cdec, "a.arrow", '{"text": "x"}', "x") == [True, False]


def test_parquet_is_read_by_column(cdec: Runner) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"t": ["Paris"], "i": [7]}), "a.parquet")
    _compile(cdec, "a.parquet", "--field", "t", "--id-field", "i")
    (verdict,) = cdec("check", "a.arrow", stdin=b"Paris\n").records
    assert verdict["entity_ids"] == ["7"]


def test_token_rows_are_compiled_as_they_are(cdec: Runner) -> None:
    _compile(cdec, "-", "-o", "x.arrow", "--token-ids", stdin=b"[300, 301]\n[300]\n")
    result = cdec("check", "x.arrow", "--token-ids", stdin=b"[300]\n[300, 302]\n[301]\n")
    assert [record["valid"] for record in result.records] == [True, False, False]
    assert [record.get("position") for record in result.records] == [None, 1, 0]


def test_bad_lines_stop_or_are_counted(cdec: Runner) -> None:
    data = b"alpha\nb\xff\n gamma\n"
    result = cdec("compile-set", "-", "-o", "x.arrow", stdin=data)
    assert (result.status, result.error_code) == (65, "E_ENCODING")
    assert not Path("x.arrow").exists()
    report = _compile(cdec, "-", "-o", "x.arrow", "--bad-lines", "skip", stdin=data)
    assert (report["entities"], report["skipped"]) == (2, 1)


def test_a_blank_line_is_a_member_only_when_kept(cdec: Runner) -> None:
    assert _compile(cdec, "-", "-o", "x.arrow", stdin=b"\na\n")["entities"] == 1
    kept = _compile(cdec, "-", "-o", "y.arrow", "--keep-empty", stdin=b"\na\n")
    assert kept["entities"] == 2
    assert _accepts(cdec, "y.arrow", "", "a") == [True, True]


def test_denied_texts_are_left_out(cdec: Runner) -> None:
    deny = _write("deny.txt", "Rome\nNowhere\n")
    report = _compile(cdec, "-", "-o", "x.arrow", "--deny", deny, stdin=b"Paris\nRome\n")
    assert (report["entities"], report["denied"]) == (1, 1)
    assert _accepts(cdec, "x.arrow", "Paris", "Rome") == [True, False]


def test_prefix_and_suffix_are_forced_around_members(cdec: Runner) -> None:
    words = ("--prefix", "Entity: <", "--suffix", ">")
    report = _compile(cdec, "-", "-o", "x.arrow", *words, stdin=b"Paris\n")
    assert report["options"]["prefix"] == "Entity: <"
    assert report["options"]["suffix"] == ">"
    plain = _compile(cdec, "-", "-o", "y.arrow", stdin=b"Paris\n")
    assert report["longest"] > plain["longest"]
    # What a server returns has prefix and suffix with it.
    told = ("Paris", "Entity: <Paris>", "Entity: <Paris", "Entity: <Rome>")
    assert _accepts(cdec, "x.arrow", *told) == [True, True, False, False]


def test_leading_space_is_recorded_and_changes_the_rows(cdec: Runner) -> None:
    rows = {}
    for choice in ("auto", "always", "never", "both"):
        words = ("-o", f"{choice}.arrow", "--leading-space", choice)
        report = _compile(cdec, "-", *words, stdin=b"Paris\n")
        rows[choice] = (report["rows"], report["options"]["leading_space"])
    assert rows == {
        "auto": (1, "always"),
        "always": (1, "always"),
        "never": (1, "never"),
        "both": (2, "both"),
    }


def test_normalisation_merges_forms(cdec: Runner) -> None:
    data = "\u00e9\ne\u0301\n".encode()
    assert _compile(cdec, "-", "-o", "x.arrow", stdin=data)["entities"] == 2
    words = ("--normalize", "nfc")
    assert _compile(cdec, "-", "-o", "y.arrow", *words, stdin=data)["entities"] == 1


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("--max-line-bytes", "4"), 65, "E_LINE_TOO_LONG"),
        (("--max-input-bytes", "5"), 75, "E_LIMIT"),
        (("--max-entities", "1"), 75, "E_LIMIT"),
        (("--max-entry-tokens", "2"), 75, "E_LIMIT"),
        (("--max-line-bytes", "0"), 2, "E_USAGE"),
        (("--max-entities", "0"), 2, "E_USAGE"),
        (("--max-entry-tokens", "0"), 2, "E_USAGE"),
        (("--max-input-bytes", "many"), 2, "E_USAGE"),
        (("--memory-limit", "0"), 2, "E_USAGE"),
        (("--leading-space", "perhaps"), 2, "E_USAGE"),
        (("--tokenizer", "a", "--model", "b"), 2, "E_USAGE"),
        (("--tokenizer", "no/such/tokenizer"), 69, "E_MODEL"),
    ],
)
def test_limits_and_wrong_values(
    cdec: Runner, words: tuple[str, ...], status: int, code: str
) -> None:
    data = b"abc\nxylophone quintessence\n"
    result = cdec("compile-set", "-", "-o", "x.arrow", *words, stdin=data)
    assert (result.status, result.error_code) == (status, code)
    assert not Path("x.arrow").exists()


def test_a_memory_limit_changes_no_byte(cdec: Runner) -> None:
    data = "".join(f"entity number {i * 7919 % 3000}\n" for i in range(3000)).encode()
    _compile(cdec, "-", "-o", "x.arrow", stdin=data)
    _compile(cdec, "-", "-o", "y.arrow", "--memory-limit", "200kB", stdin=data)
    assert Path("x.arrow").read_bytes() == Path("y.arrow").read_bytes()


def test_the_tokenizer_may_be_a_models(cdec: Runner) -> None:
    from cdec.data.assets import embedded_model_path

    folder = embedded_model_path("draft")
    _compile(cdec, "-", "-o", "x.arrow", "--model", folder, stdin=b"Paris\n")
    _compile(cdec, "-", "-o", "y.arrow", "--tokenizer", folder, stdin=b"Paris\n")
    assert Path("x.arrow").read_bytes() == Path("y.arrow").read_bytes()


def test_quiet_prints_nothing_and_json_prints_one_line(cdec: Runner) -> None:
    result = cdec("compile-set", "-", "-o", "x.arrow", "-q", stdin=b"a\na\n")
    assert (result.status, result.stdout, result.stderr) == (0, b"", "")


def test_forced_progress_goes_to_stderr_only(cdec: Runner) -> None:
    words = ("compile-set", "-", "-o", "x.arrow", "--json", "--progress")
    result = cdec(*words, stdin=b"a\nb\n")
    assert len(result.records) == 1
    assert "entities, " in result.stderr


def _warnings(result: Result) -> list[str]:
    return [
        line.split()[1].rstrip(":")
        for line in result.stderr.splitlines()
        if line.startswith("warning ")
    ]


def test_notices_are_warnings_on_stderr_and_data_in_the_report(cdec: Runner) -> None:
    result = cdec("compile-set", "-", "-o", "x.arrow", "--json", stdin=b"a\r\na\r\n")
    codes = [notice["code"] for notice in json.loads(result.stdout)["notices"]]
    assert "W_CRLF" in codes and "W_DUPLICATES" in codes
    assert _warnings(result) == codes


def test_a_missing_input_leaves_nothing_behind(cdec: Runner) -> None:
    result = cdec("compile-set", "nope.txt")
    assert (result.status, result.error_code) == (66, "E_NOINPUT")
    assert list(Path().iterdir()) == []


def test_the_revision_reaches_the_tokenizer_loader(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cdec.core.tokens.vocabulary import Vocabulary

    seen = []
    load = Vocabulary.from_tokenizer

    def spy(source: Any, *, revision: str | None = None) -> Vocabulary:
        seen.append(revision)
        return load(source)

    monkeypatch.setattr(Vocabulary, "from_tokenizer", spy)
    _compile(cdec, "-", "-o", "x.arrow", "--revision", "abc", stdin=b"a\n")
    _compile(cdec, "-", "-o", "y.arrow", stdin=b"a\n")
    assert seen == ["abc", None]


# --- What a mismatch of tokenizers says: the command that compiles the artifact again.

CHARACTERS = sorted(set("Oslo Rome<>[],ab"))


@pytest.fixture
def foreign() -> str:
    """A tokenizer of single characters, which no shipped model has."""
    model = {
        "type": "BPE",
        "vocab": {character: number for number, character in enumerate(CHARACTERS)},
        "merges": [],
    }
    end = {"id": len(CHARACTERS), "content": "</s>", "special": True, "normalized": False}
    end |= {"single_word": False, "lstrip": False, "rstrip": False}
    spec = {"version": "1.0", "added_tokens": [end], "model": model}
    Path("tokenizer.json").write_text(json.dumps(spec))
    return "tokenizer.json"


def test_every_kind_has_its_command() -> None:
    assert [name for name, places in SOURCE_KINDS.items() if not places.command] == []


def again(cdec: Runner, artifact: str) -> str:
    """Return the command that a draw names where the artifact is of another tokenizer."""
    result = cdec("sample", "-a", artifact, "--prompt", "x", "--method", "greedy")
    assert (result.status, result.error_code) == (65, "E_TOKENIZER_MISMATCH")
    (hint,) = [line for line in result.stderr.splitlines() if line.startswith("hint: ")]
    return hint.removeprefix("hint: compile it again: ")


def test_the_command_compiles_a_set_as_it_was(cdec: Runner, foreign: str) -> None:
    Path("my towns.txt").write_text("Oslo\nRome\n")
    words = ("--suffix", ">", "--leading-space", "never", "-o", "t.arrow")
    assert cdec("compile-set", "my towns.txt", "--tokenizer", foreign, *words).status == 0
    command = shlex.split(again(cdec, "t.arrow"))
    assert command[:3] == ["cdec", "compile-set", "my towns.txt"]
    assert cdec(*command[1:]).status == 0
    (described,) = cdec("inspect", "t.arrow", "--json").records
    assert described["options"]["suffix"] == ">"
    assert described["options"]["leading_space"] == "never"
    (record,) = cdec("sample", "-a", "t.arrow", "--prompt", "x", "--method", "greedy").records
    assert record["text"] in ("Oslo", "Rome")


@pytest.mark.slow
def test_the_command_compiles_a_grammar_from_the_text_within(cdec: Runner, foreign: str) -> None:
    Path("ab.gbnf").write_text('root ::= "a" | "b"\n')
    assert cdec("compile-grammar", "ab.gbnf", "--tokenizer", foreign).status == 0
    assert again(cdec, "ab.arrow").startswith("cdec compile-grammar ab.gbnf --start root")
    Path("ab.gbnf").unlink()
    shown, text, compiled = again(cdec, "ab.arrow").split(" | ")
    assert (shown, text) == ("cdec inspect ab.arrow --json", "jq -r .grammar")
    (described,) = cdec(*shlex.split(shown)[1:]).records
    assert cdec(*shlex.split(compiled)[1:], stdin=described["grammar"].encode()).status == 0
    words = ("sample", "-a", "ab.arrow", "--prompt", "x", "--method", "greedy")
    assert cdec(*words).records[0]["text"] in ("a", "b")


# --- One rule for the blank that a set puts before its members, whichever command meets it.

PROMPT = ("--prompt", "Question: What is the capital of Italy?\nAnswer:")


def jsonl(*texts: str) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


def test_check_takes_a_text_with_the_blank_and_without(cdec: Runner, cities: Path) -> None:
    texts = jsonl("Rome", " Rome", "  Rome", " Romulus", "Romulus")
    verdicts = cdec("check", cities, "--format", "jsonl", "--field", "text", stdin=texts).records
    assert [v["valid"] for v in verdicts] == [True, True, False, False, False]
    assert [v["text"] for v in verdicts] == ["Rome", "Rome", " Rome", "Romulus", "Romulus"]
    assert verdicts[0]["entity_ids"] == verdicts[1]["entity_ids"]
    assert verdicts[3]["byte"] == verdicts[4]["byte"] == 3


@pytest.mark.usefixtures("loaded")
def test_unconstrained_texts_are_valid_where_check_says_so(cdec: Runner, cities: Path) -> None:
    words = ("-a", cities, "--method", "unconstrained", "-n", 200, "--temperature", 1.5)
    drawn = cdec("sample", *PROMPT, *words).records
    whole = [record for record in drawn if record["finish_reason"] == "complete"]
    texts = jsonl(*(record["text"] for record in whole))
    said = cdec("check", cities, "--format", "jsonl", "--field", "text", stdin=texts).records
    assert [v["valid"] for v in said] == [record["valid"] for record in whole]
    assert not any(record["text"].startswith(" ") and record["valid"] for record in whole)
    assert {record["text"] for record in whole if record["valid"]} <= set(MEMBERS)
    assert any(record["valid"] for record in whole)


@pytest.mark.usefixtures("loaded")
def test_score_reads_both_forms_alike_and_says_what_it_scored(cdec: Runner, cities: Path) -> None:
    texts = jsonl("Rome", " Rome")
    held = cdec("score", "-a", cities, *PROMPT, stdin=texts).records
    assert {score["logprob"] for score in held} == {held[0]["logprob"]}
    assert [score["scored_text"] for score in held] == [" Rome"] * 2
    assert all(score["member"] and score["valid"] for score in held)
    free = cdec("score", *PROMPT, stdin=texts).records
    assert [score["scored_text"] for score in free] == ["Rome", " Rome"]
    assert free[1]["logprob"] == pytest.approx(held[0]["logprob"], abs=1e-3)


@pytest.mark.usefixtures("loaded")
def test_candidates_and_denied_texts_may_have_the_blank(cdec: Runner, cities: Path) -> None:
    Path("denied.txt").write_text(" Rome\n")
    words = ("-a", cities, "--method", "topn", "-n", len(MEMBERS))
    left = cdec("sample", *PROMPT, *words, "--deny", "denied.txt").records
    assert {record["text"] for record in left} == set(MEMBERS) - {"Rome"}
    record = json.dumps({"prompt": "A city:", "candidates": [" Rome", "Oslo"]}).encode()
    chosen = cdec("sample", *words, "-i", "-", stdin=record + b"\n").records
    assert {record["text"] for record in chosen} == {"Rome", "Oslo"}
