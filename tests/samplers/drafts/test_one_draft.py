"""One draft for all methods: opened once a batch, accounted for once, released whatever happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdec.core.errors import ModelError, UsageError
from cdec.samplers import SAMPLERS
from cdec.samplers.drafts.speculate import NamedDraft
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.registry import METHODS
from tests.samplers.drafts.draft_toys import pairs

PAIR = pairs()["set"]
DRAFTED = [name for name, method in METHODS.items() if method.option("draft") is not None]


def drawn(sampler: Any, n: int = 20) -> list[dict[str, object]]:
    """Return the records of a few draws, but for the method's name."""
    rng = np.random.default_rng(3)
    samples = sampler.draw(PAIR.toy.model(), PAIR.constraint, "", n=n, rng=rng)
    return [{**sample.to_json(), "method": None} for sample in samples]


@pytest.mark.parametrize("draft", ["model", "prompt-lookup", "counts"])
@pytest.mark.parametrize("is_greedy", [False, True])
def test_speculative_is_masked_or_greedy_with_a_draft(draft: str, is_greedy: bool) -> None:
    options: dict[str, Any] = {"draft": PAIR.draft_model() if draft == "model" else draft}
    plain = GreedySampler(**options) if is_greedy else MaskedSampler(**options)
    if draft == "model":
        options = {"draft": PAIR.draft_model()}
    assert drawn(SAMPLERS["speculative"](greedy=is_greedy, **options)) == drawn(plain)


@pytest.mark.parametrize("options", [{"top_m": 2}, {"opportunistic": True}])
def test_without_full_masks_a_draft_model_changes_no_text(options: dict[str, Any]) -> None:
    plain = drawn(MaskedSampler(**options))
    drafted = drawn(MaskedSampler(draft=PAIR.draft_model(), **options))
    names = ("text", "token_ids", "logprob", "log_weight", "finish_reason")
    assert [[record[name] for name in names] for record in drafted] == [
        [record[name] for name in names] for record in plain
    ]
    assert {record["acceptance_rate"] for record in drafted} - {None}


@pytest.mark.parametrize("name", DRAFTED)
def test_a_draft_is_opened_once_a_batch_and_released(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    own = NamedDraft.on

    def watched(self: NamedDraft, batch: Any) -> Any:
        opened.append(own(self, batch))
        return opened[-1]

    monkeypatch.setattr(NamedDraft, "on", watched)
    draft = PAIR.draft_model()
    sampler: Any = SAMPLERS[name](draft=draft, **reward_of(name))
    records = drawn(sampler, 3)
    assert len(opened) == 1
    assert all(record["draft_calls"] is not None for record in records)
    assert draft.tree.live == 0


@pytest.mark.parametrize("name", DRAFTED)
def test_a_draft_is_released_where_the_run_fails(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Any:
        raise ModelError("no luck")

    sampler: Any = SAMPLERS[name](draft=PAIR.draft_model(), **reward_of(name))
    closed = []
    monkeypatch.setattr(type(sampler), "run", fails)
    monkeypatch.setattr(
        "cdec.samplers.drafts.speculate.DraftRun.__exit__", lambda *_: closed.append(1)
    )
    with pytest.raises(ModelError):
        drawn(sampler, 1)
    assert closed == [1]


@pytest.mark.parametrize("name", DRAFTED)
def test_what_is_no_draft_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        SAMPLERS[name](draft="guesses", **reward_of(name))
    assert caught.value.details["option"] == "draft"
    assert "`draft` is 'guesses'" in caught.value.message


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("disc", {"draft": "counts", "top_m": 2}, "`draft` and `top_m`"),
        ("disc", {"draft": "counts", "beams": 2}, "`draft` and `beams`"),
        ("exact", {"draft": "counts", "abort": True}, "`abort` and `draft`"),
        ("mentored", {"draft": "counts"}, "does not take counts"),
        ("cdsl", {"draft": "prompt-lookup"}, "`draft` prompt-lookup proposes what was seen before"),
    ],
)
def test_what_does_not_go_with_a_draft_is_refused_before_anything_is_opened(
    name: str, options: dict[str, Any], said: str
) -> None:
    values = METHODS[name].checked(options)
    with pytest.raises(UsageError, match=said):
        SAMPLERS[name].require_consistent(values)


def reward_of(name: str) -> dict[str, Any]:
    """Return the reward that a method needs, as its argument."""
    from cdec.samplers.rewards import build_reward

    return {"reward": build_reward("regex:a")} if METHODS[name].needs_reward else {}
