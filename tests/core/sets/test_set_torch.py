"""The torch session: no waiting for the device, static shapes, the same on CUDA if there is any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cdec.core.constraint import DEAD, DONE
from cdec.core.mask import allocate_mask
from cdec.core.sets.set_constraint import SetConstraint
from tests.core.sets.set_cases import byte_vocabulary, make_set
from tests.laws.sessions import assert_session_laws, states_after

WAITS = ("_local_scalar_dense", "item", "nonzero", "masked_select", "unique", "is_nonzero", "equal")
"""Operators that copy a value to the host, or whose result's shape is known there only."""


class NoWaiting(TorchDispatchMode):
    """Fails on operators that wait for the device, and records the shapes of all results."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert not name.startswith(WAITS), f"{name} waits for the device"
        if name.startswith(("index", "_index")):
            indices = [i for i in args[1] if i is not None] if isinstance(args[1], list) else []
            assert all(i.dtype not in (torch.bool, torch.uint8) for i in indices), "boolean index"
        result = func(*args, **(kwargs or {}))
        self.calls.append((name, tuple(getattr(result, "shape", ()))))
        return result


def example(*, filtered: bool, ends_itself: bool = False) -> SetConstraint:
    rows = [[0, token, 7] for token in range(300)] + [[token, 3] for token in range(290)]
    rows += [[5, 5, 5, 5, 5]] + ([] if ends_itself else [[0], [0, 4]])
    options = {"suffix_bytes": "3e"} if ends_itself else {}
    constraint = make_set(rows, byte_vocabulary(300, ends=2, padding=50), options=options)
    kept = np.arange(constraint.arrays.n_rows) % 3 != 1
    return constraint.restrict(kept) if filtered else constraint


def step_calls(session: Any, states: torch.Tensor) -> dict[str, Callable[[], object]]:
    n = len(states)
    tokens = torch.arange(n, device=states.device) % 8
    proposed = torch.arange(n * 6, device=states.device).reshape(n, 6) % 300
    mask = allocate_mask(n, 352, session.device)
    return {
        "advance": lambda: session.advance(states, tokens),
        "fill_mask": lambda: session.fill_mask(states, mask),
        "check": lambda: session.check(states, proposed),
        "is_complete": lambda: session.is_complete(states),
    }


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("name", ["advance", "fill_mask", "check", "is_complete"])
def test_steps_never_wait_and_have_static_shapes(name: str, filtered: bool) -> None:
    session = example(filtered=filtered).session("torch:cpu")
    mixed = states_after(session, [[], [0], [0, 2], [5, 5], [0, 2, 7]])
    batches = [mixed, np.zeros(5, np.int64), np.array([DONE, DEAD, DONE, mixed[3], mixed[4]])]
    traces = []
    for batch in batches:
        call = step_calls(session, torch.from_numpy(batch))[name]
        with NoWaiting() as watch:
            call()
        traces.append(watch.calls)
    assert traces[0] and traces[0] == traces[1] == traces[2]


def test_watch_notices_an_operator_that_waits() -> None:
    with NoWaiting(), pytest.raises(AssertionError, match="waits"):
        torch.ones(3).nonzero()
    with NoWaiting(), pytest.raises(AssertionError, match="waits"):
        torch.ones(1).item()
    with NoWaiting(), pytest.raises(AssertionError, match="boolean index"):
        torch.ones(3)[torch.tensor([True, False, True])]


def test_states_mean_the_same_on_every_device() -> None:
    constraint = example(filtered=False)
    prefixes = [[], [0], [0, 4], [0, 4, 7], [5, 5, 5], [8, 3], [8, 3, 300], [9, 9]]
    on_cpu = states_after(constraint.session(), prefixes)
    assert states_after(constraint.session("torch:cpu"), prefixes).tolist() == on_cpu.tolist()


def test_restrictions_share_the_trie_of_a_device() -> None:
    constraint = example(filtered=False)
    whole: Any = constraint.session("torch:cpu")
    again: Any = constraint.session("torch:cpu")
    smaller: Any = constraint.restrict(np.arange(constraint.n_rows) > 3).session("torch:cpu")
    assert whole._trie is again._trie is smaller._trie


def test_results_are_tensors_of_the_documented_types() -> None:
    session: Any = example(filtered=False).session("torch:cpu")
    states = session.start(3)
    assert states.dtype == torch.int64
    assert session.advance(states, torch.tensor([0, 1, 299])).dtype == torch.int64
    assert session.check(states, torch.zeros((3, 2), dtype=torch.int32)).dtype == torch.bool
    for offsets, ids in (session.allowed(states), session.forced(states)):
        assert offsets.dtype == torch.int64 and ids.dtype == torch.int32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("ends_itself", [False, True])
def test_laws_hold_on_cuda_without_synchronisation(filtered: bool, ends_itself: bool) -> None:
    constraint = example(filtered=filtered, ends_itself=ends_itself)
    rng = np.random.default_rng(1)
    assert_session_laws(constraint, [[0, 6, 7]], rng, devices=["cpu", "cuda"], max_states=60)
    session: Any = constraint.session("cuda")
    states = torch.from_numpy(states_after(session, [[], [0], [0, 6]])).cuda()
    calls = step_calls(session, states)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for call in calls.values():
            call()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_device_has_one_session_a_restriction() -> None:
    constraint = example(filtered=False)
    smaller = constraint.restrict(np.arange(constraint.n_rows) > 3)
    for one in (constraint, smaller):
        assert one.session("torch:cpu") is one.session("torch:cpu")
    assert smaller.session("torch:cpu") is not constraint.session("torch:cpu")
