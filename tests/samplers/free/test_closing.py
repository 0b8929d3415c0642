"""A constrained part that ends with a text of its own, behind a marker that may be missing."""

from __future__ import annotations

import pytest

from cdec.core.combine.free_text import FreeText
from cdec.core.errors import UsageError
from cdec.integrations.findings import enumeration
from tests.laws.gtest import g_test
from tests.laws.worlds import Row, Toy
from tests.samplers.free.test_free_law import Law, masked, target
from tests.samplers.free.test_free_stages import draw
from tests.samplers.free.two_stage import END, LENGTH, MARKER, SPECIAL, World

S, E = SPECIAL
WORLD = World((b"a", b"b", S, E, b"ab", b"<", b"b<"), (b"a", b"b", b"ab"), end=0.2)
LIMIT = 4


def law_of(end: bytes, law: Law) -> dict[object, float]:
    """Return the probability of every text: none behind the end, and none without one cut off."""
    found: dict[object, float] = {}

    def rows(left: bytes) -> dict[Row, bytes]:
        every = WORLD.regions(left, b"\x00", end, 8)
        return {row: rest for row, rest in every.items() if not rest}

    for part in WORLD.free_parts([S], LIMIT):
        if part.kind == END or part.kind == LENGTH or len(part.tokens) == LIMIT:
            kind = "complete" if part.kind == END else "length"
            found[kind, part.tokens] = found.get((kind, part.tokens), 0.0) + part.p
            continue
        assert part.kind == MARKER
        toy = Toy(
            WORLD.vocabulary,
            lambda prefix, free=part.tokens: WORLD.probabilities((*free, *prefix)),
            list(rows(b"")),
            ends_itself=True,
        )
        for row, q in law(toy, LIMIT - len(part.tokens), part.tokens).items():
            key = "lost" if row is None else ("complete", part.tokens + row)
            found[key] = found.get(key, 0.0) + part.p * q
    return found


@pytest.mark.parametrize("end", ["<e>", "<", "<<e>"])
@pytest.mark.parametrize(("method", "law"), [("masked", masked), ("exact", target)])
@pytest.mark.share(1)
def test_texts_with_an_optional_part_that_is_closed(method: str, law: Law, end: str) -> None:
    options = {"fallback": "none"} if method == "exact" else {}
    free = FreeText(after=("<s>",), closing=end, optional=True)
    samples = draw(WORLD, free, method, n=2000, max_new_tokens=LIMIT, **options)
    if method == "masked":
        expected = law_of(end.replace("<e>", E.decode("latin-1")).encode("latin-1"), law)
        outcomes = []
        for s in samples:
            cut = s.finish_reason == "length" and s.marker is not None and s.free_tokens < LIMIT
            is_lost = cut or s.finish_reason == "dead_end"
            outcomes.append("lost" if is_lost else (s.finish_reason, tuple(s.token_ids)))
        assert g_test(outcomes, expected) > 1e-4
    ended = [s for s in samples if s.finish_reason == "complete"]
    assert {s.marker for s in ended} == {None, "<s>"}
    for sample in ended:
        row, ends = tuple(sample.token_ids), sample.marker is not None
        toy = Toy(WORLD.vocabulary, WORLD.probabilities, [row], ends_itself=ends)
        assert sample.valid
        assert sample.logprob == pytest.approx(
            enumeration.log_prob(toy, tuple(sample.token_ids)), abs=1e-9
        )
        if sample.marker is None:
            whole = b"".join(WORLD.pieces[t] for t in sample.token_ids).replace(E, b"")
            assert (sample.text, sample.log_weight) == (whole.decode(), 0.0)
        else:
            assert sample.text in ("a", "b", "ab") and sample.log_weight is not None


def test_a_budget_owes_the_marker_all_the_same() -> None:
    free = FreeText(after=("<s>",), closing="<e>", budget=0, optional=True)
    for sample in draw(WORLD, free, "exact", n=8):
        assert sample.forced and sample.valid and sample.token_ids[0] == 2
        assert sample.token_ids[-1] == 3


@pytest.mark.parametrize("more", [{"closing": "x"}, {"optional": True}])
def test_what_is_about_after_is_refused_beside_regions(more: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="are about `after`"):
        FreeText(between=("a", "b"), **more)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not empty"):
        FreeText(after=("a",), closing="")
