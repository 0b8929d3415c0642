"""Parts of Ray runs, near and far."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet
import pytest

from cdec.compilers import compile_token_set
from cdec.core.errors import (
    ArtifactChecksumError,
    ExtraMissingError,
    LockedError,
    OutputError,
    OutputExistsError,
    ResumeMismatchError,
    UsageError,
)
from cdec.core.files.remote import Url
from cdec.data.output.manifest import manifest_path
from cdec.data.prompts.places import input_files
from cdec.data.prompts.read import prompts_from_records
from cdec.integrations.ray import cluster as capacity
from cdec.integrations.ray.cluster import Pool, ray_library
from cdec.integrations.ray.far_parts import FarPartFolder, part_folder
from cdec.integrations.ray.parts import (
    Part,
    PartFolder,
    PartFormat,
    parts_of_files,
    parts_of_records,
)
from cdec.integrations.ray.settings import Settings, WorkerError
from cdec.integrations.records import RecordSampler
from cdec.integrations.records.counts import Counts
from cdec.integrations.records.settings import RunSettings
from tests.integrations.ray_worlds import artifact, letters, lines, one_process, prompts, slow_model

# --- Part files of many workers, without Ray: layout, what counts as done, what a crash leaves.


def _parts(count: int, size: int) -> list[Part]:
    return list(parts_of_records(prompts_from_records(prompts(count)), size))


def _folder(path: Path, **config: object) -> PartFolder:
    folder = PartFolder(path, "jsonl", config)
    folder.prepare(force=False, resume=True)
    return folder


def _write(folder: PartFolder, part: Part, sampler: RecordSampler) -> Counts:
    counts = Counts()
    with folder.writing(part, counts) as writer:
        for done in sampler.work_off(part.records):
            counts.note(done)
            for record in done.records:
                writer.write(record)
    return counts


def test_parts_cut_and_joined_hold_each_record_once_in_its_order() -> None:
    parts = _parts(25, 10)
    assert [part.name for part in parts] == ["part-00000", "part-00001", "part-00002"]
    ids = [record.id for part in parts for record in part.records]
    assert ids == [record["id"] for record in prompts(25)]


def test_ids_of_equal_records_do_not_depend_on_where_parts_are_cut() -> None:
    equal = [{"prompt": "the same"}] * 5

    def ids(size: int) -> Sequence[object]:
        parts = parts_of_records(prompts_from_records(equal), size)
        return [record.id for part in parts for record in part.records]

    assert ids(1) == ids(2) == ids(5)
    assert len(set(ids(2))) == 5


def test_samples_do_not_depend_on_parts_or_batches(tmp_path: Path) -> None:
    records, where = prompts(30), artifact(tmp_path)
    settings: dict[str, Any] = {"artifact": where, "method": "disc", "n": 3, "seed": 11}
    alone = one_process(records, slow_model()(), **settings)
    for size, batch in ((30, 4), (7, 16), (1, 1)):
        with RecordSampler(slow_model()(), batch_size=batch, **settings) as sampler:
            drawn = [
                sample
                for part in _parts(30, size)
                for done in sampler.work_off(part.records)
                for sample in done.records
            ]
        assert drawn == [record for record in alone if "error" not in record]


def test_a_part_is_done_when_its_file_has_its_name(tmp_path: Path) -> None:
    folder, (first, second) = _folder(tmp_path / "out", method="masked"), _parts(8, 4)
    with RecordSampler(slow_model()(), artifact=artifact(tmp_path), method="masked") as sampler:
        counts = _write(folder, first, sampler)
    assert (counts.records, counts.errors) == (4, 0)
    assert counts.samples == counts.verdicts["valid"] == sum(counts.ends.values()) > 4
    assert folder.finished(first) == counts
    assert folder.finished(second) is None
    manifest = json.loads(manifest_path(folder.file(first)).read_bytes())
    assert manifest["done"]["samples"] == len(lines(folder.path)) == counts.samples
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "part-00000.jsonl",
        "part-00000.jsonl.manifest.json",
    ]


def test_a_part_that_was_not_finished_is_not_there_and_leaves_nothing(tmp_path: Path) -> None:
    folder, (part,) = _folder(tmp_path / "out"), _parts(3, 4)
    with (
        pytest.raises(RuntimeError, match="on the way"),
        folder.writing(part, Counts()) as writer,
    ):
        writer.write({"id": 1, "index": 0})
        raise RuntimeError("on the way")
    assert folder.finished(part) is None
    assert not list(folder.path.iterdir())


def test_what_a_killed_worker_left_goes_with_the_next_attempt(tmp_path: Path) -> None:
    folder, (part, other) = _folder(tmp_path / "out"), _parts(4, 2)
    left = folder.path / ".part-00000.0123456789ab.partial.jsonl"
    of_another = folder.path / ".part-00001.0123456789ab.partial.jsonl"
    for path in (left, of_another):
        path.write_text('{"id": 1, "in')
    # Killed between manifest and records: the manifest alone means nothing.
    manifest_path(folder.file(part)).write_text("{}")
    assert folder.finished(part) is None
    with folder.writing(part, Counts()) as writer:
        writer.write({"id": 1, "index": 0})
    assert not left.exists()
    assert of_another.exists()
    assert folder.finished(part) == Counts()
    assert folder.finished(other) is None


def test_a_part_of_another_run_or_of_other_records_is_not_gone_on_with(tmp_path: Path) -> None:
    (part,) = _parts(3, 4)
    with _folder(tmp_path / "out", seed=0).writing(part, Counts()) as writer:
        writer.write({"id": 1, "index": 0})
    with pytest.raises(ResumeMismatchError, match="seed was 0, is 1"):
        _folder(tmp_path / "out", seed=1).finished(part)
    (longer,) = _parts(4, 4)
    with pytest.raises(ResumeMismatchError, match="part was"):
        _folder(tmp_path / "out", seed=0).finished(longer)


def test_a_folder_with_results_is_kept_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    folder, (part,) = _folder(tmp_path / "out"), _parts(3, 4)
    with folder.writing(part, Counts()) as writer:
        writer.write({"id": 1, "index": 0})
    (folder.path / "notes.txt").touch()
    with pytest.raises(OutputExistsError, match=r"part-00000\.jsonl"):
        folder.prepare(force=False, resume=False)
    folder.prepare(force=True, resume=False)
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]


def test_one_run_at_a_time_writes_to_a_folder(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "out")
    with folder.locked(), pytest.raises(LockedError), folder.locked():
        pass
    assert not list(folder.path.iterdir())


def test_the_files_of_a_folder_are_parts_by_their_names(tmp_path: Path) -> None:
    for name in ("b.jsonl.gz", "a.parquet"):
        (tmp_path / name).write_bytes(b"12345")
    parts = parts_of_files(input_files([str(tmp_path)]))
    assert [(part.name, Path(str(part.source)).name) for part in parts] == [
        ("a", "a.parquet"),
        ("b", "b.jsonl.gz"),
    ]
    assert parts[0].facts == {"input": "a.parquet", "bytes": 5}
    (tmp_path / "b.txt").touch()
    with pytest.raises(UsageError, match="both become b"):
        parts_of_files(input_files([str(tmp_path)]))


def test_workers_of_another_version_do_not_work(tmp_path: Path) -> None:
    settings = Settings.of(RunSettings.of(model=slow_model(), artifact=str(artifact(tmp_path))))
    with settings.opened() as sampler:
        assert sampler.model.vocabulary.size == 4
    with pytest.raises(WorkerError, match=r"begun by cdec 0\.0\.1"):
        Settings(settings.run, settings.digests, "0.0.1").opened()


def test_a_set_that_changes_after_the_run_began_is_refused_by_workers(tmp_path: Path) -> None:
    place = artifact(tmp_path)
    settings = Settings.of(RunSettings.of(model=slow_model(), sets={"letters": str(place)}))
    place.unlink()
    compile_token_set([[0]], letters(), place)
    with pytest.raises(ArtifactChecksumError, match=r"the artifact .*letters\.arrow of a worker"):
        settings.opened()


def test_an_open_constraint_cannot_be_sent_to_workers(tmp_path: Path) -> None:
    from cdec.core import open_artifact

    opened = open_artifact(artifact(tmp_path))
    with pytest.raises(UsageError, match="open constraint"):
        Settings.of(RunSettings.of(artifact=opened))
    with pytest.raises(UsageError, match="`trace` takes the lines of one process"):
        Settings.of(RunSettings.of(trace=print))


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0},
        {"workers": (2, 1)},
        {"workers": (0, 1)},
        {"cpus": -1.0},
        {"gpus": float("nan")},
        {"retries": -1},
    ],
)
def test_numbers_of_a_pool_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Pool(**wrong)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"artfact": "x.arrow"}, "`artifact`"),
        ({"max_new_token": 3}, "`max_new_tokens`"),
        ({"method": "smc", "particle": 3}, "`particles`"),
        ({"method": "disk"}, "'disc'"),
        ({"method": "masked", "particles": 3}, "it has"),
    ],
)
def test_a_typo_is_an_error_before_any_worker_begins(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings.of(RunSettings.of(**wrong))
    assert told in (caught.value.hint or "")


def test_a_value_that_an_option_cannot_have_is_an_error_before_any_worker_begins() -> None:
    with pytest.raises(UsageError, match="`K` is 0"):
        Settings.of(RunSettings.of(method="disc", K=0))


@pytest.mark.parametrize(
    ("has", "given", "sizes", "cpus"),
    [
        (2.0, {}, (1, 1), 1.0),
        (8.0, {}, (7, 7), 1.0),
        (8.0, {"cpus": 2.0}, (3, 3), 2.0),
        (1.0, {}, (1, 1), 0.0),
        (2.0, {"workers": 2}, (2, 2), 1.0),
        (2.0, {"workers": (1, 8)}, (1, 8), 1.0),
        (2.0, {"cpus": 2.0}, (1, 1), 0.0),
        (2.0, {"cpus": 0.0}, (1, 1), 0.0),
    ],
)
def test_a_processor_is_left_to_what_reads_a_dataset(
    monkeypatch: pytest.MonkeyPatch,
    has: float,
    given: dict[str, Any],
    sizes: tuple[int, int],
    cpus: float,
) -> None:
    _cluster(monkeypatch, {"CPU": has})
    pool = Pool(**given)
    assert (pool.sizes(spare=1), pool.cpus_beside(1)) == (sizes, cpus)
    assert pool.cpus_beside(0) == pool.cpus


@pytest.mark.parametrize(
    ("declared", "types", "is_refused"),
    [
        (None, {"a1": "node_a1"}, True),
        (None, {}, True),
        ({"CPU": 8}, {}, True),
        ({"CPU": 8, "GPU": 4}, {}, False),
        (None, {"a1": "ray.head.default"}, False),
    ],
)
def test_what_a_cluster_has_not_is_refused_where_it_can_never_have_it(
    monkeypatch: pytest.MonkeyPatch,
    declared: dict[str, float] | None,
    types: dict[str, str],
    is_refused: bool,
) -> None:
    _cluster(monkeypatch, {"CPU": 2.0}, declared, types)
    pool = Pool(gpus=1)
    if is_refused:
        with pytest.raises(UsageError, match="1 GPU, and the cluster has 0 at most"):
            pool.sizes()
    else:
        assert pool.sizes()[0] == 1


@pytest.mark.parametrize(
    ("declared", "types", "sizes"),
    [
        ({"CPU": 17, "GPU": 8}, {}, (1, 8)),
        ({"CPU": 5, "GPU": 8}, {}, (1, 4)),
        (None, {"a1": "ray.head.default"}, (1, None)),
    ],
)
def test_a_cluster_that_begins_with_nothing_is_asked_for_more(
    monkeypatch: pytest.MonkeyPatch,
    declared: dict[str, float] | None,
    types: dict[str, str],
    sizes: tuple[int, int | None],
) -> None:
    _cluster(monkeypatch, {"memory": 1e9}, declared, types)
    pool = Pool(gpus=1, accelerator="H100")
    assert pool.sizes(spare=1) == sizes
    assert pool.sizes(3, spare=1) == (1, 3)
    assert pool.cpus_beside(1) == 1


@pytest.mark.parametrize(
    ("workers", "sizes"), [(2, (2, 2)), ((1, 8), (1, 5)), ((3, 4), (3, 4)), (None, (1, 5))]
)
def test_ray_is_told_of_the_pool(
    monkeypatch: pytest.MonkeyPatch, workers: Any, sizes: tuple[int, int]
) -> None:
    _cluster(monkeypatch, {"CPU": 0.0}, {"CPU": 64, "GPU": 64})
    data = SimpleNamespace(ActorPoolStrategy=SimpleNamespace)
    monkeypatch.setattr(capacity, "ray_library", lambda: SimpleNamespace(data=data))
    dataset: Any = SimpleNamespace(map_batches=lambda kind, **told: told)
    pool = Pool(workers, cpus=2, gpus=1, memory=1 << 30, retries=4, accelerator="H100")
    told: Any = pool.mapped(dataset, dict, {"a": 1}, batch_size=7, work=5)
    compute = told.pop("compute")
    assert (compute.min_size, compute.max_size) == sizes
    assert compute.max_tasks_in_flight_per_actor == capacity.IN_FLIGHT
    assert told == {
        "fn_constructor_kwargs": {"a": 1},
        "batch_size": 7,
        "batch_format": "pyarrow",
        "num_cpus": 2,
        "num_gpus": 1,
        "memory": 1 << 30,
        "accelerator_type": "H100",
        "max_restarts": -1,
        "max_task_retries": 4,
    }


def test_an_accelerator_that_a_cluster_can_never_have_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _cluster(monkeypatch, {"CPU": 8.0, "GPU": 2.0, "accelerator_type:A100": 1.0})
    assert Pool(gpus=1, accelerator="A100").sizes() == (2, 2)
    with pytest.raises(UsageError, match="an accelerator H100, and the cluster has A100"):
        Pool(gpus=1, accelerator="H100").sizes()


def _cluster(
    monkeypatch: pytest.MonkeyPatch,
    has: dict[str, float],
    declared: dict[str, float] | None = None,
    types: dict[str, str] | None = None,
) -> None:
    """Let Ray tell of a cluster: what it has, what its configuration allows, its machines."""
    monkeypatch.setattr(capacity, "ray_library", lambda: None)
    monkeypatch.setattr(capacity, "resources", lambda: dict(has))
    monkeypatch.setattr(capacity, "_declared", lambda: declared)
    report = {"autoscaler_report": {"node_type_mapping": types or {}}}
    monkeypatch.setattr(capacity, "_report", lambda: report)


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ExtraMissingError, match="Ray") as caught:
        ray_library()
    assert caught.value.hint == 'pip install "cdec[ray]"'
    assert caught.value.exit_status == 69


def test_counts_of_parts_add_up_and_survive_json() -> None:
    one = Counts(records=3, errors=1, samples=4, tokens=9, cut=1, estimated=1)
    one.verdicts.update({"valid": 3, "unknown": 1})
    one.ends.update({"complete": 3, "length": 1})
    back = Counts.from_json(json.loads(json.dumps(one.to_json())))
    assert back == one
    back.add(one)
    assert (back.records, back.ends["complete"], back.verdicts["unknown"]) == (6, 6, 2)


# --- Part files in an object store: whole or not there, found again, refused and replaced as
# here.

STORE = fsspec.filesystem("memory")


@pytest.fixture
def url() -> Iterator[Url]:
    yield Url("memory://far/out")
    if STORE.exists("/far"):
        STORE.rm("/far", recursive=True)


def _far_folder(url: Url, format: PartFormat = "jsonl", **config: object) -> PartFolder:
    folder = part_folder(url, format, config=config)
    folder.prepare(force=False, resume=True)
    return folder


def _part(count: int = 4) -> Part:
    (part,) = parts_of_records(prompts_from_records(prompts(count)), count)
    return part


def _write_far(folder: PartFolder, part: Part) -> Counts:
    counts = Counts()
    with folder.writing(part, counts) as writer:
        for record in part.records:
            counts.records += 1
            writer.write({"id": record.id, "index": 0, "text": "x"})
    return counts


def _files() -> list[str]:
    return sorted(name.rpartition("/")[2] for name in STORE.ls("/far/out", detail=False))


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_part_is_done_when_it_is_in_the_store(url: Url, format: PartFormat) -> None:
    folder, part = _far_folder(url, format, method="masked"), _part()
    assert isinstance(folder, FarPartFolder)
    assert (folder.names(), folder.finished(part)) == (frozenset(), None)
    counts = _write_far(folder, part)
    assert folder.names() == {"part-00000"}
    assert folder.finished(part) == counts
    name = f"part-00000.{format}"
    assert _files() == [name, f"{name}.manifest.json"]
    data = STORE.cat(f"/far/out/{name}")
    if format == "parquet":
        rows = pa.parquet.read_table(pa.BufferReader(data)).to_pylist()
    else:
        rows = [json.loads(line) for line in data.splitlines()]
    assert [row["text"] for row in rows] == ["x"] * 4


def test_a_part_that_broke_off_is_not_done(url: Url) -> None:
    folder, part = _far_folder(url), _part()
    with pytest.raises(RuntimeError), folder.writing(part, Counts()) as writer:
        writer.write({"id": 1, "index": 0})
        raise RuntimeError
    assert folder.names() == frozenset()
    counts = _write_far(folder, part)
    whole = STORE.cat("/far/out/part-00000.jsonl")
    # A file system far away may show what has not arrived.
    STORE.pipe("/far/out/part-00000.jsonl", whole[:-5])
    assert folder.finished(part) is None
    _write_far(folder, part)
    assert (folder.finished(part), STORE.cat("/far/out/part-00000.jsonl")) == (counts, whole)


def test_parts_of_another_run_are_refused_and_replaced_by_force(url: Url) -> None:
    folder, part = _far_folder(url, seed=0), _part()
    _write_far(folder, part)
    with pytest.raises(ResumeMismatchError, match="seed was 0, is 1"):
        _far_folder(url, seed=1).finished(part)
    with pytest.raises(ResumeMismatchError, match="part was"):
        _far_folder(url, seed=0).finished(_part(5))
    STORE.pipe("/far/out/notes.txt", b"mine")
    with pytest.raises(OutputExistsError, match=r"memory://far/out holds part-00000\.jsonl"):
        folder.prepare(force=False, resume=False)
    folder.prepare(force=True, resume=False)
    assert _files() == ["notes.txt"]


def test_a_folder_that_cannot_be_written_is_said_before_the_work(
    url: Url, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError("AccessDenied")

    monkeypatch.setattr(type(STORE), "pipe_file", refused)
    with pytest.raises(OutputError, match=r"memory://far/out: PermissionError: AccessDenied"):
        _far_folder(url)
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(ExtraMissingError, match="without s3fs"):
        part_folder(Url("s3://far/out"), "jsonl")


def test_a_url_of_this_machine_is_a_folder_here(tmp_path: Path) -> None:
    folder = part_folder(Url((tmp_path / "out").as_uri()), "jsonl")
    assert folder == PartFolder(tmp_path / "out", "jsonl")
