"""Workers on Ray: what one process draws, whoever dies; nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import ArtifactChecksumError, LimitError
from cdec.data.prompts.read import prompts_from_records, read_prompts
from cdec.integrations.records.sampling import RecordSampler
from cdec.integrations.records.settings import RunSettings

from .ray_worlds import artifact, as_written, lines, one_process, prompts, slow_model

ray = pytest.importorskip("ray", reason='needs Ray: pip install "cdec[ray]"')

from cdec.integrations.ray import BatchSampler, sample, sample_parts  # noqa: E402
from cdec.integrations.ray.cluster import Pool, cluster  # noqa: E402
from cdec.integrations.ray.parts import PartFolder, parts_of_records  # noqa: E402
from cdec.integrations.ray.run import PartRun  # noqa: E402
from cdec.integrations.ray.settings import Settings  # noqa: E402
from tests.laws.rounding import near  # noqa: E402

pytestmark = pytest.mark.heavy
TWO = Pool(workers=2, cpus=1)


@pytest.fixture(scope="module")
def two_workers() -> Iterator[None]:
    """This machine as a cluster of two processors."""
    with cluster(cpus=2):
        yield


def _settings(folder: Path, model: Any, **more: Any) -> Settings:
    return Settings.of(RunSettings.of(model=model, artifact=str(artifact(folder)), n=2, **more))


@pytest.mark.usefixtures("two_workers")
def test_a_killed_worker_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    records = prompts(80)
    settings = _settings(tmp_path, slow_model(0.2), method="masked", batch_size=4)
    folder = PartFolder(tmp_path / "out", "jsonl")
    folder.prepare(force=False, resume=False)
    run, killed, restarted = PartRun(), "", set()
    parts = parts_of_records(prompts_from_records(records), 10)
    for report in sample_parts(parts, folder, settings, TWO, run=run):
        if not killed:
            # It has begun the next part already.
            killed = report.worker
            os.kill(int(killed.rpartition(":")[2]), signal.SIGKILL)
        if report.is_restarted:
            restarted.add(report.worker)
    assert run.total == run.done == 8
    assert restarted and killed not in restarted
    drawn = lines(folder.path)
    keys = [(record["id"], record.get("index")) for record in drawn]
    assert len(keys) == len(set(keys))
    with RecordSampler(settings=settings.run) as sampler:
        alone = list(sampler.sample(records))
    assert drawn == as_written(alone)
    assert not list(folder.path.glob(".*"))


@pytest.mark.usefixtures("two_workers")
def test_a_part_that_kills_every_worker_is_named_and_all_others_are_done(tmp_path: Path) -> None:
    deadly = tmp_path / "deadly"
    settings = _settings(tmp_path, slow_model(0.0, deadly), method="masked")
    folder = PartFolder(tmp_path / "out", "jsonl")
    folder.prepare(force=False, resume=False)
    parts = list(parts_of_records(prompts_from_records(prompts(20)), 10))
    run = PartRun()
    list(sample_parts(parts[:1], folder, settings, TWO, run=run))
    deadly.touch()
    with pytest.raises(LimitError) as caught:
        list(sample_parts(parts, folder, settings, Pool(workers=1, retries=1)))
    assert caught.value.details["parts"] == ["part-00001"]
    assert "died 2 times" in caught.value.message
    deadly.unlink()
    done = list(sample_parts(parts, folder, settings, TWO))
    assert [report.name for report in done] == ["part-00001"]
    assert len(lines(folder.path)) == sum(
        1 if record["id"] == "bad" else record["n"] for record in prompts(20)
    )


@pytest.mark.usefixtures("two_workers")
def test_a_worker_that_finds_another_artifact_ends_the_run(tmp_path: Path) -> None:
    settings = _settings(tmp_path, slow_model(), method="masked")
    wrong = Settings(settings.run, dict.fromkeys(settings.digests, "0"), settings.version)
    folder = PartFolder(tmp_path / "out", "jsonl")
    folder.prepare(force=False, resume=False)
    parts = parts_of_records(prompts_from_records(prompts(4)), 2)
    with pytest.raises(ArtifactChecksumError, match="of the run 0"):
        list(sample_parts(parts, folder, wrong, Pool(workers=1)))
    assert not list(folder.path.iterdir())


@pytest.mark.usefixtures("two_workers")
@pytest.mark.parametrize("rows", [3, 64])
def test_a_dataset_of_prompts_becomes_the_samples_of_one_process(tmp_path: Path, rows: int) -> None:
    records = [record for record in prompts(40) if isinstance(record["id"], str)]
    settings = {"artifact": str(artifact(tmp_path)), "method": "disc", "seed": 5}
    dataset = ray.data.from_items(
        [{**record, "prompt": str(record["prompt"])} for record in records]
    )
    drawn = sample(dataset, slow_model(), workers=1, rows=rows, **settings).take_all()
    alone = one_process(
        [{**record, "prompt": str(record["prompt"])} for record in records],
        slow_model()(),
        **settings,
    )
    key = ("id", "index", "text", "logprob", "log_weight", "seed", "draws")
    found = sorted(tuple(row[name] for name in key) for row in drawn)
    assert found == sorted(tuple(record[name] for name in key) for record in alone)


@pytest.mark.usefixtures("two_workers")
@pytest.mark.parametrize("format", ["pyarrow", "numpy", "pandas"])
def test_batches_of_a_dataset_are_drawn_with_their_columns(tmp_path: Path, format: str) -> None:
    records = [{"id": i, "prompt": f"the {i}th", "year": 2000 + i} for i in range(24)]
    settings = {"artifact": str(artifact(tmp_path)), "method": "masked", "seed": 5}
    mapped = ray.data.from_items(records).map_batches(
        BatchSampler,
        fn_constructor_kwargs={"model": slow_model(), **settings},
        batch_size=8,
        batch_format=format,
        concurrency=(1, 2),
        num_cpus=0.5,
    )
    drawn = sorted(mapped.take_all(), key=lambda row: row["id"])
    assert mapped.schema().base_schema.field("id").type == "int64"
    alone = one_process(records, slow_model()(), **settings)
    names = ("id", "text", "logprob", "seed")
    assert [tuple(row[name] for name in names) for row in drawn] == [
        tuple(record[name] for name in names) for record in alone
    ]
    assert [(row["prompt"], row["year"]) for row in drawn] == [
        (record["prompt"], record["year"]) for record in records
    ]


@pytest.mark.usefixtures("two_workers")
def test_a_pool_of_one_to_two_workers_draws_what_one_process_draws(tmp_path: Path) -> None:
    records = [{"id": f"q{i}", "prompt": f"the {i}th"} for i in range(24)]
    settings = {"artifact": str(artifact(tmp_path)), "method": "masked"}
    dataset = ray.data.from_items(records)
    drawn = sample(dataset, slow_model(0.2), workers=(1, 2), cpus=0.5, rows=2, **settings)
    alone = one_process(records, slow_model()(), **settings)
    assert sorted((row["id"], row["text"]) for row in drawn.take_all()) == sorted(
        (record["id"], record["text"]) for record in alone
    )


@pytest.mark.usefixtures("two_workers")
def test_a_dataset_that_is_read_from_files_is_drawn_with_the_defaults(tmp_path: Path) -> None:
    records = [{"id": f"q{i}", "prompt": f"the {i}th"} for i in range(12)]
    for part in range(3):
        written = "".join(f"{json.dumps(record)}\n" for record in records[part::3])
        (tmp_path / f"{part}.jsonl").write_text(written)
    dataset = ray.data.read_json([str(tmp_path / f"{part}.jsonl") for part in range(3)])
    drawn = sample(dataset, slow_model(), artifact=str(artifact(tmp_path)), method="masked")
    assert sorted(row["id"] for row in drawn.take_all()) == sorted(r["id"] for r in records)


@pytest.mark.usefixtures("two_workers")
def test_a_row_that_ends_every_worker_becomes_an_error_record(tmp_path: Path) -> None:
    records = [{"id": f"q{i}", "prompt": f"the {i}th"} for i in range(12)]
    records[7]["prompt"] = "poison"
    settings = {"artifact": str(artifact(tmp_path)), "method": "masked", "batch_size": 4}
    dataset = ray.data.from_items(records, override_num_blocks=2)
    model = slow_model(poison="poison")
    drawn = {row["id"]: row for row in sample(dataset, model, workers=1, **settings).take_all()}
    assert set(drawn) == {record["id"] for record in records}
    error = drawn.pop("q7")["error"]
    assert error["code"] == "E_WORKER" and "beside no other" in error["message"]
    alone = one_process([r for r in records if r["id"] in drawn], slow_model()(), **settings)
    assert {row["id"]: row["text"] for row in alone} == {
        name: row["text"] for name, row in drawn.items()
    }


@pytest.mark.usefixtures("two_workers")
def test_a_record_that_ends_every_worker_is_an_error_object_of_its_part(tmp_path: Path) -> None:
    records = [{"id": f"q{i}", "prompt": f"the {i}th"} for i in range(12)]
    records[7]["prompt"] = "poison"
    model = slow_model(poison="poison")
    settings = _settings(tmp_path, model, method="masked", batch_size=3)
    folder = PartFolder(tmp_path / "out", "jsonl")
    folder.prepare(force=False, resume=False)
    parts = list(parts_of_records(prompts_from_records(records), 6))
    with pytest.raises(LimitError, match=r"part-00001.* records \"q\d") as caught:
        list(sample_parts(parts, folder, settings, Pool(workers=1, retries=0)))
    assert '"q7"' in caught.value.details["records"]
    # Those that are done stay, and going on gets past the record.
    run = PartRun()
    reports = list(sample_parts(parts, folder, settings, Pool(workers=1), run=run))
    assert run.total == run.done == 2
    assert sum(report.counts.errors for report in reports) == 1
    (bad,) = [record for record in lines(folder.path) if "error" in record]
    assert bad["id"] == "q7" and bad["error"]["code"] == "E_WORKER"
    assert len(lines(folder.path)) == 2 * 11 + 1
    assert not list(sample_parts(parts, folder, settings, Pool(workers=1)))


def _cdec(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start the command line; Ray's files go to a short path of their own."""
    code = "import sys; from cdec.cli.app import main; sys.exit(main())"
    environment = {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def _processes_in(folder: Path) -> list[int]:
    """Return the processes that have a folder on their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(int(process.name))
    return found


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for Ray, whose sockets need short paths; what a killed run leaves goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="cr", dir="/tmp"))
    yield folder
    _wait(lambda: not _processes_in(folder))
    shutil.rmtree(folder, ignore_errors=True)


def _wait(until: Any, seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_that_is_interrupted_and_killed_goes_on_part_by_part(
    tmp_path: Path, short: Path
) -> None:
    records = [{"id": i, "prompt": f"Question {i}: Which city is it?"} for i in range(320)]
    source, cities, out = tmp_path / "p.jsonl", tmp_path / "c.arrow", tmp_path / "out"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    from cdec.compilers import compile_set
    from cdec.core import Vocabulary

    compile_set(["Paris", "Rome", "Oslo"], Vocabulary.from_tokenizer("embedded"), cities)
    words = ["sample", "-a", str(cities), "-i", str(source), "--method", "masked"]
    dealt = ["--engine", "ray", "--workers", "2", "--part-size", "16", "-o", str(out)]

    def parts() -> dict[str, tuple[int, int]]:
        found = out.glob("[!.]*.jsonl")
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}

    first = _cdec(short, *words, *dealt)
    _wait(lambda: parts() or first.poll() is not None)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=120)
    assert first.returncode == 130, said
    assert "--resume" in said
    assert not _processes_in(short)
    assert not list(short.glob("cdec-ray-*"))
    before = parts()
    assert 0 < len(before) < 20

    second = _cdec(short, *words, *dealt, "--resume")
    _wait(lambda: len(parts()) > len(before) or second.poll() is not None)
    second.kill()
    second.communicate()
    _wait(lambda: not _processes_in(short))
    between = parts()
    assert between.items() >= before.items()

    third = _cdec(short, *words, *dealt, "--resume")
    printed, said = third.communicate(timeout=400)
    assert third.returncode == 0, said
    assert printed == ""
    after = parts()
    assert len(after) == 20
    assert after.items() >= between.items()
    assert not list(out.glob(".*"))
    alone = _cdec(short, *words, "-o", str(tmp_path / "alone.jsonl"))
    assert alone.communicate(timeout=400) and alone.returncode == 0
    drawn = lines(out)
    expected = [json.loads(line) for line in (tmp_path / "alone.jsonl").open()]
    assert [_said(record) for record in drawn] == [_said(record) for record in expected]
    for one, other in zip(drawn, expected, strict=True):
        events = 1 + len(other["token_ids"])
        for name in ("logprob", "log_weight"):
            assert one[name] == near(other[name], events)


def _said(record: dict[str, Any]) -> tuple[object, ...]:
    return tuple(record[name] for name in ("id", "index", "text", "token_ids", "seed"))


def test_the_page_about_many_machines_says_what_works(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/how-to/cluster.md").read_text()
    made, dealt = page.split("```text\n")[1].split("```")[0].splitlines()
    (tmp_path / "prompts.txt").write_text("".join(f"Question {i}?\n" for i in range(6)))
    from cdec.compilers import compile_set
    from cdec.core import Vocabulary

    cities = tmp_path / "cities.arrow"
    compile_set(["Paris", "Rome", "Oslo"], Vocabulary.from_tokenizer("embedded"), cities)
    subprocess.run(made, shell=True, check=True)
    run = _cdec(short, *shlex.split(dealt)[1:])
    _, said = run.communicate(timeout=300)
    assert run.returncode == 0, said
    assert [path.name for path in sorted((tmp_path / "samples").glob("*.jsonl"))] == [
        "aa.jsonl",
        "ab.jsonl",
        "ac.jsonl",
    ]
    drawn = [(record["prompt_number"], record["index"]) for record in _numbered(tmp_path)]
    assert drawn == [(number, index) for number in range(6) for index in range(4)]
    assert not list(short.glob("cdec-ray-*"))


def _numbered(folder: Path) -> list[dict[str, Any]]:
    """Return samples with the number of the prompt whose id they have."""
    ids = [record.id for record in read_prompts(folder / "prompts.txt")]
    return [
        {**record, "prompt_number": ids.index(record["id"])} for record in lines(folder / "samples")
    ]
