"""Forms of outputs, told by the name: lines of JSON, tables, Parquet; compressed or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from cdec.core.errors import UsageError
from cdec.data.input.decompress import COMPRESSIONS, SUFFIXES, Compression
from cdec.data.rows.formats import FORMATS

LINES, COLUMNS = "lines", "parquet"
_PARQUET = FORMATS[COLUMNS].endings
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
POSSIBLE = (
    "name it .jsonl (or .ndjson, .json, .txt), .csv or .tsv, each with "
    f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} behind it where it is to be compressed; or "
    ".parquet"
)
_REFUSED = frozenset(
    (
        *(".arrow", ".arrows", ".feather", ".ipc", ".orc", ".avro"),
        *(".xlsx", ".xls", ".ods", ".html", ".htm", ".xml", ".md", ".yaml", ".yml", ".toml"),
        *(".pkl", ".pickle", ".npy", ".npz", ".h5", ".hdf5", ".msgpack", ".safetensors"),
        *(".db", ".sqlite", ".sqlite3", ".duckdb", ".sql"),
        *(".zip", ".7z", ".tar", ".tgz", ".rar", ".br", ".lzma", ".z", ".sz", ".snappy", ".zstd"),
    )
)
"""How names of other formats end: lines of JSON under one of them would be nothing it can be."""


@dataclass(frozen=True)
class Form:
    """Form of a file's records.

    Attributes:
        kind: ``lines``, ``csv``, ``tsv`` or ``parquet``.
        compression: Around it; None for none.
    """

    kind: str
    compression: Compression | None = None

    @property
    def separator(self) -> str | None:
        """Separator of the cells of a table of texts; None where it is none."""
        return _SEPARATORS.get(f".{self.kind}")

    @property
    def is_staged(self) -> bool:
        """True where it cannot be added to in place, so that records stand in parts meanwhile."""
        return self.kind != LINES or self.compression is not None


def form_of(path: PurePath | str) -> Form:
    """Return the form that the name of an output says.

    Raises:
        UsageError: One in which records are not written.
    """
    name = PurePath(path)
    ending = name.suffix.lower()
    compression = next((each for each in COMPRESSIONS if each.suffix == ending), None)
    inner = name.suffix.lower() if compression is None else name.with_suffix("").suffix.lower()
    if inner in _REFUSED or (compression is not None and inner in _PARQUET):
        why = "compressed within" if inner in _PARQUET else f"{inner} by its name"
        raise UsageError(f"{path} would be {why}, which is not written", hint=POSSIBLE)
    if inner in _PARQUET:
        return Form(COLUMNS)
    return Form(inner[1:] if inner in _SEPARATORS else LINES, compression)
