"""Tree files that are damaged or forged are errors, never crashes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cdec.core.artifacts.read import verify_bytes
from cdec.core.artifacts.write import write_artifact
from cdec.core.errors import CdecError
from cdec.samplers.learning.saved import KINDS
from tests.laws.toys import toy_b

from .tree_files import grown, reloaded


def test_every_flipped_byte_is_an_error(tmp_path: Path) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    grown(toy, path, 30)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(CdecError) as caught:
            verify_bytes(bytes(bad), KINDS)
        assert caught.value.code.startswith(("E_ARTIFACT", "E_LIMIT"))
    for size in (0, 5, 100, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(CdecError) as caught:
            reloaded(toy, path)
        assert caught.value.code.startswith("E_ARTIFACT")
        assert "`tree`" in (caught.value.hint or "")


FORGERIES = {
    "parent": [(0, 0), (2, 5), (3, -1), (1, 1)],
    "token": [(1, 99), (1, -1), (1, 3), (2, None)],
    "edge": [(1, 0.5), (1, math.nan), (1, -math.inf), (2, math.inf)],
    "mass": [(0, 0.5), (2, math.nan), (1, math.inf)],
    "flags": [(1, 64), (0, 16), (1, 1)],
    "totals": [(0, math.nan), (0, -0.01), (1, math.inf)],
}


@pytest.mark.parametrize("column", FORGERIES)
def test_forged_columns_with_a_good_digest_are_errors(tmp_path: Path, column: str) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    grown(toy, path, 30)
    file = verify_bytes(path.read_bytes(), KINDS)
    for place, value in FORGERIES[column]:
        arrays = {name: array.copy() for name, array in file.arrays.items()}
        arrays[column][place] = arrays[column][place - 1] if value is None else value
        write_artifact(path, "tree", arrays, file.metadata, force=True)
        with pytest.raises(CdecError) as caught:
            reloaded(toy, path)
        assert caught.value.code in ("E_ARTIFACT_INVALID", "E_TREE_MISMATCH")
    for name in ("token", "totals"):
        arrays = dict(file.arrays) | {name: file.arrays[name][:1]}
        write_artifact(path, "tree", arrays, file.metadata, force=True)
        with pytest.raises(CdecError, match="no tree of prefixes"):
            reloaded(toy, path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cdec.tree_candidates", "0"),
        ("cdec.tree_candidates", "-3"),
        ("cdec.tree_candidates", "9" * 30),
        ("cdec.tree_key", "[]"),
        ("cdec.tree_key", "[" * 100_000),
        ("cdec.tree_key", "{}"),
        ("cdec.tree_masks", "0"),
    ],
)
def test_forged_metadata_is_an_error(tmp_path: Path, key: str, value: str) -> None:
    toy = toy_b()
    path = tmp_path / "tree.arrow"
    grown(toy, path, 5)
    file = verify_bytes(path.read_bytes(), KINDS)
    write_artifact(path, "tree", file.arrays, {**file.metadata, key: value}, force=True)
    with pytest.raises(CdecError) as caught:
        reloaded(toy, path)
    assert caught.value.code in ("E_ARTIFACT_INVALID", "E_TREE_MISMATCH")
