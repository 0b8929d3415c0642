"""``make bench-sets``: every figure that sets must reach, as one Markdown table.

    python -m tools.benchmarks.bench_sets [--titles N] [--only NAME ...] [--output DIR]

Figures are medians on this machine with nothing else running; targets are printed beside them and
judge nothing. ``decoding`` runs ``--model``; the others need no model. Lists are compiled with the
tokenizer of GPT-2 where the shared data is present, else with the embedded one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from cdec.compilers import compile_token_set
from cdec.core import open_artifact
from cdec.core.sets.rows import SetRows
from cdec.core.sets.set_constraint import SetConstraint
from cdec.core.sets.trie import SetArrays, build_trie
from cdec.data.assets import embedded_model_path
from tests.shared import shared_folder
from tools.benchmarks import report
from tools.benchmarks.sets import compile as compiling
from tools.benchmarks.sets import decoding, masks
from tools.benchmarks.sets import open as opening
from tools.benchmarks.sets.token_rows import title_rows
from tools.benchmarks.setting import Setting, parser_of

Row = tuple[str, str, str]
FULL_MASK = {50_265: "≤ 0.1 ms", 131_072: "≤ 0.15 ms"}


def tokenizer_path() -> str:
    """Return GPT-2's tokenizer, or the embedded one where there is no shared data."""
    shared = shared_folder() / "data" / "tokenizers" / "gpt2" / "encoder.json"
    return str(shared if shared.exists() else embedded_model_path())


def trie_of(titles: int, vocabulary: int) -> SetArrays:
    """Build the trie of synthetic rows; code is compiled before."""
    tokens, offsets = title_rows(titles, vocabulary)
    return build_trie(tokens, offsets, vocabulary)


def mask_rows(titles: int, _: Setting) -> Iterator[Row]:
    """Masks of both vocabularies, baselines and the step from logits to ids on the smaller one."""
    for size, target in FULL_MASK.items():
        arrays = trie_of(titles, size)
        vocabulary = masks.plain_vocabulary(size)
        figures, batches = masks.bench_trie(arrays, vocabulary, 60)
        if size == min(FULL_MASK):
            figures.append(masks.bench_verification(arrays, batches[:10], size))
            figures.append(masks.bench_dict_trie(arrays, size, 10))
        for figure in figures:
            is_target = figure.method == "trie: full exact mask"
            name = f"{figure.method}, {figure.rows:,} titles, V {size:,}, batch 128"
            yield name, target if is_target else "", f"{figure.median_ms:.3f} ms"
        if size == min(FULL_MASK):
            no_texts: Any = None  # stepping reads no member's text
            constraint = SetConstraint(SetRows(arrays, vocabulary, no_texts))
            yield from decoding.step_rows(constraint, batches[0].states)


def compile_rows(titles: int, _: Setting) -> Iterator[Row]:
    """Compilation of synthetic titles and of real strings, and opening the former."""
    tokenizer = tokenizer_path()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "titles.txt"
        compiling.write_titles(source, titles)
        yield from compiling.rows(f"{titles:,} synthetic titles", source, tokenizer)
        yield from opening.rows(source.with_suffix(".arrow"), tokenizer)
        if (shared_folder() / "data").is_dir():
            real = Path(folder) / "real.txt"
            count = compiling.write_real_strings(real, shared_folder())
            yield from compiling.rows(f"{count:,} real strings", real, tokenizer)


def decoding_rows(_: int, setting: Setting) -> Iterator[Row]:
    """Overhead of masks in whole decoding steps of the model."""
    model = setting.target()
    depth = 12
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "binary.arrow"
        ordinary = np.flatnonzero(model.vocabulary.is_ordinary)
        compile_token_set(decoding.binary_rows(ordinary, depth), model.vocabulary, path)
        constraint = open_artifact(path, vocabulary=model.vocabulary)
        prompts = [f"Once upon a time, in chapter {i}, there was a" for i in range(32)]
        yield from decoding.overhead_rows(model, constraint, prompts, depth)


def help_rows(titles: int, setting: Setting) -> Iterator[Row]:
    """Whole-process time of ``cdec --help``."""
    command = [str(Path(sys.executable).with_name("cdec")), "--help"]
    times = []
    for _ in range(12):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    yield "`cdec --help`", "≤ 0.3 s", f"{median(times[2:]):.3f} s"


GROUPS: dict[str, Callable[[int, Setting], Iterator[Row]]] = {
    "help": help_rows,
    "decoding": decoding_rows,
    "masks": mask_rows,
    "compile": compile_rows,
}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--titles", type=int, default=6_400_000)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    arguments = parser.parse_args()
    setting = Setting.of(arguments)
    print(f"{report.machine()}\n")
    print("| measure | target | measured |\n|---|---|---|")
    rows: list[Row] = []
    for group in arguments.only:
        for row in GROUPS[group](arguments.titles, setting):
            print(f"| {' | '.join(row)} |", flush=True)
            rows.append(row)
    setting.save("sets", rows)


if __name__ == "__main__":
    main()
