"""Records sampled from Python, and their faults."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from cdec.cli.app import main
from cdec.core.errors import CdecError, DataError, DuplicateIdError, ExtraMissingError, UsageError
from cdec.integrations.records import RecordSampler, sample_records
from cdec.integrations.records.faults import as_cdec_error

# --- Records in, records out: the samples of dicts are those of a file on the command line.

RECORDS: list[dict[str, Any]] = [
    {"id": "a", "prompt": "The capital of France is", "n": 3, "seed": 5, "gold": "Paris"},
    {"prompt": "The capital of Italy is", "temperature": 0.5},
    {"prompt": "The capital of Italy is", "temperature": 0.5},
    {"id": 7, "prompt": "x", "candidates": ["Oslo", "Rome"], "max_tokens": 4},
    {"id": "bad", "prompt": "x", "constraint": "nope"},
    {"id": "worse", "prompt": 3},
    {"id": "late", "prompt": "x", "constraint": "letters"},
    {"id": "own", "prompt": "x", "regex": "[ab]{2}"},
    {"id": "open", "prompt": "x", "regex": "[ab"},
    {"id": "chat", "messages": [{"role": "user", "content": "Where?"}]},
]


@pytest.fixture(scope="module")
def artifacts(model: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from cdec.compilers import compile_set

    folder = tmp_path_factory.mktemp("artifacts")
    lists = {"cities": ["Paris", "Rome", "Oslo", "New York"], "letters": ["a", "b", "c"]}
    for name, texts in lists.items():
        compile_set(texts, model.vocabulary, folder / f"{name}.arrow")
    return {name: folder / f"{name}.arrow" for name in lists}


@pytest.fixture
def printed(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """What ``cdec sample`` prints for these records, without what a batch costs."""

    def run(records: list[dict[str, Any]], *words: str) -> list[dict[str, Any]]:
        prompts = tmp_path / "prompts.jsonl"
        prompts.write_text("".join(json.dumps(record) + "\n" for record in records))
        main(["sample", "-i", str(prompts), *words])
        found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        return [without_place(record, str(prompts)) for record in found]

    return run


def without_place(record: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a record without what an input is called, and how an option is typed."""
    if "error" not in record:
        return record
    code, message = record["error"]["code"], record["error"]["message"]
    return {"id": record["id"], "code": code, "message": message.replace(name, "records")}


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        pytest.param("disc", {"K": 3}, ["--K", "3"], marks=pytest.mark.heavy),
        ("masked", {"n": 2, "top_k": 40}, ["-n", "2", "--top-k", "40"]),
        pytest.param("speculative", {"gamma": 2}, ["--gamma", "2"], marks=pytest.mark.heavy),
        pytest.param(
            "asap", {"n": 4, "round": 2}, ["-n", "4", "--round", "2"], marks=pytest.mark.heavy
        ),
    ],
)
def test_the_samples_are_those_of_the_command_line(
    model: Any,
    artifacts: dict[str, Path],
    printed: Any,
    method: str,
    options: dict[str, Any],
    words: list[str],
) -> None:
    named = f"letters={artifacts['letters']}"
    common = ["-a", str(artifacts["cities"]), "--constraint", named, "--seed", "3"]
    expected = printed(RECORDS, "--method", method, *common, *words)
    with RecordSampler(
        "embedded",
        method,
        artifact=artifacts["cities"],
        constraint={"letters": artifacts["letters"]},
        seed=3,
        **options,
    ) as sampler:
        found = [without_place(record, "records") for record in sampler.sample(RECORDS)]
    assert found == expected
    bad = {record["id"]: record["code"] for record in found if "code" in record}
    assert bad == {"bad": "E_FIELD", "worse": "E_FIELD", "open": "E_REGEX_SYNTAX"}
    assert len(found) > len(RECORDS)


def test_the_trace_is_that_of_the_command_line(
    model: Any, artifacts: dict[str, Path], printed: Any, tmp_path: Path
) -> None:
    words = ["-a", str(artifacts["cities"]), "--method", "masked", "-n", "2"]
    printed(RECORDS[:3], *words, "--trace", str(tmp_path / "t.jsonl"))
    expected = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    lines: list[dict[str, Any]] = []
    settings = {"artifact": artifacts["cities"], "method": "masked", "n": 2}
    traced = list(
        sample_records(RECORDS[:3], model, **settings, trace=lambda line: lines.append(dict(line)))
    )
    assert traced == list(sample_records(RECORDS[:3], model, **settings))
    untimed = [[{**line, "seconds": 0} for line in some] for some in (lines, expected)]
    assert untimed[0] == untimed[1] and expected


@pytest.mark.slow
def test_results_do_not_depend_on_the_batch(model: Any, artifacts: dict[str, Path]) -> None:
    settings = {"artifact": artifacts["cities"], "constraint": artifacts, "method": "masked"}
    drawn = [
        [
            (r["id"], r.get("index"), r.get("text"))
            for r in sample_records(RECORDS, model, **settings, batch_size=size)
        ]
        for size in (1, 3, 16)
    ]
    assert drawn[0] == drawn[1] == drawn[2]


def test_fields_are_kept_and_strict_raises(model: Any, artifacts: dict[str, Path]) -> None:
    settings: dict[str, Any] = {"artifact": artifacts["cities"], "method": "masked"}
    (record,) = sample_records(RECORDS[1:2], model, **settings, fields=["id", "text"])
    assert set(record) == {"id", "text"}
    with pytest.raises(DataError, match="field 'prompt'"):
        list(sample_records(RECORDS[5:6], model, **settings, strict=True))


def test_two_records_of_one_id_are_refused(model: Any, artifacts: dict[str, Path]) -> None:
    twice = [{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}]
    with pytest.raises(DuplicateIdError):
        list(sample_records(twice, model, artifact=artifacts["cities"], method="masked"))


def test_what_is_no_json_is_that_records_error(model: Any, artifacts: dict[str, Path]) -> None:
    records = [{"id": "a", "prompt": b"x"}, {"id": "b", "prompt": "x", "top": 2**70}]
    found = list(sample_records(records, model, artifact=artifacts["cities"], method="masked"))
    assert [record["error"]["code"] for record in found] == ["E_FIELD", "E_FIELD"]


def test_a_usage_error_of_the_settings_is_raised(model: Any, artifacts: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="no method"):
        RecordSampler(model, "nope")
    with pytest.raises(TypeError, match="no option"):
        RecordSampler(model, "masked", artifact=artifacts["cities"], K=2)
    with pytest.raises(UsageError, match="tree"):
        RecordSampler(model, "exact", artifact=artifacts["cities"], tree="t.arrow")


# --- Errors that nobody raised on purpose: those about memory are told from faults.


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 8 bytes"),
        RuntimeError("can't start new thread"),
    ],
)
def test_memory_that_is_used_up_is_status_75_whoever_says_so(error: Exception) -> None:
    assert as_cdec_error(error).exit_status == 75
    wrapped = ExtraMissingError("the model cannot be loaded")
    wrapped.__cause__ = error
    assert as_cdec_error(wrapped).exit_status == 75


def test_other_errors_keep_their_meaning() -> None:
    assert as_cdec_error(KeyError("x")).exit_status == 70
    assert as_cdec_error(OSError(errno.ENOSPC, "No space left on device")).exit_status == 74
    data = DataError("out of memory, says a record")
    assert as_cdec_error(data) is data
    assert isinstance(as_cdec_error(RuntimeError("x")), CdecError)
