"""Free text and refusals of the generate functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessorList,
    MinLengthLogitsProcessor,
    StoppingCriteria,
    TemperatureLogitsWarper,
    TextStreamer,
    TopPLogitsWarper,
)

from cdec.core import Constraint, FreeText, Sample
from cdec.core.errors import CdecError, UsageError
from cdec.core.models.loading import wrap_module
from cdec.integrations.transformers import ConstraintProcessor, generate
from cdec.samplers import sample
from cdec.samplers.registry import METHODS
from cdec.samplers.rewards import build_reward
from tests.core.models.tiny_models import VOCABULARY, tiny_module
from tests.integrations.test_generate import PAD, PROMPTS, expected_rows, padded, random_rows
from tests.integrations.toy_modules import toy_module, widened
from tests.laws.rounding import near_records
from tests.laws.worlds import toy_b, toy_set

# --- generate with free text before the constraint: token for token what ``sample`` writes.

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


@pytest.mark.share("method")
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


@pytest.mark.share("method")
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


# --- generate: what cannot be honoured is an error that names it, and nothing is drawn.

IDS = torch.tensor([[5, 6, 7], [8, 9, 10]])
ALL = torch.ones_like(IDS)


@pytest.fixture(scope="module")
def refused_numbers() -> Constraint:
    return toy_set([[7, 8], [9]], VOCABULARY)


@pytest.fixture
def passes(module: Any) -> Iterator[list[int]]:
    """Grows with every pass of the module."""
    seen: list[int] = []
    hook = module.register_forward_hook(lambda *_: seen.append(1))
    yield seen
    hook.remove()


class Never(StoppingCriteria):  # type: ignore[misc]
    """Never stops."""

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        return torch.zeros(len(input_ids), dtype=torch.bool)


def filled_cache(module: Any) -> Any:
    cache = DynamicCache(config=module.config)
    module(input_ids=IDS[:, :2], past_key_values=cache, use_cache=True)
    return cache


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("repetition_penalty=1.5", {"repetition_penalty": 1.5}),
    ("no_repeat_ngram_size=2.*give no_repeat_ngram_size=0", {"no_repeat_ngram_size": 2}),
    ("min_new_tokens=2", {"min_new_tokens": 2}),
    ("bad_words_ids", {"bad_words_ids": [[7]]}),
    ("max_time", {"max_time": 10.0}),
    ("output_scores=True", {"output_scores": True, "return_dict_in_generate": True}),
    ("output_hidden_states", {"output_hidden_states": True}),
    ("min_p", {"min_p": 0.5, "do_sample": True}),
    ("typical_p", {"typical_p": 0.5, "do_sample": True}),
    ("early_stopping", {"early_stopping": True, "num_beams": 2, "method": "beam"}),
    ("prompt_lookup_num_tokens", {"prompt_lookup_num_tokens": 3}),
    ("cache_implementation", {"cache_implementation": "static"}),
    ("forced_bos_token_id=9", {"forced_bos_token_id": 9}),
    ("forced_eos_token_id", {"forced_eos_token_id": 0}),
    ("remove_invalid_values", {"remove_invalid_values": True}),
    ("PrefixConstrained", {"prefix_allowed_tokens_fn": lambda *_: [7]}),
    ("MinLength", {"logits_processor": [MinLengthLogitsProcessor(9, 0, device="cpu")]}),
    ("Never", {"stopping_criteria": [Never()]}),
    (
        "TemperatureLogitsWarper",
        {"logits_processor": [TopPLogitsWarper(0.5), TemperatureLogitsWarper(0.5)]},
    ),
    ("TopPLogitsWarper", {"logits_processor": [TopPLogitsWarper(0.5, min_tokens_to_keep=2)]}),
    ("not on the left", {"attention_mask": torch.tensor([[1, 1, 0], [1, 1, 1]])}),
    ("not on the left", {"attention_mask": torch.tensor([[1, 0, 1], [1, 1, 1]])}),
    ("`position_ids`", {"position_ids": torch.tensor([[1, 2, 3], [0, 1, 2]])}),
    ("token_type_ids", {"token_type_ids": torch.zeros_like(IDS)}),
    ("`num_beams` is 3", {"num_beams": 3}),
    ("`num_beams` is 3", {"num_beams": 3, "beams": 4, "method": "beam"}),
    ("`assistant_model`.*no draft", {"assistant_model": tiny_module("llama"), "method": "asap"}),
    (
        "`assistant_model`.*already",
        {"assistant_model": tiny_module("llama"), "draft": "counts", "method": "masked"},
    ),
    ("`synced_gpus`", {"synced_gpus": True}),
    ("`seed` and `generator`", {"seed": 1, "generator": torch.Generator()}),
    ("no method 'exakt'", {"method": "exakt"}),
    ("2 prompts", {"constraint": [None] * 3, "method": "greedy"}),
    ("`K`", {"K": 0}),
    ("no draft", {"method": "speculative"}),
    ("draft scores 5", {"method": "speculative", "draft": toy_module(widened(toy_b()))}),
]


@pytest.mark.parametrize(("named", "asked"), REFUSED, ids=[name for name, _ in REFUSED])
def test_what_cannot_be_honoured_is_named(
    module: Any, refused_numbers: Constraint, passes: list[int], named: str, asked: dict[str, Any]
) -> None:
    call = {
        "constraint": refused_numbers,
        "attention_mask": ALL,
        "method": "exact",
        "max_new_tokens": 6,
    }
    with pytest.raises(CdecError) as raised:
        module.generate(
            input_ids=IDS,
            custom_generate=generate,
            vocabulary=VOCABULARY,
            eos_token_id=0,
            pad_token_id=1,
            **call | asked,
        )
    error = raised.value
    assert pytest.RaisesExc(match=named).matches(type(error)(f"{error.message} {error.hint}"))
    assert not passes


def test_options_that_no_method_or_this_one_has_not_are_errors(
    module: Any, refused_numbers: Constraint
) -> None:
    call = {"input_ids": IDS, "attention_mask": ALL, "custom_generate": generate}
    call |= {"constraint": refused_numbers, "vocabulary": VOCABULARY, "max_new_tokens": 6}
    call |= {"eos_token_id": 0, "pad_token_id": 1}
    with pytest.raises(TypeError, match="exact has no option 'particles'"):
        module.generate(**call, method="exact", particles=4)
    with pytest.raises(ValueError, match=r"not used by the model.*partikles"):
        module.generate(**call, method="smc", partikles=4)
    with pytest.raises(UsageError, match="training mode"):
        tiny_module("gpt2").train().generate(**call)
    with pytest.raises(UsageError, match=r"not known which tokenizer.*loaded from"):
        module.generate(**call | {"vocabulary": None})
    with pytest.raises(UsageError, match="ends a text"):
        tiny_module("gpt2").generate(**call | {"eos_token_id": None})
    with pytest.raises(UsageError, match="streamer"):
        tokenizer: Any = None
        streamer = TextStreamer(tokenizer)
        streamer.put = lambda *_: None  # type: ignore[method-assign]
        module.generate(
            **call | {"input_ids": IDS[:1], "attention_mask": ALL[:1]}, streamer=streamer
        )


def test_what_stands_in_the_models_own_config_is_refused_as_well(
    module: Any, refused_numbers: Constraint
) -> None:
    call = {"input_ids": IDS, "custom_generate": generate, "constraint": refused_numbers, "seed": 0}
    call |= {"vocabulary": VOCABULARY}
    usual = {"max_new_tokens": 6, "eos_token_id": 0, "pad_token_id": 1}
    with pytest.raises(UsageError, match=r"min_length=4, repetition_penalty=1\.1"):
        own = GenerationConfig(repetition_penalty=1.1, min_length=4, **usual)
        module.generate(**call, generation_config=own)
    with pytest.raises(UsageError, match="length_penalty"):
        own = GenerationConfig(num_beams=3, length_penalty=2.0, **usual)
        module.generate(**call, generation_config=own, method="disc")
    fine = GenerationConfig(temperature=0.5, do_sample=True, top_k=0, **usual)
    first: Any = module.generate(**call, generation_config=fine)
    again = module.generate(**call, **usual, temperature=0.5)
    assert torch.equal(first, again)
    listed = LogitsProcessorList([TemperatureLogitsWarper(0.5)])
    by_hand: Any = module.generate(**call, **usual, logits_processor=listed)
    assert by_hand.samples == first.samples


def test_what_is_in_a_cache_already_is_refused(module: Any, refused_numbers: Constraint) -> None:
    with pytest.raises(UsageError, match="past_key_values"):
        module.generate(
            input_ids=IDS,
            attention_mask=ALL,
            past_key_values=filled_cache(module),
            custom_generate=generate,
            constraint=refused_numbers,
            vocabulary=VOCABULARY,
            eos_token_id=0,
            pad_token_id=1,
            max_new_tokens=6,
        )


def test_processors_are_refused_whoever_made_them(module: Any, refused_numbers: Constraint) -> None:
    with pytest.raises(UsageError, match="ConstraintProcessor"):
        module.generate(
            input_ids=IDS,
            custom_generate=generate,
            logits_processor=[ConstraintProcessor(refused_numbers)],
            vocabulary=VOCABULARY,
            eos_token_id=0,
            pad_token_id=1,
            max_new_tokens=6,
        )


def test_encoder_inputs_that_are_not_tokens_padded_on_the_right_are_refused(
    refused_numbers: Constraint,
) -> None:
    module = tiny_module("bart")
    call = {"custom_generate": generate, "constraint": refused_numbers, "vocabulary": VOCABULARY}
    call |= {"max_new_tokens": 6, "eos_token_id": 0, "pad_token_id": 1, "forced_eos_token_id": None}
    left = torch.tensor([[0, 1, 1], [1, 1, 1]])
    with pytest.raises(UsageError, match="not on the right"):
        module.generate(input_ids=IDS, attention_mask=left, **call)
    encoded = module.get_encoder()(input_ids=IDS)
    with pytest.raises(UsageError, match="no token ids"):
        module.generate(encoder_outputs=encoded, **call)
    different = torch.tensor([[2, 7], [2, 8]])
    with pytest.raises(UsageError, match="decoder_input_ids"):
        module.generate(input_ids=IDS, decoder_input_ids=different, **call)
    with pytest.raises(UsageError, match="forced_eos_token_id"):
        module.generate(input_ids=IDS, **call | {"forced_eos_token_id": 0})
