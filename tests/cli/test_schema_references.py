"""Documents that schemas refer to, on the command line: given by name, and never looked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.compile_schema import SCHEMAS
from cdec.core.artifacts.opened import read_artifact
from tests.cli.conftest import Runner, jsonl

URL = "https://x.org/colour.json"
CAR = {"type": "object", "properties": {"c": {"$ref": URL}}, "required": ["c"],
       "additionalProperties": False}  # fmt: skip
SAMPLE = ("sample", "--method", "masked", "--max-new-tokens", "30", "--no-progress")
PROMPT = ("--prompt", "x", "-n", "2")

pytestmark = pytest.mark.usefixtures("grammar_child")


@pytest.fixture(autouse=True)
def work(cdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the sources into the working directory; the cache is empty."""
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    Path("refs").mkdir()
    Path("car.json").write_text(json.dumps(CAR))
    Path("refs/colour.json").write_text('{"enum": ["red", "blue"]}')
    Path("refs/other.json").write_text("{}")


def colours(records: list[dict[str, Any]]) -> set[str]:
    return {json.loads(record["text"])["c"] for record in records}


@pytest.mark.share(1)
@pytest.mark.parametrize(
    "words", [("--ref", f"{URL}=refs/colour.json"), ("--ref-dir", "refs")], ids=["ref", "folder"]
)
def test_an_artifact_says_what_it_refers_to(cdec: Runner, words: tuple[str, ...]) -> None:
    (said,) = cdec("compile-schema", "car.json", *words, "--json").records
    (one,) = said["references"]
    assert one["uri"] == URL and one["file"] == "refs/colour.json" and len(one["digest"]) == 64
    shown = cdec("inspect", "car.arrow").stdout.decode()
    assert "refers to" in shown and one["digest"][:12] in shown
    (described,) = cdec("inspect", "car.arrow", "--json").records
    assert f"--ref {URL}=refs/colour.json" in SCHEMAS.again(Path("car.arrow"), described)
    assert [row["digest"] for row in described["references"]] == [one["digest"]]
    assert cdec("inspect", "car.arrow", "--verify").status == 0
    checked = cdec("check", "car.arrow", stdin=b'{"c":"red"}\n{"c":"green"}\n').records
    assert [record["valid"] for record in checked] == [True, False]


def test_a_changed_document_is_noticed_and_others_are_not(cdec: Runner) -> None:
    compiling = ("compile-schema", "car.json", "--ref-dir", "refs")
    assert cdec(*compiling).status == 0
    Path("refs/other.json").write_text('{"type": "null"}')
    assert "up to date" in cdec(*compiling).stderr
    Path("refs/colour.json").write_text('{"enum": ["green"]}')
    changed = cdec(*compiling)
    assert changed.error_code == "E_EXISTS" and "another --ref" in changed.stderr
    assert cdec(*compiling, "--force").status == 0
    assert '"green"' in read_artifact("car.arrow").metadata["cdec.references"].replace("\\", "")


def test_what_was_not_given_is_an_error_that_says_what_to_type(cdec: Runner) -> None:
    Path("colour.json").write_text('{"enum": ["red"]}')
    refused = cdec("compile-schema", "car.json")
    assert (refused.status, refused.error_code) == (65, "E_SCHEMA_REF")
    assert URL in refused.stderr and f"--ref {URL}=FILE" in refused.stderr
    assert "--ref-dir DIR" in refused.stderr
    for words, status in (
        (("--ref", URL), 2),
        (("--ref", f"{URL}=none.json"), 66),
        (("--ref-dir", "none"), 66),
        (("--ref-dir", "refs", "--max-reference-bytes", "5"), 75),
    ):
        assert cdec("compile-schema", "car.json", *words).status == status, words


@pytest.mark.usefixtures("loaded")
def test_one_line_refers_to_what_is_given_and_keeps_it_by_content(cdec: Runner) -> None:
    words = (*SAMPLE, *PROMPT, "--schema", "car.json", "--ref-dir", "refs")
    assert colours(cdec(*words).records) <= {"red", "blue"}
    Path("refs/colour.json").write_text('{"enum": ["green"]}')
    assert colours(cdec(*words).records) == {"green"}
    assert cdec(*words[:-2]).error_code == "E_SCHEMA_REF"


@pytest.mark.usefixtures("loaded")
def test_records_refer_to_what_the_run_allowed_and_to_nothing_else(cdec: Runner) -> None:
    records = jsonl(
        {"id": "a", "prompt": "x", "schema": CAR},
        {"id": "b", "prompt": "x", "schema": {"$ref": "refs/other.json"}},
        {"id": "c", "prompt": "x", "schema": {"$ref": f"file://{Path.cwd()}/refs/other.json"}},
    )
    done = cdec(*SAMPLE, "--ref", f"{URL}=refs/colour.json", stdin=records)
    assert done.status == 3
    by_id = {record["id"]: record for record in done.records}
    assert colours([by_id["a"]]) <= {"red", "blue"}
    for name in "bc":
        assert by_id[name]["error"]["code"] == "E_SCHEMA_REF"
    assert cdec(*SAMPLE, stdin=records).records[0]["error"]["code"] == "E_SCHEMA_REF"


@pytest.mark.usefixtures("loaded")
def test_batch_files_refer_to_what_the_run_allowed(cdec: Runner) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "cdec": {"schema": CAR}}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    words = (*SAMPLE, "--openai-batch", "--allow", "schema")
    (allowed,) = cdec(*words, "--ref-dir", "refs", stdin=jsonl(line)).records
    text = allowed["response"]["body"]["choices"][0]["message"]["content"]
    assert json.loads(text)["c"] in ("red", "blue")
    (refused,) = cdec(*words, stdin=jsonl(line)).records
    assert refused["error"]["code"] == "E_SCHEMA_REF"
