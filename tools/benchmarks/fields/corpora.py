"""What corpora cost: documents of 1 to 100 MB compiled, and masks of 32 pieces in them."""

from __future__ import annotations

import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from cdec.compilers import compile_spans
from cdec.core import open_artifact
from cdec.core.constraint import Session
from cdec.core.mask import allocate_mask
from cdec.core.sets.corpus import CorpusConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data.entities.source import read_entities
from tests.shared import shared_folder
from tools.benchmarks.grammars.engines import vocabulary_of

SIZES = (10**6, 10**7, 10**8)
MOST = {"peak": 4000, "seconds": 600, "open": 20, "mean": 1}
BATCH, STEPS, WALKS, WORDS = 32, 24, 24, 300


def documents(size: int) -> Iterator[dict[str, str]]:
    """Yield documents of so many bytes together: chains of words, each drawn after two others.

    They have the words and the phrases of the validation split of WikiText-2.
    """
    import lzma

    path = shared_folder() / "data" / "text_lm" / "wikitext2_valid.txt.xz"
    words = lzma.decompress(path.read_bytes()).decode().split(" ")
    follow: dict[tuple[str, str], list[str]] = {}
    for one, two, three in zip(words, words[1:], words[2:], strict=False):
        follow.setdefault((one, two), []).append(three)
    rng, left = np.random.default_rng(0), size
    for number in range(size):
        if left <= 0:
            return
        at = int(rng.integers(len(words) - 2))
        chain = words[at : at + 2]
        for draw in rng.random(WORDS).tolist():
            choices = follow.get((chain[-2], chain[-1]), words)
            chain.append(choices[int(draw * len(choices))])
        text = " ".join(chain)
        left -= len(text.encode())
        yield {"id": str(number), "text": text}


def _compile(source: Path, path: Path, queue: Any) -> None:
    vocabulary, began = vocabulary_of("tekken131k"), time.process_time()
    report = compile_spans(read_entities(source, id_field="id"), vocabulary, path)
    spent, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    queue.put({"seconds": spent, "peak": peak / 1e3, "bytes": report.bytes / 1e6})


def _pieces(constraint: CorpusConstraint, vocabulary: Vocabulary) -> Iterator[list[int]]:
    """Yield the tokens, the longest ones, from places where words begin."""
    ids = {token: i for i, token in reversed(list(enumerate(vocabulary.token_bytes))) if token}
    text, rng = constraint.documents.text, np.random.default_rng(0)
    blanks = np.flatnonzero(text[: SIZES[1]] == ord(" "))
    for at in rng.choice(blanks, BATCH * WALKS).tolist():
        left, row = text[at : at + 16 * STEPS].tobytes().partition(b"\xff")[0], list[int]()
        while left and len(row) < STEPS:
            size = next(n for n in range(min(len(left), 32), 0, -1) if left[:n] in ids)
            row.append(ids[left[:size]])
            left = left[size:]
        yield row + [vocabulary.eos_token_ids[0]] * (STEPS - len(row))


def _masks(session: Session, vocabulary: Vocabulary, rows: Iterator[list[int]]) -> list[float]:
    """Return the milliseconds of masks of batches along pieces, processor time."""
    mask, spent = allocate_mask(BATCH, vocabulary.width), []
    while batch := list(islice(rows, BATCH)):
        states = session.start(BATCH)
        for tokens in np.array(batch).T:
            began = time.process_time_ns()
            session.fill_mask(states, mask)
            spent.append((time.process_time_ns() - began) / 1e6)
            states = session.advance(states, tokens)
    return spent


def _opened(path: Path, vocabulary: Vocabulary) -> float:
    began = time.perf_counter()
    open_artifact(path, vocabulary=vocabulary)
    return (time.perf_counter() - began) * 1e3


def print_corpora(most: int = SIZES[-1]) -> dict[str, Any]:
    """Print what corpora cost, of ``most`` bytes at most, and return the figures."""
    vocabulary, figures = vocabulary_of("tekken131k"), {}
    print(
        "\n| corpora | compiled, processor time | peak memory | artifact | opened | masks of 32 |"
    )
    print("|---|---|---|---|---|---|")
    spawn = multiprocessing.get_context("spawn")
    for size in (each for each in SIZES if each <= most):
        with tempfile.TemporaryDirectory() as folder:
            path, source = Path(folder, "corpus.arrow"), Path(folder, "corpus.jsonl")
            with source.open("w") as file:
                file.writelines(f"{json.dumps(document)}\n" for document in documents(size))
            queue = spawn.SimpleQueue()
            child = spawn.Process(target=_compile, args=(source, path, queue))
            child.start()
            child.join()
            if child.exitcode:
                raise SystemExit(f"compiling {size} bytes ended with {child.exitcode}")
            found = dict(queue.get())
            constraint = open_artifact(path, vocabulary=vocabulary)
            assert isinstance(constraint, CorpusConstraint)
            found["open"] = min(_opened(path, vocabulary) for _ in range(3))
            masks = _masks(constraint.session(), vocabulary, _pieces(constraint, vocabulary))
            found |= {"mean": float(np.mean(masks)), "p99": float(np.quantile(masks, 0.99))}
        cells = (
            f"{found['seconds']:.1f} s | {found['peak']:,.0f} MB | {found['bytes']:,.0f} MB | "
            f"{found['open']:.1f} ms | {found['mean']:.2f} ms, p99 {found['p99']:.2f} ms"
        )
        print(f"| {size:,} bytes | {cells} |", flush=True)
        figures[str(size)] = found
    wanted = (f"≤ {MOST['seconds']} s", f"≤ {MOST['peak']:,} MB", "", f"≤ {MOST['open']} ms")
    print(f"| target at 10^8 | {' | '.join(wanted)} | ≤ {MOST['mean']} ms |", flush=True)
    return figures
