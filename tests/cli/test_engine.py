"""``--engine ray`` without Ray: what is refused, and what its workers do, one after the other."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import read_table

from cdec.integrations.ray import cluster
from cdec.integrations.ray.cluster import Pool
from tests.laws.rounding import near_records, read_lines

from .conftest import MEMBERS, Runner

RAY = ("--engine", "ray")
RECORDS = [
    {"id": "q1", "prompt": "The capital is", "n": 2},
    {"id": 2, "prompt": "A city:", "temperature": 0.5, "kept": [1, {"a": None}]},
    {"prompt": "No id", "seed": 9},
    {"id": "bad", "prompt": 7},
    {"prompt": "No id", "seed": 9},
    {"id": "some", "prompt": "One of", "candidates": [MEMBERS[0], MEMBERS[2]]},
    {"id": "last", "prompt": "Then", "max_tokens": 1},
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps({"prompt": "a"}) + "\n")
    return path


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path


def _joined(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.jsonl")))


@pytest.mark.share(2)
@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize("size", [3])
@pytest.mark.parametrize(
    "words",
    [
        ("--method", "masked", "-n", "3"),
        ("--method", "masked", "--after", "is", "--budget", "4"),
        ("--K", "2", "--seed", "5", "--temperature", "0.7", "--top-k", "40"),
        ("--method", "greedy", "--fields", "id,index,text"),
        ("--method", "masked", "--deny", "denied.txt", "--max-n", "3", "--batch-size", "2"),
        ("--method", "masked", "--template", "template.txt", "--top-p", "0.9"),
        ("--method", "speculative", "--draft", "prompt-lookup", "--gamma", "2"),
    ],
)
def test_part_files_joined_are_what_one_process_writes(
    cdec: Runner, cities: Path, records: Path, tmp_path: Path, words: tuple[str, ...], size: int
) -> None:
    (tmp_path / "work" / "denied.txt").write_text(MEMBERS[0] + "\n")
    (tmp_path / "work" / "template.txt").write_text("Say: {prompt}")
    alone = cdec("sample", "-a", cities, "-i", records, *words)
    dealt = cdec(
        *("sample", "-a", cities, "-i", records, *words),
        *("-o", "out", "--part-size", size, *RAY),
    )
    assert (dealt.status, dealt.stdout) == (alone.status, b""), dealt.stderr
    assert _said(_joined(tmp_path / "work" / "out")) == _said(alone.stdout)
    assert dealt.summary.split(";")[0] == alone.summary.split(";")[0]


@pytest.mark.usefixtures("in_turn")
def test_the_summary_adds_up_what_workers_spent(cdec: Runner, cities: Path, records: Path) -> None:
    words = ("sample", "-a", cities, "-i", records, "--method", "masked")
    dealt = cdec(*words, "-o", "out", "--part-size", 3, "--json", *RAY)
    alone = cdec(*words, "--json")
    told, own = json.loads(dealt.summary), json.loads(alone.summary)
    assert list(told["seconds"]) == list(own["seconds"])
    assert min(told["seconds"].values()) > 0
    assert told["tokens_per_second"] > 0
    for name in ("records", "samples", "tokens", "errors", "verdicts", "ends"):
        assert told[name] == own[name]


_WORK = ("target_calls", "target_tokens", "draft_calls", "distinct_evaluations")


def _said(lines: bytes) -> list[Any]:
    """Return records without the work done for several at a time; other batches round otherwise."""
    return near_records(
        {name: value for name, value in record.items() if name not in _WORK}
        for record in read_lines(lines)
    )


@pytest.mark.usefixtures("in_turn")
def test_files_of_a_folder_become_files_of_the_output_and_are_not_done_twice(
    cdec: Runner, cities: Path, tmp_path: Path
) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "b.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS[:3]))
    (parts / "a.txt").write_text("A city:\n")
    words = ("run", cities, "-i", parts, "-o", "out", "--method", "masked", *RAY)
    assert cdec(*words).status == 0
    out = tmp_path / "work" / "out"
    alone = cdec("run", cities, "-i", parts / "b.jsonl", "--method", "masked")
    assert _said((out / "b.jsonl").read_bytes()) == _said(alone.stdout)
    begun = (out / "b.jsonl").stat().st_ino
    refused = cdec(*words)
    assert (refused.status, refused.error_code) == (73, "E_EXISTS")
    (out / "a.jsonl").unlink()
    resumed = cdec(*words, "--resume")
    assert resumed.status == 0
    assert resumed.summary.startswith("1 record")
    assert (out / "b.jsonl").stat().st_ino == begun
    other = cdec(*words, "--resume", "--seed", "1")
    assert (other.status, other.error_code) == (65, "E_RESUME_MISMATCH")
    assert cdec(*words, "--force", "--seed", "1").status == 0


@pytest.mark.usefixtures("in_turn")
def test_errors_of_parts_done_before_count_in_the_exit_status(
    cdec: Runner, cities: Path, records: Path
) -> None:
    words = ("run", cities, "-i", records, "-o", "out", "--method", "masked", *RAY)
    assert cdec(*words).status == 3
    again = cdec(*words, "--resume")
    assert again.status == 3
    assert again.summary.startswith("0 records")


@pytest.mark.usefixtures("in_turn")
def test_the_first_bad_record_ends_a_strict_run(
    cdec: Runner, cities: Path, records: Path, tmp_path: Path
) -> None:
    words = ("--method", "masked", "--strict", "--part-size", "2")
    result = cdec("run", cities, "-i", records, "-o", "out", *words, *RAY)
    assert (result.status, result.error_code) == (65, "E_FIELD")
    assert [path.name for path in (tmp_path / "work" / "out").glob("*.jsonl")] == [
        "part-00000.jsonl"
    ]


def test_without_ray_the_exit_status_is_69_and_nothing_is_written(
    cdec: Runner, cities: Path, source: Path, tmp_path: Path
) -> None:
    result = cdec("run", cities, "-i", source, "-o", tmp_path / "out", *RAY)
    assert (result.status, result.error_code) == (69, "E_EXTRA")
    assert 'hint: pip install "cdec[ray]"' in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--workers", "2"),
        ("--ray-address", "auto"),
        ("--worker-cpus", "2"),
        ("--worker-gpus", "1"),
        ("--worker-memory", "1GB"),
        ("--worker-accelerator", "A100"),
        ("--retries", "1"),
        ("--part-size", "5"),
        ("--part-format", "parquet"),
    ],
)
def test_options_of_workers_mean_nothing_in_one_process(
    cdec: Runner, cities: Path, source: Path, words: tuple[str, ...]
) -> None:
    result = cdec("sample", "-a", cities, "-i", source, *words)
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert f"{words[0]} means nothing without --engine ray" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--copy",),
        ("--method", "exact", "--tree", "t.arrow"),
        ("--save-counts", "c"),
        ("--trace", "t.jsonl"),
        ("--idle", "10"),
    ],
)
def test_options_of_one_process_mean_nothing_to_workers(
    cdec: Runner, cities: Path, source: Path, words: tuple[str, ...]
) -> None:
    result = cdec("sample", "-a", cities, "-i", source, "-o", "out", *words, *RAY)
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert "with --engine ray" in result.stderr


@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize(
    ("given", "pool"),
    [
        ((), Pool()),
        (("--workers", "3"), Pool(workers=3)),
        (("--workers", "2..2"), Pool(workers=2)),
        (
            ("--workers", "1..8", "--worker-gpus", "1", "--worker-accelerator", "A100"),
            Pool(workers=(1, 8), gpus=1, accelerator="A100"),
        ),
    ],
)
def test_words_say_of_what_workers_the_pool_is(
    cdec: Runner,
    cities: Path,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
    pool: Pool,
) -> None:
    told: list[Any] = []
    mapped = Pool.mapped
    monkeypatch.setattr(
        Pool, "mapped", lambda self, *a, **k: told.append(self) or mapped(self, *a, **k)
    )
    monkeypatch.setattr(cluster, "cluster", lambda *_, cpus: told.append(cpus) or nullcontext())
    words = ("sample", "-a", cities, "-i", source, "-o", "out", "--method", "masked", *RAY)
    assert cdec(*words, *given).status == 0
    assert told == [pool.most, pool]


@pytest.mark.parametrize("given", ["0", "8..1", "0..2", "1-8", "1..", "many", "-1"])
def test_numbers_of_workers_that_make_no_sense_are_refused(
    cdec: Runner, cities: Path, source: Path, given: str
) -> None:
    words = ("sample", "-a", cities, "-i", source, "-o", "out", f"--workers={given}", *RAY)
    result = cdec(*words)
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert f"--workers is '{given}'" in result.stderr and "--workers 1..8" in result.stderr


def test_workers_need_a_folder_to_write_to(cdec: Runner, cities: Path, source: Path) -> None:
    result = cdec("sample", "-a", cities, "-i", source, *RAY)
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert "-o FOLDER" in result.stderr


def test_a_folder_cannot_be_input_and_output(cdec: Runner, cities: Path, source: Path) -> None:
    folder = source.parent / "parts"
    folder.mkdir()
    source.rename(folder / "part-0.jsonl")
    result = cdec("sample", "-a", cities, "-i", folder, "-o", folder, *RAY)
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert "is the input" in result.stderr


def test_a_cost_ratio_is_not_measured_for_other_machines(
    cdec: Runner, cities: Path, source: Path
) -> None:
    words = ("--method", "speculative", "--cost-ratio", "measure")
    result = cdec("sample", "-a", cities, "-i", source, "-o", "out", *words, *RAY)
    assert (result.status, result.error_code) == (2, "E_USAGE")
    assert "give a number" in result.stderr


@pytest.mark.usefixtures("in_turn")
def test_workers_write_parquet_parts_that_are_gone_on_with(
    cdec: Runner, cities: Path, records: Path, tmp_path: Path
) -> None:
    words = ("run", cities, "-i", records, "--method", "masked", "-n", "2", "--part-size", "3")
    alone = cdec("sample", "-a", cities, "-i", records, "--method", "masked", "-n", "2")
    parquet = ("-o", "out", "--part-format", "parquet", *RAY)
    assert cdec(*words, *parquet).status == 3
    out = tmp_path / "work" / "out"
    begun = {path.name: path.stat().st_ino for path in out.glob("*.parquet")}
    assert len(begun) == 3
    (out / "part-00001.parquet").unlink()
    assert cdec(*words, *parquet, "--resume").status == 3
    after = {path.name: path.stat().st_ino for path in out.glob("*.parquet")}
    assert after.keys() == begun.keys()
    assert after["part-00002.parquet"] == begun["part-00002.parquet"]
    rows = [row for path in sorted(out.glob("*.parquet")) for row in read_table(path).to_pylist()]
    assert [(row["id"], row["index"], row["text"]) for row in rows] == [
        (str(record["id"]), record.get("index"), record.get("text")) for record in alone.records
    ]
    assert not list(out.glob(".*"))


@pytest.mark.usefixtures("in_turn")
def test_a_run_goes_from_bucket_to_bucket(
    cdec: Runner, cities: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec", reason='needs fsspec: pip install "cdec[remote]"')
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    store = fsspec.filesystem("memory")
    store.pipe("/b/cities.arrow", cities.read_bytes())
    for name, part in (("p/1.jsonl", RECORDS[:3]), ("p/2.jsonl", RECORDS[5:])):
        store.pipe(f"/b/{name}", "".join(json.dumps(record) + "\n" for record in part).encode())
    words = ("run", "memory://b/cities.arrow", "-i", "memory://b/p/", "--method", "masked")
    dealt = (*words, "-o", "memory://b/out", *RAY)
    assert cdec(*dealt).status == 0
    assert store.exists("/b/out/1.jsonl") and store.exists("/b/out/2.jsonl")
    drawn = store.cat("/b/out/1.jsonl") + store.cat("/b/out/2.jsonl")
    assert _said(drawn) == _said(cdec(*words).stdout)
    refused = cdec(*dealt)
    assert (refused.status, refused.error_code) == (73, "E_EXISTS")
    resumed = cdec(*dealt, "--resume")
    assert (resumed.status, resumed.summary[:9]) == (0, "0 records")
    among = cdec(*words, "-o", "memory://b/p", *RAY)
    assert (among.status, "is the input" in among.stderr) == (2, True)
    alone = cdec(*words, "-o", "memory://b/out.jsonl")
    assert (alone.status, alone.error_code) == (2, "E_USAGE")
    assert "--engine ray" in alone.stderr
    store.rm("/b", recursive=True)
