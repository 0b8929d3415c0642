"""Sorting of rows beyond memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cdec.compilers import compile_set, compile_token_set
from cdec.compilers.sets import rows as runs_module
from cdec.compilers.sets.rows import RowBatch, RowStore, merge_runs, sort_rows
from cdec.core.errors import OutputError
from cdec.core.sets.entities import EntityBatch
from tests.compilers.sets.small_tokenizers import byte_level
from tests.core.artifacts.hostile_files import byte_vocabulary

# --- Rows are sorted as Python sorts lists, equal rows in input order, however they are
# collected.

Rows = list[list[int]]


def flat(rows: Rows) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    tokens = np.fromiter(chain.from_iterable(rows), np.int32)
    return tokens, np.cumsum([0, *map(len, rows)]).astype(np.int64)


def sorted_order(rows: Rows) -> list[int]:
    return sorted(range(len(rows)), key=lambda i: (rows[i], i))


def check(rows: Rows, vocabulary_size: int) -> None:
    assert sort_rows(*flat(rows), vocabulary_size).tolist() == sorted_order(rows)


def check_merge(rows: Rows, cuts: Sequence[int]) -> None:
    """Sort the pieces between cuts for themselves, then merge them."""
    bounds = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    pieces = [rows[a:b] for a, b in pairwise(bounds)]
    arranged = [piece[i] for piece in pieces for i in sorted_order(piece)]
    run_offsets = np.array(bounds, np.int64)
    assert merge_runs(*flat(arranged), run_offsets).tolist() == sorted_order(arranged)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), max_size=9), min_size=1, max_size=120),
    st.sampled_from([4, 300, 50_257, 2**20, 2**31 - 1]),
    st.lists(st.integers(0, 200), max_size=5),
)
def test_small_alphabets(rows: Rows, vocabulary_size: int, cuts: list[int]) -> None:
    check(rows, vocabulary_size)
    check_merge(rows, cuts)


@pytest.mark.parametrize("size", [2, 255, 256, 65_535, 65_536, 131_072, 2**31 - 1])
def test_largest_and_smallest_ids(size: int) -> None:
    rng = np.random.default_rng(size)
    ids = [0, 1, size // 2, size - 2, size - 1]
    rows = [rng.choice(ids, size=n).tolist() for n in rng.integers(0, 12, size=400).tolist()]
    check(rows, size)


def test_prefix_sorts_before_its_continuations() -> None:
    assert sort_rows(*flat([[5, 0], [5], [], [5, 0, 0]]), 9).tolist() == [2, 1, 0, 3]


def test_many_equal_rows_stay_in_input_order() -> None:
    rng = np.random.default_rng(0)
    kinds = [[7] * 3, [7] * 4, [7] * 40, [7, 8], []]
    check([kinds[i] for i in rng.integers(len(kinds), size=3000).tolist()], 50_257)


def test_long_shared_prefixes() -> None:
    rng = np.random.default_rng(1)
    stem = rng.integers(0, 50_000, size=500).tolist()
    rows = [[*stem[: rng.integers(400, 500)], int(rng.integers(0, 3))] for _ in range(2000)]
    check([[9] * 10 + row for row in rows], 50_257)


def test_one_row() -> None:
    assert sort_rows(*flat([[]]), 5).tolist() == [0]
    assert sort_rows(*flat([[1, 2]]), 5).tolist() == [0]
    assert merge_runs(*flat([[1, 2]]), np.array([0, 0, 1, 1])).tolist() == [0]


# --- Sets larger than memory: sorted runs on disk give the same artifact, byte for byte.


def entities(count: int, *, ids: bool) -> list[EntityBatch]:
    """Titles with many duplicates and shared beginnings; some batches have ids."""
    rng = np.random.default_rng(1)
    words = ["Paris", "New", "York", "of", "the", "é", "\U0001f600"]
    texts = [
        " ".join(rng.choice(words, size=n).tolist())
        for n in rng.integers(1, 5, size=count).tolist()
    ]
    batches = []
    for a in range(0, count, 50):
        part = texts[a : a + 50]
        names = [f"Q{a + i}" for i in range(len(part))] if ids and a % 100 else None
        batches.append(EntityBatch(part, range(a + 1, a + 1 + len(part)), names))
    return batches


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "options",
    [{}, {"normalize": "nfc"}, {"leading_space": "both"}, {"prefix": "<", "suffix": ">"}],
)
@pytest.mark.parametrize("ids", [False, True])
def test_spilled_set_is_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], ids: bool
) -> None:
    spills: list[int] = []
    finish = RowStore.finish

    def counting(self: RowStore) -> Any:
        result = finish(self)
        spills.append(self.spilled_runs)
        return result

    monkeypatch.setattr(RowStore, "finish", counting)
    source = entities(1500, ids=ids)
    files = []
    for number, limit in enumerate((None, 1, 20_000, 120_000)):
        path = tmp_path / f"{number}.arrow"
        compile_set(source, byte_level(), path, memory_limit=limit, **options)
        files.append(path.read_bytes())
    assert files[1:] == files[:1] * 3
    assert spills[0] == 0
    assert spills[1] > spills[2] > spills[3] > 1
    assert len(list(tmp_path.iterdir())) == 4


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=80))
def test_spilled_token_rows_are_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    vocabulary = byte_vocabulary()
    files = []
    for name, limit in (("memory", None), ("disk", 1)):
        compile_token_set(rows, vocabulary, folder / name, keep_empty=True, memory_limit=limit)
        files.append((folder / name).read_bytes())
    assert files[0] == files[1]


def test_batch_size_does_not_change_the_file(tmp_path: Path) -> None:
    texts = [text for batch in entities(700, ids=False) for text in batch.texts]
    compile_set(texts, byte_level(), tmp_path / "a")
    compile_set(texts, byte_level(), tmp_path / "b", memory_limit=100_000)
    cut = [EntityBatch(texts[a : a + 9], range(a + 1, a + 10)) for a in range(0, 693, 9)]
    cut.append(EntityBatch(texts[693:], range(694, 701)))
    compile_set(cut, byte_level(), tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "c").read_bytes()


def test_full_disk_while_spilling_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs_module, "_reordered", full)
    with pytest.raises(OutputError, match="No space left"):
        compile_set(entities(300, ids=False), byte_level(), tmp_path / "a", memory_limit=1)
    assert list(tmp_path.iterdir()) == []


def test_full_disk_for_the_results_is_an_error_and_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(OutputError, match="No space left"):
        compile_set(entities(300, ids=False), byte_level(), tmp_path / "a", memory_limit=1)
    assert list(tmp_path.iterdir()) == []


def test_store_keeps_memory_within_the_limit(tmp_path: Path) -> None:
    limit = 1 << 20
    with RowStore(tmp_path / "a", 1000, limit) as store:
        for start in range(0, 100_000, 1000):
            tokens = np.arange(start, start + 5000, dtype=np.int32) % 1000
            lines = np.arange(start, start + 1000)
            hashes = lines.astype(np.uint64)
            lengths = np.full(1000, 5, np.int32)
            store.append(RowBatch(tokens, lengths, lines, hashes, None, None, 1000))
            held = sum(part.nbytes for parts in store._chunks.values() for part in parts)
            assert held * runs_module.WORKING_FACTOR <= limit
        rows = store.finish()
        assert sorted(rows.columns["lines"].tolist()) == list(range(100_000))
        assert store.empty(10, np.int32).shape == (10,)
    assert list(tmp_path.iterdir()) == []
