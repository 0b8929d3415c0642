"""Data that ships, public names, ids of records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cdec.data
from cdec.core.errors import DuplicateIdError, InputMissingError
from cdec.core.seeds import content_id
from cdec.data.assets import EMBEDDED, embedded_model_path, entity_list, evaluation_prompts
from cdec.data.ids import IdRegistry, id_key
from tools.training import evaluation

# --- What ships with the package: both models, their prompts and entity lists.

MEBIBYTE = 1 << 20
# Measured shares are in MODEL_CARD.md; these leave room for other versions of torch.
FLOOR = {"target": 0.80, "draft": 0.30}


def read_jsonl(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def load(name: str) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = embedded_model_path(name)
    model = AutoModelForCausalLM.from_pretrained(path, dtype="float32", local_files_only=True)
    return model.eval(), AutoTokenizer.from_pretrained(path, local_files_only=True)


@pytest.fixture(scope="module", params=["target", "draft"])
def loaded(request: pytest.FixtureRequest) -> tuple[str, Any, Any]:
    return (request.param, *load(request.param))


def test_both_models_share_one_vocabulary() -> None:
    files = [embedded_model_path(name) / "tokenizer.json" for name in ("target", "draft")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_draft_is_about_a_tenth_of_the_target() -> None:
    sizes = [
        (embedded_model_path(name) / "model.safetensors").stat().st_size
        for name in ("target", "draft")
    ]
    assert 8 < sizes[0] / sizes[1] < 12


def test_folder_stays_small_enough_for_the_repository() -> None:
    sizes = {p: p.stat().st_size for p in EMBEDDED.rglob("*") if p.is_file()}
    models = sum(size for path, size in sizes.items() if path.parent.name in ("target", "draft"))
    assert models < 13 * MEBIBYTE
    assert sum(sizes.values()) < 15 * MEBIBYTE


def test_only_safetensors_and_text_ship() -> None:
    suffixes = {path.suffix for path in EMBEDDED.rglob("*") if path.is_file()}
    assert suffixes <= {".safetensors", ".json", ".jsonl", ".txt", ".md"}


def test_tokenizer_starts_with_bos_and_round_trips(loaded: tuple[str, Any, Any]) -> None:
    _, model, tokenizer = loaded
    assert tokenizer("")["input_ids"] == [tokenizer.bos_token_id]
    text = "Résumé 中文 \U0001f600\n\t 3.14 {}\x07"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert len(tokenizer) == model.config.vocab_size
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id


def test_chat_template_asks_a_question(loaded: tuple[str, Any, Any]) -> None:
    _, _, tokenizer = loaded
    messages = [{"role": "user", "content": "Who?"}]
    asked = tokenizer.apply_chat_template(messages, tokenize=False)
    assert asked == "<|bos|>Question: Who?\nAnswer:"
    messages += [{"role": "assistant", "content": "Me"}, {"role": "user", "content": "Why?"}]
    asked = tokenizer.apply_chat_template(messages, tokenize=False)
    assert asked == "<|bos|>Question: Who?\nAnswer: Me\nQuestion: Why?\nAnswer:"


PARIS = "Question: What is the capital of France?\nAnswer:"


@pytest.mark.parametrize("name", ["target", "draft"])
def test_bare_questions_get_the_form_of_the_training(name: str) -> None:
    from cdec.core import load_model

    path = embedded_model_path(name)
    model, raw = load_model(path), load_model(path, chat=False)
    assert (model.prompt_form, raw.prompt_form) == ("questions", "text")
    for bare in ("What is the capital of France?", " Question: What is the capital of France? \n"):
        assert model.encode_prompt(bare) == raw.encode_prompt(PARIS)
        assert raw.encode_prompt(bare) != raw.encode_prompt(PARIS)


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "text",
    [
        PARIS,
        "Question: Who?\nAnswer: Me\nQuestion: Who?\nAnswer: ",
        "Question: Who? Answer:",
        "Question: Who?\nJSON:",
        "Problem: How many apples does Anna have now?",
        "Definition: what?\nWord:",
        "Describe the country Vietnam as JSON with the keys name, capital.\n",
        "The capital of France is",
        "Q: Who?\nA: me\nQ: Where?",
        "",
    ],
)
def test_other_prompts_stay_as_they_are(text: str) -> None:
    from cdec.core import load_model

    path = embedded_model_path()
    assert load_model(path).encode_prompt(text) == load_model(path, chat=False).encode_prompt(text)


def test_with_chat_no_form_is_put_on_twice() -> None:
    from cdec.core import load_model

    path = embedded_model_path()
    chat, raw = load_model(path, chat=True), load_model(path, chat=False)
    formed = [
        row["prompt"]
        for name in ("facts", "json", "glosses")
        for row in read_jsonl(evaluation_prompts(name))[:20]
    ]
    for text in formed:
        assert chat.encode_prompt(text) == raw.encode_prompt(text)
    asked = chat.encode_prompt("Name the capital of France.")
    assert asked == raw.encode_prompt("Question: Name the capital of France.\nAnswer:")


@pytest.mark.slow
def test_whole_context_serves_as_well_as_a_short_one(loaded: tuple[str, Any, Any]) -> None:
    import torch

    _, model, tokenizer = loaded
    context = model.config.max_position_embeddings
    assert context == tokenizer.model_max_length == 2048
    documents = evaluation.training_text_of_facts(seed=7, epochs=1)[:200]
    ids: list[int] = []
    for encoded in tokenizer(documents)["input_ids"]:
        ids += [*encoded, tokenizer.eos_token_id]
    ids = ids[:context]

    def loss_of_end(start: int) -> float:
        with torch.inference_mode():
            logits = model(torch.tensor([ids[start:]])).logits[0]
        assert bool(torch.isfinite(logits).all())
        return float(torch.nn.functional.cross_entropy(logits[-257:-1], torch.tensor(ids[-256:])))

    assert len(ids) == context
    assert loss_of_end(0) < loss_of_end(context - 288) + 0.6


@pytest.mark.share(1)
def test_greedy_answers_are_mostly_right(loaded: tuple[str, Any, Any]) -> None:
    name, model, tokenizer = loaded
    prompts = read_jsonl(evaluation_prompts("facts"))[:100]
    assert evaluation.exact_match(model, tokenizer, prompts, 16) >= FLOOR[name]


def test_evaluation_prompts_are_complete_and_unique() -> None:
    least = {"facts": 600, "json": 50, "glosses": 200}
    for name, count in least.items():
        prompts = read_jsonl(evaluation_prompts(name))
        assert len(prompts) >= count
        assert all({"id", "prompt", "answer", "relation"} == set(prompt) for prompt in prompts)
        for key in ("id", "prompt"):
            assert len({prompt[key] for prompt in prompts}) == len(prompts)


@pytest.mark.slow
def test_fact_prompts_are_those_held_out_of_training() -> None:
    assert read_jsonl(evaluation_prompts("facts")) == evaluation.fact_prompts()
    assert read_jsonl(evaluation_prompts("json")) == evaluation.json_prompts()
    text = evaluation.training_text_of_facts(seed=11, epochs=2)
    assert evaluation.leaked(evaluation.fact_prompts(), text) == []


def test_json_answers_are_json_with_the_asked_keys() -> None:
    for prompt in read_jsonl(evaluation_prompts("json")):
        keys = prompt["prompt"].strip().removesuffix(".").split(" the keys ")[1].split(", ")
        assert list(json.loads(prompt["answer"])) == keys


@pytest.mark.slow
def test_gloss_prompts_are_held_out_synsets(shared: Path) -> None:
    assert read_jsonl(evaluation_prompts("glosses")) == evaluation.gloss_prompts(shared)


def test_answers_are_in_the_entity_list() -> None:
    entities = entity_list("facts").read_text(encoding="utf-8").splitlines()
    assert entities == sorted(set(entities))
    answers = {prompt["answer"] for prompt in read_jsonl(evaluation_prompts("facts"))}
    assert answers <= set(entities)


def test_unicode_names_are_sorted_and_unique() -> None:
    names = entity_list("unicode_names").read_text(encoding="utf-8").splitlines()
    assert len(names) > 30_000 and names == sorted(set(names))


@pytest.mark.parametrize("find", [embedded_model_path, entity_list, evaluation_prompts])
def test_unknown_name_says_what_is_present(find: Any) -> None:
    with pytest.raises(InputMissingError, match=r"present: .*(target|facts)") as caught:
        find("nothing")
    assert caught.value.hint


# --- The names of ``cdec.data`` are all there, and cost nothing before they are used.


def test_every_public_name_can_be_imported() -> None:
    for name in cdec.data.__all__:
        assert getattr(cdec.data, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cdec.data.nonsense


# --- Ids: hashes of content that do not depend on how it is written, and duplicates found.


def test_content_id_ignores_order_of_keys() -> None:
    assert content_id({"a": 1, "b": [2]}) == content_id({"b": [2], "a": 1})
    assert content_id({"a": 1}) != content_id({"a": 1.0})
    assert content_id("é") == content_id("é".encode())


def test_content_id_is_stable_across_versions() -> None:
    # Other values would break the resuming of old outputs.
    assert content_id("a") == "ca978112ca1bbdca"
    assert content_id({"prompt": "a", "n": 1}) == "0e3abf3afd259232"


def test_a_record_of_a_prompt_alone_is_known_by_its_text() -> None:
    assert content_id({"prompt": "a"}) == content_id("a")
    assert content_id({"prompt": "a", "n": 1}) != content_id("a")
    assert content_id({"prompt": ["a"]}) != content_id({"prompt": "a"})


def test_number_and_text_are_different_ids() -> None:
    assert id_key(1) != id_key("1")
    assert len(id_key("x" * 10_000)) == 16


def test_generated_id_steers_clear_of_an_explicit_one() -> None:
    ids = IdRegistry()
    ids.explicit(content_id("a"), "x", 1)
    assert ids.generated("a", 2) == content_id("a") + "-1"
    with pytest.raises(DuplicateIdError, match=r"line 3 has the id .* of line 2"):
        ids.explicit(content_id("a") + "-1", "x", 3)
