"""Masks of large sets: the compiled trie beside a dict trie and prefix verification as published.

    python -m tools.benchmarks.sets.masks --titles 6400000 --vocabulary 50265 131072

Every method answers the same batches: 128 states at mixed depths of titles drawn at random. Figures
are medians and minima over batches, in milliseconds a step, data in memory and code compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.mask import allocate_mask
from cdec.core.sets.rows import RowFilter
from cdec.core.sets.session import SetSession, make_view
from cdec.core.sets.trie import SetArrays, build_trie
from cdec.core.tokens.vocabulary import Vocabulary
from tools.benchmarks.sets.prefix_baselines import DictTrie, PrefixVerification
from tools.benchmarks.sets.token_rows import title_rows
from tools.benchmarks.setting import Setting, parser_of

BATCH = 128
PROPOSED = 50
DICT_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    method: str
    rows: int
    vocabulary: int
    median_ms: float
    min_ms: float


@dataclass(frozen=True, slots=True)
class Batch:
    """States at mixed depths: their prefixes are ``row[:depth]`` of drawn rows."""

    states: NDArray[np.int64]
    prefixes: list[list[int]]
    proposed: NDArray[np.int64]


def draw_batches(arrays: SetArrays, session: SetSession, vocabulary: int, n: int) -> list[Batch]:
    """Draw batches; half of the proposed tokens of a state are frequent ones, one is right."""
    rng = np.random.default_rng(7)
    batches = []
    for _ in range(n):
        rows = rng.integers(0, arrays.n_rows, BATCH)
        lengths = arrays.row_offsets[rows + 1] - arrays.row_offsets[rows]
        depths = rng.integers(0, lengths)
        proposed = rng.integers(0, vocabulary, (BATCH, PROPOSED))
        some = rng.integers(0, len(arrays.tokens), (BATCH, PROPOSED // 2))
        proposed[:, : PROPOSED // 2] = arrays.tokens[some]
        proposed[:, 0] = arrays.tokens[arrays.row_offsets[rows] + depths]
        prefixes = [
            arrays.row(row)[:depth].tolist() for row, depth in zip(rows, depths, strict=True)
        ]
        states = session.start(BATCH)
        for step in range(int(depths.max())):
            moving = depths > step
            tokens = arrays.tokens[arrays.row_offsets[rows[moving]] + step]
            states[moving] = session.advance(states[moving], tokens)
        batches.append(Batch(states, prefixes, proposed))
    return batches


def measure(call: Callable[[Batch], object], batches: Sequence[Batch]) -> tuple[float, float]:
    """Return median and least milliseconds of a call over the batches, after one warm-up pass."""
    seconds = []
    for warm in (False, True):
        for batch in batches:
            begin = time.perf_counter()
            call(batch)
            if warm:
                seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds)) * 1e3, min(seconds) * 1e3


def bench_trie(
    arrays: SetArrays, vocabulary: Vocabulary, n: int
) -> tuple[list[Figure], list[Batch]]:
    """Time the CPU session, with and without a filter, and the torch session on the CPU."""
    session = SetSession(make_view(arrays, vocabulary, None, ends_itself=False))
    batches = draw_batches(arrays, session, vocabulary.size - 1, n)
    mask = allocate_mask(BATCH, vocabulary.width)
    kept = np.random.default_rng(8).random(arrays.n_rows) < 0.5
    row_filter = RowFilter.from_kept(kept)
    filtered = SetSession(make_view(arrays, vocabulary, row_filter, ends_itself=False))
    calls: dict[str, Callable[[Batch], object]] = {
        "zeroing the mask alone": lambda batch: mask.fill(0),
        "trie: full exact mask": lambda batch: session.fill_mask(batch.states, mask),
        "trie: full exact mask, half the rows filtered": lambda batch: filtered.fill_mask(
            batch.states, mask
        ),
        "trie: top-50 check": lambda batch: session.check(batch.states, batch.proposed),
        "trie: allowed tokens": lambda batch: session.allowed(batch.states),
        "trie: advance": lambda batch: session.advance(batch.states, batch.proposed[:, 0]),
    }
    calls |= torch_calls(arrays, vocabulary)
    figures = [
        Figure(name, arrays.n_rows, vocabulary.size - 1, *measure(call, batches))
        for name, call in calls.items()
    ]
    return figures, batches


def torch_calls(arrays: SetArrays, vocabulary: Vocabulary) -> dict[str, Callable[[Batch], object]]:
    """Return the torch session's calls on the CPU, and on CUDA where there is one."""
    import torch

    from cdec.core.sets.torch_session import TorchSetSession, TorchTrie

    calls: dict[str, Callable[[Batch], object]] = {}
    for device in ["torch:cpu"] + ["cuda"] * torch.cuda.is_available():
        view = make_view(arrays, vocabulary, None, ends_itself=False)
        session = TorchSetSession(TorchTrie.from_arrays(arrays, device), view, None, device)
        mask = allocate_mask(BATCH, vocabulary.width, device)

        def fill(batch: Batch, session: Any = session, mask: Any = mask) -> None:
            session.fill_mask(batch.states, mask)
            if mask.is_cuda:
                torch.cuda.synchronize()

        calls[f"trie in torch, {device}: full exact mask"] = fill
    return calls


def bench_verification(arrays: SetArrays, batches: Sequence[Batch], vocabulary: int) -> Figure:
    """Time prefix verification as published; its answers must be the trie's."""
    verification = PrefixVerification(arrays)
    session = SetSession(make_view(arrays, plain_vocabulary(vocabulary), None, ends_itself=False))
    for batch in batches[:3]:
        found = verification.check(batch.prefixes, batch.proposed).numpy()
        expected = session.check(batch.states, batch.proposed)
        if not np.array_equal(found, expected):
            raise ValueError("prefix verification and trie disagree")
    median, least = measure(lambda b: verification.check(b.prefixes, b.proposed), batches)
    name = "prefix verification from the whole matrix, torch: top-50 check"
    return Figure(name, arrays.n_rows, vocabulary, median, least)


def bench_dict_trie(arrays: SetArrays, vocabulary: int, n: int) -> Figure:
    """Time a dict trie behind transformers' logits processor, on a million rows at most."""
    rows = np.linspace(0, arrays.n_rows - 1, min(DICT_ROWS, arrays.n_rows)).astype(np.int64)
    offsets = np.zeros(len(rows) + 1, np.int64)
    parts = [arrays.row(row) for row in rows.tolist()]
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    fewer = build_trie(np.concatenate(parts), offsets, vocabulary)
    session = SetSession(make_view(fewer, plain_vocabulary(vocabulary), None, ends_itself=False))
    batches = draw_batches(fewer, session, vocabulary, n)
    trie = DictTrie([part.tolist() for part in parts], end=vocabulary)
    process = trie.processor(vocabulary + 1, BATCH)
    median, least = measure(lambda batch: process(batch.prefixes), batches)
    return Figure("dict trie + logits processor", fewer.n_rows, vocabulary, median, least)


def plain_vocabulary(size: int) -> Vocabulary:
    """Return ``size`` ordinary tokens and one end id."""
    return Vocabulary([b"%d" % token for token in range(size)] + [b""], [size])


def run(titles: int, vocabulary: int, *, baselines: bool = True, n: int = 60) -> list[Figure]:
    """Build the set and time every method.

    Args:
        titles: Rows of the set.
        vocabulary: Ordinary tokens.
        baselines: Also time the dict trie (gigabytes, minutes) and prefix verification.
        n: Batches.

    Returns:
        The table. Building the trie is a line of its own, timed once.
    """
    tokens, offsets = title_rows(titles, vocabulary)
    build_trie(tokens[: offsets[1]], offsets[:2], vocabulary)
    begin = time.perf_counter()
    arrays = build_trie(tokens, offsets, vocabulary)
    built = (time.perf_counter() - begin) * 1e3
    figures = [Figure("build the trie of sorted rows", arrays.n_rows, vocabulary, built, built)]
    more, batches = bench_trie(arrays, plain_vocabulary(vocabulary), n)
    figures += more
    if baselines:
        figures.append(bench_verification(arrays, batches[:10], vocabulary))
        figures.append(bench_dict_trie(arrays, vocabulary, 10))
    return figures


def main() -> None:
    parser = parser_of(__doc__, has_model=False)
    parser.add_argument("--titles", type=int, default=6_400_000)
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[50_265, 131_072])
    parser.add_argument("--threads", type=int, help="threads of torch (kernels use one)")
    parser.add_argument("--no-baselines", action="store_true")
    arguments = parser.parse_args()
    if arguments.threads:
        import torch

        torch.set_num_threads(arguments.threads)
    print("| method | rows | vocabulary | median ms | min ms |\n|---|---|---|---|---|")
    figures = []
    for vocabulary in arguments.vocabulary:
        for figure in run(arguments.titles, vocabulary, baselines=not arguments.no_baselines):
            name, rows, size, median, least = asdict(figure).values()
            print(f"| {name} | {rows} | {size} | {median:.4f} | {least:.4f} |", flush=True)
            figures.append(asdict(figure))
    Setting.of(arguments).save("set-masks", figures)


if __name__ == "__main__":
    main()
