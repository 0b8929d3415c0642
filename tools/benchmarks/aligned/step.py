"""What a step down the prefix tree costs at vocabulary 131,072 where every prefix was seen before.

Two places. *Saturated*: a JSON grammar on a real tokenizer of that size, under a fixed table that
puts nearly all mass on two tokens a prefix, both legal, so that the tree is soon closed but every
node has a mask of some hundred thousand tokens. *Wide*: a set of single tokens under a flat law, so
that the one node has thousands of visited children. A model costs nothing once a prefix is known:
the time of a round is the tree's; that of ``draw`` has the books and the records in it as well.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers import compile_grammar
from cdec.core import TabularModel, Vocabulary, open_artifact
from cdec.data.assets import grammar_path
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.learning.rounds import Rounds
from cdec.samplers.options import DEFAULT_TREE_CACHE
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.randomness import draw_seeds
from tests.laws.worlds import toy_set
from tools.benchmarks import report
from tools.benchmarks.setting import Setting

_WORDS = 5
"""Tokens within the JSON string: 2 ** _WORDS texts."""
_LEAK = 1e-9
"""Mass of all other tokens together."""
_COLUMNS = ("case", "method", "round", "allowed", "children", "tree_us", "draw_us")
_CHILDREN = (100, 1_000, 4_000, 16_000)
_WIDE_ROUND = 16


def run(setting: Setting, draws: int = 4000) -> list[dict[str, Any]]:
    """Measure, print and save."""
    vocabulary = tekken()
    rows = []
    with TemporaryDirectory() as folder:
        model, constraint = saturated(vocabulary, Path(folder))
        for name in ("asap", "exact"):
            for size in (1, 16, 256):
                rows.append(saturated_row(name, size, model, constraint, draws))
    rows += [wide_row(children, vocabulary) for children in _CHILDREN]
    report.show(
        f"Time of one (walk, step) at vocabulary {vocabulary.width:,}, cached prefix (target: "
        "tree ≤ 50 µs)",
        ("case", "method", "round", "tokens allowed", "children", "tree, µs", "whole draw, µs"),
        [[row[name] for name in _COLUMNS] for row in rows],
    )
    setting.save("aligned-step", rows)
    return rows


def tekken() -> Vocabulary:
    """Read the vocabulary of 131,072 tokens that comes with mistral-common."""
    import mistral_common

    data = Path(mistral_common.__file__).parent / "data"
    return Vocabulary.from_tokenizer(str(data / "tekken_240911.json"))


def saturated(vocabulary: Vocabulary, folder: Path) -> tuple[TabularModel, Any]:
    """Return the model of 2 ** _WORDS JSON strings, and the grammar."""
    path = folder / "json.arrow"
    compile_grammar(grammar_path("json").read_text(encoding="utf-8"), vocabulary, path)
    quote = vocabulary.encode(['"'])[0][-1]
    spelled = vocabulary.token_bytes
    letters = [
        t for t in range(vocabulary.size) if 3 < len(spelled[t]) < 9 and spelled[t].isalpha()
    ]
    rng = np.random.default_rng(1)
    words = rng.choice(letters, size=(_WORDS, 2), replace=False)
    end = next(iter(vocabulary.eos_token_ids))
    levels = [[quote], *words.tolist(), [quote], [end]]

    def probabilities(prefix: tuple[int, ...]) -> NDArray[np.float64]:
        row = np.full(vocabulary.width, _LEAK / vocabulary.width)
        likely = levels[min(len(prefix), len(levels) - 1)]
        row[likely] += (1 - _LEAK) * np.array([0.6, 0.4] if len(likely) == 2 else [1.0])
        return row

    return TabularModel(probabilities, vocabulary), open_artifact(path, vocabulary=vocabulary)


def wide(vocabulary: Vocabulary, members: int) -> tuple[TabularModel, Any]:
    """Return a flat model, and a set of ``members`` single tokens that end themselves."""
    flat = np.full(vocabulary.width, 1 / vocabulary.width)
    tokens = np.flatnonzero(vocabulary.is_ordinary)[:members].tolist()
    constraint = toy_set([(token,) for token in tokens], vocabulary, ends_itself=True)
    return TabularModel(lambda _: flat, vocabulary), constraint


def saturated_row(
    name: str, size: int, model: TabularModel, constraint: Any, draws: int
) -> dict[str, Any]:
    """Time rounds in a closed tree, and what further draws cost with all that is around them."""
    options: dict[str, Any] = {"round": size} | ({"burn_in": 0} if name == "asap" else {})
    sampler = SAMPLERS[name](**options)
    steps = _WORDS + 3  # quote, words, quote, end
    session = constraint.session("cpu")
    quote = np.array(model.vocabulary.encode(['"'])[0][-1:])
    inside = session.advance(session.start(1), quote)
    return {
        "case": "saturated",
        "method": name,
        "round": size,
        "allowed": len(session.allowed(inside)[1]),
        "children": 2,
        "tree_us": round_seconds(model, constraint, size, draws) * 1e6 / (size * steps),
        "draw_us": added(sampler, model, constraint, draws) * 1e6 / steps,
    }


def wide_row(children: int, vocabulary: Vocabulary) -> dict[str, Any]:
    """Time rounds at a root with ``children`` children, nearly all of them visited."""
    model, constraint = wide(vocabulary, children)
    session = constraint.session("cpu")
    return {
        "case": "wide",
        "method": "asap",
        "round": _WIDE_ROUND,
        "allowed": len(session.allowed(session.start(1))[1]),
        "children": children,
        # After 4 draws a child, one child in fifty is left.
        "tree_us": round_seconds(model, constraint, _WIDE_ROUND, 5 * children)
        * (1e6 / _WIDE_ROUND),
        "draw_us": None,
    }


def round_seconds(model: TabularModel, constraint: Any, size: int, draws: int) -> float:
    """Return the mean seconds of a round, over the last fifth of ``draws`` (at least 20 rounds)."""
    count = max(100, draws // size)
    seeds = draw_seeds(np.random.default_rng(3), 1)
    times = []
    with Batch(model, [Request("", constraint, seeds, max_new_tokens=2 * _WORDS)]) as batch:
        rounds = Rounds(batch, size=size, max_walks=size, tree_cache=DEFAULT_TREE_CACHE)
        for _ in range(count):
            begin = time.process_time()
            for drawn in rounds.draw(np.array([0]), np.array([size])):
                drawn.slim()
            times.append(time.process_time() - begin)
    return float(np.mean(times[-(count // 5) :]))


def added(sampler: Any, model: TabularModel, constraint: Any, draws: int) -> float:
    """Return the seconds that each of the second half of ``draws`` adds, records included."""

    def seconds(n: int) -> float:
        begin = time.process_time()
        sampler.draw(model, constraint, "", n=n, rng=np.random.default_rng(3))
        return time.process_time() - begin

    half = draws // 2
    few, many = (min(seconds(n) for _ in range(3)) for n in (half, draws))
    return max(0.0, many - few) / (draws - half)
