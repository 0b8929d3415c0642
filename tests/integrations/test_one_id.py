"""One prompt, one id: the command line, ``sample``, records and ``generate`` draw the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdec.compilers import compile_token_set, set_constraint
from cdec.core import Constraint, LanguageModel, Sample, load_model
from cdec.core.errors import DuplicateIdError, UsageError
from cdec.core.seeds import content_id
from cdec.data import embedded_model_path
from cdec.data.prompts.read import prompts_from_records, prompts_from_texts
from cdec.integrations.findings import enumeration
from cdec.integrations.records import sample_records
from cdec.integrations.transformers import generate, model_vocabulary
from cdec.samplers import sample
from tests.cli.conftest import Runner
from tests.cli.conftest import _kept_child as _kept_child
from tests.cli.conftest import _kept_processes as _kept_processes
from tests.cli.conftest import cdec as cdec
from tests.laws.gtest import g_test
from tests.laws.sizes import heavy_or
from tests.laws.worlds import toy_b

CITIES = ["Berlin", "Lyon", "Oslo", "Paris", "Rome"]
PROMPTS = ["Question: Which city is it?\nAnswer:", "A city:", "Une ville, l'\u00e9t\u00e9 :"]
ASKED: Mapping[str, Any] = {"n": 4, "seed": 7}


@pytest.fixture(scope="module")
def plain() -> LanguageModel:
    """The same model, which puts no text into its form."""
    return load_model(embedded_model_path(), chat=False)


@pytest.fixture(scope="module")
def cities(model: LanguageModel) -> Constraint:
    return set_constraint(CITIES, model.vocabulary)


@pytest.fixture(scope="module")
def expected(model: LanguageModel, cities: Constraint) -> list[tuple[object, ...]]:
    """What ``sample`` draws for the prompts as texts."""
    return drawn_of(sample(model, cities, PROMPTS, "masked", **ASKED))


def drawn_of(found: Sequence[Sequence[Sample]]) -> list[tuple[object, ...]]:
    return [(s.id, s.index, s.seed, s.text) for samples in found for s in samples]


def shown(records: Iterator[dict[str, Any]] | list[Any]) -> list[tuple[object, ...]]:
    return [(r["id"], r["index"], r["seed"], r["text"]) for r in records]


def test_a_prompts_text_names_it_in_whatever_form_it_comes() -> None:
    (text,) = prompts_from_texts(["A city:"])
    (record,) = prompts_from_records([{"prompt": "A city:"}])
    (more,) = prompts_from_records([{"prompt": "A city:", "n": 2}])
    assert text.id == record.id == content_id("A city:")
    assert more.id not in (text.id, record.id)


def test_token_ids_of_a_text_have_its_id(
    model: LanguageModel, cities: Constraint, expected: list[tuple[object, ...]]
) -> None:
    ids = [model.encode_prompt(prompt) for prompt in PROMPTS]
    assert drawn_of(sample(model, cities, ids, "masked", **ASKED)) == expected
    # What no text is tokenised to is named by its ids.
    odd = ids[0] + list(reversed(ids[0]))
    (found,) = sample(model, cities, [odd], "greedy")
    assert found[0].id == content_id(odd)


@pytest.mark.parametrize("form", ["lines", "records"])
def test_the_command_line_draws_what_sample_draws(
    cdec: Runner, expected: list[tuple[object, ...]], form: str
) -> None:
    assert cdec("compile-set", "-", "-o", "c.arrow", stdin="\n".join(CITIES).encode()).status == 0
    words = ("sample", "-a", "c.arrow", "--method", "masked", "-n", "4", "--seed", "7")
    if form == "records":
        lines = "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS)
        found = cdec(*words, stdin=lines.encode())
    else:
        found = cdec(*words, *(word for prompt in PROMPTS for word in ("--prompt", prompt)))
    assert found.status == 0
    assert shown(found.records) == expected


def test_records_and_generate_draw_what_sample_draws(
    model: LanguageModel, expected: list[tuple[object, ...]], tmp_path: Any, cdec: Runner
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    made = cdec("compile-set", "-", "-o", "c.arrow", stdin="\n".join(CITIES).encode())
    assert made.status == 0
    asked = [{"prompt": prompt} for prompt in PROMPTS]
    found = sample_records(asked, model, artifact="c.arrow", method="masked", **ASKED)
    assert shown(found) == expected

    path = embedded_model_path()
    tokenizer = AutoTokenizer.from_pretrained(path)
    module = AutoModelForCausalLM.from_pretrained(path, dtype="float32")
    vocabulary = model_vocabulary(module, tokenizer)
    inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True, padding_side="left")
    options = {"custom_generate": generate, "constraint": set_constraint(CITIES, vocabulary)}
    options |= {"method": "masked", "vocabulary": vocabulary, "num_return_sequences": 4, "seed": 7}
    options |= {"input_ids": inputs.input_ids, "attention_mask": inputs.attention_mask}
    drawn = module.generate(**options, max_new_tokens=10)
    assert drawn_of([drawn.samples]) == expected
    named = module.generate(**options, max_new_tokens=10, ids=["a", "b", 3])
    assert [each.id for each in named.samples[::4]] == ["a", "b", 3]


@settings(max_examples=heavy_or(60, 2_000), deadline=None)
@given(st.text(max_size=40))
@example("</s> <|endoftext|>")
@example("  two spaces, a\ttab and a line\n\n")
@example(" \u00e9e\u0301 \ufeff")
def test_any_text_is_found_from_its_ids(plain: LanguageModel, text: str) -> None:
    if text:
        assert plain.vocabulary.prompt_text(plain.encode_prompt(text)) == text


@pytest.mark.parametrize("method", ["exact", "masked"])
@pytest.mark.parametrize("form", ["texts", "ids", "records"])
def test_draws_follow_the_law_in_whatever_form_prompts_come(
    form: str, method: str, tmp_path: Any
) -> None:
    toy, draws = toy_b(), 40
    law = enumeration.target(toy) if method == "exact" else enumeration.masked(toy).law
    if form == "records":
        compile_token_set(toy.members, toy.vocabulary, tmp_path / "b.arrow")
        asked = [{"prompt": f"prompt {i}"} for i in range(50)]
        how = {"artifact": tmp_path / "b.arrow", "method": method, "n": draws, "batch_size": 50}
        records = sample_records(asked, toy.model(), **how)
        rows = [tuple(record["token_ids"]) for record in records]
    else:
        prompts: list[Any] = [f"prompt {i}" for i in range(50)]
        if form == "ids":
            prompts = [[i % 3, i // 3 % 3, i // 9 % 3, i // 27] for i in range(50)]
        found = sample(toy.model(), toy.constraint, prompts, method, n=draws, batch_size=50)
        rows = [tuple(each.token_ids) for samples in found for each in samples]
    # Once in 10,000 runs, and seeds are fixed. Equal prompts are other records, with other draws.
    assert len(rows) == 50 * draws and g_test(rows, law) >= 1e-4


def test_prompts_may_be_named(model: LanguageModel, cities: Constraint) -> None:
    named = sample(model, cities, PROMPTS, "masked", ids=["a", "b", 3], **ASKED)
    records = [{"id": i, "prompt": p} for i, p in zip(["a", "b", 3], PROMPTS, strict=True)]
    assert [found[0].id for found in named] == [record["id"] for record in records]
    (alone,) = sample(model, cities, [PROMPTS[0]], "masked", ids=["a"], **ASKED)
    assert drawn_of([alone]) == drawn_of(named[:1])
    assert sample(model, cities, PROMPTS[0], "masked", ids=["a"], **ASKED) == alone
    with pytest.raises(UsageError, match="2 ids for 3 prompts"):
        sample(model, cities, PROMPTS, ids=["a", "b"])
    with pytest.raises(DuplicateIdError, match="prompts 0 and 2 have the id 'a'"):
        sample(model, cities, PROMPTS, ids=["a", "b", "a"])
    for bad in ("", None, True, 1.5):
        with pytest.raises(UsageError, match="an id is a text or an integer"):
            sample(model, cities, PROMPTS, ids=["a", "b", bad])  # type: ignore[list-item]
