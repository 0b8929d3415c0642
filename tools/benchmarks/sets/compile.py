"""Seconds and peak memory of ``compile_set`` beside the tokenizer's own time over the same lines.

Each measurement is a process of its own, so that a peak belongs to one thing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cdec.compilers import compile_set
from cdec.core import Vocabulary
from cdec.data import read_entities
from cdec.data.input.source import ENTITY_LIMITS
from tools.benchmarks.files import read_lines
from tools.benchmarks.processes import in_child, peak_bytes
from tools.benchmarks.sets.titles import synthetic_titles

BATCH = 65_536


def write_titles(path: Path, n: int) -> None:
    """Write ``n`` synthetic titles, one a line."""
    with path.open("w", encoding="utf-8") as file:
        for titles in synthetic_titles(n):
            file.write("\n".join(titles) + "\n")


def write_real_strings(path: Path, shared: Path) -> int:
    """Write the distinct strings of the shared entity sets; return how many there are."""
    strings: set[str] = set()
    for source in sorted((shared / "data" / "entity_sets").glob("*.txt.xz")):
        strings.update(read_lines(source))
    strings.update(read_lines(shared / "data" / "wordnet" / "lemmas.txt.xz"))
    strings.discard("")
    path.write_text("\n".join(sorted(strings)) + "\n", encoding="utf-8")
    return len(strings)


def lines_of(path: Path) -> Iterator[list[str]]:
    """Yield the lines of a file in batches."""
    with path.open(encoding="utf-8") as file:
        batch: list[str] = []
        for line in file:
            batch.append(" " + line.rstrip("\n"))
            if len(batch) == BATCH:
                yield batch
                batch = []
        yield batch


def time_tokenizer(source: Path, tokenizer: str) -> dict[str, float]:
    """Return the seconds that the tokenizers library takes: encoding alone, and with its ids."""
    backend = Vocabulary.from_tokenizer(tokenizer).tokenization._backend  # type: ignore[union-attr]
    encoding, reading, tokens = 0.0, 0.0, 0
    for batch in lines_of(source):
        begin = time.perf_counter()
        encodings = backend.encode_batch_fast(batch, add_special_tokens=False)
        middle = time.perf_counter()
        ids = [encoding.ids for encoding in encodings]
        reading += time.perf_counter() - middle
        encoding += middle - begin
        tokens += sum(map(len, ids))
    return {"encoding": encoding, "with_ids": encoding + reading, "tokens": tokens}


def time_compile(source: Path, tokenizer: str) -> dict[str, object]:
    """Compile a file of titles and return its seconds by phase, sizes and the peak memory."""
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    begin = time.perf_counter()
    entities = read_entities(source, format="text", limits=ENTITY_LIMITS)
    report = compile_set(entities, vocabulary, source.with_suffix(".arrow"), force=True)
    return {
        "total": time.perf_counter() - begin,
        "phases": report.seconds,
        "entities": report.entities,
        "rows": report.rows,
        "nodes": report.nodes,
        "bytes": report.bytes,
        "peak_bytes": peak_bytes(),
    }


def rows(name: str, source: Path, tokenizer: str) -> Iterator[tuple[str, str, str]]:
    """Yield table rows: the compile time against 1.5 times the tokenizer's, and the peak."""
    alone = in_child(__name__, "tokenizer", source, tokenizer)
    done = in_child(__name__, "compile", source, tokenizer)
    ratio = done["total"] / alone["with_ids"]
    phases = ", ".join(f"{key} {value:.1f}" for key, value in done["phases"].items())
    yield (
        f"compile {name}",
        "≤ 1.5 × tokenizer",
        f"{ratio:.2f} × ({done['total']:.1f} s; tokenizer {alone['with_ids']:.1f} s with ids, "
        f"{alone['encoding']:.1f} s without; phases: {phases})",
    )
    yield (
        f"peak memory, {name}",
        "≤ 3 GB",
        f"{done['peak_bytes'] / 1e9:.2f} GB (artifact {done['bytes'] / 1e6:.0f} MB, "
        f"{done['rows']:,} rows, {done['nodes']:,} nodes)",
    )


if __name__ == "__main__":
    measure = {"tokenizer": time_tokenizer, "compile": time_compile}[sys.argv[1]]
    print(json.dumps(measure(Path(sys.argv[2]), sys.argv[3])))
