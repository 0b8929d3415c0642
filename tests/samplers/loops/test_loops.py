"""Texts that loop: found, stopped, warned of."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cdec.core.combine.free_text import FreeText
from cdec.core.errors import TreeMismatchError
from cdec.core.sample import Sample
from cdec.core.text_warnings import (
    BUDGET,
    CYCLE,
    LEAST_Z,
    LOW_Z,
    WHITESPACE,
    described,
)
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.learning.saved import TreeFile
from cdec.samplers.loops import LoopWatch, find_loops, loop_warnings
from cdec.samplers.registry import METHODS
from cdec.samplers.request import Request
from cdec.samplers.scoring.trace import Tracer
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Row, Toy
from tests.samplers.lookahead.lookahead_reference import TextReward
from tests.samplers.loops.loop_reference import all_loops, first_loop

# --- Loops of texts: the kernels against the definition, whole texts and token by token.

pieces = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=4).map(str.encode),
    st.text("ab", max_size=20).map(str.encode),
    st.sampled_from([b" ", b"\n", b" \n\t ", b"a", b"ab", "é".encode(), "日本".encode(), b"  {}"]),
)
repeated = st.tuples(st.one_of(pieces, st.binary(min_size=20, max_size=60)), st.integers(1, 140))
texts = st.lists(repeated, max_size=4).map(
    lambda parts: b"".join((piece * count)[:400] for piece, count in parts)
)


@settings(max_examples=heavy_or(60, 2000), deadline=None)
@given(texts)
@example(b"x" * 127)
@example(b"x" * 128)
@example(b" " * 127 + b"y")
@example(b"a" + b"\n " * 64 + b"b")
@example(b"abc" * 43)
@example(bytes(range(33)) * 4)
@example(b"start" + bytes(range(40, 80)) * 4)
@example(b"start" + bytes(range(40, 80)) * 4 + b" end")
@example(b"-" * 200 + b"+" * 200)
def test_loops_of_a_text_are_those_of_the_definition(text: bytes) -> None:
    assert find_loops(text) == all_loops(text)


def test_random_texts_of_short_alphabets_loop_where_the_definition_says() -> None:
    rng = np.random.default_rng(3)
    looping = 0
    for _ in range(heavy_or(40, 400)):
        letters = rng.integers(32, 32 + int(rng.integers(1, 4)), size=300).astype(np.uint8)
        period = int(rng.integers(1, 70))
        start = int(rng.integers(0, 100))
        for at in range(start + period, 300):
            if rng.random() < 0.998:
                letters[at] = letters[at - period]
        text = letters.tobytes()
        found = find_loops(text)
        assert found == all_loops(text)
        looping += bool(found)
    assert looping > 10


@pytest.mark.parametrize("period", [1, 2, 31, 33, 64, 255, 256])
def test_a_cycle_is_found_from_four_times_and_128_bytes_on(period: int) -> None:
    cycle = bytes(np.random.default_rng(period).permutation(256)[:period].tolist())
    needed = max(128, 4 * period)
    whole = cycle * (needed // period + 2)
    assert find_loops(whole[: needed - 1]) == []
    assert find_loops(whole[:needed]) == [(0, needed, period)]
    # In the middle: what comes before and after is told apart.
    before, after = bytes([cycle[-1] ^ 255]), bytes([whole[needed] ^ 255])
    assert find_loops(before + whole[:needed] + after) == [(1, needed, period)]


def test_a_cycle_of_257_bytes_is_none() -> None:
    cycle = bytes(np.arange(256, dtype=np.uint8)) + b"!"
    assert find_loops(cycle * 6) == []


@st.composite
def _cut(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    text = draw(texts)
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=12))
    return text, sorted({0, *cuts, len(text)})


@settings(max_examples=heavy_or(40, 1000), deadline=None)
@given(_cut())
def test_tokens_find_the_first_loop_wherever_they_cut_the_text(
    cut: tuple[bytes, list[int]],
) -> None:
    text, places = cut
    tokens = [text[a:b] for a, b in itertools.pairwise(places)] or [b"x"]
    vocabulary = Vocabulary([*tokens, b""], eos_token_ids=[len(tokens)], width=len(tokens) + 3)
    watch = LoopWatch(vocabulary, 3)
    walk = np.array([1])
    hit = first_loop(text)
    taken = 0
    for number, token in enumerate(tokens if text else ()):
        watch.append(walk, np.array([number]))
        watch.append(walk, np.array([len(tokens) + 1]))  # A padding id has no bytes.
        taken += len(token)
        assert watch.is_looping(walk)[0] == (hit is not None and taken >= hit[0])
    assert not watch.is_looping(np.array([0, 2])).any()


def test_walks_begin_with_what_stands_before_and_copies_go_their_own_ways() -> None:
    vocabulary = Vocabulary([b"ab", b"c", b""], eos_token_ids=[2])
    watch = LoopWatch(vocabulary, 4)
    watch.begin(np.array([0, 2]), [0] * 63)
    everyone = np.arange(4)
    assert not watch.is_looping(everyone).any()
    copy = watch.take(np.array([2, 2]))
    copy.append(np.array([0, 1]), np.array([0, 1]))
    assert copy.is_looping(np.array([0, 1])).tolist() == [True, False]
    watch.append(everyone, np.zeros(4, np.int64))
    assert watch.is_looping(everyone).tolist() == [True, False, True, False]
    watch.inherit(np.array([1]), np.array([0]))
    assert watch.is_looping(everyone).tolist() == [True, True, True, False]


def test_warnings_name_the_token_that_the_loop_begins_in() -> None:
    vocabulary = Vocabulary([b"ha ", b"well, ha ", b"   \n", b""], eos_token_ids=[3])
    ids = [1, *[0] * 50, *[2] * 40]
    found = loop_warnings(vocabulary, ids, vocabulary.decode(ids))
    assert found == [
        {"code": CYCLE, "token": 0, "byte": 5, "bytes": 154, "period": 3},
        {"code": WHITESPACE, "token": 51, "byte": 159, "bytes": 160},
    ]
    assert loop_warnings(vocabulary, [0, 1, 2], vocabulary.decode([0, 1, 2])) == []


# --- ``stop_loops``: texts end where they loop, with every method that grows them, in any batch.

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


@pytest.mark.share(2)
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


@pytest.mark.share(4)
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


# --- Warnings of low Z: those of every step of the drawn text, whatever the method and the batch.

_PIECES = ["a", "é", "xyz", "日"]
_WARNED_VOCABULARY = Vocabulary(
    [*(piece.encode() for piece in _PIECES), b"", b""], eos_token_ids=[4, 5], width=7
)


def fought(seed: int, *, ends_itself: bool = False) -> Toy:
    """A set, and a model that often gives nearly all its mass to what the set forbids."""
    rng = np.random.default_rng(seed)
    rows = {tuple(rng.integers(0, 4, size=int(rng.integers(1, 5))).tolist()) for _ in range(7)}
    if ends_itself:
        rows = {(*(token % 3 for token in row), 3) for row in rows}

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        own = np.random.default_rng([seed, *prefix])
        weights = own.exponential(size=7) ** 5 + 1e-9
        return weights / weights.sum()

    return Toy(_WARNED_VOCABULARY, probabilities, sorted(rows), ends_itself)


def options_for(name: str, toy: Toy) -> dict[str, Any]:
    """Return what a method needs, small enough for a toy."""
    method, options = METHODS[name], {}
    if method.needs_draft:
        options["draft"] = toy.model()
    if method.needs_reward:
        options["reward"] = TextReward(lambda text, record: float(len(text) % 3))
    return options | ({"burn_in": 5} if name == "asap" else {})


def warned_draws(
    name: str, toy: Toy, n: int = 6, traced: bool = True, **options: Any
) -> list[Sample]:
    sampler = SAMPLERS[name](**options_for(name, toy), **options)
    needs_beams = name == "beam"
    count = min(n, 4) if needs_beams else n
    request = Request.numbered("", toy.constraint, id="r", n=count, seed=7)
    observer = Tracer() if traced else None
    (found,) = sampler.draw_batch(toy.model(), [request], observer=observer)
    assert isinstance(found, list), found
    return found


def of_trace(toy: Toy, sample: Sample) -> list[dict[str, object]]:
    """Return the warning that the lines of a trace make, by definition."""
    lines: list[Any] = [line for line in sample.trace or () if line["event"] != "none"]
    if not lines:
        return []
    least = min(lines, key=lambda line: line["log_z"])
    if not least["log_z"] < math.log(LEAST_Z):
        return []
    at = least["position"]
    before = len(toy.vocabulary.decode(sample.token_ids[:at]))
    log_z = pytest.approx(least["log_z"], abs=1e-9)
    return [{"code": LOW_Z, "token": at, "byte": before, "log_z": log_z}]


@pytest.mark.share(13)
@pytest.mark.parametrize("name", METHODS)
def test_the_least_z_of_the_drawn_text_is_told_where_it_is_too_low(name: str) -> None:
    told = quiet = 0
    for seed in range(8):
        toy = fought(seed, ends_itself=seed % 4 == 3)
        for sample in warned_draws(name, toy):
            assert list(sample.warnings) == of_trace(toy, sample), (name, seed)
            told += bool(sample.warnings)
            quiet += not sample.warnings
    assert (told == 0) == (not METHODS[name].masks), "the model alone fights nothing"
    assert quiet > 0, name


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("exact", {"abort": True}),
    ("exact", {"draft": "prompt-lookup", "round": 2}),
    ("exact", {"max_draws": 1, "fallback": "asap"}),
    ("disc", {"beams": 2}),
    ("disc", {"recycle": True, "K": 2}),
    ("masked", {"draft": "counts"}),
    ("smc", {"particles": 4, "resample_below": 1.0}),
    ("topn", {"by": "text"}),
]


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_so_with_every_way_to_draw(name: str, options: dict[str, Any]) -> None:
    told = 0
    for seed in range(5):
        toy = fought(seed)
        for sample in warned_draws(name, toy, n=4, **options):
            fought_at = [each for each in sample.warnings if each["code"] != BUDGET]
            assert fought_at == of_trace(toy, sample), seed
            told += bool(fought_at)
    assert told


def test_nothing_is_told_of_steps_whose_z_was_not_computed_and_nothing_wrong() -> None:
    told = 0
    for seed in range(8):
        toy = fought(seed)
        full = warned_draws("masked", toy)
        for options in ({"opportunistic": True}, {"top_m": 2}):
            for sample in warned_draws("masked", toy, **options):
                (expected,) = of_trace(toy, sample) or [None]
                for warning in sample.warnings:
                    assert expected is not None
                    assert warning["log_z"] >= expected["log_z"].expected - 1e-9  # type: ignore
                    assert warning["log_z"] < math.log(LEAST_Z)
                    told += 1
        assert any(sample.warnings for sample in full) or seed != 0
    assert told


@pytest.mark.parametrize("name", ["masked", "exact", "smc", "asap"])
def test_warnings_depend_on_no_batch_and_on_no_trace(name: str) -> None:
    toys = [fought(seed) for seed in range(4)]
    requests = [
        Request.numbered("", toy.constraint, id=i, n=4, seed=i) for i, toy in enumerate(toys)
    ]
    sampler = SAMPLERS[name](**options_for(name, toys[0]))
    together = sampler.draw_batch(toys[0].model(), requests)
    for request, found in zip(requests, together, strict=True):
        (alone,) = sampler.draw_batch(toys[0].model(), [request])
        assert isinstance(alone, list) and isinstance(found, list)
        assert [each.to_json() for each in alone] == [each.to_json() for each in found]


def test_a_tree_that_was_read_back_warns_as_well(tmp_path: Path) -> None:
    told = 0
    for seed in range(5):
        toy = fought(seed)
        for _ in range(2):
            tree = TreeFile(tmp_path / f"{seed}.arrow", names={"constraint": "fought"})
            samples = warned_draws("asap", toy, n=20, tree=tree)
            assert [list(s.warnings) for s in samples] == [of_trace(toy, s) for s in samples]
            told += any(sample.warnings for sample in samples)
    assert told > 1


def test_warnings_are_in_the_record_and_in_words() -> None:
    sample = next(each for each in warned_draws("masked", fought(0)) if each.warnings)
    (warning,) = sample.to_json()["warnings"]  # type: ignore[misc]
    assert list(warning) == ["code", "token", "byte", "log_z"]
    words = described(warning)
    assert f"{math.exp(warning['log_z']):.2g} at token {warning['token']}, byte" in words
