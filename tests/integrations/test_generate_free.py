"""generate with free text before the constraint: token for token what ``sample`` writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from cdec.core import Constraint, FreeText, Sample
from cdec.core.errors import UsageError
from cdec.core.models.wrapping import wrap_module
from cdec.integrations.transformers import generate
from cdec.samplers import sample
from cdec.samplers.registry import METHODS
from cdec.samplers.rewards import build_reward
from tests.core.models.tiny_models import VOCABULARY, tiny_module
from tests.integrations.test_generate import PAD, PROMPTS, expected_rows, padded, random_rows
from tests.laws.rounding import near_records
from tests.laws.toys import toy_set

MARKERS = FreeText(after=("\x07", "\x1f\x0b"), budget=6)
REGIONS = FreeText(between=("\x07", "\x0b"), regions=1, budget=3)


@pytest.fixture(scope="module")
def module() -> Any:
    return tiny_module("gpt2")


@pytest.fixture(scope="module")
def numbers() -> Constraint:
    return toy_set(random_rows(3), VOCABULARY)


def drawn(module: Any, constraint: Any, most: int = 14, **asked: Any) -> Any:
    left = not module.config.is_encoder_decoder
    return module.generate(
        **padded(PROMPTS, left=left),
        custom_generate=generate,
        constraint=constraint,
        vocabulary=VOCABULARY,
        max_new_tokens=most,
        seed=11,
        **asked,
    )


def written(found: Sequence[Sequence[Sample]]) -> list[dict[str, Any]]:
    return [each.to_json() for samples in found for each in samples]


@pytest.mark.parametrize("free", [MARKERS, REGIONS], ids=["after", "between"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_writes_free_text_as_without_generate(
    module: Any, numbers: Constraint, method: str, free: FreeText
) -> None:
    declared = METHODS[method]
    model = wrap_module(module, VOCABULARY)
    theirs: dict[str, Any] = {"asap": {"burn_in": 5}, "beam": {"beams": 4}}.get(method, {})
    if declared.needs_reward:
        theirs |= {"reward": build_reward("regex:[%-9]"), "depth": 2}
    ours = dict(theirs)
    if declared.needs_draft:
        draft = tiny_module("llama")
        theirs["assistant_model"], ours["draft"] = draft, wrap_module(draft, VOCABULARY)
    if method == "beam":
        ours["length_penalty"] = 1.0  # generate's own
    found = drawn(module, numbers, method=method, free=free, num_return_sequences=2, **theirs)
    without = sample(
        model, numbers, PROMPTS, method, n=2, seed=11, max_new_tokens=14, free=free, **ours
    )
    assert written([found.samples]) == near_records(written(without))
    assert found.tolist() == expected_rows(padded(PROMPTS), without, 14)
    assert any(each.free_tokens for each in found.samples)


@pytest.mark.parametrize("name", ["t5", "bart"])
@pytest.mark.parametrize("method", ["greedy", "masked", "exact", "speculative"])
def test_the_prompt_of_an_encoder_is_no_part_of_free_text(
    numbers: Constraint, name: str, method: str
) -> None:
    module = tiny_module(name)
    module.generation_config.forced_eos_token_id = None
    own: dict[str, Any] = {"draft": "prompt-lookup"} if method == "speculative" else {}
    found = drawn(
        module, numbers, method=method, free=MARKERS, num_return_sequences=3, most=10, **own
    )
    model = wrap_module(module, VOCABULARY)
    first = [1] if name == "t5" else [2]
    without = sample(
        model, numbers, PROMPTS, method, n=3, seed=11, max_new_tokens=10, free=MARKERS, **own
    )
    assert written([found.samples]) == near_records(written(without))
    assert found.tolist() == expected_rows({}, without, 10, [first] * 3)
    assert {each.finish_reason for each in found.samples} >= {"complete"}


def test_a_text_that_the_model_ends_without_its_marker_has_an_end(numbers: Constraint) -> None:
    module = tiny_module("gpt2")
    with torch.no_grad():
        module.lm_head.weight[0] *= 3.0
    found = drawn(
        module, numbers, method="masked", free=FreeText(after=("\x07\x07",)), num_return_sequences=8
    )
    width = padded(PROMPTS)["input_ids"].shape[1]
    seen = 0
    for row, each in zip(found[:, width:].tolist(), found.samples, strict=True):
        ended = each.finish_reason in ("complete", "no_marker") and len(each.token_ids) < 14
        seen += each.finish_reason == "no_marker"
        whole = [*each.token_ids, *([0] if ended else [])]
        assert row == whole + [PAD] * (len(row) - len(whole))
    assert seen > 0


def test_free_text_that_makes_no_sense_is_refused_before_anything_is_drawn(
    module: Any, numbers: Constraint
) -> None:
    passes: list[int] = []
    hook = module.register_forward_hook(lambda *_: passes.append(1))
    with pytest.raises(UsageError, match="can never appear"):
        drawn(module, numbers, free=FreeText(after=("\x7f",), budget=3))
    with pytest.raises(UsageError, match="there is none"):
        drawn(module, None, method="unconstrained", free=MARKERS)
    hook.remove()
    assert not passes
