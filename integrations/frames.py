"""Samples of a pandas or polars frame of prompts, as a frame of the same library."""

from __future__ import annotations

import datetime
import decimal
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cdec.core.errors import UsageError
from cdec.core.record_fields import fields_of
from cdec.core.tokens.locations import EMBEDDED
from cdec.data.ids import IdRegistry
from cdec.integrations.records.sampling import RecordSampler

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel

FrameT = TypeVar("FrameT")

_WHOLE = frozenset({"id", "n", "seed", "max_tokens"})
"""Fields that are whole numbers, which pandas makes floats where a cell of the column is empty."""


def sample(frame: FrameT, model: str | LanguageModel = EMBEDDED, **settings: Any) -> FrameT:
    """Draw texts for the rows of a frame, whose columns are the fields of prompt records.

        prompts = pandas.DataFrame({"id": ["q1", "q2"], "prompt": ["The capital of", "A city in"]})
        samples = sample(prompts, artifact="cities.arrow", method="masked", n=2)

    The samples are those of ``cdec sample`` for a file of the same records. An empty cell (None,
    NaN, NA) is a field that the record does not have; times, decimals and bytes are texts, as those
    of Parquet are.

    Args:
        frame: A ``pandas.DataFrame`` or a ``polars.DataFrame``.
        model: A name or path, or a model; the embedded one if not given.
        settings: As ``RecordSampler`` takes them.

    Returns:
        A frame of the same library: a row a sample, in the order of the rows and of their draws, a
        column a field. A record that failed is one row with its ``id`` and ``error``, an object of
        code and message; the column is there only where one failed. A frame without rows gives one
        with the columns of samples.

    Raises:
        UsageError: It is no such frame, or two of its columns have one name.
        DuplicateIdError: Two rows name one id; nothing is drawn.
        CdecError: As ``RecordSampler`` and its ``sample``.
    """
    library = _library_of(frame)
    names = [str(name) for name in frame.columns]  # type: ignore[attr-defined]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(
            f"two columns are named {twice!r}", hint="rename one: columns are fields of records"
        )
    records = list(_records(frame, library))
    _refuse_equal_ids(records)
    with RecordSampler(model, **settings) as sampler:
        found = list(sampler.sample(records))
    make = _pandas if library == "pandas" else _polars
    made: FrameT = make(_columns(found) or _no_rows(settings.get("fields")))
    return made


def _library_of(frame: object) -> str:
    """Return whose frame it is; what was not imported made none.

    Raises:
        UsageError: Nobody's.
    """
    for library in ("pandas", "polars"):
        module = sys.modules.get(library)
        if module is not None and isinstance(frame, module.DataFrame):
            return library
    is_lazy = type(frame).__name__ == "LazyFrame"
    raise UsageError(
        f"`frame` is a {type(frame).__name__}, expected a DataFrame of pandas or polars",
        hint="collect it first" if is_lazy else "for dicts take cdec.integrations.records",
    )


def _records(frame: Any, library: str) -> Iterator[dict[str, Any]]:
    """Yield the rows as JSON-ready records without the fields whose cells are empty."""
    rows = frame.to_dict("records") if library == "pandas" else frame.to_dicts()
    for row in rows:
        cells = {str(name): _cell(str(name), value) for name, value in row.items()}
        yield {name: value for name, value in cells.items() if value is not None}


def _refuse_equal_ids(records: Sequence[Mapping[str, Any]]) -> None:
    """Refuse two rows of one id before the first is drawn.

    Raises:
        DuplicateIdError: There are two.
    """
    ids = IdRegistry()
    for number, record in enumerate(records, 1):
        if isinstance(record.get("id"), str | int):
            ids.explicit(record["id"], "records", number)


def _cell(name: str, value: Any) -> Any:
    """Return a cell as JSON has it; None where it is empty."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return int(value) if name in _WHOLE and value.is_integer() else value
    if isinstance(value, dict):
        return {key: _within(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_within(item) for item in value]
    # pandas.NA and NaT are equal to nothing, themselves included.
    return None if type(value).__name__ in ("NAType", "NaTType") else _text_of(value)


def _text_of(value: Any) -> Any:
    """Return what JSON has no value for as the text that it is in Parquet; all else as it is."""
    if isinstance(value, bytes):
        # Others stay, and the row's error says what they are.
        with suppress(UnicodeDecodeError):
            return value.decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return None if value.is_nan() else str(value)
    is_text = isinstance(value, datetime.timedelta) or type(value).__module__.startswith("pandas.")
    return str(value) if is_text else value


def _within(value: Any) -> Any:
    """Return what stands within a cell; there None is a value."""
    return _cell("", value)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the rows by column, in the order in which fields are met; None where there is none."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _no_rows(fields: Sequence[str] | None) -> dict[str, list[Any]]:
    return {name: [] for name in (fields_of("sample") if fields is None else fields)}


def _pandas(found: Mapping[str, list[Any]]) -> Any:
    import pandas

    return pandas.DataFrame(
        {name: pandas.Series(cells, dtype=_dtype(cells)) for name, cells in found.items()}
    )


def _dtype(cells: Iterable[Any]) -> str | None:
    """Return the type of a column that keeps whole numbers whole; None lets pandas find it."""
    types = {type(cell) for cell in cells}
    nullable = {int: "Int64", bool: "boolean"}
    kind = types - {type(None)}
    if type(None) in types and len(kind) == 1:
        return nullable.get(kind.pop())
    return "object" if len(kind) > 1 and kind != {int, float} else None


def _polars(found: Mapping[str, list[Any]]) -> Any:
    import polars

    return polars.DataFrame(
        {name: polars.Series(name, cells, strict=False) for name, cells in found.items()}
    )
