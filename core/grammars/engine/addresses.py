"""The engine's large functions, compiled once each; callers find their addresses in the header.

Without this every entry point would hold its own compiled copy of the parsers, and a first run
would take minutes to compile instead of seconds.
"""

from __future__ import annotations

from typing import Any

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.allowing import compute_allowed
from cdec.core.grammars.engine.masks.automaton import compute_step
from cdec.core.grammars.engine.masks.going_on import compute_evaluate
from cdec.core.grammars.engine.masks.indented import compute_first
from cdec.core.grammars.engine.masks.masks import compute_run, compute_stepped
from cdec.core.grammars.engine.masks.partial import compute_partial, compute_partial_any
from cdec.core.grammars.engine.masks.store import compute_join
from cdec.core.grammars.engine.readings import compute_over, compute_read
from cdec.core.grammars.engine.shifts import compute_shift, compute_shift_any
from cdec.core.grammars.engine.stacks import compute_union
from cdec.core.kernels import by_address

__all__ = ["ADDRESSES"]


@by_address("int64(int64, int64, int64, int64)")
def _shift(e: Any, stack: Any, terminal: Any, build: Any) -> Any:
    return compute_shift(e, stack, terminal, build)


@by_address("int64(int64, int64, int64)")
def _shift_any(e: Any, stack: Any, row: Any) -> Any:
    return compute_shift_any(e, stack, row)


@by_address("int64(int64, int64, int64)")
def _union(e: Any, a: Any, b: Any) -> Any:
    return compute_union(e, a, b)


@by_address("int64(int64, int64, int64, int64)")
def _read(e: Any, text: Any, length: Any, n: Any) -> Any:
    return compute_read(e, text, length, n)


@by_address("int64(int64, int64, int64, int64)")
def _over(e: Any, text: Any, length: Any, n: Any) -> Any:
    return compute_over(e, text, length, n)


@by_address("int64(int64, int64, int64, int64)")
def _allowed(e: Any, text: Any, length: Any, n: Any) -> Any:
    return compute_allowed(e, text, length, n)


@by_address("int64(int64, int64, int64, int64)")
def _partial(e: Any, stack: Any, terminal: Any, build: Any) -> Any:
    return compute_partial(e, stack, terminal, build)


@by_address("int64(int64, int64, int64)")
def _partial_any(e: Any, stack: Any, row: Any) -> Any:
    return compute_partial_any(e, stack, row)


@by_address("int64(int64, int64, int64)")
def _evaluate(e: Any, waiting: Any, lr_state: Any) -> Any:
    return compute_evaluate(e, waiting, lr_state)


@by_address("int64(int64, int64, int64)")
def _step(e: Any, state: Any, lr_state: Any) -> Any:
    return compute_step(e, state, lr_state)


@by_address("int64(int64, int64, int64)")
def _run(e: Any, state: Any, stack: Any) -> Any:
    return compute_run(e, state, stack)


@by_address("int64(int64, int64, int64)")
def _stepped(e: Any, at: Any, stack: Any) -> Any:
    return compute_stepped(e, at, stack)


@by_address("int64(int64, int64, int64)")
def _indented(e: Any, at: Any, blocks: Any) -> Any:
    return compute_first(e, at, blocks)


@by_address("int64(int64, int64, int64, int64, int64)")
def _join(e: Any, mask: Any, taken: Any, others: Any, pair: Any) -> Any:
    return compute_join(e, mask, taken, others, pair)


ADDRESSES = {
    f.CALL_SHIFT: _shift.address,
    f.CALL_SHIFT_ANY: _shift_any.address,
    f.CALL_UNION: _union.address,
    f.CALL_READ: _read.address,
    f.CALL_OVER: _over.address,
    f.CALL_ALLOWED: _allowed.address,
    f.CALL_PARTIAL: _partial.address,
    f.CALL_PARTIAL_ANY: _partial_any.address,
    f.CALL_EVALUATE: _evaluate.address,
    f.CALL_STEP: _step.address,
    f.CALL_RUN: _run.address,
    f.CALL_STEPPED: _stepped.address,
    f.CALL_JOIN: _join.address,
    f.CALL_INDENTED: _indented.address,
}
"""Scalar of an engine's header -> address of the function it calls."""
