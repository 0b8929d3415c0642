"""The columns of schemas: what is refused of mutated ones, by name."""

from __future__ import annotations

import numpy as np
import pytest

from cdec.core.errors import ArtifactInvalidError
from cdec.core.schemas.program import COLUMNS, OWN_STYLE, USUAL_ESCAPES
from cdec.core.schemas.program_checks import check_schema, check_schema_shape
from tests.core.schemas.programs import (
    Array,
    Choice,
    Object,
    Text,
    Value,
    anything,
    as_numpy,
    integers,
    metadata_for,
    program,
    small_vocabulary,
)


@pytest.fixture
def columns() -> dict[str, np.ndarray]:
    values = [
        Value(
            raw=integers(),
            strings=[Text(anything())],
            arrays=[Array([[Choice(0, (0,))], [Choice(1)]], counters=[(0, 3)])],
            objects=[
                Object({"a": [Choice(1)], "b": [Choice(0)]}, {"": [Choice(0)]}, counters=[(0, 2)])
            ],
        ),
        Value(raw=integers()),
    ]
    return as_numpy(program(values, small_vocabulary())._asdict())


def check(columns: dict[str, np.ndarray], **metadata: str) -> None:
    said = metadata_for(small_vocabulary()) | metadata
    check_schema_shape(columns, said)
    check_schema(columns, said)


def test_a_program_keeps_its_own_rules(columns: dict[str, np.ndarray]) -> None:
    check(columns)
    assert {name: str(array.dtype) for name, array in columns.items()} == dict(COLUMNS)


@pytest.mark.parametrize("layout", [-1, 65, 127, 129, 130, 256 + 65, 256 + 129, 512, 1 << 30])
def test_a_layout_that_does_not_exist_is_refused(
    layout: int, columns: dict[str, np.ndarray]
) -> None:
    for known in (0, 1, 64, OWN_STYLE, USUAL_ESCAPES, USUAL_ESCAPES + 4, USUAL_ESCAPES + OWN_STYLE):
        columns["indent"][0] = known
        check(columns)
    columns["indent"][0] = layout
    with pytest.raises(ArtifactInvalidError):
        check(columns)


_FREE = ("place_bytes", "key_bytes", "vocabulary_bytes", "edge_low", "edge_high", "slot_rank")


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in _FREE])
def test_a_value_out_of_range_is_refused(name: str, columns: dict[str, np.ndarray]) -> None:
    largest = np.iinfo(columns[name].dtype).max
    if name in ("state_label", "state_shortest", "state_low", "state_high"):
        largest = -2
    columns[name][-1] = largest
    if not name.startswith("vocabulary"):
        with pytest.raises(ArtifactInvalidError):
            check(columns)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "place_bytes"])
def test_a_column_of_another_length_is_refused(name: str, columns: dict[str, np.ndarray]) -> None:
    columns[name] = np.append(columns[name], columns[name][-1:])
    with pytest.raises(ArtifactInvalidError):
        check(columns)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cdec.options", "[]"),
        ("cdec.unenforced", '[{"path": 1}]'),
        ("cdec.sound", "yes"),
        ("cdec.vocabulary_size", "12"),
    ],
)
def test_metadata_that_say_nothing_are_refused(
    key: str, value: str, columns: dict[str, np.ndarray]
) -> None:
    with pytest.raises(ArtifactInvalidError):
        check(columns, **{key: value})


def test_edges_that_overlap_are_refused(columns: dict[str, np.ndarray]) -> None:
    first = int(np.flatnonzero(np.diff(columns["state_edges"]) > 1)[0])
    at = columns["state_edges"][first]
    columns["edge_high"][at] = columns["edge_low"][at + 1]
    with pytest.raises(ArtifactInvalidError, match="edge_low"):
        check(columns)


def test_regions_before_named_keys_are_refused(columns: dict[str, np.ndarray]) -> None:
    columns["slot_single"][:] = [0, 1, 1]
    with pytest.raises(ArtifactInvalidError, match="slot_single"):
        check(columns)
