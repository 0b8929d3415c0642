"""cdec mass and --tree end to end: estimates and bounds out, trees kept and refused."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from cdec.compilers import compile_grammar

from .conftest import Runner

TRUTH = sum(4.0**-n for n in (2, 3, 3, 4, 3, 4))
"""Of the letters under a uniform model of four events."""


def jsonl(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_mass_of_the_letters(cdec: Runner, letters: Path) -> None:
    result = cdec("mass", "-a", letters, "--prompt", "x")
    assert (result.status, result.stderr) == (0, "")
    (record,) = result.records
    assert list(record)[:10] == [
        *("id", "mass", "mass_lower", "mass_upper"),
        *("log_mass", "log_mass_se", "log_mass_reliable", "log_mass_unclipped"),
        *("log_mass_lower", "log_mass_upper"),
    ]
    assert record["mass_lower"] == pytest.approx(TRUTH) == pytest.approx(record["mass_upper"])
    assert record["log_mass_lower"] == pytest.approx(math.log(TRUTH))
    assert record["log_mass"] == pytest.approx(math.log(TRUTH))
    assert record["log_mass_reliable"] is True
    assert (record["candidates"], record["round"], record["converged"]) == (256, 16, None)


def test_options_change_what_is_measured(cdec: Runner, letters: Path) -> None:
    def one(*words: object) -> Any:
        (record,) = cdec("mass", "-a", letters, "--prompt", "x", *words).records
        return record

    plain = one("--candidates", 40)
    assert one("--candidates", 40) == plain
    assert plain["candidates"] == 40
    few = one("--candidates", 5, "--no-remember")
    assert one("--candidates", 5, "--no-remember", "--seed", 3)["log_mass"] != few["log_mass"]
    assert one("--candidates", 5, "--round", 1)["log_mass"] != few["log_mass"]
    assert few["log_mass_se"] > plain["log_mass_se"]
    early = one("--until-converged", "0.001")
    assert early["candidates"] < 256
    assert (early["mass"], early["converged"]) == (None, True)
    assert one("--max-new-tokens", 1)["mass_lower"] == pytest.approx(1 / 16)
    assert one("--max-new-tokens", 1)["length_mass_upper"] > 0
    assert one("--top-p", "0.2")["mass_upper"] != pytest.approx(TRUTH)
    Path("deny.txt").write_text("a\n")
    assert one("--deny", "deny.txt")["mass_upper"] == pytest.approx(TRUTH - 1 / 16)
    assert one("--and", letters)["mass_upper"] == pytest.approx(TRUTH)


def test_records_keep_their_order_and_bring_their_own_options(cdec: Runner, letters: Path) -> None:
    data = jsonl(
        {"id": "few", "prompt": "x", "candidates": ["a", "ab"]},
        {"id": "bad", "prompt": 4},
        {"id": "warm", "prompt": "x", "temperature": 0.5, "n": 10**9},
        {"id": "short", "prompt": "x", "max_tokens": 1},
        {"id": "named", "prompt": "x", "constraint": "nobody"},
        {"id": "seed", "prompt": "x", "seed": 1},
    )
    words = ("mass", "-a", letters, "--candidates", "30")
    result = cdec(*words, stdin=data)
    assert result.status == 3
    ids = [record["id"] for record in result.records]
    assert ids == ["few", "bad", "warm", "short", "named", "seed"]
    few, bad, _, short, named, _ = result.records
    assert few["mass_upper"] == pytest.approx(1 / 16 + 1 / 64)
    assert (bad["error"]["code"], named["error"]["code"]) == ("E_FIELD", "E_FIELD")
    assert short["mass_lower"] == pytest.approx(1 / 16)
    for size in ("1", "2", "64"):
        assert cdec(*words, "--batch-size", size, stdin=data).stdout == result.stdout
    strict = cdec(*words, "--strict", "--batch-size", "1", stdin=data)
    assert (strict.status, strict.error_code) == (65, "E_FIELD")
    assert [record["id"] for record in strict.records] == ["few"]


def test_a_terminal_gets_a_table(
    cdec: Runner, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("mass", "-a", letters, "--candidates", "30", "-i", "in.jsonl")
    Path("in.jsonl").write_bytes(jsonl({"id": "q\u202e", "prompt": "x"}, {"id": 2, "prompt": 4}))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    result = cdec(*words)
    head, first, second = result.stdout.decode().splitlines()
    assert head.split() == [
        "id",
        "mass",
        "error",
        "reliable",
        "lower",
        "upper",
        "candidates",
        "evaluations",
    ]
    assert first.split()[0] == r"q\u202e"
    assert [float(cell) for cell in first.split()[4:]] == pytest.approx(
        [TRUTH, TRUTH, 30, 10], 1e-4
    )
    assert "E_FIELD" in second
    assert cdec(*words, "--json").records[0]["candidates"] == 30


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--prompt", "x"), "compile-set"),
        (("-a", "ARTIFACT", "--prompt", "x", "--candidates", "0"), None),
        (("-a", "ARTIFACT", "--prompt", "x", "--temperature", "0"), "--temperature is 0"),
        (("-a", "ARTIFACT", "--prompt", "x", "--top-p", "2"), "--top-p must lie"),
        (("-a", "ARTIFACT", "--prompt", "x", "--until-converged", "0"), "nats"),
        (("-a", "ARTIFACT", "--prompt", "x", "--tree", "t.arrow", "--no-remember"), "one of them"),
        (("-a", "ARTIFACT", "--prompt", "x", "--tree", "-"), "name a file"),
        (("-a", "ARTIFACT", "--prompt", "x", "--heal"), "leave --heal out"),
        (("-a", "ARTIFACT", "--prompt", "x", "-i", "f"), "one of them"),
        (("-a", "ARTIFACT", "--prompt", "x", "--tre", "t.arrow"), None),
    ],
)
def test_what_makes_no_sense_is_refused(
    cdec: Runner, letters: Path, words: tuple[str, ...], hint: str | None
) -> None:
    result = cdec("mass", *(letters if word == "ARTIFACT" else word for word in words))
    assert (result.status, result.stdout) == (2, b"")
    assert hint is None or hint in result.stderr
    assert cdec("mass", stdin=b"x\n").error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded")
def test_a_tree_goes_on_where_the_last_run_stopped(cdec: Runner, embedded_model: Any) -> None:
    compile_grammar("start: /[ a-z]{1,8}[.]/\n", embedded_model.vocabulary, "word.arrow")
    words = ("-a", "word.arrow", "--prompt", "A word:", "--tree", "tree.arrow", "--round", "4")
    fields = ("--fields", "iteration,log_mass_lower,log_mass_upper,log_mass")
    draw = ("sample", "--method", "exact", "-n", "5", *words, *fields)
    first = cdec(*draw)
    assert first.status == 0
    # What the second run begins with is what one more candidate cannot widen.
    second = cdec(*draw)
    assert second.status == 0
    ends, begins = first.records[-1], second.records[0]
    assert begins["log_mass_upper"] <= ends["log_mass_upper"]
    assert begins["log_mass_lower"] >= ends["log_mass_lower"]
    assert begins["iteration"] > ends["iteration"]
    (measured,) = cdec("mass", *words, "--candidates", "1").records
    assert measured["log_mass_upper"] <= begins["log_mass_upper"]
    (fresh,) = cdec("mass", *words[:4], "--candidates", "1").records
    assert measured["log_mass_upper"] < fresh["log_mass_upper"]
    for other, name in (
        (("--temperature", "0.7"), "temperature 0.7"),
        (("--top-k", "3"), "top-k 3"),
        (("--heal",), "--heal"),
        (("--lookahead", "0"), "--lookahead"),
    ):
        refused = cdec("mass", *words, *other)
        assert (refused.status, refused.error_code, refused.stdout) == (65, "E_TREE_MISMATCH", b"")
        assert name in refused.stderr


def test_a_tree_is_of_one_artifact_narrowed_in_one_way(cdec: Runner, letters: Path) -> None:
    words = ("--prompt", "x", "--tree", "tree.arrow", "--candidates", "20")
    assert cdec("mass", "-a", letters, *words).status == 0
    kept = Path("tree.arrow").read_bytes()
    Path("deny.txt").write_text("ab\n")
    narrowed: dict[str, tuple[object, ...]] = {
        "--deny": ("--deny", "deny.txt"),
        "--and": ("--and", letters),
    }
    for part, more in narrowed.items():
        result = cdec("mass", "-a", letters, *more, *words)
        assert (result.status, result.error_code) == (65, "E_TREE_MISMATCH")
        assert part in result.stderr
    # An artifact is known by its digest, whatever it is called.
    data = jsonl({"id": 1, "prompt": "x", "constraint": "x"})
    named = ("--constraint", f"x={letters}", *words[2:])
    assert cdec("mass", *named, stdin=data).status == 0
    few = jsonl({"id": 1, "prompt": "x", "candidates": ["a"]})
    assert cdec("mass", "-a", letters, *words[2:], stdin=few).error_code == "E_TREE_MISMATCH"
    assert Path("tree.arrow").read_bytes() != kept


def test_a_tree_that_makes_no_sense_is_refused_before_anything_is_drawn(
    cdec: Runner, letters: Path
) -> None:
    sample = ("sample", "-a", letters, "--tree", "tree.arrow", "--method", "exact")
    two = cdec(*sample, "--prompt", "x", "--prompt", "y")
    assert (two.status, two.error_code) == (2, "E_USAGE")
    assert "one record" in two.stderr
    assert cdec(*sample, stdin=b"x\ny\n").status == 2
    assert cdec("mass", "-a", letters, "--tree", "tree.arrow", stdin=b"x\ny\n").status == 2
    for method in ("masked", "disc", "smc", "unconstrained"):
        other = cdec(*sample[:-1], method, "--prompt", "x")
        assert (other.status, other.error_code) == (2, "E_USAGE")
        assert f"--tree means nothing to --method {method}" in other.stderr
    for method in ("masked", "disc", "asap", "exact"):
        typo = cdec("sample", "-a", letters, "--method", method, "--tre", "x", "--prompt", "x")
        assert typo.status == 2
    resumed = cdec(*sample, "--prompt", "x", "-o", "out.jsonl", "--resume")
    assert "--resume" in resumed.stderr
    assert cdec(*sample, "--prompt", "x", "-o", "tree.arrow").error_code == "E_USAGE"
    assert not Path("tree.arrow").exists()
    missing = cdec(*sample, "--prompt", "x", "--tree", "none/tree.arrow")
    assert (missing.status, missing.error_code) == (74, "E_IO")
    wrong = cdec(*sample, "--prompt", "x", "--tree", letters)
    assert (wrong.status, wrong.error_code) == (65, "E_ARTIFACT_VERSION")
    # No tree at all: an empty input draws nothing and keeps nothing.
    assert cdec(*sample, stdin=b"").status == 0
    assert not Path("tree.arrow").exists()
