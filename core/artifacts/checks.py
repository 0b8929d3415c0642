"""Checks of columns that the kinds of artifact share: what holds, or which column breaks it.

Those that look at lengths and ends alone cost nothing and run whenever a file opens; those that
read whole columns run once for a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from cdec.core.errors import ArtifactInvalidError

Columns = Mapping[str, NDArray[Any]]
CHUNK = 1 << 20
"""Elements checked at a time: temporary arrays stay in the cache."""


def require(holds: object, column: str, expected: str) -> None:
    """Refuse an artifact where an invariant does not hold.

    Raises:
        ArtifactInvalidError: It does not.
    """
    if not holds:
        raise ArtifactInvalidError(
            f"column {column} breaks an invariant: expected {expected}",
            hint="compile the artifact again",
            column=column,
        )


def require_length(columns: Columns, name: str, length: int, of: str) -> None:
    """Require as many elements; ``of`` says of what there is one each."""
    require(len(columns[name]) == length, name, f"one {of} ({length})")


def require_ends(columns: Columns, name: str, count: int, end: int) -> None:
    """Require ``count + 1`` offsets of which the first is 0 and the last ``end``."""
    array = columns[name]
    require(len(array) == count + 1, name, f"{count + 1} offsets")
    require(array[0] == 0 and array[-1] == end, name, f"offsets from 0 to {end}")


def require_rising(columns: Columns, name: str, what: str = "offsets that never fall") -> None:
    """Require that no element is below the one before. Reads the column."""
    array = columns[name]
    for a, b in chunks(len(array) - 1):
        require((array[a + 1 : b + 1] >= array[a:b]).all(), name, what)


def require_range(columns: Columns, name: str, low: int, high: int) -> None:
    """Require values in [low, high). Reads the column."""
    array = columns[name]
    for a, b in chunks(len(array)):
        part = array[a:b]
        require(part.min() >= low and part.max() < high, name, f"values in [{low}, {high})")


def chunks(n: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of pieces of ``CHUNK`` elements."""
    yield from ((start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))


def json_object(metadata: Mapping[str, str], key: str) -> dict[str, Any]:
    """Return the JSON object that an entry of the metadata holds.

    Raises:
        ArtifactInvalidError: It is missing, or none.
    """
    try:
        value = json.loads(metadata.get(key, ""))
    except (ValueError, RecursionError):
        value = None
    require(isinstance(value, dict), key, "a JSON object")
    found: dict[str, Any] = value
    return found


def json_list(metadata_key: str, value: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list that a JSON object of the metadata holds under a name.

    Raises:
        ArtifactInvalidError: It is missing, or none.
    """
    found = value.get(name)
    require(isinstance(found, list), metadata_key, f"a list of {name}")
    items: list[Any] = found or []
    return items


def require_counts(metadata: Mapping[str, str]) -> None:
    """Require that ``cdec.counts`` holds numbers by name, 0 or more."""
    counts = json_object(metadata, "cdec.counts").values()
    require(all(type(n) is int and n >= 0 for n in counts), "cdec.counts", "numbers by name")


def require_digests(metadata: Mapping[str, str], key: str) -> None:
    """Require that an entry of the metadata holds digests by name, where it is there."""
    said = json_object(metadata, key).values() if key in metadata else ()
    require(all(isinstance(digest, str) for digest in said), key, "digests by name")


def vocabulary_size(columns: Columns, metadata: Mapping[str, str]) -> int:
    """Return the vocabulary size; check that the columns with its bytes have that many tokens.

    Raises:
        ArtifactInvalidError: It is no positive integer, or they have not.
    """
    text = metadata.get("cdec.vocabulary_size", "")
    is_number = text.isascii() and text.isdigit() and 0 < len(text) < 12
    require(is_number and int(text) > 0, "cdec.vocabulary_size", "a positive integer")
    require_ends(columns, "vocabulary_offsets", int(text), len(columns["vocabulary_bytes"]))
    return int(text)


def is_texts(value: object) -> bool:
    """Say whether something JSON-ready is a list of strings."""
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
