"""One engine replays the documents of one workload; prints one JSON object with its times.

    python -m tests.benchmarks.grammars.masks ENGINE TOKENIZER WORKLOAD

*Cold*: first pass over the documents in this process. *Warm*: each document after a pass over the
others; for cdec in a newly opened artifact each time, so that the document itself was never seen;
peers keep what they learnt in the cold pass, the same document included. A position costs the mask
written to its row plus the advance.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.grammars.workloads import shared_module, workloads

_REPEATS = 3
_SLOW_NS = 5_000_000_000
"""An engine whose cold pass takes longer repeats the warm one once."""
_WARM_UP = 'start: "a" A* "."\nA: /[b-z]+( [0-9]|")?/\n'


class Engine(Protocol):
    """One grammar engine with one compiled grammar."""

    compile_ms: float
    forgets: bool

    def restart(self) -> None:
        """Forget what earlier documents taught."""

    def masks(self) -> tuple[int, int]:
        """Return how many masks were known and how many were computed since the restart."""

    def replay(self, ids: Sequence[int]) -> tuple[list[int], int]:
        """Walk a document; return nanoseconds by position and the first refused one, or -1."""


class Cdec:
    """This project's engine, through its public calls."""

    forgets = True

    def __init__(self, tokenizer: str, workload: dict[str, Any]) -> None:
        from cdec.core.mask import allocate_mask

        self.vocabulary = vocabulary_of(tokenizer)
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "grammar.arrow"
        self._compile(_WARM_UP)
        self._open()
        self.mask = allocate_mask(1, self.vocabulary.width)
        ends = [token for token, text in enumerate(self.vocabulary.token_bytes) if text == b"a"]
        self.replay(ends)
        begin = time.perf_counter()
        self.report = self._compile(workload["lark"], workload["lexer"])
        self.compile_ms = 1000 * (time.perf_counter() - begin)
        begin = time.perf_counter()
        self._open()
        self.session.fill_mask(self.session.start(1), self.mask)
        self.first_open_ms = 1000 * (time.perf_counter() - begin)
        begin = time.perf_counter()
        self._open()
        self.session.fill_mask(self.session.start(1), self.mask)
        self.open_ms = 1000 * (time.perf_counter() - begin)
        self._open()

    def _compile(self, source: str, lexer: Any = None) -> Any:
        from cdec.compilers import compile_grammar

        return compile_grammar(
            source, self.vocabulary, self.path, lexer=lexer, max_whitespace=None, force=True
        )

    def _open(self) -> None:
        from cdec.core import open_artifact

        constraint: Any = open_artifact(self.path, vocabulary=self.vocabulary)
        self.constraint = constraint
        self.session = self.constraint.session("cpu")

    def restart(self) -> None:
        self._open()

    def masks(self) -> tuple[int, int]:
        seen = self.session.statistics()
        return seen["mask_hits"] + seen["mask_shared"], seen["mask_misses"]

    def replay(self, ids: Sequence[int]) -> tuple[list[int], int]:
        now, session, mask = time.perf_counter_ns, self.session, self.mask
        bits = mask.view(np.uint32)[0]
        states = session.start(1)
        times = []
        for position, token in enumerate([*ids, self.vocabulary.eos_token_ids[0]]):
            tokens = np.array([token])
            begin = now()
            session.fill_mask(states, mask)
            states = session.advance(states, tokens)
            times.append(now() - begin)
            if not bits[token >> 5] >> np.uint32(token & 31) & np.uint32(1):
                return times, position
        return times, -1

    def check_ns(self, documents: Sequence[Sequence[int]]) -> list[int]:
        """Return nanoseconds of ``check`` of one proposed token at every position."""
        times = []
        for ids in documents:
            states = self.session.start(1)
            for token in ids:
                proposed = np.array([[token]])
                begin = time.perf_counter_ns()
                self.session.check(states, proposed)
                times.append(time.perf_counter_ns() - begin)
                states = self.session.advance(states, proposed[0])
        return times


class Peer:
    """An engine of the shared harness."""

    forgets = False

    def __init__(self, name: str, tokenizer: str, workload: dict[str, Any]) -> None:
        self._tok = shared_module("toks").Tok(tokenizer)
        self._engine = shared_module("bench").ENGINES[name](self._tok, 1)
        own = dict(workload)
        if "schema" in own or "regex" in own:
            own.pop("lark")  # each peer gets the form it is best at
        begin = time.perf_counter()
        self._compiled = self._engine.compile(own)
        self._engine.fill(self._engine.start(self._compiled))
        self.compile_ms = 1000 * (time.perf_counter() - begin)

    def restart(self) -> None:
        pass

    def masks(self) -> tuple[int, int]:
        return 0, 0

    def replay(self, ids: Sequence[int]) -> tuple[list[int], int]:
        now, engine = time.perf_counter_ns, self._engine
        matcher = engine.start(self._compiled)
        times = []
        for position, token in enumerate([*ids, self._tok.eos]):
            begin = now()
            engine.fill(matcher)
            spent = now() - begin
            if not engine.bits[token >> 5] >> np.uint32(token & 31) & np.uint32(1):
                return [*times, spent], position
            if position < len(ids):
                begin = now()
                engine.commit(matcher, token)
                spent += now() - begin
            times.append(spent)
        return times, -1


def vocabulary_of(tokenizer: str) -> Any:
    """Return a tokenizer of the shared harness as a vocabulary."""
    from cdec.core import Vocabulary

    tok = shared_module("toks").Tok(tokenizer)
    return Vocabulary(tok.tokens, [tok.eos], tok.special, name=tokenizer)


def measure(engine: Engine, documents: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Replay cold, then warm with the other documents before; nanoseconds by position."""
    first = [engine.replay(ids) for ids in documents]
    cold = [spent for times, _ in first for spent in times]
    passes = [warm_pass(engine, documents) for _ in range(_REPEATS if sum(cold) < _SLOW_NS else 1)]
    warm, (known, computed) = [times for times, _ in passes], passes[0][1]
    return {
        "cold_ns": cold,
        "warm_ns": np.min(warm, axis=0).tolist(),
        "failed": sum(position >= 0 for _, position in first),
        "documents": len(documents),
        "compile_ms": engine.compile_ms,
        "memo": f"{100 * known / max(known + computed, 1):.1f} % known",
    }


def warm_pass(
    engine: Engine, documents: Sequence[Sequence[int]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Replay each document after the others; nanoseconds by position, masks known and computed."""
    times: list[int] = []
    masks = np.zeros(2, np.int64)
    for held_out, ids in enumerate(documents):
        if engine.forgets:
            engine.restart()
            for other, others in enumerate(documents):
                if other != held_out:
                    engine.replay(others)
        before = engine.masks()
        times += engine.replay(ids)[0]
        masks += np.subtract(engine.masks(), before)
    return np.array(times), masks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine")
    parser.add_argument("tokenizer", choices=["mistral32k", "tekken131k"])
    parser.add_argument("workload")
    arguments = parser.parse_args()
    workload = workloads()[arguments.workload]
    tok = shared_module("toks").Tok(arguments.tokenizer)
    documents = [tok.check(text) for text in workload["docs"]]
    if arguments.engine != "cdec":
        peer = Peer(arguments.engine, arguments.tokenizer, workload)
        print(json.dumps(measure(peer, documents)))
        return
    engine = Cdec(arguments.tokenizer, workload)
    result = measure(engine, documents)
    result |= {"open_ms": engine.open_ms, "check_ns": engine.check_ns(documents)}
    begin = time.perf_counter()
    engine._compile(workload["lark"], workload["lexer"])
    result["cached_compile_ms"] = 1000 * (time.perf_counter() - begin)
    print(json.dumps(result, default=str))


if __name__ == "__main__":
    main()
