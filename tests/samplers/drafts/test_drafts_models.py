"""Drafts on the embedded models: greedy texts, calls of the target, batches, and refusals."""

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
from cdec.core.errors import TokenizerMismatchError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data.assets import embedded_model_path, entity_list, evaluation_prompts, grammar_path
from cdec.samplers import Request
from cdec.samplers.base import Sampler
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.mentored_decoding import MentoredSampler
from cdec.samplers.speculative import SpeculativeSampler
from tests.laws.rounding import near

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
        "model, adaptive": {"draft": setting.draft, "gamma": "auto"},
        "greedy model": {"draft": setting.draft, "draft_temperature": 0.0},
        "the target itself": {"draft": setting.target, "gamma": 2},
        "prompt-lookup": {"draft": "prompt-lookup"},
        "counts": {"draft": "counts", "gamma": 6},
    }
    return {kind: SpeculativeSampler(greedy=True, **how) for kind, how in options.items()}


KINDS = ["model", "model, adaptive", "greedy model", "prompt-lookup", "counts"]


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


def test_greedy_with_the_draft_saves_two_calls_of_five(setting: Setting) -> None:
    asked = [Request(p, None, [0], max_new_tokens=LENGTH) for p in prompts("facts", 80)]
    for gamma in (4, "auto"):
        sampler = SpeculativeSampler(draft=setting.draft, greedy=True, gamma=gamma)
        assert calls_per_token(setting.draw(sampler, asked)) <= 0.6
    assert calls_per_token(setting.draw(GreedySampler(), asked)) == 1.0


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


@pytest.mark.parametrize("name", ["free", "set"])
def test_samples_of_a_batch_are_those_of_single_prompts(setting: Setting, name: str) -> None:
    requests = setting.requests(name, 16)
    sampler = SpeculativeSampler(draft=setting.draft)
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
