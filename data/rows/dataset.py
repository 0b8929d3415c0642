"""Folders that Hugging Face's datasets package saved (``save_to_disk``), read without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson

from cdec.core.errors import DataError, InputMissingError
from cdec.data.input.source import Source

STATE, _SPLITS = "state.json", "dataset_dict.json"


@dataclass(frozen=True)
class SavedDataset:
    """A saved dataset.

    Attributes:
        files: Arrow files, in the order of their rows.
        columns: That are shown; None shows all.
    """

    files: tuple[Path, ...]
    columns: tuple[str, ...] | None = None


def is_dataset(path: str | Path) -> bool:
    """Say whether a path is the folder of a saved dataset, or of several splits."""
    folder = Path(path)
    return (folder / STATE).is_file() or (folder / _SPLITS).is_file()


def read_dataset(path: str | Path) -> SavedDataset:
    """Read what a folder of ``save_to_disk`` says of its files.

    Raises:
        InputMissingError: It holds several splits, or a file of it is missing.
        DataError: What it says is not understood.
    """
    folder = Path(path)
    if not (folder / STATE).is_file():
        splits = _read(folder / _SPLITS).get("splits")
        names = [str(name) for name in splits] if isinstance(splits, list) else []
        raise InputMissingError(
            f"{folder} holds the splits {', '.join(names) or 'of a dataset'}, not one dataset",
            hint=f"name one of them: {folder / names[0]}" if names else "name one of them",
            path=str(folder),
        )
    state = _read(folder / STATE)
    listed, columns = state.get("_data_files"), state.get("_format_columns")
    if not isinstance(listed, list) or state.get("_indices_data_files"):
        raise DataError(
            f"{folder / STATE} does not say which files the rows stand in, in their order",
            hint="save the dataset again, with a later version of the datasets package",
        )
    if not isinstance(columns, list) or state.get("_output_all_columns"):
        columns = None
    return SavedDataset(
        tuple(_named(folder, entry) for entry in listed),
        None if columns is None else tuple(str(column) for column in columns),
    )


def files_of(source: Source) -> tuple[Source, ...]:
    """Return the files of a saved dataset, in the order of their rows; of any other input itself.

    Raises:
        InputMissingError, DataError: As ``read_dataset``.
    """
    if isinstance(source, str | Path) and is_dataset(source):
        return read_dataset(source).files
    return (source,)


def _read(path: Path) -> dict[str, object]:
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}", hint="save the dataset again") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} is no JSON object", hint="save the dataset again")
    return found


def _named(folder: Path, entry: object) -> Path:
    name = entry.get("filename") if isinstance(entry, dict) else None
    # A name alone: a folder from elsewhere must not lead out of itself.
    if not isinstance(name, str) or Path(name).name != name:
        raise DataError(
            f"{folder / STATE} names a file outside its folder: {name!r}",
            hint="save the dataset again",
        )
    if not (folder / name).is_file():
        raise InputMissingError(
            f"{folder} lacks its file {name}", hint="copy the whole folder", path=str(folder / name)
        )
    return folder / name
