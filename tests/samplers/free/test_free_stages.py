"""Markers across tokens, budgets, ends in free text, tagged regions: enumerated, or by example."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from cdec.core.combine.free_text import FreeText
from cdec.core.errors import CdecError, UsageError
from cdec.core.sample import Sample
from cdec.integrations.findings import enumeration
from cdec.samplers import SAMPLERS, Request
from tests.laws.gtest import g_test
from tests.laws.worlds import Row, Toy
from tests.samplers.free.two_stage import (
    END,
    LENGTH,
    SET_WORLD,
    WORLD,
    World,
    tagged_law,
    tagged_outcomes,
)


def draw(
    world: World, free: FreeText, method: str = "masked", n: int = 1, **options: object
) -> list[Sample]:
    most = options.pop("max_new_tokens", None)
    request = Request.numbered(
        [0],
        world.constraint(),
        id="q",
        n=n,
        seed=3,
        free=free,
        max_new_tokens=most,  # type: ignore[arg-type]
    )
    (samples,) = SAMPLERS[method](**options).draw_batch(world.model(), [request])
    if isinstance(samples, CdecError):
        raise samples
    return samples


def scripted(pieces: list[bytes], script: list[int], members: tuple[bytes, ...]) -> World:
    """A world in which the model writes these tokens, then any with equal probability."""

    class Scripted(World):
        def probabilities(self, prefix: Row):  # type: ignore[no-untyped-def]
            import numpy as np

            width = len(self.pieces) + 1
            if len(prefix) < len(script):
                return np.eye(width)[script[len(prefix)]]
            return np.full(width, 1 / width)

    return Scripted(tuple(pieces), members)


MEMBERS = (b"x", b"xy", b"y")


@pytest.mark.parametrize("cuts", list(itertools.product([False, True], repeat=5)))
def test_a_marker_is_found_however_tokens_cut_it(cuts: tuple[bool, ...]) -> None:
    """The text ``-<ab>x``: every way to cut it, the marker's end within a token included."""
    text, pieces = b"-<ab>x", [b""]
    for byte, cut in zip([*text], [*cuts, False], strict=True):
        pieces[-1] += bytes([byte])
        if cut:
            pieces.append(b"")
    every = [*dict.fromkeys([*pieces, b"x", b"y"])]
    world = scripted(every, [every.index(piece) for piece in pieces], MEMBERS)
    sample = draw(world, FreeText(after=("<ab>",)))[0]
    assert (sample.finish_reason, sample.free_text) == ("complete", "-<ab>")
    assert sample.text in ("x", "xy", "y")
    whole = b"".join(every[t] for t in sample.token_ids).decode()
    assert whole == sample.free_text + sample.text
    cut_before_x = cuts[-1]
    assert sample.free_tokens == len(pieces) - (1 if cut_before_x else 0)
    if not cut_before_x:
        assert sample.text.startswith("x")


def test_a_marker_that_overlaps_itself_is_found() -> None:
    world = scripted([b"a", b"b", b"x", b"y"], [0, 0, 0, 1], MEMBERS)
    sample = draw(world, FreeText(after=("aab",)))[0]
    assert (sample.free_text, sample.free_tokens) == ("aaab", 4)


def test_the_first_of_several_markers_counts() -> None:
    world = scripted([b"a", b"b", b"x", b"y"], [1, 0, 1, 1], MEMBERS)
    sample = draw(world, FreeText(after=("bb", "ab")))[0]
    assert (sample.free_text, sample.marker) == ("bab", "ab")
    assert draw(world, FreeText(after=("bbb", "abb")))[0].free_text == "babb"


def test_a_marker_in_the_prompt_does_not_count() -> None:
    world = scripted([b"a", b"|", b"x", b"y"], [0, 1], MEMBERS)
    request = Request([1, 1], world.constraint(), [0], free=FreeText(after=("|",)))
    (samples,) = SAMPLERS["masked"]().draw_batch(world.model(), [request])
    assert isinstance(samples, list) and samples[0].free_text == "a|"


def test_a_text_that_ends_without_its_marker_says_so() -> None:
    world = scripted([b"a", b"|", b"x", b"y"], [0, 0, 4], MEMBERS)
    sample = draw(world, FreeText(after=("|",)))[0]
    assert (sample.finish_reason, sample.text, sample.valid) == ("no_marker", None, False)
    assert (sample.free_text, sample.free_tokens, sample.marker) == ("aa", 2, None)
    assert sample.log_weight is None and sample.log_candidate_weight is None
    assert sample.logprob == 0.0 and sample.token_ids == [0, 0]


def test_a_text_that_is_cut_before_its_marker_has_no_end() -> None:
    world = scripted([b"a", b"|", b"x", b"y"], [0] * 300, MEMBERS)
    for most, tokens in ((None, 256), (3, 3)):
        sample = draw(world, FreeText(after=("|",)), max_new_tokens=most)[0]
        assert (sample.finish_reason, sample.text, sample.valid) == ("length", None, False)
        assert sample.free_tokens == tokens and sample.logprob is None
        assert sample.log_weight is None


def test_the_length_counts_free_text_and_what_follows() -> None:
    world = scripted([b"a", b"|", b"x", b"y"], [0, 1, 2, 2], (b"xxxx",))
    sample = draw(world, FreeText(after=("|",)), max_new_tokens=4)[0]
    assert (sample.finish_reason, len(sample.token_ids)) == ("length", 4)
    assert draw(world, FreeText(after=("|",)), max_new_tokens=6)[0].text == "xxxx"


@pytest.mark.share(2)
@pytest.mark.parametrize("budget", [0, 1, 2])
@pytest.mark.parametrize("world", [WORLD, SET_WORLD], ids=["bytes", "tokens"])
def test_a_budget_forces_the_model_into_the_marker(world: World, budget: int) -> None:
    law: dict[object, float] = {}
    marker = b"a|"
    for free in world.free_parts([marker], budget):
        ways = [(free.tokens, free.onward, free.p)]
        if free.kind in (LENGTH, END):
            ways = [
                (free.tokens + row, onward, free.p * p)
                for row, onward, p in world.forced(free.tokens, marker)
            ]
        for tokens, onward, p in ways:
            for row, q in enumeration.masked(world.toy(tokens, onward)).law.items():
                key = (tokens, row) if row is not None else "lost"
                law[key] = law.get(key, 0.0) + p * q
    samples = draw(world, FreeText(after=("a|",), budget=budget), n=500)
    assert all(s.finish_reason == "complete" for s in samples)
    split = [(s.token_ids[: s.free_tokens], s.token_ids[s.free_tokens :]) for s in samples]
    assert g_test([(tuple(a), tuple(b)) for a, b in split], law) > 1e-4
    for sample in samples:
        assert (sample.free_log_z is None) == sample.forced
        assert sample.logprob == pytest.approx(_log_p(world, tuple(sample.token_ids)), abs=1e-9)
    assert {s.forced for s in samples} == ({True} if budget == 0 else {True, False})


def _log_p(world: World, tokens: Row) -> float:
    return enumeration.log_prob(Toy(world.vocabulary, world.probabilities, [tokens]), tokens)


def test_the_marker_is_forced_from_where_the_text_stands_within_it() -> None:
    world = scripted([b"a", b"b", b"c", b"x", b"y"], [0, 0, 1], MEMBERS)
    sample = draw(world, FreeText(after=("cc", "abc"), budget=3))[0]
    assert (sample.free_text, sample.marker, sample.forced) == ("aabc", "abc", True)
    world = scripted([b"a", b"b", b"c", b"x", b"y"], [], MEMBERS)
    sample = draw(world, FreeText(after=("cc", "abc"), budget=0))[0]
    assert (sample.free_text, sample.marker) == ("cc", "cc")


def test_a_marker_that_no_tokens_spell_cannot_be_forced() -> None:
    world = scripted([b"az", b"x"], [0, 1], MEMBERS)
    assert draw(world, FreeText(after=("z",)))[0].free_text == "az"
    with pytest.raises(UsageError, match="spell the marker"):
        draw(world, FreeText(after=("z",), budget=3))


@pytest.mark.parametrize(
    "free", [FreeText(after=("a", "éa")), FreeText(between=("a", "é")), FreeText(("é",), budget=2)]
)
def test_a_marker_that_can_never_appear_is_refused(free: FreeText) -> None:
    world = scripted([b"a", b"x", b"\xc3"], [0, 1], MEMBERS)
    with pytest.raises(UsageError, match=r"can never appear: no token .* spells 'é'"):
        draw(world, free)


BETWEEN = World((b"a", b"b", b"[", b"]", b"b]", b"]a", b"[b", b"]["), (b"a", b"b", b"ab"), end=0.2)


def test_tagged_regions_have_the_law_of_their_parts_in_turn() -> None:
    limit = 4
    law = tagged_law(BETWEEN, b"[", b"]", limit)
    samples = draw(BETWEEN, FreeText(between=("[", "]")), n=2500, max_new_tokens=limit)
    assert g_test(tagged_outcomes(samples), law) > 1e-4
    assert {len(s.regions) for s in samples if s.finish_reason == "complete"} >= {0, 1}
    for sample in samples:
        _check_regions(sample)


def _check_regions(sample: Sample) -> None:
    whole = b"".join(BETWEEN.pieces[t] for t in sample.token_ids).decode()
    assert sample.text == whole
    for region in sample.regions:
        if region["finish_reason"] == "complete":
            assert whole[region["start"] : region["end"]] == region["text"]
            assert whole[region["start"] - 1] == "[" and whole[region["end"]] == "]"
            assert region["text"] in ("a", "b", "ab") and region["valid"] is True
    if sample.finish_reason == "complete":
        assert sample.valid is True
        weights = [region["log_weight"] for region in sample.regions]
        assert sample.log_weight == pytest.approx(sum(weights), abs=1e-12)
        assert sample.logprob == pytest.approx(_log_p(BETWEEN, tuple(sample.token_ids)))
    else:
        assert sample.valid is False and sample.log_weight is None


def test_regions_that_are_owed_are_forced() -> None:
    free = FreeText(between=("[", "]"), regions=2, budget=1)
    for method in ("masked", "exact", "disc", "greedy"):
        samples = draw(BETWEEN, free, method, n=20, max_new_tokens=80)
        ended = [s for s in samples if s.finish_reason == "complete"]
        assert len(ended) > (0 if method == "greedy" else 10)
        assert all(len(s.regions) >= 2 and s.valid for s in ended), method
        assert all(s.text.count("[") >= 2 for s in ended)


def test_regions_of_a_set_begin_and_end_with_tokens() -> None:
    world = World(
        (b"a", b"b", b"[", b"]", b"[a", b"]b"), (b"a", b"ab"), True, end=0.1, rows=((0,), (0, 1))
    )
    samples = draw(world, FreeText(between=("[", "]"), regions=1), "exact", n=60)
    ended = [s for s in samples if s.finish_reason == "complete"]
    assert ended and all(r["text"] in ("a", "ab") for s in ended for r in s.regions)
    assert all(r["valid"] for s in ended for r in s.regions)
    assert all(4 not in s.token_ids for s in ended)  # "[a" overruns, and sets take no bytes
    assert any(5 in s.token_ids for s in samples)  # "]b" ends a region: free text takes all


def test_results_do_not_depend_on_the_batch() -> None:
    free = [FreeText(after=("|",)), FreeText(between=("|", "b")), None, FreeText(("a",), budget=1)]
    requests = [
        Request.numbered([0], WORLD.constraint(), id=i, n=3, max_new_tokens=12, free=free[i % 4])
        for i in range(12)
    ]
    sampler = SAMPLERS["disc"]()
    together = sampler.draw_batch(WORLD.model(), requests)
    for request, found in zip(requests, together, strict=True):
        (alone,) = SAMPLERS["disc"]().draw_batch(WORLD.model(), [request])
        assert isinstance(found, list) and isinstance(alone, list)
        assert [s.to_json() for s in found] == [s.to_json() for s in alone]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"after": ("",)}, "not empty"),
        ({"after": ()}, "neither is"),
        ({"after": ("a",), "between": ("a", "b")}, "both are"),
        ({"between": ("a", "")}, "not empty"),
        ({"between": ("a",)}, "has 1 texts"),
        ({"after": ("a",), "budget": -1}, "`budget`"),
        ({"after": ("a",), "regions": 1}, "`regions` is 1"),
        ({"between": ("a", "b"), "budget": 4}, "no region is owed"),
        ({"after": ("\ud800",)}, "surrogate"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        FreeText(**wrong)  # type: ignore[arg-type]


def test_free_text_needs_a_constraint_and_has_no_tree(tmp_path) -> None:  # type: ignore[no-untyped-def]
    request = Request([0], None, [1], free=FreeText(after=("|",)))
    (error,) = SAMPLERS["greedy"]().draw_batch(WORLD.model(), [request])
    assert isinstance(error, UsageError) and "constraint" in error.message
    sampler = SAMPLERS["exact"]()
    sampler.tree = object()
    with pytest.raises(UsageError, match="tree"):
        sampler.draw_batch(WORLD.model(), [replace(request, constraint=WORLD.constraint())])


def test_topn_lists_no_more_texts_behind_a_free_part_than_there_are() -> None:
    world = scripted([b"a", b"|", b"x", b"y"], [0, 1], MEMBERS)
    samples = draw(world, FreeText(after=("|",)), "topn", n=5)
    assert [s.rank for s in samples] == [1, 2, 3]
    assert [s.exhausted for s in samples] == [False, False, True]


def test_beam_and_topn_give_distinct_texts_behind_one_free_part() -> None:
    world = scripted([b"a", b"|", b"x", b"y"], [0, 1], MEMBERS)
    for method in ("beam", "topn"):
        samples = draw(world, FreeText(after=("|",)), method, n=3)
        assert sorted(s.text for s in samples) == ["x", "xy", "y"]
        assert {s.free_text for s in samples} == {"a|"}
