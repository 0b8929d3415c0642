"""``stop_loops``: texts end where they loop, with every method that grows them, in any batch."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.combine.free_text import FreeText
from cdec.core.errors import TreeMismatchError
from cdec.core.record_fields.text_warnings import CYCLE
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.learning.saved import TreeFile
from cdec.samplers.registry import METHODS
from cdec.samplers.request import Request
from tests.laws.gtest import g_test
from tests.laws.toys import Row, Toy
from tests.samplers.loops.test_warnings import options_for

STOPPING = [name for name in METHODS if METHODS[name].option("stop_loops")]
_VOCABULARY = Vocabulary([b"ab", b"c", b"d", b""], eos_token_ids=[3])
ENDLESS, SHORT, LONG, OTHER = (0,) * 90, (1,), (0, 0, 0, 2), (2, 2)
STAY = 0.98
LOOPED = "ab" * 64


def _probabilities(prefix: Row) -> NDArray[np.float64]:
    """Mostly ``ab`` again; a text ends after anything else."""
    if prefix and prefix[-1] != 0 and prefix != (2,):
        return np.array([0.0, 0.0, 0.1, 0.9])
    stay = STAY if prefix else 0.5
    rest = 1 - stay
    return np.array([stay, 0.3 * rest, 0.5 * rest, 0.2 * rest])


def looping_toy() -> Toy:
    """A set in which one member loops, and a model that likes that one."""
    return Toy(_VOCABULARY, _probabilities, [ENDLESS, SHORT, LONG, OTHER])


def log_p(row: Row) -> float:
    steps = [*(_probabilities(row[:at])[token] for at, token in enumerate(row))]
    return math.log(math.prod(steps) * _probabilities(row)[3])


def drawn(name: str, n: int = 4, *, seed: int = 1, **options: Any) -> list[Sample]:
    toy = looping_toy()
    sampler = SAMPLERS[name](**options_for(name, toy), **options)
    request = Request.numbered("", toy.constraint, id="r", n=n, seed=seed)
    (found,) = sampler.draw_batch(toy.model(), [request])
    assert isinstance(found, list), found
    return found


def test_all_methods_but_the_search_of_the_best_texts_can_stop() -> None:
    assert set(METHODS) - set(STOPPING) == {"topn"}
    with pytest.raises(TypeError, match="topn has no option 'stop_loops'"):
        SAMPLERS["topn"](stop_loops=True)


@pytest.mark.parametrize("name", [name for name in STOPPING if METHODS[name].masks])
def test_a_text_that_loops_is_ended_where_it_does(name: str) -> None:
    ends: Counter[str] = Counter()
    for seed in range(3):
        for sample in drawn(name, seed=seed, stop_loops=True):
            ends[sample.finish_reason] += 1
            if sample.finish_reason == "loop":
                assert sample.text == LOOPED
                assert sample.log_weight is None and sample.logprob is None
                assert sample.log_candidate_weight is None and sample.valid is False
                expected = {"code": CYCLE, "token": 0, "byte": 0, "bytes": 128, "period": 2}
                assert list(sample.warnings)[-1] == expected
            else:
                assert tuple(sample.token_ids) in (SHORT, LONG, OTHER)
    assert set(ends) <= {"loop", "complete"}
    others = {"masked", "disc", "asap", "exact", "smc", "beam"}
    assert ends["loop"] or name in others - {"masked"}, ends
    assert ends["complete"] or name not in others, ends
    whole = [s for s in drawn(name, stop_loops=False) if tuple(s.token_ids) == ENDLESS]
    assert all(s.warnings and s.finish_reason == "complete" for s in whole)


@pytest.mark.parametrize("name", ["masked", "speculative", "smc"])
def test_other_texts_stay_what_they_are(name: str) -> None:
    options = {"particles": 1} if name == "smc" else {}
    free, stopped = (drawn(name, 20, stop_loops=stop, **options) for stop in (False, True))
    for before, after in zip(free, stopped, strict=True):
        if tuple(before.token_ids) == ENDLESS:
            assert after.finish_reason == "loop"
        else:
            assert after.token_ids == before.token_ids
            assert after.log_weight == before.log_weight


def test_exact_draws_are_those_of_the_texts_that_do_not_loop() -> None:
    """What goes on behind a loop counts as forbidden, so S is what is left."""
    left = {row: math.exp(log_p(row)) for row in (SHORT, LONG, OTHER)}
    total = sum(left.values())
    samples = drawn("exact", 400, stop_loops=True, max_draws=4000)
    law = {row: p / total for row, p in left.items()}
    assert g_test([tuple(s.token_ids) for s in samples], law) > 1e-4
    assert {s.finish_reason for s in samples} == {"complete"}
    for bound in ("log_mass_lower", "log_mass_upper"):
        assert getattr(samples[0], bound) == pytest.approx(math.log(total), abs=1e-9)


def test_masked_weights_refer_to_the_texts_that_do_not_loop() -> None:
    samples = drawn("masked", 4000, stop_loops=True)
    weights = [math.exp(s.log_weight) if s.log_weight is not None else 0.0 for s in samples]
    total = sum(math.exp(log_p(row)) for row in (SHORT, LONG, OTHER))
    error = np.std(weights) / math.sqrt(len(weights))
    assert abs(np.mean(weights) - total) < 4.5 * error
    assert samples[0].log_mass == pytest.approx(math.log(total), abs=1e-9)


@pytest.mark.parametrize("name", STOPPING)
def test_nothing_depends_on_the_batch(name: str) -> None:
    toy = looping_toy()
    options: dict[str, Any] = {"stop_loops": True} | options_for(name, toy)
    asked = [None if name == "unconstrained" else toy.constraint] * 3
    requests = [
        Request.numbered("", each, id=i, n=3, seed=i, max_new_tokens=100)
        for i, each in enumerate(asked)
    ]
    together = SAMPLERS[name](**options).draw_batch(toy.model(), requests)
    narrow = options | ({"max_walks": 1} if METHODS[name].option("max_walks") else {})
    ends = set()
    for request, found in zip(requests, together, strict=True):
        (alone,) = SAMPLERS[name](**narrow).draw_batch(toy.model(), [request])
        assert isinstance(alone, list) and isinstance(found, list)
        assert [each.to_json() for each in alone] == [each.to_json() for each in found]
        ends |= {each.finish_reason for each in found}
    assert ends - {"complete"} <= {"loop"}


def test_the_model_alone_is_stopped_as_well() -> None:
    toy = looping_toy()
    request = Request.numbered("", None, id="r", n=40, seed=3, max_new_tokens=90)
    for stops, reason in ((True, "loop"), (False, "length")):
        (found,) = SAMPLERS["unconstrained"](stop_loops=stops).draw_batch(toy.model(), [request])
        assert isinstance(found, list)
        looped = [s for s in found if s.finish_reason == reason]
        assert looped and all(s.warnings and s.log_weight is None for s in looped)
        for sample in looped:
            (warning,) = sample.warnings
            end = warning["byte"] + warning["bytes"]
            assert end == len(sample.text or "") and warning["code"] == CYCLE
            assert (warning["bytes"] == 128) == stops


def test_beams_keep_whole_texts_before_those_that_loop_and_these_before_none() -> None:
    samples = drawn("beam", 4, stop_loops=True, beams=6)
    assert [s.finish_reason for s in samples] == ["complete"] * 3 + ["loop"]
    assert samples[-1].text == LOOPED
    free = drawn("beam", 4, beams=6)
    assert ENDLESS in [tuple(sample.token_ids) for sample in free]


@pytest.mark.parametrize("is_greedy", [False, True])
def test_free_text_that_loops_ends_the_text(is_greedy: bool) -> None:
    toy = looping_toy()
    name = "greedy" if is_greedy else "masked"
    free = FreeText(after=("d",), budget=None)
    request = Request.numbered("", toy.constraint, id="r", n=6, seed=4, free=free)
    (found,) = SAMPLERS[name](stop_loops=True).draw_batch(toy.model(), [request])
    assert isinstance(found, list), found
    looped = [sample for sample in found if sample.finish_reason == "loop"]
    assert looped
    for sample in looped:
        # In free text, or behind its marker, which is no part of it.
        assert (sample.free_text if sample.text is None else sample.text) == LOOPED
        assert sample.logprob is None and sample.log_weight is None
        assert [each["code"] for each in sample.warnings] == [CYCLE]


def test_a_loop_that_began_before_the_prompt_ended_counts_from_its_beginning() -> None:
    toy = looping_toy()
    request = Request("", None, [1, 2, 3], max_new_tokens=300, begun=(0,) * 60)
    (found,) = SAMPLERS["greedy"](stop_loops=True).draw_batch(toy.model(), [request])
    assert isinstance(found, list)
    assert {len(sample.token_ids) for sample in found} == {4}


def test_a_tree_of_texts_that_were_stopped_is_no_tree_of_all(tmp_path: Path) -> None:
    toy = looping_toy()
    request = Request.numbered("", toy.constraint, id="r", n=2)
    found = []
    for stops in (True, True, False):
        tree = TreeFile(tmp_path / "t.arrow", names={"constraint": "x"})
        sampler = SAMPLERS["asap"](stop_loops=stops, tree=tree, burn_in=2)
        found += sampler.draw_batch(toy.model(), [request])
    assert [type(each) for each in found] == [list, list, TreeMismatchError]
    assert "stop_loops" in str(found[2])
