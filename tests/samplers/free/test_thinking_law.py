"""Thinking, then free text, then the constraint: the law of the parts in turn, enumerated."""

from __future__ import annotations

import pytest

from cdec.core.combine.free_text import FreeText
from cdec.integrations.findings import enumeration
from tests.laws.gtest import g_test
from tests.laws.worlds import Row, Toy
from tests.samplers.free.test_free_law import Law, disc2, masked, smc2, target
from tests.samplers.free.test_free_stages import draw, scripted
from tests.samplers.free.two_stage import END, LENGTH, MARKER, SPECIAL, World

S, E = SPECIAL
WORLD = World((b"a", b"b", S, b"ab", b"|", b"|a", b"b|"), (b"a", b"ab"), end=0.15)
LIMIT = 4


class Opening(World):
    """Behind thinking free text begins: with anything, but for a whole marker of its own."""

    def opens(self, onward: bytes) -> bool:
        return b"|" not in onward


def law_of(end: bytes, budget: int | None, law: Law) -> dict[object, float]:
    """Return the probability of the tokens of every text, and of how it ended."""
    found: dict[object, float] = {}
    thinking = Opening(WORLD.pieces, WORLD.members, end=WORLD.end)

    def add(key: object, p: float) -> None:
        found[key] = found.get(key, 0.0) + p

    def answer(tokens: Row, onward: bytes, p: float) -> None:
        for part in WORLD.free_parts([b"|"], LIMIT - len(tokens), tokens, onward=onward):
            to = tokens + part.tokens
            if part.kind == END:
                add(("no_marker", to), p * part.p)
            elif part.kind == LENGTH or len(to) == LIMIT:
                add(("length", to), p * part.p)
            else:
                for row, q in law(WORLD.toy(to, part.onward), LIMIT - len(to), to).items():
                    add("lost" if row is None else ("complete", to + row), p * part.p * q)

    for part in thinking.free_parts([end], LIMIT if budget is None else budget):
        if part.kind == MARKER:
            ways = [(part.tokens, part.onward, part.p)]
        elif budget is None:
            kind = "no_marker" if part.kind == END else "length"
            add((kind, part.tokens), part.p)
            continue
        else:
            ways = [
                (part.tokens + row, onward, part.p * p)
                for row, onward, p in thinking.forced(part.tokens, end)
            ]
        for tokens, onward, p in ways:
            if len(tokens) >= LIMIT:
                add(("length", tokens[:LIMIT]), p)
            else:
                answer(tokens, onward, p)
    return found


@pytest.mark.share(2)
@pytest.mark.parametrize("budget", [None, 0, 1])
@pytest.mark.parametrize("end", ["<s>", "a", "b<s>"])
@pytest.mark.parametrize(
    ("method", "options", "law"),
    [
        ("masked", {}, masked),
        ("disc", {"max_tries": 2}, disc2),
        ("exact", {"fallback": "none"}, target),
        ("smc", {"particles": 2, "resample_below": 0.5}, smc2),
        ("speculative", {"draft": "prompt-lookup", "gamma": 2}, masked),
    ],
)
def test_draws_have_the_law_of_thinking_free_text_and_constraint(
    method: str, options: dict[str, object], law: Law, end: str, budget: int | None
) -> None:
    free = FreeText(after=("|",), thinking=FreeText(after=(end,), budget=budget))
    samples = draw(WORLD, free, method, n=1500, max_new_tokens=LIMIT, **options)
    expected = law_of(end.replace("<s>", S.decode("latin-1")).encode("latin-1"), budget, law)
    outcomes = []
    for s in samples:
        cut = s.finish_reason == "length" and s.marker is not None and s.free_tokens < LIMIT
        is_lost = cut or s.finish_reason == "dead_end"
        outcomes.append("lost" if is_lost else (s.finish_reason, tuple(s.token_ids)))
    assert sum(expected.values()) == pytest.approx(1, abs=1e-9)
    assert g_test(outcomes, expected) > 1e-4


def test_log_probabilities_count_the_tokens_that_were_forced() -> None:
    free = FreeText(after=("|",), thinking=FreeText(after=("<s>",), budget=1), budget=2)
    for sample in draw(WORLD, free, n=40):
        row = tuple(sample.token_ids)
        toy = Toy(WORLD.vocabulary, WORLD.probabilities, [row])
        assert sample.logprob == pytest.approx(enumeration.log_prob(toy, row), abs=1e-9)
        assert sample.valid and sample.thinking_tokens <= 2
        assert sample.token_ids[sample.thinking_tokens - 1] == 2
        assert sample.free_tokens > sample.thinking_tokens


def test_a_marker_within_the_thinking_is_no_marker() -> None:
    world = scripted([b"t", b"|", S, b"u", b"a"], [0, 1, 0, 2, 3, 1], (b"a",))
    free = FreeText(after=("|",), thinking=FreeText(after=("<s>",)))
    (sample,) = draw(world, free)
    assert (sample.thinking, sample.thinking_tokens) == ("t|t", 4)
    assert (sample.free_text, sample.marker, sample.text) == ("t|tu|", "|", "a")


def test_thinking_that_does_not_end_says_so() -> None:
    world = scripted([b"t", b"|", S, b"a"], [0] * 50, (b"a",))
    free = FreeText(after=("|",), thinking=FreeText(after=("<s>",)))
    (sample,) = draw(world, free, max_new_tokens=6)
    assert (sample.finish_reason, sample.valid, sample.text) == ("length", False, None)
    assert (sample.thinking, sample.thinking_tokens) == (None, 6)


def test_regions_come_behind_the_thinking() -> None:
    world = scripted([b"t", b"[", b"]", S, b"a"], [0, 1, 0, 3, 0, 1, 4, 2, 5], (b"a",))
    free = FreeText(between=("[", "]"), thinking=FreeText(after=("<s>",), budget=9))
    (sample,) = draw(world, free)
    assert (sample.thinking, sample.text) == ("t[t", "t[tt[a]")
    assert [region["start"] for region in sample.regions] == [5]
    assert sample.valid and not sample.forced
