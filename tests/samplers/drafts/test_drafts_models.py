"""Draft models: their proposals, lookup, edges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cdec.compilers import compile_grammar, compile_set
from cdec.core import LanguageModel, Sample, load_model, open_artifact
from cdec.core.constraint import DONE
from cdec.core.errors import ModelError, TokenizerMismatchError
from cdec.core.models.tabular import TabularModel
from cdec.core.models.warping import Warping, normalizers
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data.assets import embedded_model_path, entity_list, evaluation_prompts, grammar_path
from cdec.samplers import Request
from cdec.samplers.base import Sampler
from cdec.samplers.disc import DiscSampler
from cdec.samplers.drafts.counts import LONGEST_MATCH, LookupDrafting
from cdec.samplers.drafts.ledger import PASSED_OVER, TARGET_CALLS, Ledger, owning
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.mentored_decoding import MentoredSampler
from cdec.samplers.speculative import SpeculativeSampler
from cdec.samplers.walks.batch import Batch
from cdec.samplers.walks.frontier import Frontier
from tests.laws.rounding import near
from tests.samplers.drafts.draft_toys import ENDS, made_pair, pairs, random_law

# --- Drafts on the embedded models: greedy texts, calls of the target, batches, and refusals.

END = -1
NEAR = 1e-4
"""Log probabilities closer than this may change places where float32 is summed in another order."""
LENGTH = 24


def prompts(name: str, count: int) -> list[str]:
    """Return shipped prompts, evenly spread."""
    lines = evaluation_prompts(name).read_text(encoding="utf-8").splitlines()
    rows = np.linspace(0, len(lines) - 1, count).astype(int)
    return [json.loads(lines[row])["prompt"] for row in rows]


@dataclass
class Setting:
    """The embedded pair, constraints over its vocabulary, and what greedy decoding gives there."""

    target: Any
    draft: LanguageModel
    constraints: dict[str, Any]
    greedy: dict[str, list[Sample]] = field(default_factory=dict)

    def requests(self, name: str, count: int = 40) -> list[Request]:
        """Return requests under a constraint."""
        asked = prompts("json" if name == "grammar" else "facts", count)
        constraint = self.constraints[name]
        return [Request(p, constraint, [i], max_new_tokens=LENGTH) for i, p in enumerate(asked)]

    def draw(self, sampler: Sampler, requests: Sequence[Request]) -> list[Sample]:
        """Return the sample of each request."""
        found = []
        for result in sampler.draw_batch(self.target, requests):
            assert isinstance(result, list), result
            found.extend(result)
        return found

    def plain(self, name: str) -> list[Sample]:
        """Return the texts of greedy decoding without a draft."""
        if name not in self.greedy:
            self.greedy[name] = self.draw(GreedySampler(), self.requests(name))
        return self.greedy[name]


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Load the embedded models; compile the JSON grammar and a set of the shipped names."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    target, draft = (load_model(embedded_model_path(name)) for name in ("target", "draft"))
    folder: Path = tmp_path_factory.mktemp("drafts")
    source = grammar_path("json").read_text(encoding="utf-8")
    compile_grammar(source, target.vocabulary, folder / "grammar.arrow")
    members = entity_list("facts").read_text(encoding="utf-8").splitlines()
    compile_set(members, target.vocabulary, folder / "set.arrow")
    opened = {
        name: open_artifact(folder / f"{name}.arrow", vocabulary=target.vocabulary)
        for name in ("grammar", "set")
    }
    yield Setting(target, draft, {"free": None, **opened})
    torch.set_num_threads(threads)


@dataclass(frozen=True)
class Judged:
    """What one forward pass without a cache says of a text, event by event.

    Attributes:
        events: The text's events. best: The most probable ones at the same places.
        gaps: Log probability by which each of ``best`` is ahead of the second.
        behind: Log probability by which it is ahead of the text's event.
    """

    events: list[int]
    best: list[int]
    gaps: list[float]
    behind: list[float]

    @property
    def near_ties(self) -> int:
        """Places where the best two cannot be told apart."""
        return sum(gap < NEAR for gap in self.gaps)

    @property
    def is_greedy(self) -> bool:
        """Whether each event is the best, near ties apart."""
        return all(behind < NEAR for behind in self.behind)


def judged(setting: Setting, request: Request, sample: Sample) -> Judged:
    """Look at every place of a text without any code of the samplers."""
    model, constraint = setting.target, request.constraint
    ends = list(model.vocabulary.eos_token_ids)
    tokens = list(sample.token_ids)
    ids = [*model.encode_prompt(request.prompt), *tokens]
    with torch.no_grad():
        logits = model._module(torch.tensor([ids])).logits[0, -len(tokens) - 1 :].double()
    logs = torch.log_softmax(logits, -1).numpy()
    session = None if constraint is None else constraint.session()
    state = np.zeros(1, np.int64) if session is None else session.start(1)
    is_closed = False
    found = Judged([], [], [], [])
    for depth, event in enumerate([*tokens, END]):
        is_closed = bool(state[0] == DONE)
        if event == END and (is_closed or sample.finish_reason != "complete"):
            break
        allowed = np.arange(logs.shape[1]) if session is None else session.allowed(state)[1]
        if session is not None and depth == LENGTH:
            allowed = np.array(ends)
        events, masses = event_logs(logs[depth], np.asarray(allowed), ends)
        first, second = np.argsort(-masses)[:2] if len(masses) > 1 else (0, None)
        own = masses[events == event]
        found.events.append(event)
        found.best.append(int(events[first]))
        found.gaps.append(np.inf if second is None else float(masses[first] - masses[second]))
        found.behind.append(float(masses[first] - own[0]) if own.size else np.inf)
        if not own.size:
            break
        if session is not None and event != END:
            state = session.advance(state, np.array([event]))
    return found


def event_logs(
    logs: NDArray[np.float64], allowed: NDArray[np.integer[Any]], ends: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the allowed events and their log probabilities."""
    is_end = np.isin(allowed, ends)
    events = allowed[~is_end].astype(np.int64)
    if not is_end.any():
        return events, logs[events]
    ending = np.logaddexp.reduce(logs[allowed[is_end]])
    return np.append(events, END), np.append(logs[events], ending)


def drafts(setting: Setting) -> dict[str, Sampler]:
    """Return greedy samplers with all kinds of drafts."""
    options: dict[str, dict[str, Any]] = {
        "model": {"draft": setting.draft, "gamma": 3},
        "model, long": {"draft": setting.draft, "gamma": 9},
        "greedy model": {"draft": setting.draft, "draft_temperature": 0.0, "gamma": 4},
        "the target itself": {"draft": setting.target, "gamma": 2},
        "prompt-lookup": {"draft": "prompt-lookup", "gamma": 4},
        "counts": {"draft": "counts", "gamma": 6},
    }
    return {kind: SpeculativeSampler(greedy=True, **how) for kind, how in options.items()}


KINDS = ["model", "model, long", "greedy model", "prompt-lookup", "counts"]


@pytest.mark.share(1)
@pytest.mark.parametrize("name", ["free", "grammar", "set"])
def test_greedy_texts_take_the_best_event_everywhere(setting: Setting, name: str) -> None:
    requests, samples = setting.requests(name), setting.plain(name)
    places = [judged(setting, r, s) for r, s in zip(requests, samples, strict=True)]
    assert all(place.is_greedy for place in places)
    # Near ties are few, so that what is compared below is nearly everything.
    assert sum(place.near_ties for place in places) <= 0.01 * sum(len(p.events) for p in places)
    at = next(i for i, place in enumerate(places) if len(place.events) > 2)
    tokens = [*samples[at].token_ids[:-1], samples[at].token_ids[-1] + 1]
    assert not judged(setting, requests[at], replace(samples[at], token_ids=tokens)).is_greedy


@pytest.mark.share(1)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *[("free", kind) for kind in (*KINDS[:-1], "the target itself")],
        *[("grammar", kind) for kind in KINDS],
        *[("set", kind) for kind in KINDS[:-1]],
    ],
)
def test_greedy_with_any_draft_is_greedy_token_for_token(
    setting: Setting, name: str, kind: str
) -> None:
    assert next(setting.target._module.parameters()).dtype == torch.float32
    requests, plain = setting.requests(name), setting.plain(name)
    samples = setting.draw(drafts(setting)[kind], requests)
    apart = 0
    for request, ours, theirs in zip(requests, samples, plain, strict=True):
        if (ours.token_ids, ours.finish_reason) == (theirs.token_ids, theirs.finish_reason):
            continue
        # Behind a near tie the texts part; each place must still hold the best event.
        places = judged(setting, request, ours)
        assert places.near_ties > 0, (ours.text, theirs.text)
        assert places.is_greedy, (ours.text, theirs.text)
        apart += 1
    assert apart <= 2
    accepted = [s.diagnostics["acceptance_rate"] for s in samples]
    assert any(rate for rate in accepted)
    if kind == "the target itself":
        assert {rate for rate in accepted if rate is not None} == {1.0}


def calls_per_token(samples: Sequence[Sample]) -> float:
    """Return the target's calls per token, end events counted."""
    events = sum(len(s.token_ids) + (s.finish_reason == "complete") for s in samples)
    calls = [s.diagnostics["target_calls"] for s in samples]
    return sum(calls) / events  # type: ignore[arg-type]


@pytest.mark.slow
def test_greedy_with_the_draft_saves_two_calls_of_five(setting: Setting) -> None:
    asked = [Request(p, None, [0], max_new_tokens=LENGTH) for p in prompts("facts", 80)]
    for gamma in (4, 8):
        sampler = SpeculativeSampler(draft=setting.draft, greedy=True, gamma=gamma)
        assert calls_per_token(setting.draw(sampler, asked)) <= 0.6
    assert calls_per_token(setting.draw(GreedySampler(), asked)) == 1.0


@pytest.mark.slow
def test_a_divergence_saves_calls_when_sampling(setting: Setting) -> None:
    asked = [Request(p, None, range(3), max_new_tokens=LENGTH) for p in prompts("facts", 40)]
    calls = []
    for nats in (0.0, 0.1, 1.0):
        samples = setting.draw(MentoredSampler(draft=setting.draft, divergence=nats), asked)
        calls.append(calls_per_token(samples))
        spent = [s.diagnostics["kl_spent"] for s in samples]
        assert (max(spent) > 0) == (nats > 0)  # type: ignore[type-var]
    assert calls[0] > calls[1] > calls[2]


def test_no_divergence_leaves_the_constraint(setting: Setting) -> None:
    for name in ("set", "grammar"):
        sampler = MentoredSampler(draft=setting.draft, divergence=float("inf"))
        samples = setting.draw(sampler, setting.requests(name, 12))
        finished = [s for s in samples if s.finish_reason == "complete"]
        assert finished
        assert {s.valid for s in finished} == {True}


@pytest.mark.share(1)
@pytest.mark.parametrize("name", ["free", "set"])
def test_samples_of_a_batch_are_those_of_single_prompts(setting: Setting, name: str) -> None:
    requests = setting.requests(name, 16)
    sampler = SpeculativeSampler(draft=setting.draft, gamma=4)
    together = setting.draw(sampler, requests)
    alone = [setting.draw(sampler, [request])[0] for request in requests]
    pairs = list(zip(together, alone, strict=True))
    same = [(a, b) for a, b in pairs if a.token_ids == b.token_ids]
    # A random number may fall between two sums of the same float32 terms, though rarely.
    assert len(same) >= 14
    for ours, theirs in same:
        assert ours.logprob == near(theirs.logprob, 1 + len(theirs.token_ids))
        assert ours.diagnostics["target_calls"] == theirs.diagnostics["target_calls"]


@pytest.mark.parametrize("sampler", [SpeculativeSampler, MentoredSampler])
def test_a_draft_of_another_vocabulary_is_refused(setting: Setting, sampler: Any) -> None:
    vocabulary = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])
    draft = TabularModel(lambda prefix: np.array([0.5, 0.25, 0.25]), vocabulary)
    with pytest.raises(TokenizerMismatchError, match="the draft's vocabulary") as caught:
        sampler(draft=draft).draw(
            setting.target, None, "Question:", rng=np.random.default_rng(0), max_new_tokens=2
        )
    assert "smaller one of its family" in str(caught.value.hint)


# --- Drafts at the edges: ids used again in any order, huge numbers, interrupts while prompts
# open.


def with_parents_above(pair: Any) -> TabularModel:
    """Return a model whose next contexts get ids that fall by thousands, the first one highest."""
    model: TabularModel = pair.toy.model()
    low = model.prefill([[1]])
    wide = model.prefill([[2]])
    while len(wide) < 8000:
        wide = model.advance(np.repeat(wide, 4), np.tile(np.arange(4), len(wide)))
    high = model.prefill([[3]])
    model.release(low)
    model.release(high)
    return model


def test_accounts_make_room_for_parents_of_larger_ids() -> None:
    model = with_parents_above(pairs()["free"])
    with Batch(model, [Request([0], None, [1], max_new_tokens=4)]) as batch:
        walks = Frontier.at_start(batch, np.zeros(1, np.int64), np.zeros(1, np.int64))
        last = walks.advance(np.arange(1), np.array([0]), np.zeros(1))
        assert last.context[0] + 1000 < walks.context[0]
        ledger = Ledger(batch)
        ledger.evaluate([last])
        assert ledger.totals(TARGET_CALLS).tolist() == [1]
        assert ledger.totals(PASSED_OVER).tolist() == [1]


def test_drafts_follow_models_whose_ids_fall() -> None:
    pair = pairs()["set"]
    expected = _tokens(pair, pair.toy.model(), pair.draft_model())
    assert _tokens(pair, with_parents_above(pair), pair.draft_model()) == expected


def _tokens(pair: Any, target: TabularModel, draft: TabularModel) -> list[Any]:
    request = Request([0], pair.constraint, range(20), max_new_tokens=pair.limit)
    found = SpeculativeSampler(draft=draft, gamma=4).draw_batch(target, [request])[0]
    assert isinstance(found, list)
    return [sample.token_ids for sample in found]


@pytest.mark.parametrize("make", [SpeculativeSampler, DiscSampler])
def test_a_gamma_of_any_size_is_as_long_as_texts_can_be(make: Any) -> None:
    pair = made_pair(random_law(1, 0.1), random_law(2, 0.2))
    huge, long = (
        make(draft=pair.draft_model(), gamma=gamma).draw(
            pair.toy.model(), pair.constraint, "", n=3, rng=np.random.default_rng(0)
        )
        for gamma in (2**31 - 1, 50)
    )
    assert [s.to_json() for s in huge] == [s.to_json() for s in long]


def test_an_interrupt_while_prompts_open_one_by_one_releases_them() -> None:
    class Interrupting(TabularModel):
        opened = 0

        def prefill(self, prompts: Any, warping: Any = None, begun: Any = None) -> Any:
            if len(prompts) > 1:
                raise ModelError("one prompt at a time")
            self.opened += 1
            if self.opened == 3:
                raise KeyboardInterrupt
            return super().prefill(prompts, warping, begun)

    pair = pairs()["free"]
    model = Interrupting(pair.toy.probabilities, pair.toy.vocabulary)
    with pytest.raises(KeyboardInterrupt):
        Batch(model, [Request([0], None, [1], max_new_tokens=2) for _ in range(4)])
    assert model.tree.live == 0


@pytest.mark.parametrize("temperature", [1e-9, 1e-320])
def test_the_coldest_temperature_leaves_the_best_tokens(temperature: float) -> None:
    scores = np.array([[1.0, 3.0, 3.0, -np.inf], [-1e30, -2e30, -3e30, -4e30]])
    warped = Warping(temperature).apply(scores.copy())
    law = np.exp(warped - normalizers(warped)[:, None])
    assert law.tolist() == [[0, 0.5, 0.5, 0], [1, 0, 0, 0]]


# --- Accounts of candidates that belong to other draws: one gather, equal to a loop over
# requests.


def looped(
    owners: dict[int, NDArray[np.int64]],
    request: NDArray[np.int64],
    candidate: NDArray[np.int64],
) -> list[int]:
    """Return the owning draws, one row at a time."""
    return [
        int(owners[r][c]) if r in owners else c
        for r, c in zip(request.tolist(), candidate.tolist(), strict=True)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_candidates_find_the_draws_they_belong_to(seed: int) -> None:
    rng = np.random.default_rng(seed)
    requests = int(rng.integers(1, 30))
    counts = rng.integers(1, 9, size=requests)
    having = rng.permutation(requests)[: int(rng.integers(1, requests + 1))].tolist()
    owners = {r: rng.integers(0, 5, size=counts[r]) for r in having}
    request = rng.integers(0, requests, size=int(rng.integers(0, 200)))
    candidate = rng.integers(0, counts[request])
    before = candidate.copy()
    found = owning(owners, requests, request, candidate)
    assert found.tolist() == looped(owners, request, candidate)
    assert np.array_equal(candidate, before)


def test_a_request_without_candidates_leaves_those_of_others_alone() -> None:
    none = np.zeros(0, np.int64)
    owners = {0: none, 2: np.array([1, 0, 1])}
    found = owning(owners, 4, np.array([2, 3, 2]), np.array([0, 5, 1]))
    assert found.tolist() == [1, 5, 0]


# --- Prompt lookup guesses what a plain search of prompt and text finds, and keeps nothing.

PAIR = pairs()["free"]
NONE = -2


def searched(tokens: list[int]) -> int:
    """Return what followed the latest of the longest earlier runs, by comparing all of them."""
    for length in range(min(LONGEST_MATCH, len(tokens) - 1), 0, -1):
        run = tokens[len(tokens) - length :]
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == run:
                after = tokens[start + length]
                return NONE if after in ENDS else after
    return NONE


def places(batch: Batch, texts: list[tuple[int, list[int]]]) -> Frontier:
    """Return a walk a text (request and tokens), each at its own depth."""
    model, contexts = batch.model, []
    for request, text in texts:
        context = batch.roots[[request]]
        for token in text:
            context = model.advance(context, np.array([token]))
        contexts.append(int(context[0]))
    requests = np.array([request for request, _ in texts], np.int64)
    start: Any = Frontier.at_start(batch, requests, np.arange(len(texts)))
    start.context[:] = contexts
    return start


@pytest.mark.parametrize("letters", [1, 2, 4, 7])
def test_guesses_are_those_of_a_plain_search(letters: int) -> None:
    rng = np.random.default_rng(letters)
    prompts = [rng.integers(0, letters, size=n).tolist() for n in (0, 1, 2, 5, 40, 300)]
    requests = [Request(prompt, None, [1], max_new_tokens=400) for prompt in prompts]
    with Batch(PAIR.toy.model(), requests) as batch, LookupDrafting(batch) as drafting:
        for longest in (1, 3, 20, 300):
            texts = [
                (int(r), rng.integers(0, letters, size=int(rng.integers(0, longest))).tolist())
                for r in rng.integers(0, len(prompts), size=60)
            ]
            found = drafting.guess(places(batch, texts), None).events.tolist()
            assert found == [searched(prompts[r] + text) for r, text in texts]


def test_a_walk_that_comes_back_to_a_shorter_prefix_is_searched_again() -> None:
    """Verification sends walks back: to prefixes above, or to other children of them."""
    requests = [Request([0, 1, 2, 0, 1, 3], None, [1], max_new_tokens=9)]
    with Batch(PAIR.toy.model(), requests) as batch, LookupDrafting(batch) as drafting:
        for text, expected in [
            ([0, 1], 3),
            ([0, 1, 2], 0),
            ([0, 1], 3),
            ([0, 2], 0),
            ([0], 1),
            ([], NONE),
        ]:
            assert drafting.guess(places(batch, [(0, text)]), None).events.tolist() == [expected]
