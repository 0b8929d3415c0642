"""The engines that benchmarks of grammars replay documents through: cdec's, and those of the peers.

Each is made with one compiled grammar; the peers come from the shared harness.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tools.benchmarks.grammars.workloads import shared_module

_WARM_UP = 'start: "a" A* "."\nA: /[b-z]+( [0-9]|")?/\n'
_ENDS_APART = ("glrmask",)
"""Peers whose masks leave the end of sequence out: they are asked for it."""


Clock = Callable[[], int]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter_ns, "cpu": time.process_time_ns}
"""Nanoseconds by name; "cpu" is this process's own, for machines that do other work as well."""


class Engine(Protocol):
    """One grammar engine with one compiled grammar."""

    compile_ms: float
    artifact_bytes: int
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

    def __init__(self, tokenizer: str, workload: dict[str, Any], now: Clock) -> None:
        from cdec.core.mask import allocate_mask

        self._now = now
        self.vocabulary = vocabulary_of(tokenizer)
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "grammar.arrow"
        self._compile(_WARM_UP)
        self._open()
        self.mask = allocate_mask(1, self.vocabulary.width)
        ends = [token for token, text in enumerate(self.vocabulary.token_bytes) if text == b"a"]
        self.replay(ends)
        self.compile_ms = self.compile(workload)
        self.artifact_bytes = self.path.stat().st_size
        begin = self._now()
        self._open()
        self.session.fill_mask(self.session.start(1), self.mask)
        self.first_open_ms = (self._now() - begin) / 1e6
        begin = self._now()
        self._open()
        self.session.fill_mask(self.session.start(1), self.mask)
        self.open_ms = (self._now() - begin) / 1e6
        self._open()

    def compile(self, workload: dict[str, Any]) -> float:
        """Compile a workload once more; return milliseconds."""
        begin = self._now()
        self._compile(workload["lark"], workload["lexer"], workload.get("indenter"))
        return (self._now() - begin) / 1e6

    def _compile(self, source: str, lexer: Any = None, indenter: str | None = None) -> Any:
        from cdec.compilers import compile_grammar

        return compile_grammar(
            source,
            self.vocabulary,
            self.path,
            lexer=lexer,
            indenter=indenter,
            max_whitespace=None,
            force=True,
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
        return seen["mask_hits"], seen["mask_misses"]

    def replay(self, ids: Sequence[int]) -> tuple[list[int], int]:
        now, session, mask = self._now, self.session, self.mask
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
                begin = self._now()
                self.session.check(states, proposed)
                times.append(self._now() - begin)
                states = self.session.advance(states, proposed[0])
        return times


class Peer:
    """An engine of the shared harness."""

    forgets = False

    def __init__(self, name: str, tokenizer: str, workload: dict[str, Any], now: Clock) -> None:
        self._now = now
        self._tok = shared_module("toks").Tok(tokenizer)
        self._engine = shared_module("bench").ENGINES[name](self._tok, 1)
        own = dict(workload)
        if "schema" in own or "regex" in own:
            own.pop("lark")  # each peer gets the form it is best at
        begin = self._now()
        self._compiled = self._engine.compile(own)
        self._engine.fill(self._engine.start(self._compiled))
        self.compile_ms = (self._now() - begin) / 1e6
        self._ends_apart = name in _ENDS_APART
        self.artifact_bytes = len(self._compiled.save()) if self._ends_apart else 0

    def restart(self) -> None:
        pass

    def masks(self) -> tuple[int, int]:
        return 0, 0

    def replay(self, ids: Sequence[int]) -> tuple[list[int], int]:
        now, engine = self._now, self._engine
        matcher = engine.start(self._compiled)
        times = []
        for position, token in enumerate([*ids, self._tok.eos]):
            begin = now()
            engine.fill(matcher)
            spent = now() - begin
            if self._ends_apart and position == len(ids):
                is_allowed = matcher.is_accepting()
            else:
                is_allowed = engine.bits[token >> 5] >> np.uint32(token & 31) & np.uint32(1)
            if not is_allowed:
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


def engine_of(
    name: str, tokenizer: str, workload: dict[str, Any], clock: str = "wall"
) -> Cdec | Peer:
    """Compile a workload with an engine: "cdec", or a name of the shared harness."""
    if name == "cdec":
        return Cdec(tokenizer, workload, CLOCKS[clock])
    return Peer(name, tokenizer, workload, CLOCKS[clock])
