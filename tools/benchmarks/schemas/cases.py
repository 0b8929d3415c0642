"""Schemas with instances known to be valid or not: the official cases, a benchmark's, a store's.

All come with the shared data. An instance is judged in several spellings of the same value.
"""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cdec.compilers.schemas.references import references_of
from cdec.core.schemas.references import Reference
from tests.shared import shared_folder

_FORMATS = ("optional/format/", "optional/format-assertion")
"""Official files whose cases say that formats are enforced; everywhere else they are comments."""


@dataclass(frozen=True)
class Instance:
    """A value, whether it is an instance, and why it is there."""

    data: Any
    valid: bool
    description: str = ""

    def texts(self) -> dict[str, str]:
        """Return its spellings by name: of white space, of characters, of the order of names."""
        plain = json.dumps(self.data, ensure_ascii=False)
        return {
            "plain": plain,
            "escaped": json.dumps(self.data),
            "compact": json.dumps(self.data, ensure_ascii=False, separators=(",", ":")),
            "indented": json.dumps(self.data, ensure_ascii=False, indent=2),
            "shuffled": json.dumps(_shuffled(self.data, random.Random(plain)), ensure_ascii=False),
        }


@dataclass(frozen=True)
class Case:
    """A schema and its instances.

    Attributes:
        name: Unique among its collection.
        group: The keyword, or the family of schemas.
        source: The schema, JSON.
        formats: ``enforce`` or ``annotate``.
        instances: Known to be valid or not.
    """

    name: str
    group: str
    source: str
    instances: list[Instance]
    formats: str = "enforce"
    notes: dict[str, Any] = field(default_factory=dict)


def official() -> Iterator[Case]:
    """Yield the cases of the JSON-Schema-Test-Suite for draft-07 and 2020-12."""
    for row in _rows("json_schema_test_suite/cases.jsonl.xz"):
        schema = row["schema"]
        if row["draft"] == "draft7" and isinstance(schema, dict) and "$schema" not in schema:
            # The folder says which draft is meant.
            schema = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
        yield Case(
            name=f"{row['draft']}/{row['file']}/{row['case']}",
            group=row["file"],
            source=json.dumps(schema),
            instances=_instances(row["tests"]),
            formats="enforce" if row["file"].startswith(_FORMATS) else "annotate",
            notes={"description": row["description"]},
        )


def benchmark() -> Iterator[Case]:
    """Yield the 452 schemas drawn from JSONSchemaBench."""
    for row in _rows("jsonschemabench/maskbench_sample.jsonl.xz"):
        yield Case(
            name=row["id"],
            group=row["family"],
            source=json.dumps(row["schema"]),
            instances=_instances(row["tests"]),
        )


def found_wrong() -> Iterator[Case]:
    """Yield the schemas of JSONSchemaBench, none of them among the 452, that were once wrong."""
    for row in _rows("jsonschemabench/found_wrong.jsonl.xz"):
        yield Case(row["id"], "found", json.dumps(row["schema"]), _instances(row["tests"]))


def store() -> Iterator[Case]:
    """Yield the shared half of SchemaStore with its own tests, which do not assert formats."""
    for row in _rows("schemastore/cases.jsonl.xz"):
        instances = [Instance(data, True) for data in row["valid"]]
        instances += [Instance(data, False) for data in row["invalid"]]
        yield Case(row["name"], "store", json.dumps(row["schema"]), instances, "annotate")


def neighbours() -> tuple[Reference, ...]:
    """Return the schemas of the shared half of SchemaStore, as a folder of them is read."""
    with TemporaryDirectory() as folder:
        for case in store():
            Path(folder, f"{case.name}.json").write_text(case.source, "utf-8")
        return references_of(Path(folder))


def has_cases() -> bool:
    """Whether the shared data is there."""
    return (_folder() / "jsonschemabench").is_dir()


def _rows(name: str) -> Iterator[dict[str, Any]]:
    # subtle: not by orjson, which takes integers beyond 64 bits for floats.
    with lzma.open(_folder() / name, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _folder() -> Path:
    return shared_folder() / "data"


def _instances(tests: list[dict[str, Any]]) -> list[Instance]:
    return [Instance(test["data"], test["valid"], test["description"]) for test in tests]


def _shuffled(value: Any, random: random.Random) -> Any:
    """Return a value with the names of its objects in another order."""
    if isinstance(value, dict):
        names = list(value)
        random.shuffle(names)
        return {name: _shuffled(value[name], random) for name in names}
    if isinstance(value, list):
        return [_shuffled(below, random) for below in value]
    return value
