"""ConstraintProcessor: what generate writes under it is what cdec's greedy and beam write."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cdec.compilers import compile_token_set, grammar_constraint, set_constraint
from cdec.core import Constraint, Vocabulary, load_model, open_artifact
from cdec.core.errors import TokenizerMismatchError, UsageError
from cdec.integrations.transformers import ConstraintProcessor, generate
from cdec.samplers import sample
from tests.core.models.tiny_models import VOCABULARY, tiny_module

CITIES = ["Paris", "Lyon", "New York", "New York City", "Rome", "London", "Berlin", "Bern", "Oslo"]
COLOURS = ["red", "green", "blue", "light blue", "dark green"]
PROMPTS = [
    "What is the capital of France?",
    "What is the capital of Norway?",
    "Name a city, large or small, that is known for its river:",
    "It is",
]
LIST = 'start: "[" [WORD ("," WORD)*] "]"\nWORD: /[a-z]{1,6}/\n'


@pytest.fixture(scope="module")
def model() -> Any:
    # An option of transformers: its own module, whose `generate` is wanted here.
    return load_model("embedded-draft", attn_implementation="sdpa")


@pytest.fixture(scope="module")
def module(model: Any) -> Any:
    return model._module


@pytest.fixture(scope="module")
def cities(model: Any) -> Constraint:
    return set_constraint(CITIES, model.vocabulary)


def padded(model: Any, prompts: list[str]) -> dict[str, torch.Tensor]:
    """Return prompts as generate takes them, padded on the left."""
    rows = [model.encode_prompt(prompt) for prompt in prompts]
    width = max(map(len, rows))
    ids = torch.zeros((len(rows), width), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, width - len(row) :] = torch.tensor(row)
        mask[i, width - len(row) :] = 1
    return {"input_ids": ids, "attention_mask": mask}


def generated(
    module: Any, inputs: dict[str, Any], processor: Any, ends: Any, **options: Any
) -> list[list[int]]:
    """Return the tokens that generate adds to each prompt, without ends and padding."""
    begin = inputs["input_ids"].shape[1] if not module.config.is_encoder_decoder else 1
    options = {"max_new_tokens": 24, "do_sample": False} | options
    rows = module.generate(
        **inputs,
        logits_processor=[processor],
        eos_token_id=list(ends),
        pad_token_id=ends[0],
        **options,
    )
    texts = []
    for row in rows[:, begin:].tolist():
        stop = next((i for i, token in enumerate(row) if token in ends), len(row))
        texts.append(row[:stop])
    return texts


def tokens_of(found: list[Any]) -> list[list[int]]:
    return [list(each.token_ids) for samples in found for each in samples]


def test_greedy_texts_are_those_of_greedy_for_sets_and_grammars(
    model: Any, module: Any, cities: Constraint
) -> None:
    ends = model.vocabulary.eos_token_ids
    inputs = padded(model, PROMPTS)
    for constraint in (cities, grammar_constraint(LIST, model.vocabulary)):
        processor = ConstraintProcessor(constraint)
        ours = sample(model, constraint, PROMPTS, method="greedy", max_new_tokens=24)
        assert generated(module, inputs, processor, ends) == tokens_of(ours)
        how = {"eos_token_id": list(ends), "pad_token_id": ends[0], "max_new_tokens": 24}
        drawn: Any = module.generate(
            **inputs, **how, custom_generate=generate, method="greedy", constraint=constraint
        )
        masked = module.generate(**inputs, **how, logits_processor=[processor])
        assert torch.equal(drawn, masked)
        assert tokens_of([drawn.samples]) == tokens_of(ours)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_beam_texts_are_those_of_beam(
    model: Any, module: Any, cities: Constraint, length_penalty: float
) -> None:
    ends = model.vocabulary.eos_token_ids
    how = {"beams": len(CITIES), "length_penalty": length_penalty}
    ours = sample(model, cities, PROMPTS, method="beam", n=3, **how)
    theirs = generated(
        module,
        padded(model, PROMPTS),
        ConstraintProcessor(cities),
        ends,
        num_beams=len(CITIES),
        num_return_sequences=3,
        length_penalty=length_penalty,
    )
    assert theirs == tokens_of(ours)


def test_every_prompt_may_have_a_constraint_of_its_own(
    model: Any, module: Any, cities: Constraint
) -> None:
    ends = model.vocabulary.eos_token_ids
    colours = set_constraint(COLOURS, model.vocabulary)
    own = [cities, colours, cities, colours]
    inputs = padded(model, PROMPTS)
    ours = sample(model, own, PROMPTS, method="greedy")
    assert generated(module, inputs, ConstraintProcessor(own), ends) == tokens_of(ours)
    ours = sample(model, own, PROMPTS, method="beam", beams=12, n=2)
    options = {"num_beams": 12, "num_return_sequences": 2, "length_penalty": 0.0}
    assert generated(module, inputs, ConstraintProcessor(own), ends, **options) == tokens_of(ours)
    free = generated(module, inputs, ConstraintProcessor([None, *own[1:]]), ends)
    assert free[1:] == tokens_of(sample(model, own, PROMPTS, method="greedy"))[1:]
    nothing = ConstraintProcessor([None, cities])
    twice = padded(model, [PROMPTS[0], PROMPTS[0]])
    assert generated(module, twice, nothing, ends)[0] == free[0]
    assert free[0] not in tokens_of(sample(model, cities, PROMPTS[:1], method="greedy"))


def test_an_instance_is_used_again_for_other_prompts_and_batches(
    model: Any, module: Any, cities: Constraint
) -> None:
    ends = model.vocabulary.eos_token_ids
    processor = ConstraintProcessor(cities, kept=64)
    chosen = [PROMPTS, PROMPTS[:1], PROMPTS[::-1], PROMPTS[2:], PROMPTS, PROMPTS[:1]]
    # A prompt that is an earlier one, its answer and more; and an earlier prompt's beginning.
    chosen += [[f"{PROMPTS[3]} Paris and"], ["Name a city"], ["Name a city, large"]]
    for prompts in chosen:
        expected = tokens_of(sample(model, cities, prompts, method="greedy"))
        assert generated(module, padded(model, prompts), processor, ends) == expected


def test_draws_are_members_under_sampling_and_a_full_output_is_a_prompt(
    model: Any, module: Any, cities: Constraint
) -> None:
    ends = model.vocabulary.eos_token_ids
    processor = ConstraintProcessor(cities)
    inputs = padded(model, PROMPTS[:2])
    torch.manual_seed(0)
    rows = generated(
        module, inputs, processor, ends, do_sample=True, top_k=0, num_return_sequences=20
    )
    texts = {model.vocabulary.decode(row).decode().strip() for row in rows}
    assert texts <= set(CITIES) and len(texts) > 2
    # What ended is a prompt like any other, although it is known.
    whole = module.generate(
        **padded(model, PROMPTS[:1]),
        logits_processor=[processor],
        do_sample=False,
        pad_token_id=ends[0],
        max_new_tokens=24,
    )
    again = {"input_ids": whole, "attention_mask": torch.ones_like(whole)}
    (text,) = generated(module, again, processor, ends)
    assert model.vocabulary.decode(text).decode().strip() in CITIES


def test_prompts_of_a_known_length_need_no_history(model: Any, module: Any) -> None:
    # Lists of one letter: what was cut after one token may go on, or be the prompt of another.
    constraint = grammar_constraint('start: "a"*', model.vocabulary)
    prompt = torch.tensor([model.encode_prompt("x")])
    width = model.vocabulary.width
    letter = model.vocabulary.encode(["a"])[0]
    longer = torch.cat([prompt, torch.tensor([letter])], dim=1)
    told = ConstraintProcessor(constraint, prompt_length=longer.shape[1])
    seen = ConstraintProcessor(constraint)
    scores = torch.zeros((1, width))
    fresh = ConstraintProcessor(constraint)(longer, scores)
    for processor in (told, seen):
        assert torch.equal(processor(longer, scores), fresh)
        assert torch.equal(scores, torch.zeros((1, width)))


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Tiny random models: a causal one, and two with decoders of their own."""
    folder = tmp_path_factory.mktemp("tiny")
    found = {}
    for name in ("gpt2", "t5", "bart", "bart-member"):
        module = tiny_module(name.partition("-")[0])
        if module.config.model_type == "bart":
            # A special token, as models have it, and one with which members may begin.
            module.generation_config.forced_bos_token_id = 1 if name == "bart" else 4
            module.generation_config.forced_eos_token_id = None
        module.save_pretrained(folder / name)
        found[name] = load_model(folder / name, vocabulary=VOCABULARY)
    return found


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Constraint:
    path = tmp_path_factory.mktemp("set") / "s.arrow"
    rng = np.random.default_rng(3)
    rows = {tuple(rng.integers(2, 60, rng.integers(1, 6)).tolist()) for _ in range(200)}
    compile_token_set([list(row) for row in sorted(rows)], VOCABULARY, path)
    return open_artifact(path, vocabulary=VOCABULARY)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["gpt2", "t5", "bart", "bart-member"])
@pytest.mark.parametrize("beams", [1, 256])
def test_tiny_models_agree_token_for_token(
    toys: dict[str, Any], numbers: Constraint, name: str, beams: int
) -> None:
    model = toys[name]
    rng = np.random.default_rng(5)
    prompts = rng.integers(2, 60, (4, 7)).tolist()
    inputs = {"input_ids": torch.tensor(prompts)}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    told = 2 if name == "bart-member" else None
    processor = ConstraintProcessor(numbers, prompt_length=told)
    options: dict[str, Any] = {"max_new_tokens": 8, "use_cache": name != "t5"}
    if beams > 1:
        options |= {"num_beams": beams, "num_return_sequences": 2, "length_penalty": 0.0}
        ours = sample(model, numbers, prompts, method="beam", beams=beams, n=2)
    else:
        ours = sample(model, numbers, prompts, method="greedy")
    for _ in range(2):  # the second time everything is known
        found = generated(model._module, inputs, processor, (0,), **options)
        if name.startswith("bart"):
            assert {row[0] for row in found} == {4 if told else 1}
            found = [row[1:] for row in found]
        assert found == tokens_of(ours)


def test_rows_and_states_do_not_depend_on_their_order(
    toys: dict[str, Any], numbers: Constraint
) -> None:
    rng = np.random.default_rng(8)
    prompt = rng.integers(2, 60, (1, 5))
    members = [row for row in _members(numbers) if len(row) >= 2][:12]
    texts = [[*prompt[0].tolist(), *member] for member in members]
    processor = ConstraintProcessor(numbers, prompt_length=5, kept=4)
    for order in (range(12), reversed(range(12)), rng.permutation(12)):
        for i in order:
            for length in (6, 7):
                ids = torch.tensor([texts[i][:length]])
                scores = processor(ids, torch.zeros((1, VOCABULARY.width)))
                session: Any = numbers.session()
                state = session.start(1)
                for token in texts[i][5:length]:
                    state = session.advance(state, np.array([token]))
                _, allowed = session.allowed(state)
                assert torch.isfinite(scores[0]).nonzero().flatten().tolist() == allowed.tolist()


def _members(constraint: Constraint) -> list[list[int]]:
    rows = constraint.member_rows()
    assert rows is not None
    flat, offsets = rows
    return [list(flat[a:b]) for a, b in itertools.pairwise(offsets.tolist())]


@pytest.mark.parametrize("how", ["greedy", "beams", "draws"])
def test_masks_applied_by_generate_are_the_sessions_own_bit_for_bit(
    toys: dict[str, Any], numbers: Constraint, how: str
) -> None:
    rng = np.random.default_rng(6)
    prompts = torch.tensor(rng.integers(2, 60, (3, 5)).tolist())
    seen: list[tuple[Any, Any]] = []

    def note(input_ids: Any, scores: Any) -> Any:
        seen.append((input_ids.clone(), scores.clone()))
        return scores

    options = {
        "greedy": {},
        "beams": {"num_beams": 6, "num_return_sequences": 3},
        "draws": {"do_sample": True, "top_k": 0, "num_return_sequences": 4},
    }[how]
    processor = ConstraintProcessor(numbers, vocabulary=VOCABULARY)
    options |= {"attention_mask": torch.ones_like(prompts), "max_new_tokens": 7}
    options |= {"eos_token_id": 0, "pad_token_id": 1}
    both = [processor, note]
    toys["gpt2"]._module.generate(input_ids=prompts, logits_processor=both, **options)
    session: Any = numbers.session()
    for ids, scores in seen:
        states = session.start(len(ids))
        for column in ids[:, 5:].numpy().T:
            going = np.flatnonzero(states >= 0)
            states[going] = session.advance(states[going], column[going])
        own = np.zeros((len(ids), session.words), np.int32)
        session.fill_mask(states, own)
        applied = np.packbits(torch.isfinite(scores).numpy(), axis=1, bitorder="little")
        applied = np.pad(applied, ((0, 0), (0, own.shape[1] * 4 - applied.shape[1])))
        going = states >= 0  # what has ended is given its end again, which is padding
        assert np.array_equal(applied.view(np.int32)[going], own[going])
    assert len(seen) >= 3


def test_a_constraint_of_another_tokenizer_is_refused_when_it_is_given(
    numbers: Constraint,
) -> None:
    other = Vocabulary([b"a", b"b", b""], eos_token_ids=[2])
    with pytest.raises(TokenizerMismatchError, match="another tokenizer"):
        ConstraintProcessor([numbers, None], vocabulary=other)
    ConstraintProcessor(numbers, vocabulary=VOCABULARY)


def test_the_ends_of_a_text_are_one_event_and_padding_is_never_allowed(tmp_path: Path) -> None:
    two = Vocabulary([b"a", b"b", b"", b""], eos_token_ids=[2, 3], special_token_ids=[2, 3])
    compile_token_set([[0], [0, 1]], two, tmp_path / "s.arrow")
    constraint = open_artifact(tmp_path / "s.arrow", vocabulary=two)
    processor = ConstraintProcessor(constraint, prompt_length=1)
    scores = torch.log(torch.tensor([[0.1, 0.4, 0.3, 0.2, 0.0]]) + 1e-30)
    after = processor(torch.tensor([[1, 0]]), scores).exp()
    assert torch.allclose(after, torch.tensor([[0.0, 0.4, 0.5, 0.0, 0.0]]))
    only = ConstraintProcessor(constraint, prompt_length=1, eos_token_id=3)
    after = only(torch.tensor([[1, 0]]), scores).exp()
    assert after[0, 3] > 0
    with pytest.raises(UsageError, match="eos_token_id"):
        ConstraintProcessor(constraint, eos_token_id=1)
    with pytest.raises(UsageError, match="3 columns"):
        processor(torch.tensor([[1]]), torch.zeros((1, 3)))
    with pytest.raises(UsageError, match="3 rows for 2 constraints"):
        ConstraintProcessor([constraint, None])(torch.ones((3, 1), dtype=int), torch.zeros((3, 5)))


def test_a_text_without_continuation_is_ended_with_a_warning(numbers: Constraint) -> None:
    processor = ConstraintProcessor(numbers, prompt_length=1)
    with pytest.warns(UserWarning, match="no member"):
        scores = processor(torch.tensor([[5, 1, 1]]), torch.zeros((1, VOCABULARY.width)))
    assert torch.isfinite(scores[0]).nonzero().flatten().tolist() == [0]
