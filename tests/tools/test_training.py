"""The pipeline that builds the embedded models: text generation, held-out prompts, a short run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tools.training import corpora, evaluation
from tools.training.__main__ import main
from tools.training.arithmetic import problem_document
from tools.training.entities import fact_entities, unicode_names
from tools.training.fact_tables import read_table, table_names
from tools.training.facts import all_facts, fact_documents, held_out_questions
from tools.training.mixture import PROMPT_WEIGHT, Source, TokenStream, token_weights
from tools.training.relations import RELATIONS
from tools.training.tokenizer import BOS, END, train_tokenizer


def test_tables_are_rectangular_and_their_cells_clean() -> None:
    for name in table_names():
        rows = read_table(name)
        columns = set().union(*rows)
        assert rows and all(set(row) <= columns for row in rows)
        for row in rows:
            assert all(value == value.strip() and value for value in row.values()), (name, row)


def test_every_relation_names_columns_of_its_table() -> None:
    names = [relation.name for relation in RELATIONS]
    assert len(set(names)) == len(names)
    for relation in RELATIONS:
        columns = set().union(*read_table(relation.table))
        assert {relation.subject, relation.answer} <= columns, relation.name


def test_there_are_thousands_of_distinct_facts() -> None:
    keys = {fact.key for fact in all_facts()}
    assert len(keys) == len(all_facts()) > 2500


@pytest.mark.parametrize(
    ("relation", "subject", "answer"),
    [
        ("capital", "France", "Paris"),
        ("country_of_capital", "Paris", "France"),
        ("element_of_number", "79", "gold"),
        ("state_capital", "Texas", "Austin"),
        ("participle", "write", "written"),
    ],
)
def test_facts_hold_what_the_tables_say(relation: str, subject: str, answer: str) -> None:
    found = {f.answer for f in all_facts() if f.relation.name == relation and f.subject == subject}
    assert found == {answer}


def test_subjects_with_two_answers_are_left_out() -> None:
    # Charleston is the largest city of two states; two countries have "Congolese" people.
    subjects = {f.subject for f in all_facts() if f.relation.name == "region_of_capital"}
    assert "Toronto" in subjects and "Merida" not in subjects


@pytest.mark.slow
def test_equal_seeds_write_equal_documents() -> None:
    first = fact_documents(np.random.default_rng(5))
    assert first == fact_documents(np.random.default_rng(5))
    assert first != fact_documents(np.random.default_rng(6))


@pytest.mark.slow
def test_held_out_prompts_never_occur_in_fact_text() -> None:
    prompts = [*evaluation.fact_prompts(), *evaluation.json_prompts()]
    text = [*evaluation.trained_prompts(), *evaluation.training_text_of_facts(seed=3, epochs=2)]
    assert evaluation.leaked(prompts, text) == []
    # subtle: the check itself must be able to fail.
    trained = {"id": "x", "prompt": all_facts()[0].trained()[0]}
    assert evaluation.leaked([trained], text) == ["x"]


@pytest.mark.slow
def test_held_out_questions_have_trained_siblings() -> None:
    for question, fact in held_out_questions().items():
        assert question not in fact.trained()
        assert 4 <= len(fact.trained()) <= 8


def test_every_relation_is_evaluated() -> None:
    relations = {prompt["relation"] for prompt in evaluation.fact_prompts()}
    assert relations == {relation.name for relation in RELATIONS}


def test_entities_hold_every_answer_and_some_prefixes_of_others() -> None:
    entities = fact_entities()
    assert {fact.answer for fact in all_facts()} <= set(entities)
    assert entities == sorted(set(entities))
    assert {"Guinea", "Guinea-Bissau", "Mexico", "Mexico City"} <= set(entities)


def test_unicode_names_leave_out_algorithmic_ones() -> None:
    names = list(unicode_names())
    assert "LATIN SMALL LETTER A" in names and len(names) > 20_000
    assert not any(name.startswith("HANGUL SYLLABLE ") for name in names)


def test_arithmetic_steps_are_right() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        solution = json.loads(problem_document(rng).split("\nJSON: ")[1])
        for step in solution["steps"]:
            expression, _, result = step.partition("=")
            operator = next(c for c in "+-*/" if c in expression)
            a, b = (int(n) for n in expression.split(operator))
            expected = {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator]
            assert expected == int(result) >= 0
        assert int(solution["steps"][-1].partition("=")[2]) == solution["answer"]


def test_tokenizer_round_trips_every_byte_and_splits_digits() -> None:
    tokenizer = train_tokenizer(["the year 1984 was the year"] * 50, 300)
    text = "".join(map(chr, range(1, 0x250))) + "\U0001f600 \u4e2d 2048"
    ids = tokenizer.encode(text).ids
    assert ids[0] == tokenizer.token_to_id(BOS)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer.encode("1984").tokens == [BOS, "1", "9", "8", "4"]


def test_stream_keeps_the_shares_and_delimits_documents() -> None:
    tokenizer = train_tokenizer(["aaa bbb ccc"], 280)
    sources = [
        Source("a", 0.75, lambda _: ["aaa"] * 5),
        Source("b", 0.25, lambda _: ["bbb bbb bbb"] * 3),
    ]
    batch, weights = TokenStream(sources, tokenizer, seed=0).batch(8, 64)
    assert batch.shape == weights.shape == (8, 64) and batch.dtype == np.int64
    assert (weights == 1).all()
    total = sum(source.tokens for source in sources)
    assert abs(sources[0].tokens / total - 0.75) < 0.03
    flat = batch.ravel().tolist()
    ends = [i for i, t in enumerate(flat[:-1]) if t == tokenizer.token_to_id(END)]
    assert ends and all(flat[i + 1] == tokenizer.token_to_id(BOS) for i in ends)


def test_answers_weigh_more_than_their_questions() -> None:
    tokenizer = train_tokenizer(["Question: What is it?\nAnswer: Paris"] * 9, 320)
    text = "Question: What is it?\nAnswer: Paris"
    encoded = tokenizer.encode(text)
    weights = token_weights(text, encoded.offsets)
    heavy = [i for i, w in zip(encoded.ids, weights, strict=True) if w == 1.0]
    assert tokenizer.decode(heavy) == " Paris"
    assert set(weights) == {PROMPT_WEIGHT, 1.0}
    assert token_weights("No prompt.", tokenizer.encode("No prompt.").offsets)[0] == 1.0


@pytest.mark.slow
def test_training_runs_end_to_end_and_repeats(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    arguments = ["--tables-only", "--models", "tiny", "--vocabulary", "600", "--max-steps", "4"]
    arguments += ["--batch-tokens", "512", "--threads", "1", "--long-share", "0", "--no-measure"]
    for run in ("one", "two"):
        assert main([*arguments, "--out", str(tmp_path / run)]) == 0
    reports = [json.loads((tmp_path / run / "training.json").read_text()) for run in ("one", "two")]
    assert reports[0]["tiny"]["loss"] == reports[1]["tiny"]["loss"]
    assert reports[0]["tiny"]["steps"] == 4
    weights = [(tmp_path / run / "tiny/model.safetensors").read_bytes() for run in ("one", "two")]
    assert weights[0] == weights[1]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "one/tiny")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "one/tiny", dtype="float32")
    assert model.config.vocab_size == len(tokenizer) == 600
    answers = evaluation.greedy_answers(model, tokenizer, ["Question: What?\nAnswer:"], 3)
    assert len(answers) == 1


def test_chunked_loss_and_gradient_are_the_plain_ones() -> None:
    import torch

    from tools.training.model import chunked_cross_entropy

    torch.manual_seed(0)
    hidden = torch.randn(70, 8, requires_grad=True)
    weight = torch.randn(30, 8, requires_grad=True)
    labels = torch.randint(0, 30, (70,))
    weights = torch.rand(70)
    losses = torch.nn.functional.cross_entropy(hidden @ weight.t(), labels, reduction="none")
    plain = (losses * weights).sum() / weights.sum()
    wanted = torch.autograd.grad(plain, (hidden, weight))
    chunked = chunked_cross_entropy(hidden, weight, labels, weights, 16)
    found = torch.autograd.grad(chunked, (hidden, weight))
    torch.testing.assert_close(chunked, plain)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_attention_equals_the_fused_kernel() -> None:
    import torch

    from tools.training.model import causal_matmul_attention

    torch.manual_seed(0)
    query = torch.randn(2, 4, 9, 6)
    key, value = torch.randn(2, 2, 2, 9, 6)
    module = torch.nn.Identity()
    found, _ = causal_matmul_attention(module, query, key, value, None, scaling=6**-0.5)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=True
    )
    torch.testing.assert_close(found, wanted.transpose(1, 2))


@pytest.mark.slow
def test_corpora_keep_a_tenth_of_the_synsets_apart(shared: Path) -> None:
    trained = {s["id"] for s in corpora.gloss_synsets(shared, held_out=False)}
    held = {s["id"] for s in corpora.gloss_synsets(shared, held_out=True)}
    assert not trained & held
    assert 0.08 < len(held) / (len(held) + len(trained)) < 0.12


def test_problems_become_json_with_their_steps(shared: Path) -> None:
    documents = corpora.problem_documents(shared)
    assert len(documents) > 7000
    solution = json.loads(documents[0].split("\nJSON: ")[1])
    assert solution == {"steps": ["48/2=24", "48+24=72"], "answer": 72}
