"""Time from an artifact's path to its first mask: verified or not, in a fresh or a warm process."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks.processes import in_child


def first_mask(path: Path, vocabulary: object) -> float:
    """Open the artifact and fill the mask of its start state; return seconds."""
    from cdec.core import allocate_mask, open_artifact

    begin = time.perf_counter()
    constraint = open_artifact(path, vocabulary=vocabulary)  # type: ignore[arg-type]
    session = constraint.session()
    session.fill_mask(session.start(1), allocate_mask(1, constraint.vocabulary.width))
    return time.perf_counter() - begin


def measure(path: Path, tokenizer: str) -> dict[str, float]:
    """Return seconds of the first and of later opens in this process, and of the imports."""
    begin = time.perf_counter()
    from cdec.core import Vocabulary, open_artifact

    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert callable(open_artifact)
    imports = time.perf_counter() - begin
    first = first_mask(path, vocabulary)
    warm = sorted(first_mask(path, vocabulary) for _ in range(9))[4]
    return {"imports": imports, "first": first, "warm": warm}


def rows(path: Path, tokenizer: str) -> Iterator[tuple[str, str, str]]:
    """Yield the table row; the file was never verified by the cache directory used here."""
    with tempfile.TemporaryDirectory() as cache:
        unverified = in_child(__name__, path, tokenizer, CDEC_CACHE_DIR=cache)
        verified = in_child(__name__, path, tokenizer, CDEC_CACHE_DIR=cache)
    yield (
        f"open {path.stat().st_size / 1e6:.0f} MB and give the first mask, verified, warm process",
        "≤ 20 ms",
        f"{1000 * verified['warm']:.1f} ms (fresh process {1000 * verified['first']:.0f} ms after "
        f"{verified['imports']:.1f} s of imports and tokenizer; first verification "
        f"{unverified['first']:.2f} s)",
    )


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2])))
