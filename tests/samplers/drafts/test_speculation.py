"""Speculation with drafts of counts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core.errors import CdecError, DataError, OutputError, TokenizerMismatchError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.drafts import counts as module
from cdec.samplers.drafts.counts import END, Counts, CountTable
from cdec.samplers.drafts.speculate import Following
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.request import Request
from cdec.samplers.walks.randomness import CandidateUniforms
from tests.laws.worlds import Row, Toy, random_toy, toy_b
from tests.samplers.drafts.draft_toys import pairs
from tests.samplers.keyed import bare, keyed, learnt

# --- Speculation: texts and laws stay as they are, calls become fewer, counters say what it cost.


def chain_toy() -> Toy:
    """Two long members that differ at every place, so that nothing is forced and all is likely."""
    vocabulary = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])

    def probabilities(prefix: Row) -> np.ndarray:
        return np.array([0.05, 0.05, 0.9]) if len(prefix) >= 20 else np.array([0.96, 0.03, 0.01])

    members = [(0,) * i + (1,) + (0,) * (19 - i) for i in range(20)] + [(0,) * 20]
    return Toy(vocabulary, probabilities, members)


class Counting(TabularModel):
    """A tabular model that counts its forward passes and the prefixes in them."""

    passes = 0
    rows = 0

    def _forward(self, nodes: Any) -> Any:
        self.passes += 1
        self.rows += len(nodes)
        return super()._forward(nodes)


def counting(toy: Toy) -> Counting:
    return Counting(toy.probabilities, toy.vocabulary)


@pytest.mark.share(11)
@pytest.mark.parametrize("make", [GreedySampler, MaskedSampler])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("fold", [1, 3])
def test_texts_and_weights_do_not_change(make: Any, seed: int, fold: int) -> None:
    toy = random_toy(seed, ends_itself=seed % 2 == 1)
    constraint = keyed(toy, fold=fold)
    plain = make().draw(toy.model(), constraint, "", n=30, rng=np.random.default_rng(seed))
    sampler = make(draft="counts", gamma=3, counts=Counts(threshold=0.0))
    for _ in range(2):  # The second time with all that was learnt.
        guessed = sampler.draw(toy.model(), constraint, "", n=30, rng=np.random.default_rng(seed))
        assert [bare(sample) for sample in guessed] == [bare(sample) for sample in plain]
        assert "acceptance_rate" in guessed[0].diagnostics
    assert "acceptance_rate" not in plain[0].diagnostics


def test_good_guesses_save_forward_passes_and_calls() -> None:
    toy = chain_toy()
    constraint = keyed(toy)
    slow, fast = counting(toy), counting(toy)
    rng = np.random.default_rng
    (plain,) = GreedySampler().draw(slow, constraint, "", rng=rng(0))
    sampler = GreedySampler(draft="counts", gamma=4, counts=learnt(toy, constraint))
    (guessed,) = sampler.draw(fast, constraint, "", rng=rng(0))
    assert guessed.token_ids == plain.token_ids == [0] * 20
    assert slow.passes == 21
    # A pass covers its own prefix and four guesses.
    assert fast.passes == guessed.diagnostics["target_calls"] == 5
    assert guessed.diagnostics["acceptance_rate"] == 1.0
    assert guessed.diagnostics["distinct_evaluations"] == fast.rows == 21


def test_wrong_guesses_are_paid_for_and_counted() -> None:
    toy = chain_toy()
    constraint = keyed(toy)
    counts = Counts(toy.vocabulary.vocabulary_hash)
    states = constraint.session().start(1)
    for _ in range(5):  # Always the rare token.
        counts.table("toy").add(int(constraint.session().speculation_keys(states)[0]), 1)
    model = counting(toy)
    (sample,) = GreedySampler(draft="counts", gamma=4, counts=counts).draw(
        model, constraint, "", rng=np.random.default_rng(0)
    )
    assert sample.token_ids == [0] * 20
    assert sample.diagnostics["acceptance_rate"] == 0.0
    # The member 1 0 0 ... is forced after its first token: a guess and a run that nobody took.
    assert sample.diagnostics["distinct_evaluations"] == model.rows > 21
    assert sample.diagnostics["target_calls"] == 21


def test_frozen_counts_guess_and_learn_nothing() -> None:
    toy = chain_toy()
    constraint = keyed(toy)
    counts = learnt(toy, constraint)
    before = counts.table("toy").to_json()
    options: dict[str, Any] = {"draft": "counts", "gamma": 4, "counts": counts}
    for _ in range(2):
        model = counting(toy)
        sampler = GreedySampler(**options, freeze_counts=True)
        (sample,) = sampler.draw(model, constraint, "", rng=np.random.default_rng(0))
        assert sample.diagnostics["acceptance_rate"] == 1.0 and model.passes == 5
        assert counts.table("toy").to_json() == before
    GreedySampler(**options).draw(toy.model(), constraint, "", rng=np.random.default_rng(0))
    assert counts.table("toy").to_json() != before
    with pytest.raises(UsageError, match="nothing to guess from"):
        GreedySampler(draft="counts", freeze_counts=True)


def test_the_threshold_may_be_an_option() -> None:
    toy = chain_toy()
    constraint = keyed(toy)
    for threshold, rate in ((0.1, 1.0), (0.99, None)):
        sampler = GreedySampler(
            draft="counts", gamma=4, counts=learnt(toy, constraint), count_threshold=threshold
        )
        (sample,) = sampler.draw(toy.model(), constraint, "", rng=np.random.default_rng(0))
        assert sample.diagnostics["acceptance_rate"] == rate


def test_the_threshold_decides_what_is_guessed() -> None:
    toy = chain_toy()
    constraint = keyed(toy)
    calls = []
    for threshold in (0.5, 0.999):
        counts = learnt(toy, constraint)
        counts.threshold = threshold
        sampler = GreedySampler(draft="counts", gamma=4, counts=counts)
        (sample,) = sampler.draw(toy.model(), constraint, "", rng=np.random.default_rng(0))
        calls.append((sample.diagnostics["target_calls"], sample.diagnostics["acceptance_rate"]))
    assert calls == [(5, 1.0), (21, None)]


def test_counts_are_learnt_online_from_draw_to_draw() -> None:
    toy = chain_toy()
    sampler = GreedySampler(draft="counts", gamma=8)
    calls = [
        sampler.draw(toy.model(), keyed(toy), "", rng=np.random.default_rng(0))[0].diagnostics[
            "target_calls"
        ]
        for _ in range(4)
    ]
    # A token that was seen once has even odds: enough for the default threshold.
    assert calls == [21, 3, 3, 3]


def test_texts_do_not_depend_on_the_batch() -> None:
    toy = toy_b()
    constraint = keyed(toy)
    requests = [Request("", constraint, [seed, seed + 50], id=seed) for seed in range(12)]
    samplers = [
        MaskedSampler(draft="counts", gamma=3, counts=Counts(threshold=0.2)) for _ in range(2)
    ]
    together, one_by_one = samplers[0].draw_batch(toy.model(), requests), samplers[1]
    for request, samples in zip(requests, together, strict=True):
        (alone,) = one_by_one.draw_batch(toy.model(), [request])
        assert [bare(s) for s in alone] == [bare(s) for s in samples]  # type: ignore[union-attr]


def test_walks_decoded_in_chunks_draw_the_same_texts() -> None:
    toy = toy_b()
    drawn = [
        MaskedSampler(draft="counts", gamma=3, max_walks=size).draw(
            toy.model(), keyed(toy), "", n=40, rng=np.random.default_rng(1)
        )
        for size in (1, 7, 1000)
    ]
    texts = [[(s.token_ids, s.log_weight) for s in samples] for samples in drawn]
    assert texts[0] == texts[1] == texts[2]


def test_sets_are_drawn_as_ever_and_count_nothing() -> None:
    toy = toy_b()
    sampler = MaskedSampler(draft="counts", gamma=4)
    samples = sampler.draw(toy.model(), toy.constraint, "", n=20, rng=np.random.default_rng(0))
    plain = MaskedSampler().draw(
        toy.model(), toy.constraint, "", n=20, rng=np.random.default_rng(0)
    )
    assert [bare(sample) for sample in samples] == [bare(sample) for sample in plain]
    assert {sample.diagnostics["acceptance_rate"] for sample in samples} == {None}


def test_length_limits_hold() -> None:
    toy = chain_toy()
    constraint = keyed(toy)
    sampler = GreedySampler(draft="counts", gamma=8, counts=learnt(toy, constraint))
    model = counting(toy)
    (sample,) = sampler.draw(model, constraint, "", rng=np.random.default_rng(0), max_new_tokens=5)
    assert (sample.finish_reason, len(sample.token_ids)) == ("length", 5)
    assert model.rows <= 6


def test_counts_of_another_vocabulary_are_refused() -> None:
    toy = toy_b()
    sampler = MaskedSampler(draft="counts", gamma=1, counts=Counts("another"))
    with pytest.raises(TokenizerMismatchError, match="another"):
        sampler.draw(toy.model(), keyed(toy), "", rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    "options",
    [{"draft": "counts", "gamma": 0}, {"draft": "counts", "gamma": 1.5}, {"draft": "guesses"}],
)
def test_options_out_of_range_are_usage_errors(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        GreedySampler(**options)


# --- Counts of speculation: estimates, bounds, and the file they are kept in.


def test_the_likeliest_event_has_its_share_of_what_was_seen() -> None:
    table = CountTable()
    assert table.likeliest(5) == (END, 0.0)
    for event in (7, 7, 9, END):
        table.add(5, event)
    assert table.likeliest(5) == (7, 2 / 5)
    assert table.likeliest(6) == (END, 0.0)


def test_a_key_with_many_events_forgets_the_rare_ones() -> None:
    table = CountTable()
    table.add(1, 3, 40)
    for event in range(100, 100 + 3 * module.MAX_EVENTS):
        table.add(1, event)
    (told,) = table.to_json().values()
    assert len(told) == module.MAX_EVENTS
    assert sum(told.values()) == 40 + 3 * module.MAX_EVENTS
    # What was forgotten still counts as seen: the estimate does not rise.
    assert table.likeliest(1) == (3, 40 / (40 + 3 * module.MAX_EVENTS + 1))


def test_events_that_become_frequent_are_told_apart_after_many_others() -> None:
    table = CountTable()
    for event in range(100):
        table.add(1, event)
    for _ in range(150):
        table.add(1, 7)
        table.add(1, 8)
    (told,) = table.to_json().values()
    assert sum(told.values()) == 400
    for event in ("7", "8"):
        # Never too few, and too many by what the rarest one can have had at most.
        assert 150 <= told[event] <= 151 + 100 / module.MAX_EVENTS
    assert table.likeliest(1)[0] in (7, 8)


def test_a_full_table_keeps_the_keys_met_most_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEYS", 100)
    table = CountTable()
    for key in range(10):
        table.add(key, 1, 50)
    for key in range(1000, 2000):
        table.add(key, 1)
    assert len(table) <= 100
    assert all(table.likeliest(key)[0] == 1 for key in range(10))


def test_saved_counts_come_back(tmp_path: Path) -> None:
    counts = Counts("hash")
    counts.table("a").add(-(1 << 63), 5, 3)
    counts.table("a").add(7, END)
    counts.table("b").add(7, 4)
    counts.save(tmp_path / "counts.json")
    again = Counts.load(tmp_path / "counts.json")
    assert again.vocabulary_hash == "hash"
    for name in ("a", "b"):
        assert again.table(name).to_json() == counts.table(name).to_json()
    assert again.table("a").likeliest(-(1 << 63)) == (5, 3 / 4)
    assert [path.name for path in tmp_path.iterdir()] == ["counts.json"]


def test_many_tables_stay_within_one_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "MAX_ALL_KEYS", 100)
    counts = Counts("hash")
    for number in range(50):
        table = counts.table(f"grammar {number}")
        for key in range(10):
            table.add(key, number)
        # A table that is asked for again and again outlives those that are not.
        assert counts.table("grammar 0").likeliest(3) == (0, 1 / 2)
    counts.save(tmp_path / "counts.json")
    names = list(json.loads((tmp_path / "counts.json").read_text())["tables"])
    assert names[-2:] == ["grammar 49", "grammar 0"]
    assert 2 <= len(names) <= 11


def test_an_empty_table_is_shared_and_not_kept_for_ever() -> None:
    counts = Counts("hash")
    table = counts.table("0")
    # Two sessions of one grammar ask for it before anything is counted.
    assert counts.table("0") is table
    for number in range(module.MAX_TABLES):
        counts.table(str(1 + number))
    assert counts.table("0") is not table


def test_counts_of_other_artifacts_are_refused() -> None:
    counts = Counts("hash")
    counts.table("a").add(1, 1)
    counts.require_artifacts([])
    counts.require_artifacts(["b", "a"])
    with pytest.raises(DataError, match="the artifacts a, the run has b"):
        counts.require_artifacts(["b"])


GOOD = {"kind": "cdec counts", "version": 1, "vocabulary_hash": "h", "tables": {}}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "E_JSON"),
        (b"[1", "E_JSON"),
        (b"[" * 100_000, "E_JSON"),
        (b"\xff", "E_JSON"),
        (b"[]", "E_DATA"),
        (json.dumps(GOOD | {"kind": "x"}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"version": 2}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"vocabulary_hash": None}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": []}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": [1]}}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": {"1": {"2": 0}}}}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": {"1": {"2": True}}}}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": {"1": {"-2": 1}}}}).encode(), "E_DATA"),
        (json.dumps(GOOD | {"tables": {"a": {"x": {"2": 1}}}}).encode(), "E_DATA"),
        (
            json.dumps(
                GOOD | {"tables": {"a": {"1": {str(i): (1 << 53) - 1 for i in range(513)}}}}
            ).encode(),
            "E_DATA",
        ),
        (json.dumps(GOOD | {"tables": {"a": {str(1 << 63): {"2": 1}}}}).encode(), "E_DATA"),
    ],
)
def test_a_file_that_holds_no_counts_is_refused(tmp_path: Path, body: bytes, code: str) -> None:
    path = tmp_path / "counts.json"
    path.write_bytes(body)
    with pytest.raises(CdecError) as caught:
        Counts.load(path)
    assert caught.value.code == code
    assert caught.value.hint


def test_missing_files_and_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(CdecError) as caught:
        Counts.load(tmp_path / "none.json")
    assert caught.value.code == "E_NOINPUT"
    with pytest.raises(OutputError):
        Counts("h").save(tmp_path / "no" / "counts.json")


# --- Guesses are compared all at once: what is found is what one after the other gives.


@pytest.mark.parametrize("draft", ["counts", "prompt-lookup"])
@pytest.mark.parametrize("name", ["greedy", "masked"])
def test_guesses_compared_at_once_give_what_they_give_one_after_the_other(
    name: str, draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaps: list[int] = []
    leap = Following.leap

    def noted(self: Following, *arguments: Any) -> Any:
        went, proposal = leap(self, *arguments)
        leaps.append(int(went.max()))
        return went, proposal

    monkeypatch.setattr(Following, "leap", noted)

    def drawn(*, at_once: bool) -> list[Any]:
        found = []
        for world in ("set", "set, dense", "set that ends texts", "free"):
            pair = pairs()[world]
            constraint = keyed(pair.toy, fold=2) if pair.is_masked else None
            sampler = SAMPLERS[name](draft=draft, gamma=6, counts=Counts(threshold=0.0))
            with monkeypatch.context() as patch:
                if not at_once:
                    patch.setattr(Following, "may_leap", lambda *_: False)
                for _ in range(2):
                    asked = [
                        Request(prompt, constraint, range(8), max_new_tokens=pair.limit)
                        for prompt in ([0, 1, 0, 1, 0], [2, 3, 2])
                    ]
                    found += [
                        dataclasses.asdict(sample)
                        for samples in sampler.draw_batch(pair.toy.model(), asked)
                        for sample in samples
                    ]
        return found

    # All of it: texts, weights, what was evaluated, verified and accepted, and bounds of the mass.
    together = drawn(at_once=True)
    assert max(leaps) >= (2 if draft == "counts" else 1)
    assert together == drawn(at_once=False)


def test_numbers_of_a_walk_may_be_asked_for_in_several_blocks_at_once() -> None:
    made = [CandidateUniforms([5, 5, 7], np.array([0, 1, 0]), 200) for _ in range(2)]
    steps = np.array([3, 70, 62, 63, 64, 150, 199, 0])
    walks = np.array([0, 0, 1, 1, 2, 2, 1, 0])
    alone = [float(made[0].at(steps[i : i + 1], walks[i : i + 1])[0]) for i in range(len(steps))]
    assert made[1].at(steps, walks).tolist() == alone
    assert len(set(alone)) == len(alone)
