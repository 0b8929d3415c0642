"""More tries than decode together: K candidates of a draw go in parts, and nothing changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.errors import CdecError, UsageError
from cdec.samplers.disc import DiscSampler
from cdec.samplers.drafts import speculate
from cdec.samplers.exact import MOST_TRIES, ExactSampler
from cdec.samplers.request import Request
from cdec.samplers.walks.decoding import decode
from tests.samplers.drafts.draft_toys import pairs

PAIR = pairs()["set"]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "recycle": {"recycle": True},
    "top-m": {"top_m": 3},
    "beams": {"beams": 2},
    "draft": {"draft": True, "gamma": 2},
}


def records(kind: str, tries: int, max_walks: int) -> list[list[dict[str, Any]]]:
    """Draw for a set and for none; return JSON objects with rounded sums."""
    options = dict(KINDS[kind])
    if "draft" in options:
        options["draft"] = PAIR.draft_model()
    ours = DiscSampler(K=tries, max_walks=max_walks, **options)
    asked = [
        Request([0, 1], PAIR.constraint, seeds=range(12)),
        Request([1], None, seeds=range(3), max_new_tokens=3),
    ]
    found = []
    for samples in ours.draw_batch(PAIR.toy.model(), asked):
        assert not isinstance(samples, CdecError)
        each = [sample.to_json() for sample in samples]
        found.append(
            [
                {k: round(v, 9) if isinstance(v, float) else v for k, v in one.items()}
                for one in each
            ]
        )
    return found


def without_calls(found: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Leave out how many calls the target took."""
    return [
        [{k: v for k, v in one.items() if k != "target_calls"} for one in each] for each in found
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tries", [2, 17])
def test_parts_change_no_candidate(kind: str, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the calls of a target with a draft, since passes are other ones."""
    whole = without_calls(records(kind, tries, 10_000))
    assert not all(one["accepted"] for one in whole[0])
    for together in (2, 16) if tries > 2 else (2, 3):
        monkeypatch.setattr("cdec.samplers.disc.MOST_TOGETHER", together)
        for max_walks in (1, 40):
            assert without_calls(records(kind, tries, max_walks)) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_how_many_draws_decode_together_changes_nothing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdec.samplers.disc.MOST_TOGETHER", 4)
    whole = records(kind, 11, 10_000)
    for max_walks in (1, 25, 60):
        assert records(kind, 11, max_walks) == whole


@pytest.mark.parametrize("is_drafted", [False, True])
def test_the_candidates_of_a_draw_decode_in_parts(
    is_drafted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    own = speculate.decode if is_drafted else decode

    def watched(batch: Any, request: NDArray[np.int64], *others: Any, **options: Any) -> Any:
        sizes.append(len(request))
        return own(batch, request, *others, **options)

    monkeypatch.setattr("cdec.samplers.walks.decoding.decode", watched)
    monkeypatch.setattr("cdec.samplers.drafts.speculate.decode", watched)
    monkeypatch.setattr("cdec.samplers.disc.MOST_TOGETHER", 16)
    records("draft" if is_drafted else "plain", 50, 16)
    assert max(sizes) == 16
    assert sum(sizes) >= 12 * 50


def test_more_tries_than_memory_holds_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 4194304"):
        DiscSampler(K=(1 << 22) + 1)


def test_the_fallback_of_exact_refuses_more_tries_than_fit_together() -> None:
    with pytest.raises(UsageError, match="at most 65536"):
        ExactSampler(K=MOST_TRIES + 1)
    assert ExactSampler(K=MOST_TRIES + 1, fallback="asap").K == MOST_TRIES + 1
