"""generate: what cdec's methods write through model.generate is what they write without it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GenerationConfig
from transformers.generation import GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput

from cdec.compilers import regex, regex_constraint
from cdec.core import Constraint, LanguageModel
from cdec.core.errors import TokenizerMismatchError, UsageError
from cdec.core.models.loading import wrap_module
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings import enumeration
from cdec.integrations.transformers import ConstraintProcessor, generate, model_vocabulary
from cdec.samplers import sample
from cdec.samplers.registry import METHODS
from cdec.samplers.rewards import build_reward
from tests.core.models.tiny_models import VOCABULARY, tiny_module
from tests.integrations.toy_modules import toy_module, widened
from tests.laws.gtest import g_test
from tests.laws.rounding import near
from tests.laws.worlds import Toy, toy_b, toy_set

PAD = 1
DRAWS = 2000


def random_rows(seed: int, count: int = 60) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(2, 60, rng.integers(1, 6)).tolist() for _ in range(count)]


PROMPTS = [[*row, 5] for row in random_rows(5, 3)]


@pytest.fixture(scope="module")
def module() -> Any:
    return tiny_module("gpt2")


@pytest.fixture(scope="module")
def draft() -> Any:
    return tiny_module("llama")


@pytest.fixture(scope="module")
def numbers() -> Constraint:
    return toy_set(random_rows(3), VOCABULARY)


@pytest.fixture(scope="module")
def others() -> Constraint:
    return toy_set(random_rows(4), VOCABULARY)


def padded(prompts: list[list[int]], *, left: bool = True) -> dict[str, Any]:
    """Return prompts as generate takes them, with the ids that end and fill rows."""
    width = max(map(len, prompts))
    ids = torch.full((len(prompts), width), PAD)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(prompts):
        place = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, place], mask[i, place] = torch.tensor(row), 1
    return {"input_ids": ids, "attention_mask": mask, "eos_token_id": 0, "pad_token_id": PAD}


def drawn(module: Any, constraint: Any, prompts: list[list[int]] = PROMPTS, **asked: Any) -> Any:
    left = not module.config.is_encoder_decoder
    asked = {"vocabulary": VOCABULARY, "max_new_tokens": 8} | asked
    return module.generate(
        **padded(prompts, left=left), custom_generate=generate, constraint=constraint, **asked
    )


def expected_rows(inputs: Any, found: list[Any], most: int, begins: Any = None) -> list[list[int]]:
    """Return rows as generate pads them, from samples of each prompt."""
    begins = inputs["input_ids"].tolist() if begins is None else begins
    rows = [
        begin + ([*each.token_ids, 0] if each.finish_reason == "complete" else each.token_ids)
        for begin, samples in zip(begins, found, strict=True)
        for each in samples
    ]
    rows = [row[: len(begins[0]) + most] for row in rows]
    width = max(map(len, rows))
    return [row + [PAD] * (width - len(row)) for row in rows]


@pytest.mark.share(5)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_writes_what_it_writes_without_generate(
    module: Any, draft: Any, numbers: Constraint, method: str
) -> None:
    declared = METHODS[method]
    constraint = None if method == "unconstrained" else numbers
    options: dict[str, Any] = {"asap": {"burn_in": 5}, "beam": {"beams": 4}}.get(method, {})
    model: LanguageModel = wrap_module(module, VOCABULARY)
    if declared.needs_reward:
        options = {"reward": build_reward("regex:[%-9]"), "depth": 2}
    theirs, ours = dict(options), dict(options)
    if declared.needs_draft:
        theirs["assistant_model"] = draft
        ours["draft"] = wrap_module(draft, VOCABULARY)
    if method == "beam":
        ours["length_penalty"] = 1.0  # generate's own
    found = drawn(module, constraint, method=method, seed=11, num_return_sequences=3, **theirs)
    without = sample(model, constraint, PROMPTS, method, n=3, seed=11, max_new_tokens=8, **ours)
    assert found.samples == [each for samples in without for each in samples]
    assert found.tolist() == expected_rows(padded(PROMPTS), without, 8)


def test_a_source_is_compiled_for_the_calls_vocabulary(module: Any) -> None:
    source = regex("[%-9]{1,3}")
    made = regex_constraint("[%-9]{1,3}", VOCABULARY)
    for method in ("masked", "greedy"):
        asked = {"method": method, "seed": 3}
        assert drawn(module, source, **asked).tolist() == drawn(module, made, **asked).tolist()
        mixed = [source, made, source]
        assert drawn(module, mixed, **asked).tolist() == drawn(module, made, **asked).tolist()


def test_rewards_read_the_fields_of_each_prompts_record(module: Any, numbers: Constraint) -> None:
    reward = build_reward("function:tests.integrations.toy_modules:length_of_field")
    records = [{"word": "a" * length} for length in (1, 2, 3)]
    found = drawn(
        module, numbers, method="masked", reward=reward, records=records, num_return_sequences=2
    )
    assert [each.reward for each in found.samples] == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    with pytest.raises(UsageError, match="2 records for 3 prompts"):
        drawn(module, numbers, method="masked", reward=reward, records=records[:2])


@pytest.fixture(scope="module")
def toy() -> Toy:
    return widened(toy_b())


def laws(toy: Toy) -> dict[str, Any]:
    masked = enumeration.masked(toy).law
    return {
        "masked": masked,
        "speculative": masked,
        "exact": enumeration.target(toy),
        "disc": enumeration.disc(toy, 2),
    }


@pytest.mark.parametrize("method", ["masked", "speculative", "exact", "disc"])
def test_draws_through_generate_follow_the_exact_law(toy: Toy, method: str) -> None:
    options: dict[str, Any] = {"disc": {"K": 2}}.get(method, {})
    if method == "speculative":
        options = {"assistant_model": toy_module(toy, flat=0.5), "gamma": 2}
    prompt = torch.full((1, 3), toy.vocabulary.width - 1)
    found: Any = toy_module(toy).generate(
        input_ids=prompt,
        custom_generate=generate,
        method=method,
        constraint=toy.constraint,
        vocabulary=toy.vocabulary,
        num_return_sequences=DRAWS,
        seed=17,
        eos_token_id=3,
        max_new_tokens=5,
        **options,
    )
    law = laws(toy)[method]
    rows = [tuple(t for t in row if t < 3) for row in found[:, 3:].tolist()]
    assert g_test(rows, law) >= 1e-4
    assert g_test(rows, enumeration.target(toy)) < 1e-4 or method == "exact"
    if method in ("masked", "speculative"):
        # Weighted, they estimate P(S) without bias; each weight lies between 0 and 1.
        mass = np.exp([each.log_weight for each in found.samples]).mean()
        assert abs(mass - enumeration.mass(toy)) <= 4 * 0.5 / np.sqrt(DRAWS)


def test_draws_of_generate_itself_under_a_processor_follow_the_masked_law(toy: Toy) -> None:
    rows = toy_module(toy).generate(
        input_ids=torch.full((1, 2), toy.vocabulary.width - 1),
        logits_processor=[ConstraintProcessor(toy.constraint)],
        num_return_sequences=DRAWS,
        do_sample=True,
        top_k=0,
        eos_token_id=3,
        max_new_tokens=5,
    )
    texts = [tuple(t for t in row if t < 3) for row in rows[:, 2:].tolist()]
    assert g_test(texts, enumeration.masked(toy).law) >= 1e-4


@pytest.mark.parametrize("most", [2, 8])
def test_greedy_rows_are_those_of_generate_under_a_processor(
    module: Any, numbers: Constraint, most: int
) -> None:
    theirs = module.generate(
        **padded(PROMPTS), logits_processor=[ConstraintProcessor(numbers)], max_new_tokens=most
    )
    assert torch.equal(drawn(module, numbers, method="greedy", max_new_tokens=most), theirs)


def test_beam_rows_are_those_of_generate_under_a_processor(
    module: Any, numbers: Constraint
) -> None:
    beams = {"num_beams": 64, "num_return_sequences": 3}
    for penalty in ({}, {"length_penalty": 0.0}):
        theirs = module.generate(
            **padded(PROMPTS),
            logits_processor=[ConstraintProcessor(numbers)],
            max_new_tokens=8,
            **beams,
            **penalty,
        )
        assert torch.equal(drawn(module, numbers, method="beam", **beams, **penalty), theirs)


def test_prompts_have_constraints_of_their_own_and_several_texts_each(
    module: Any, numbers: Constraint, others: Constraint
) -> None:
    own = [numbers, others, numbers]
    found = drawn(module, own, method="exact", seed=2, num_return_sequences=4)
    assert found.shape[0] == 12
    for i, constraint in enumerate(own):
        alone = drawn(
            module, constraint, PROMPTS[i : i + 1], method="exact", seed=2, num_return_sequences=4
        )
        rows = found.samples[4 * i : 4 * i + 4]
        assert [each.token_ids for each in rows] == [each.token_ids for each in alone.samples]
        assert all(each.valid for each in rows)
    members = {tuple(row) for row in random_rows(4)}
    assert {tuple(each.token_ids) for each in found.samples[4:8]} <= members
    free = drawn(module, [None, *own[1:]], method="greedy")
    plain = module.generate(**padded(PROMPTS), max_new_tokens=8)
    assert free[0].tolist()[: plain.shape[1]] == plain[0].tolist()[: free.shape[1]]


@pytest.mark.share(1)
@pytest.mark.parametrize("name", ["t5", "bart"])
def test_encoder_decoder_models_write_what_they_write_without_generate(
    numbers: Constraint, name: str
) -> None:
    module = tiny_module(name)
    module.generation_config.forced_eos_token_id = None
    if name == "bart":
        module.generation_config.forced_bos_token_id = 1
    model = wrap_module(module, VOCABULARY)
    begins = [[1]] * 3 if name == "t5" else [[2, 1]] * 3
    for method in ("greedy", "exact", "beam"):
        options: dict[str, Any] = {"num_beams": 8} if method == "beam" else {}
        found = drawn(
            module,
            numbers,
            method=method,
            seed=3,
            num_return_sequences=2,
            return_dict_in_generate=True,
            **options,
        )
        ours = {"beams": 8, "length_penalty": 1.0} if method == "beam" else {}
        without = sample(model, numbers, PROMPTS, method, n=2, seed=3, max_new_tokens=7, **ours)
        assert isinstance(found, GenerateEncoderDecoderOutput)
        assert found.samples == [each for samples in without for each in samples]
        assert found.sequences.tolist() == expected_rows({}, without, 8, begins)
    greedy = module.generate(
        **padded(PROMPTS, left=False),
        use_cache=False,  # decoders of their own depth cannot have one there
        logits_processor=[ConstraintProcessor(numbers)],
        max_new_tokens=8,
    )
    assert torch.equal(drawn(module, numbers, method="greedy"), greedy)


def test_the_decoder_may_be_given_other_first_tokens(numbers: Constraint) -> None:
    module = tiny_module("t5")
    ids = torch.tensor([[1, 7, 9]] * 3)
    found = drawn(module, numbers, method="greedy", decoder_input_ids=ids)
    plain = module.generate(
        **padded(PROMPTS, left=False),
        decoder_input_ids=ids,
        use_cache=False,
        logits_processor=[ConstraintProcessor(numbers, prompt_length=3)],
        max_new_tokens=8,
    )
    assert torch.equal(found, plain)
    assert not torch.equal(found[:, 3:5], drawn(module, numbers, method="greedy")[:, 1:3])


def test_draws_come_from_the_seed_or_the_generator_or_torchs_own(
    module: Any, numbers: Constraint
) -> None:
    def texts(**given: Any) -> list[Any]:
        found = drawn(module, numbers, method="masked", num_return_sequences=8, **given)
        return [each.token_ids for each in found.samples]

    assert texts(seed=1) == texts(seed=1) != texts(seed=2)
    generators = [torch.Generator().manual_seed(4) for _ in range(2)]
    first = texts(generator=generators[0])
    assert first == texts(generator=generators[1]) != texts(generator=generators[1])
    torch.manual_seed(4)
    assert texts() == first != texts()


def test_scores_are_warped_as_generate_warps_them(module: Any, numbers: Constraint) -> None:
    model = wrap_module(module, VOCABULARY)

    def probabilities(**given: Any) -> list[Any]:
        found = drawn(module, numbers, PROMPTS[:1], method="masked", seed=1, **given)
        return [each.logprob for each in found.samples]

    def ours(**warping: Any) -> list[Any]:
        found = sample(model, numbers, PROMPTS[:1], "masked", seed=1, max_new_tokens=8, **warping)
        return [each.logprob for each in found[0]]

    assert probabilities() == ours()
    assert probabilities(do_sample=True) == ours(top_k=50) != ours()
    assert probabilities(do_sample=True, top_k=0) == ours()
    warm = {"temperature": 2.0, "top_p": 0.999}
    assert probabilities(do_sample=True, **warm) == ours(top_k=50, **warm)
    assert probabilities(**warm) == ours(**warm) != ours()
    module.generation_config.temperature = 3.0
    assert probabilities(do_sample=True, top_k=0) == ours(temperature=3.0)
    assert probabilities() == ours()
    module.generation_config.temperature = None


def test_what_a_config_says_of_texts_and_ends_is_honoured(module: Any) -> None:
    vocabulary = VOCABULARY.with_eos([0, 59])
    rows = [[token for token in row if token != 59] for row in random_rows(3)]
    constraint = toy_set([row for row in rows if row], vocabulary)
    config = GenerationConfig(
        num_return_sequences=2,
        do_sample=True,
        top_k=7,
        max_new_tokens=6,
        eos_token_id=[59, 0],
        pad_token_id=PAD,
    )
    inputs = {name: padded(PROMPTS)[name] for name in ("input_ids", "attention_mask")}
    found: Any = module.generate(
        **inputs,
        generation_config=config,
        custom_generate=generate,
        method="masked",
        constraint=constraint,
        vocabulary=VOCABULARY,
        seed=5,
    )
    model = wrap_module(module, vocabulary)
    how: dict[str, Any] = {"n": 2, "seed": 5, "top_k": 7, "max_new_tokens": 6}
    without = sample(model, constraint, PROMPTS, "masked", **how)
    assert found.samples == [each for samples in without for each in samples]
    width = inputs["input_ids"].shape[1]
    assert found.shape[0] == 6
    for row, each in zip(found[:, width:].tolist(), found.samples, strict=True):
        ended = list(each.token_ids)
        if each.finish_reason == "complete" and len(ended) < 6:
            ended.append(59)  # the first of the ends, as the config orders them
        assert row[: len(ended)] == ended and set(row[len(ended) :]) <= {PAD}


def test_a_text_that_was_cut_has_no_end_and_says_so(module: Any) -> None:
    longer = toy_set([[7, 8, 9, 10, 11, 12]], VOCABULARY)
    found = drawn(module, longer, method="masked", seed=0, max_new_tokens=3)
    width = max(map(len, PROMPTS))
    assert found.shape[1] <= width + 3
    assert [each.finish_reason for each in found.samples] != ["complete"] * 3
    fits = drawn(module, longer, method="masked", seed=0, max_new_tokens=6)
    assert fits[:, width:].tolist() == [[7, 8, 9, 10, 11, 12]] * 3
    ended = drawn(module, longer, method="masked", seed=0, max_new_tokens=7)
    assert ended[:, width:].tolist() == [[7, 8, 9, 10, 11, 12, 0]] * 3


def test_an_output_object_holds_rows_and_samples(module: Any, numbers: Constraint) -> None:
    found = drawn(module, numbers, method="exact", seed=1, return_dict_in_generate=True)
    rows = drawn(module, numbers, method="exact", seed=1)
    assert isinstance(found, GenerateDecoderOnlyOutput)
    assert torch.equal(found.sequences, rows) and torch.equal(found["sequences"], rows)
    assert found.samples == rows.samples
    assert {each.exactness for each in rows.samples} == {"exact"}


def test_a_module_is_used_as_it_is_and_what_it_learns_counts(numbers: Constraint) -> None:
    module = tiny_module("gpt2")
    model: Any = wrap_module(module, VOCABULARY)
    assert model._module is module
    before = drawn(module, numbers, method="greedy").samples
    with torch.no_grad():
        module.transformer.h[0].mlp.c_fc.weight.normal_(0, 0.5)
    after = drawn(module, numbers, method="greedy").samples
    assert [each.logprob for each in before] != [each.logprob for each in after]
    again = drawn(module, numbers, method="greedy", use_cache=False).samples
    events = 1 + max(len(each.token_ids) for each in after)
    assert [each.logprob for each in again] == near([each.logprob for each in after], events)


def test_a_constraint_of_another_tokenizer_is_refused_before_the_first_token(toy: Toy) -> None:
    module = toy_module(toy)
    shifted = Vocabulary([b"b", b"c", b"a", b""], eos_token_ids=[3], width=toy.vocabulary.width)
    ids = torch.full((1, 2), toy.vocabulary.width - 1)
    call = {"input_ids": ids, "custom_generate": generate, "eos_token_id": 3, "max_new_tokens": 5}
    strange = toy_set([[0]], shifted)
    with pytest.raises(TokenizerMismatchError, match="another tokenizer"):
        module.generate(**call, constraint=[strange], vocabulary=toy.vocabulary)
    narrow = toy_set([[0]], toy.vocabulary.with_width(toy.vocabulary.size))
    with pytest.raises(TokenizerMismatchError, match="made for 4 scores, the model gives 5"):
        module.generate(**call, constraint=narrow, vocabulary=toy.vocabulary)
    with pytest.raises(TokenizerMismatchError, match=r"`eos_token_id` is \[2, 3\].*end with \[3\]"):
        module.generate(
            **call | {"eos_token_id": [3, 2]},
            constraint=toy.constraint,
            vocabulary=toy.vocabulary,
        )
    assert module.passes == 0


def test_the_tokenizer_is_that_of_the_place_the_model_was_loaded_from() -> None:
    from transformers import AutoModelForCausalLM

    from cdec.compilers import set_constraint
    from cdec.data import embedded_model_path

    module = AutoModelForCausalLM.from_pretrained(embedded_model_path(), dtype="float32").eval()
    vocabulary = model_vocabulary(module)
    inputs = {"input_ids": torch.tensor(vocabulary.encode(["The capital of France is"]))}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    cities = set_constraint(["Paris", "Lyon"], vocabulary)
    found: Any = module.generate(
        **inputs, custom_generate=generate, method="greedy", constraint=cities
    )
    assert [each.text for each in found.samples] == ["Paris"]
    strange = toy_set([[3]], VOCABULARY)
    with pytest.raises(TokenizerMismatchError, match="another tokenizer"):
        module.generate(**inputs, custom_generate=generate, constraint=strange)


@pytest.mark.share(2)
@pytest.mark.parametrize("told", [None, "prompt"])
@pytest.mark.parametrize("lookup", [False, True])
def test_assisted_decoding_under_a_processor_writes_what_greedy_writes(
    module: Any, draft: Any, numbers: Constraint, lookup: bool, told: str | None
) -> None:
    for prompt in ([5, 6, 7, 5, 6], *PROMPTS):
        inputs = padded([prompt])
        how: dict[str, Any] = {"assistant_model": draft}
        if lookup:
            how = {"prompt_lookup_num_tokens": 3}
        length = len(prompt) if told else None
        processor = ConstraintProcessor(numbers, prompt_length=length)
        for _ in range(2):  # the second time everything is known
            rows = module.generate(
                **inputs, logits_processor=[processor], max_new_tokens=8, do_sample=False, **how
            )
            assert torch.equal(rows, drawn(module, numbers, [prompt], method="greedy"))


@pytest.mark.heavy
def test_assisted_draws_under_a_processor_follow_the_masked_law(module: Any, draft: Any) -> None:
    few = [[7], [7, 8], [7, 8, 9], [10, 11], [12]]
    constraint = toy_set(few, VOCABULARY)
    toy = Toy(VOCABULARY, _next_of(module, PROMPTS[0]), [tuple(row) for row in few])
    processor = ConstraintProcessor(constraint)
    torch.manual_seed(3)
    texts: Counter[tuple[int, ...]] = Counter()
    for _ in range(200):
        row = module.generate(
            **padded(PROMPTS[:1]),
            logits_processor=[processor],
            assistant_model=draft,
            do_sample=True,
            top_k=0,
            max_new_tokens=6,
        )
        texts[tuple(t for t in row[0, len(PROMPTS[0]) :].tolist() if t > 1)] += 1
    assert g_test(texts.elements(), enumeration.masked(toy).law) >= 1e-4


def _next_of(module: Any, prompt: list[int]) -> Any:
    """Return a module's probabilities after a prompt and a prefix."""

    def probabilities(prefix: tuple[int, ...]) -> Any:
        with torch.no_grad():
            logits = module(input_ids=torch.tensor([[*prompt, *prefix]])).logits[0, -1]
        return logits.double().softmax(-1).numpy()

    return probabilities


def test_a_warping_that_leaves_nothing_is_refused_and_dead_ends_are_told_of(module: Any) -> None:
    with torch.no_grad():
        best = int(module(torch.tensor(PROMPTS[:1])).logits[0, -1].argmax())
    rare = toy_set([[token] for token in range(3, 9) if token != best], VOCABULARY)
    asked: dict[str, Any] = {"do_sample": True, "top_k": 1, "num_return_sequences": 2}
    with pytest.raises(UsageError, match=r"top_k=1 .* leave prompt 0 no token"):
        drawn(module, rare, PROMPTS[:1], **asked)
    with pytest.warns(UserWarning, match="2 of 2 rows came to a dead end"):
        rows = drawn(module, rare, PROMPTS[:1], allow_dead_ends=True, **asked)
    assert rows.shape == (2, len(PROMPTS[0]))
    assert {sample.finish_reason for sample in rows.samples} == {"dead_end"}
