"""Verification on a device is that on the host: the same events, flags, weights and accounts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.drafts import verify_torch
from cdec.samplers.drafts.proposals import FROM_LAW, ONE_HOT, PLAIN, Level, Verdict
from cdec.samplers.drafts.verify import on_host
from cdec.samplers.request import Request
from cdec.samplers.walks import events_torch
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.frontier import END, NONE, Frontier, Step
from tests.laws.toys import toy_set
from tests.samplers.device_tables import DEVICES, table

SIZE = 300
WIDE = Vocabulary(
    [b"%d," % i for i in range(SIZE - 2)] + [b"", b""], eos_token_ids=[7, SIZE - 1], width=SIZE
)
LIMITS = [0.0, 1e-3, 0.02, 0.5, math.inf]


def wide_law(seed: int) -> Any:
    """Return random probabilities over 300 ids, a tenth of them 0."""

    def probabilities(prefix: tuple[int, ...]) -> NDArray[np.float64]:
        own = np.random.default_rng([seed, *prefix])
        weights = own.exponential(size=SIZE) ** 3
        weights[own.random(SIZE) < 0.1] = 0.0
        weights[list(WIDE.eos_token_ids)] *= 20.0
        return weights / weights.sum()

    return probabilities


def wide_set() -> Any:
    """Return a set in which prefixes have many, few and single continuations."""
    rng = np.random.default_rng(0)
    rows = {(0, int(t)) for t in rng.choice(np.arange(8, SIZE - 2), 120, replace=False)}
    rows |= {(1, 5), (1, 9, 11), (1,), (2, 3), (3, 4, 5), (3, 6, 5), (4,)}
    return toy_set(rows, WIDE)


def opened_step(device: str, walks: int) -> Step:
    """Return a step of two constrained requests, a free one and one at its length limit."""
    model = table(wide_law(1), WIDE, device)
    constraint = wide_set()
    limits = (None, None, 5, 1)
    requests = [
        Request([number], None if number == 2 else constraint, range(walks), max_new_tokens=limit)
        for number, limit in enumerate(limits)
    ]
    batch = Batch(model, requests)
    request = np.repeat(np.arange(len(requests)), walks)
    frontier = Frontier.at_start(batch, request, np.tile(np.arange(walks), len(requests)))
    first = (np.arange(len(request)) * 7) % 3
    first[first == 2] = 3
    first[request == 3] = 1
    moved = frontier.advance(np.arange(len(request)), first, np.zeros(len(request)))
    deeper = moved.take(np.flatnonzero(request != 0))
    return Step.of(frontier.take(np.flatnonzero(request == 0)).joined(deeper))


def allowed_at(step: Step) -> list[NDArray[np.int64]]:
    """Return the ids allowed at every node of a step on the host."""
    batch, nodes = step.nodes.batch, step.nodes
    at_limit = nodes.at_limit()
    found = []
    for node, request in enumerate(nodes.request.tolist()):
        ids = np.arange(SIZE)
        if at_limit[node]:
            ids = batch.end_ids
        elif not batch.is_unconstrained(nodes.request[node : node + 1])[0]:
            session = batch.sessions[batch.session_of[request]]
            ids = np.asarray(session.allowed(nodes.state[node : node + 1])[1], np.int64)
        found.append(ids)
    return found


def proposals(step: Step, seed: int, width: int) -> tuple[Level, NDArray[np.int64]]:
    """Return random proposals of all kinds to the walks of a step on the host; their kinds."""
    rng = np.random.default_rng(seed)
    rows = len(step.rows)
    scores = rng.normal(size=(rows, width)) * 2.5
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    scores[rows // 2] = np.array(step.scores[step.rows[rows // 2], :width]) + 0.5
    allowed = allowed_at(step)
    count = len(step.walk_node)
    kinds = rng.choice([PLAIN, ONE_HOT, FROM_LAW], size=count, p=[0.2, 0.3, 0.5])
    events, law = np.full(count, NONE), np.full(count, -1)
    ends = set(WIDE.eos_token_ids)
    for walk, node in enumerate(step.walk_node.tolist()):
        if kinds[walk] == PLAIN:
            continue
        ids = allowed[node]
        if kinds[walk] == FROM_LAW:
            law[walk] = node
            masses = np.exp(np.append(scores[node], np.full(SIZE - width, -np.inf))[ids])
            if not masses.sum() > 0:
                kinds[walk], law[walk] = PLAIN, -1
                continue
            event = int(rng.choice(ids, p=masses / masses.sum()))
        else:
            # Some guesses are forbidden, and some have no mass under the target.
            event = int(rng.choice(ids)) if rng.random() < 0.8 else int(rng.integers(SIZE))
        events[walk] = END if event in ends else event
    normalizer = np.log(np.exp(scores).sum(1))
    return Level(kinds, events, law, scores, normalizer, np.zeros(count, np.bool_)), kinds


def numbers_for(count: int, seed: int, limits: list[float]) -> tuple[NDArray[np.float64], ...]:
    """Return tests, picks and limits of some walks."""
    rng = np.random.default_rng([seed, 1])
    return rng.random(count), rng.random(count), rng.choice(limits, size=count)


def assert_same(ours: Verdict, theirs: Verdict) -> None:
    """Compare all columns of two verdicts."""
    assert ours.accepted.tolist() == theirs.accepted.tolist()
    assert ours.chosen.tokens.tolist() == theirs.chosen.tokens.tolist()
    for name in ("log_p", "log_z", "log_end", "missed"):
        columns = [getattr(verdict.chosen, name) for verdict in (ours, theirs)]
        np.testing.assert_allclose(*columns, atol=1e-9, err_msg=name)
    for name in ("log_ratio", "spent", "charged"):
        # The solver on a device cuts intervals of up to 645, the log of the largest ratio, into
        # 8192 parts thrice: beta is known to 1.2e-9.
        columns = [getattr(verdict, name) for verdict in (ours, theirs)]
        np.testing.assert_allclose(*columns, atol=4e-9, err_msg=name)


@pytest.fixture(scope="module", params=DEVICES)
def steps(request: pytest.FixtureRequest) -> Iterator[tuple[Step, Step]]:
    """One step on the host and on a device."""
    both = opened_step("cpu", 150), opened_step(request.param, 150)
    yield both
    for step in both:
        step.nodes.batch.__exit__()


def on_both(
    steps: tuple[Step, Step], seed: int, limits: list[float], width: int = SIZE
) -> tuple[Verdict, Verdict]:
    """Judge random proposals on the host and on the device."""
    host, device = steps
    level, kinds = proposals(host, seed, width)
    numbers = numbers_for(len(kinds), seed, limits)
    index = device.nodes.batch.index
    moved = replace(level, scores=index(level.scores), log_normalizer=index(level.log_normalizer))
    ours = on_host(host, level, kinds, numbers)
    return ours, verify_torch.on_device(device, moved, kinds, numbers)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limits", [[0.0], LIMITS], ids=["lossless", "mentored"])
def test_a_device_judges_as_the_host(
    steps: tuple[Step, Step], seed: int, limits: list[float]
) -> None:
    host, device = on_both(steps, seed, limits, SIZE if seed else SIZE - 40)
    assert_same(host, device)
    tokens = host.chosen.tokens
    assert 0.1 < host.accepted.mean() < 0.9
    assert (tokens == END).any()
    assert (host.spent > host.charged).any() == (len(limits) > 1)


def test_slices_of_the_workspace_change_nothing(
    steps: tuple[Step, Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_torch, "_WORKSPACE_BYTES", 8 * 32 * SIZE * 3)
    monkeypatch.setattr(events_torch, "_WORKSPACE_BYTES", 8 * SIZE * 2)
    assert len(events_torch.slices(steps[1])) > 3
    assert_same(*on_both(steps, 5, LIMITS))


def test_a_ratio_of_zero_never_accepts_and_a_ratio_of_one_always_does(
    steps: tuple[Step, Step],
) -> None:
    host, device = steps
    q = np.exp(np.array(host.scores)[host.rows])
    for node, ids in enumerate(allowed_at(host)):
        zeros = [t for t in ids.tolist() if q[node, t] == 0 and t not in WIDE.eos_token_ids]
        if zeros:
            break
    count = len(host.walk_node)
    walks = host.walk_node == node
    kinds = np.where(walks, FROM_LAW, PLAIN)
    drafted = np.full((1, SIZE), -np.inf)
    drafted[0, zeros[0]] = 0.0
    events = np.where(walks, zeros[0], NONE)
    rows = np.where(walks, 0, -1)
    index = device.nodes.batch.index
    normalizer = np.zeros(1)
    level = Level(kinds, events, rows, index(drafted), index(normalizer), np.zeros(count, bool))
    numbers = np.zeros(count), np.full(count, 0.3), np.zeros(count)
    refused = verify_torch.on_device(device, level, kinds, numbers)
    assert not refused.accepted.any()
    assert (refused.chosen.tokens != zeros[0]).all()
    own = np.array(host.scores)[host.rows[node]][None]
    event = int(np.argmax(np.where(np.isin(np.arange(SIZE), allowed_at(host)[node]), own, -9e9)))
    event = END if event in WIDE.eos_token_ids else event
    level = replace(level, scores=index(own), events=np.where(walks, event, NONE))
    numbers = np.full(count, 1 - 1e-9), *numbers[1:]
    accepted = verify_torch.on_device(device, level, kinds, numbers)
    assert accepted.accepted.tolist() == walks.tolist()
    assert (accepted.chosen.tokens[walks] == event).all()
