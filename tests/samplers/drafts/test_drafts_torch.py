"""Draft models on torch and its devices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.errors import ModelError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers.base import Sampler
from cdec.samplers.drafts import verify_torch
from cdec.samplers.drafts.proposals import FROM_LAW, ONE_HOT, PLAIN, Level, Verdict
from cdec.samplers.drafts.verify import on_host
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.mentored_decoding import MentoredSampler
from cdec.samplers.request import Request
from cdec.samplers.speculative import SpeculativeSampler
from cdec.samplers.walks import events_torch
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.frontier import END, NONE, Frontier, Step
from tests.laws.worlds import toy_set
from tests.samplers.device_tables import DEVICES, Tables, table
from tests.samplers.drafts.draft_laws import Rounds, p_value
from tests.samplers.drafts.draft_toys import (
    ENDS,
    MEMBERS,
    ORDINARY,
    WIDTH,
    Pair,
    pairs,
    random_law,
    resized,
)

# --- Verification on a device is that on the host: the same events, flags, weights and accounts.

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


@pytest.mark.share(1)
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


# --- Decoding with a draft on a device: the texts, weights and accounts of the host, and the law.

PAIRS = pairs()


def model_pair(pair: Pair, device: str) -> tuple[TabularModel, TabularModel]:
    """Return a target and a draft on a device."""
    vocabulary = pair.toy.vocabulary
    return (
        table(pair.toy.probabilities, vocabulary, device),
        table(pair.draft, vocabulary, device),
    )


def drafted(kind: str, pair: Pair, device: str) -> tuple[Sampler, TabularModel]:
    """Return a sampler of some kind with its draft, and its target."""
    target, draft = model_pair(pair, device)
    samplers: dict[str, Any] = {
        "speculative": lambda: SpeculativeSampler(draft=draft, gamma=3),
        "speculative, greedy": lambda: SpeculativeSampler(draft=draft, gamma=3, greedy=True),
        "speculative, greedy draft": lambda: SpeculativeSampler(
            draft=draft, draft_temperature=0, gamma=4
        ),
        "speculative, lookup": lambda: SpeculativeSampler(draft="prompt-lookup", gamma=4),
        "mentored": lambda: MentoredSampler(draft=draft, gamma=2, divergence=0.2),
        "mentored, auto": lambda: MentoredSampler(draft=draft, gamma="auto", divergence=0.05),
        "mentored, all": lambda: MentoredSampler(draft=draft, gamma=3, divergence=math.inf),
        "mentored, in total": lambda: MentoredSampler(draft=draft, gamma=2, divergence_total=0.4),
        "mentored, greedy draft": lambda: MentoredSampler(draft=draft, draft_temperature=0),
        "mentored, lookup": lambda: MentoredSampler(draft="prompt-lookup", divergence=0.3),
    }
    return samplers[kind](), target


KINDS = [
    *("speculative", "speculative, greedy", "speculative, greedy draft", "speculative, lookup"),
    *("mentored", "mentored, auto", "mentored, all", "mentored, in total"),
    *("mentored, greedy draft", "mentored, lookup"),
]


@pytest.mark.share("kind")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_device_draws_the_texts_of_the_host(kind: str, device: str) -> None:
    for name in ("set", "set that ends texts", "set, other support", "free"):
        pair = PAIRS[name]
        records = []
        for place in ("cpu", device):
            sampler, target = drafted(kind, pair, place)
            other = toy_set(MEMBERS[:4], pair.toy.vocabulary) if pair.is_masked else None
            requests = [
                Request([0, 1, 2, 0, 1], pair.constraint, range(80), max_new_tokens=pair.limit),
                Request([3, 3, 0, 3], other, range(80, 120), max_new_tokens=pair.limit or 3),
            ]
            results = sampler.draw_batch(target, requests)
            assert all(isinstance(result, list) for result in results)
            records.append([sample for result in results for sample in result])
        # A device spends a text's budget to about 1e-9 nats, a host to 1e-13; what is left moves
        # the next law by the square root.
        near = 1e-4 if kind == "mentored, in total" else 4e-9 * max(map(len, MEMBERS))
        for ours, theirs in zip(*records, strict=True):
            assert (ours.token_ids, ours.finish_reason) == (theirs.token_ids, theirs.finish_reason)
            assert ours.logprob == pytest.approx(theirs.logprob, abs=1e-9)
            assert ours.log_weight == pytest.approx(theirs.log_weight, abs=near)
            assert ours.diagnostics == pytest.approx(theirs.diagnostics, abs=near)


@pytest.mark.share("kind")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["speculative", "mentored"])
@pytest.mark.parametrize("name", ["set", "free"])
def test_draws_on_a_device_follow_the_law(name: str, kind: str, device: str) -> None:
    pair = PAIRS[name]
    sampler, target = drafted(kind, pair, device)
    sampler.max_walks = 1 << 15  # type: ignore[attr-defined]
    request = Request("", pair.constraint, range(20_000), max_new_tokens=pair.limit)
    samples = sampler.draw_batch(target, [request])[0]
    assert isinstance(samples, list)
    outcomes = [(tuple(sample.token_ids), sample.finish_reason) for sample in samples]
    rounds = Rounds(pair, pair.draft_law, 3)
    if kind == "mentored":
        rounds = Rounds(pair, pair.draft_law, 2, 0.2)
    assert p_value(outcomes, rounds.law()) >= 1e-4


@pytest.mark.parametrize("device", DEVICES)
def test_walks_without_a_proposal_draw_what_masked_draws(device: str) -> None:
    pair = PAIRS["set, dense"]
    sampler, target = drafted("speculative, lookup", pair, device)
    plain = table(pair.toy.probabilities, pair.toy.vocabulary, device)
    request = Request([0, 1, 2, 0, 3, 1], pair.constraint, range(300))
    ours = sampler.draw_batch(target, [request])[0]
    theirs = MaskedSampler().draw_batch(plain, [request])[0]
    assert isinstance(ours, list) and isinstance(theirs, list)
    assert [s.token_ids for s in ours] == [s.token_ids for s in theirs]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("divergence", [0.0, 0.1])
def test_scores_that_are_not_numbers_are_an_error(device: str, divergence: float) -> None:
    class Broken(Tables):
        def _forward(self, nodes: NDArray[np.int64]) -> Any:
            return super()._forward(nodes) * math.nan

    pair = PAIRS["set"]
    _, draft = model_pair(pair, device)
    target = Broken(pair.toy.probabilities, pair.toy.vocabulary, device)
    sampler = MentoredSampler(draft=draft, divergence=divergence)
    result = sampler.draw_batch(target, [Request("", pair.constraint, [1, 2])])[0]
    assert isinstance(result, ModelError)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [WIDTH - 1, WIDTH + 1])
@pytest.mark.parametrize("name", ["free", "set"])
def test_a_draft_of_fewer_or_more_outputs_proposes_on_a_device(
    name: str, width: int, device: str
) -> None:
    pair, found = PAIRS[name], []
    law = random_law(6, 0.0, (*ORDINARY, *ENDS))
    for place in ("cpu", device):
        vocabulary = pair.toy.vocabulary.with_width(width)
        draft = table(lambda prefix: resized(law(prefix), width), vocabulary, place)
        target = table(pair.toy.probabilities, pair.toy.vocabulary, place)
        sampler = MentoredSampler(draft=draft, gamma=2, divergence=0.1)
        request = Request("", pair.constraint, range(100), max_new_tokens=4)
        samples = sampler.draw_batch(target, [request])[0]
        assert isinstance(samples, list)
        assert any(sample.diagnostics["acceptance_rate"] for sample in samples)
        found.append([(s.token_ids, s.finish_reason, round(s.logprob or 0.0, 9)) for s in samples])
    assert found[0] == found[1]
