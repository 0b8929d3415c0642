"""The command sample: records in, samples out, files of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdec.cli.runs import models
from tests.cli.conftest import MEMBERS, Runner, jsonl, texts_of

# --- cdec sample end to end: records in, samples out, and what every option changes.


OPEN_MODEL = models.open_model
PROMPT = ("--prompt", "The capital is")
TWO = jsonl({"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b"})


@pytest.mark.usefixtures("loaded")
def test_a_prompt_gives_one_disc_sample_with_the_documented_defaults(
    cdec: Runner, cities: Path
) -> None:
    result = cdec("sample", "-a", cities, *PROMPT)
    assert (result.status, result.stderr) == (0, "")
    (record,) = result.records
    assert record["text"] in MEMBERS
    assert record["valid"] is True
    assert record["method"] == "disc"
    assert record["exactness"] == "asymptotic"
    assert record["draws"] <= 8
    assert record["finish_reason"] == "complete"
    assert record["entity_ids"] == [f"Q{MEMBERS.index(record['text'])}"]


@pytest.mark.usefixtures("loaded")
def test_run_is_sample_with_the_artifact_in_its_place(cdec: Runner, cities: Path) -> None:
    assert cdec("run", cities, *PROMPT).stdout == cdec("sample", "-a", cities, *PROMPT).stdout


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("method", ["unconstrained", "greedy", "masked", "beam", "disc"])
def test_every_method_runs(cdec: Runner, cities: Path, method: str) -> None:
    words = ("--method", method, "-n", "2", "--max-new-tokens", "8")
    records = cdec("sample", "-a", cities, *PROMPT, *words).records
    assert [record["index"] for record in records] == [0, 1]
    assert {record["method"] for record in records} == {method}
    if method != "unconstrained":
        assert all(record["text"] in MEMBERS for record in records)


@pytest.mark.usefixtures("loaded")
def test_a_run_without_an_artifact_says_what_to_type(cdec: Runner) -> None:
    result = cdec("sample", *PROMPT)
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert "cdec sample -a" in result.stderr
    free = cdec("sample", *PROMPT, "--method", "unconstrained", "--max-new-tokens", "3")
    assert free.status == 0
    assert free.records[0]["valid"] is None


@pytest.mark.usefixtures("loaded")
def test_cdec_toml_may_set_options_of_other_methods(cdec: Runner, cities: Path) -> None:
    Path("cdec.toml").write_text(f'artifact = "{cities}"\nK = 2\nmethod = "masked"\nn = 3\n')
    result = cdec("sample", *PROMPT)
    assert result.status == 0, result.stderr
    assert [record["method"] for record in result.records] == ["masked"] * 3
    typed = cdec("sample", *PROMPT, "--method", "disc", "-n", "1")
    assert [record["method"] for record in typed.records] == ["disc"]


@pytest.mark.usefixtures("loaded")
def test_tries_bound_the_draws(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT, "-n", "16")
    assert max(record["draws"] for record in cdec(*words, "--K", "1").records) == 2
    assert max(record["draws"] for record in cdec(*words, "--K", "4").records) > 2
    assert cdec(*words, "--K", "0").error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded")
def test_recycling_needs_no_new_candidates(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT, "-n", "16", "--K", "2", "--recycle")
    assert max(record["draws"] for record in cdec(*words).records) == 2


@pytest.mark.usefixtures("loaded")
def test_top_m_says_what_it_missed(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT)
    assert "missed_mass" not in cdec(*words).records[0]
    record = cdec(*words, "--top-m", "50").records[0]
    assert record["missed_mass"] > 0
    assert record["log_weight"] is None


@pytest.mark.usefixtures("loaded")
def test_beams_give_distinct_texts_or_a_heuristic(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT)
    beams = texts_of(cdec(*words, "--method", "beam", "--beams", "4", "-n", "4"))
    assert len(set(beams)) == 4
    too_many = cdec(*words, "--method", "beam", "--beams", "2", "-n", "4")
    assert (too_many.status, too_many.error_code) == (2, "E_USAGE")
    assert cdec(*words, "--beams", "2").records[0]["exactness"] == "heuristic"


@pytest.mark.usefixtures("loaded")
def test_seeds_decide_the_draws(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT, "-n", "12", "--method", "masked")
    assert texts_of(cdec(*words)) == texts_of(cdec(*words, "--seed", "0"))
    assert texts_of(cdec(*words)) != texts_of(cdec(*words, "--seed", "1"))
    assert cdec(*words, "--seed", "-1").error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded")
def test_warping_changes_the_probabilities(cdec: Runner, cities: Path) -> None:
    words = ("sample", "-a", cities, *PROMPT, "--method", "greedy")
    plain = cdec(*words).records[0]["logprob"]
    assert cdec(*words, "--temperature", "0.5").records[0]["logprob"] != plain
    assert cdec(*words, "--top-k", "4000").records[0]["logprob"] >= plain
    assert cdec(*words, "--top-p", "0.999999").records[0]["logprob"] >= plain
    for wrong in (("--temperature", "0"), ("--temperature", "-1"), ("--top-k", "0")):
        assert cdec(*words, *wrong).error_code == "E_USAGE"
    assert cdec(*words, "--top-p", "2").error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded")
def test_top_k_and_top_p_cut_the_distribution(cdec: Runner) -> None:
    words = ("sample", "--method", "unconstrained", "--max-new-tokens", "6", *PROMPT, "-n", "8")
    assert len(set(texts_of(cdec(*words)))) > 1
    assert len(set(texts_of(cdec(*words, "--top-k", "1")))) == 1
    assert len(set(texts_of(cdec(*words, "--top-p", "0.0001")))) == 1


@pytest.mark.usefixtures("loaded")
def test_the_length_limit_is_reported(cdec: Runner, cities: Path) -> None:
    words = ("sample", "--method", "unconstrained", *PROMPT, "--max-new-tokens", "2", "-n", "8")
    assert max(len(record["token_ids"]) for record in cdec(*words).records) == 2
    assert {record["finish_reason"] for record in cdec(*words).records} >= {"length"}


@pytest.mark.usefixtures("loaded")
def test_fields_select_and_order(cdec: Runner, cities: Path) -> None:
    (record,) = cdec("sample", "-a", cities, *PROMPT, "--fields", "text, id").records
    assert list(record) == ["text", "id"]
    wrong = cdec("sample", "-a", cities, *PROMPT, "--fields", "txt")
    assert wrong.error_code == "E_USAGE" and "'text'" in wrong.stderr


@pytest.mark.usefixtures("loaded")
def test_model_options_reach_the_loader(
    cdec: Runner, cities: Path, embedded_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cdec.core.models import loading

    calls: list[tuple[str, dict[str, Any]]] = []

    def load(name: str, **keywords: Any) -> Any:
        calls.append((name, keywords))
        return embedded_model

    monkeypatch.setattr(models, "open_model", OPEN_MODEL)
    monkeypatch.setattr(loading, "load_model", load)
    words = (
        *("--model", "m", "--device", "cpu", "--dtype", "float64", "--device-map", "auto"),
        *("--attn-implementation", "eager", "--revision", "abc", "--quantization", "8bit"),
        *("--trust-remote-code", "--allow-pickle", "--allow-special", "--prefix-cache", "3"),
        "--compile",
    )
    result = cdec("sample", "-a", cities, *PROMPT, *words)
    assert result.status == 0, result.stderr
    assert calls == [
        (
            "m",
            {
                "device": "cpu",
                "dtype": "float64",
                "device_map": "auto",
                "attn_implementation": "eager",
                "revision": "abc",
                "trust_remote_code": True,
                "allow_pickle": True,
                "quantization": "8bit",
                "allow_special": True,
                "compile": True,
                "template_args": None,
                "chat": None,
                "prefix_cache_bytes": 3 << 20,
            },
        )
    ]


# --- cdec sample and its records: own options, bad records, constraints by name, templates,
# limits.


@pytest.mark.usefixtures("loaded")
def test_records_bring_their_own_options(cdec: Runner, cities: Path) -> None:
    data = jsonl(
        {"id": "a", "prompt": "x", "n": 3, "seed": 5, "gold": "Rome"},
        {"id": "b", "prompt": "x", "temperature": 0.5},
        {"id": "c", "prompt": "x", "candidates": ["Oslo", "Q2"]},
        {"id": "d", "messages": [{"role": "user", "content": "Where?"}]},
    )
    result = cdec("sample", "-a", cities, "--seed", "9", stdin=data)
    assert result.status == 0, result.stderr
    assert [(r["id"], r["index"]) for r in result.records] == [
        ("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("d", 0),
    ]  # fmt: skip
    assert result.records[0]["input"] == {"gold": "Rome"}
    assert "input" not in result.records[3]
    assert result.records[4]["text"] in ("Oslo", "Rome")
    again = cdec("sample", "-a", cities, stdin=jsonl({"id": "a", "prompt": "x", "seed": 5}))
    assert again.records[0]["seed"] == result.records[0]["seed"]


@pytest.mark.usefixtures("loaded")
def test_bad_records_stay_in_their_place(cdec: Runner, cities: Path) -> None:
    data = (
        jsonl({"id": 1, "prompt": "a"})
        + b"{oops\n"
        + jsonl(
            {"id": 3, "prompt": "b", "candidates": ["Atlantis"]},
            {"id": 4, "prompt": "b", "constraint": "nope"},
            {"id": 5, "prompt": "b", "regex": ""},
            {"id": 6, "prompt": "c"},
        )
    )
    result = cdec("sample", "-a", cities, stdin=data)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [None, "E_JSON", "E_FIELD", "E_FIELD", "E_FIELD", None]
    assert [record["id"] for record in result.records[2:]] == [3, 4, 5, 6]
    assert "Atlantis" in result.records[2]["error"]["message"]
    assert "field 'regex' is empty" in result.records[4]["error"]["message"]


@pytest.mark.usefixtures("loaded")
def test_strict_stops_at_the_first_bad_record_with_its_own_status(
    cdec: Runner, cities: Path
) -> None:
    data = jsonl({"id": 1, "prompt": "a"}) + b"{oops\n" + jsonl({"id": 3, "prompt": "b"})
    result = cdec("sample", "-a", cities, "--strict", stdin=data)
    assert (result.status, result.error_code) == (65, "E_JSON")
    assert [record["id"] for record in result.records] == [1]


@pytest.mark.usefixtures("loaded")
def test_records_choose_among_named_constraints(
    cdec: Runner, cities: Path, embedded_model: Any
) -> None:
    from cdec.compilers import compile_set

    compile_set(["red", "green"], embedded_model.vocabulary, "colours.arrow")
    data = jsonl(
        {"id": 1, "prompt": "x", "constraint": "colours"},
        {"id": 2, "prompt": "x", "constraint": "cities"},
        {"id": 3, "prompt": "x"},
    )
    words = ("--constraint", "colours=colours.arrow", "--constraint", f"cities={cities}")
    result = cdec("sample", *words, stdin=data)
    assert result.status == 3
    assert result.records[0]["text"] in ("red", "green")
    assert result.records[1]["text"] in MEMBERS
    assert result.records[2]["error"]["code"] == "E_FIELD"
    assert cdec("sample", "-a", "colours.arrow", *words, stdin=data).status == 0
    for wrong in ("colours", "=x", "a="):
        assert cdec("sample", "--constraint", wrong, stdin=data).error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded")
def test_denied_texts_are_never_emitted(cdec: Runner, cities: Path) -> None:
    Path("deny.txt").write_text("\n".join(MEMBERS[1:]) + "\nAtlantis\n", encoding="utf-8")
    result = cdec("sample", "-a", cities, *PROMPT, "-n", "5", "--deny", "deny.txt")
    assert set(texts_of(result)) == {"Paris"}
    assert "W_DENY_UNKNOWN" in result.stderr
    Path("deny.txt").write_text("\n".join(MEMBERS) + "\n", encoding="utf-8")
    assert cdec("sample", "-a", cities, *PROMPT, "--deny", "deny.txt").error_code == "E_EMPTY_SET"


@pytest.mark.usefixtures("loaded")
def test_templates_fill_prompts_from_fields(
    cdec: Runner, cities: Path, monkeypatch: pytest.MonkeyPatch, embedded_model: Any
) -> None:
    seen = []
    encode = embedded_model.encode_prompt
    monkeypatch.setattr(embedded_model, "encode_prompt", lambda p: seen.append(p) or encode(p))
    Path("t.txt").write_text("Q: {query}\nA:")
    data = jsonl({"id": 1, "query": "Where?"}, {"id": 2})
    result = cdec("sample", "-a", cities, "--template", "t.txt", stdin=data)
    assert seen[0] == "Q: Where?\nA:"
    assert result.records[1]["error"]["field"] == "query"
    Path("t.txt").write_text("{")
    bad = cdec("sample", "-a", cities, "--template", "t.txt", stdin=data)
    assert bad.error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded")
def test_prompts_come_from_one_place(cdec: Runner, cities: Path) -> None:
    Path("p.txt").write_text("one\ntwo\n")
    assert len(cdec("sample", "-a", cities, "-i", "p.txt").records) == 2
    assert len(cdec("sample", "-a", cities, "--prompt", "a", "--prompt", "b").records) == 2
    both = cdec("sample", "-a", cities, "-i", "p.txt", "--prompt", "a")
    assert both.error_code == "E_USAGE"
    missing = cdec("sample", "-a", cities, "-i", "nope.txt")
    assert (missing.status, missing.error_code) == (66, "E_NOINPUT")


@pytest.mark.usefixtures("loaded")
def test_input_limits(cdec: Runner, cities: Path) -> None:
    data = jsonl({"id": 1, "prompt": "x" * 50}, {"id": 2, "prompt": "y", "n": 3})
    long = cdec("sample", "-a", cities, "--max-line-bytes", "40", stdin=data)
    assert long.records[0]["error"]["code"] == "E_LINE_TOO_LONG"
    many = cdec("sample", "-a", cities, "--max-n", "2", stdin=data)
    assert many.records[-1]["error"]["code"] == "E_LIMIT"
    assert cdec("sample", "-a", cities, stdin=data).status == 0


# --- cdec sample and its output: files, resuming, batches, streams; on a model that costs
# nothing.


def test_batches_change_no_draw(cdec: Runner, letters: Path) -> None:
    data = jsonl(*({"id": i, "prompt": f"number {i}"} for i in range(7)))
    words = ("sample", "-a", letters, "-n", "2", "--fields", "id,index,text,seed")
    assert cdec(*words, stdin=data).stdout == cdec(*words, "--batch-size", "2", stdin=data).stdout
    assert cdec(*words, "--batch-size", "0", stdin=data).error_code == "E_USAGE"


def test_split_pieces_give_what_the_whole_gives(cdec: Runner, letters: Path) -> None:
    lines = [f"prompt number {i}\n".encode() for i in range(6)]
    words = ("sample", "-a", letters, "--fields", "id,index,text,seed")
    whole = cdec(*words, stdin=b"".join(lines)).stdout
    parts = [cdec(*words, stdin=b"".join(lines[i : i + 2])).stdout for i in (0, 2, 4)]
    assert b"".join(parts) == whole


def test_output_files(cdec: Runner, letters: Path) -> None:
    words = ("sample", "-a", letters, "-o", "out.jsonl")
    first = cdec(*words, stdin=TWO)
    assert (first.status, first.stdout) == (0, b"")
    lines = Path("out.jsonl").read_bytes()
    assert len(lines.splitlines()) == 2
    again = cdec(*words, stdin=TWO)
    assert (again.status, again.error_code) == (73, "E_EXISTS")
    assert "--force" in again.stderr and "--resume" in again.stderr
    assert Path("out.jsonl").read_bytes() == lines
    assert cdec(*words, "--force", "--seed", "3", stdin=TWO).status == 0
    assert Path("out.jsonl").read_bytes() != lines


@pytest.mark.parametrize(
    "words",
    [
        ("-a", "nope.arrow"),
        ("--temperature", "0"),
        ("--top-p", "2"),
        ("--method", "beam", "--beams", "2", "-n", "3"),
        ("--deny", "nope.txt"),
        ("--template", "nope.txt"),
        ("--constraint", "x=nope.arrow"),
        ("--fields", "nothing"),
    ],
)
def test_a_run_that_cannot_begin_leaves_the_old_output(
    cdec: Runner, letters: Path, words: tuple[str, ...]
) -> None:
    Path("out.jsonl").write_text("precious\n")
    result = cdec("sample", "-a", letters, "-o", "out.jsonl", "--force", *words, stdin=TWO)
    assert result.status in (2, 66)
    assert Path("out.jsonl").read_text() == "precious\n"


def test_the_manifest_notices_another_template_or_deny_list(cdec: Runner, letters: Path) -> None:
    words = ("sample", "-a", letters, "-o", "out.jsonl", "--template", "t.txt", "--deny", "d.txt")
    Path("t.txt").write_text("Q: {prompt}")
    Path("d.txt").write_text("a\n")
    assert cdec(*words, stdin=TWO).status == 0
    assert cdec(*words, "--resume", stdin=TWO).status == 0
    Path("t.txt").write_text("A: {prompt}")
    assert "template" in cdec(*words, "--resume", stdin=TWO).stderr
    Path("t.txt").write_text("Q: {prompt}")
    Path("d.txt").write_text("ab\n")
    assert "deny" in cdec(*words, "--resume", stdin=TWO).stderr


def test_the_output_may_be_no_input(cdec: Runner, letters: Path) -> None:
    Path("p.jsonl").write_bytes(TWO)
    for words in (("-o", "p.jsonl", "--force"), ("-o", "./p.jsonl")):
        result = cdec("sample", "-a", letters, "-i", "p.jsonl", *words)
        assert (result.status, result.error_code) == (2, "E_USAGE")
    assert Path("p.jsonl").read_bytes() == TWO


@pytest.mark.slow
def test_resume_writes_what_is_missing(cdec: Runner, letters: Path) -> None:
    # Probabilities may differ in the last digits with the batch, so they are left out.
    words = ("sample", "-a", letters, "-n", "3", "-o", "out.jsonl", "--fields", "id,index,text")
    data = jsonl(
        {"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b", "n": 0}, {"id": 3, "prompt": "c"}
    )
    assert cdec(*words, stdin=data).status == 3
    whole = Path("out.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    for torn in (b"", lines[-1][:10], '{"id": 5, "text": "\u00e9'.encode()[:-1], b"\0\0\0"):
        for kept in range(len(lines)):
            Path("out.jsonl").write_bytes(b"".join(lines[:kept]) + torn)
            result = cdec(*words, "--resume", stdin=data)
            # An error object that is there already counts as well.
            assert result.status == 3, result.stderr
            assert Path("out.jsonl").read_bytes() == whole


def test_resume_refuses_another_configuration(cdec: Runner, letters: Path) -> None:
    words = ("sample", "-a", letters, "-o", "out.jsonl")
    assert cdec(*words, "--seed", "1", stdin=TWO).status == 0
    result = cdec(*words, "--seed", "2", "--resume", stdin=TWO)
    assert (result.status, result.error_code) == (65, "E_RESUME_MISMATCH")
    assert "seed was 1, is 2" in result.stderr
    same = cdec(*words, "--seed", "1", "--batch-size", "1", "--resume", stdin=TWO)
    assert (same.status, len(Path("out.jsonl").read_bytes().splitlines())) == (0, 2)


def test_resume_needs_a_file_and_its_keys(cdec: Runner, letters: Path) -> None:
    for words in ((), ("-o", "x", "--force"), ("-o", "x", "--fields", "text")):
        result = cdec("sample", "-a", letters, "--resume", *words, stdin=TWO)
        assert (result.status, result.error_code) == (2, "E_USAGE")


def test_secrets_do_not_reach_the_manifest(
    cdec: Runner, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdef")
    assert cdec("sample", "-a", letters, "-o", "out.jsonl", stdin=TWO).status == 0
    assert "hf_0123456789abcdef" not in Path("out.jsonl.manifest.json").read_text()


def test_stdout_stays_clean_with_warnings_and_progress(cdec: Runner, letters: Path) -> None:
    Path("deny.txt").write_text("Atlantis\n")
    result = cdec("sample", "-a", letters, "--deny", "deny.txt", "--progress", stdin=TWO)
    assert len(result.records) == 2
    assert "W_DENY_UNKNOWN" in result.stderr and "2 records" in result.stderr
    quiet = cdec("sample", "-a", letters, "--deny", "deny.txt", "-q", "--progress", stdin=TWO)
    assert quiet.stderr == ""
