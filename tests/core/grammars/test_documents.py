"""Shipped grammars on documents labelled by others: the JSON suite in full, CSV, C, arithmetic."""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdec.data.assets import grammar_path
from tests.conftest import shared_folder
from tests.core.grammars.walks import accepts
from tests.laws.grammar_cases import byte_vocabulary, compiled

DATA = shared_folder() / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the documents are in the shared data")


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a compressed or plain JSONL file."""
    data = path.read_bytes()
    text = lzma.decompress(data) if path.suffix == ".xz" else data
    for line in text.splitlines():
        yield json.loads(line)


def text_of(row: dict[str, Any]) -> bytes:
    if "bytes_b64" in row:
        return base64.b64decode(row["bytes_b64"])
    return str(row["text"]).encode("utf-8", "surrogatepass")


def shipped(name: str, folder: Path) -> Any:
    """Compile a shipped grammar over single bytes and open a session."""
    source = grammar_path(name).read_text(encoding="utf-8")
    return compiled(source, folder, byte_vocabulary(())).session("cpu")


def test_json_suite_in_full(tmp_path: Path) -> None:
    session = shipped("json", tmp_path)
    wrong, counts, recorded = [], {"accept": 0, "reject": 0}, {}
    for row in rows_of(DATA / "json_test_suite" / "cases.jsonl.xz"):
        verdict = accepts(session, text_of(row))
        if row["name"].startswith("i_"):
            recorded[row["name"]] = verdict
        elif row["name"][:2] in ("y_", "n_"):
            expected = row["name"].startswith("y_")
            counts["accept" if expected else "reject"] += 1
            if verdict != expected:
                wrong.append(row["name"])
    assert not wrong
    assert counts == {"accept": 95, "reject": 188} and len(recorded) == 35
    # Implementation-defined: escapes of lone surrogates are JSON text, raw invalid UTF-8 is not.
    assert recorded["i_string_1st_surrogate_but_2nd_missing.json"]
    assert not recorded["i_string_invalid_utf-8.json"]


def share(session: Any, rows: list[dict[str, Any]], expect: str) -> float:
    """Return the share of the rows labelled ``expect`` that the grammar labels alike."""
    chosen = [row for row in rows if row["expect"] == expect]
    alike = [accepts(session, text_of(row)) == (expect == "accept") for row in chosen]
    return sum(alike) / len(alike)


def test_c_subset_reads_what_it_covers(tmp_path: Path) -> None:
    """The subset has no preprocessor; programs that use one are outside of it."""
    session = shipped("c", tmp_path)
    rows = [
        row
        for name in ("c_testsuite", "wacc_tests")
        for row in rows_of(DATA / "c_programs" / f"{name}.jsonl.xz")
        if "\n#" not in "\n" + row["text"]
    ]
    accepted, refused = share(session, rows, "accept"), share(session, rows, "reject")
    assert accepted >= 0.6, f"accepts {accepted:.3f} of the programs"
    assert refused >= 0.7, f"refuses {refused:.3f} of the broken programs"


def test_csv_grammar_reads_the_spectrum(tmp_path: Path) -> None:
    session = shipped("csv", tmp_path)
    rows = list(rows_of(DATA / "sample_documents" / "csv_spectrum.jsonl"))
    assert len(rows) >= 10
    for row in rows:
        text = row.get("csv", row.get("text"))
        assert accepts(session, text.encode()), row
    assert not accepts(session, b'a,"b\n')


@pytest.mark.parametrize(("name", "grammar"), [("json", "json")])
def test_grammars_read_the_examples_of_their_format(
    name: str, grammar: str, tmp_path: Path
) -> None:
    session = shipped(name, tmp_path)
    rows = list(rows_of(DATA / "sample_documents" / "antlr_examples.jsonl.xz"))
    texts = [row for row in rows if row["grammar"] == grammar and not row["antlr_errors_expected"]]
    assert texts
    for row in texts:
        assert accepts(session, text_of(row)), row["name"]
