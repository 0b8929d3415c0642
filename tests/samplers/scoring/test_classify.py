"""Classes of texts by a model's masses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.compilers import set_constraint
from cdec.core import TabularModel, Vocabulary
from cdec.core.errors import (
    CdecError,
    ContextLengthError,
    TokenizerMismatchError,
    UntokenizableError,
    UsageError,
)
from cdec.core.models.language_model import LanguageModel
from cdec.data.assets import embedded_model_path
from cdec.integrations.findings.enumeration import log_prob, mass, target
from cdec.samplers import classify
from cdec.samplers.scoring.classify import Classification, Classifier, ClassifyRequest
from tests.compilers.sets.small_tokenizers import byte_level, lossy
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.rounding import near
from tests.laws.worlds import Toy, random_toy, toy_a, toy_b, toy_set

# --- classify: probabilities of labels equal enumeration, whatever shares a batch with them.

TOYS = [toy_a(), toy_b(), *(random_toy(seed, ends_itself=seed % 2 == 1) for seed in range(12))]


def one(toy: Toy, **options: Any) -> Classification:
    (found,) = classify(toy.model(), toy.constraint, [""], **options)
    return found


def by_text(found: Classification) -> dict[str, float | None]:
    return {label.text: label.probability for label in found.labels}


def hashed_model(vocabulary: Vocabulary, **options: Any) -> TabularModel:
    """A model whose distributions come from a hash of the prefix."""

    def probabilities(prefix: tuple[int, ...]) -> Any:
        rng = np.random.default_rng([3, *prefix])
        weights = rng.exponential(size=vocabulary.width) ** 2
        return weights / weights.sum()

    return TabularModel(probabilities, vocabulary, **options)


@pytest.mark.parametrize("toy", TOYS)
def test_probabilities_are_those_of_enumeration(toy: Toy) -> None:
    found = one(toy)
    expected = {toy.vocabulary.decode(row).decode(): row for row in toy.members}
    assert set(by_text(found)) == set(expected)
    if not mass(toy):
        assert found.label is None and found.log_mass is None
        assert set(by_text(found).values()) == {None}
        return
    law = target(toy)
    for label in found.labels:
        row = expected[label.text]
        log_p = log_prob(toy, row)
        if math.isinf(log_p):
            assert label.logprob is None and label.probability == 0.0
        else:
            assert label.logprob == pytest.approx(log_p, abs=1e-12)
            assert label.probability == pytest.approx(law[row], rel=1e-12)
    assert found.log_mass == pytest.approx(math.log(mass(toy)), abs=1e-12)
    assert sum(label.probability or 0.0 for label in found.labels) == pytest.approx(1, abs=1e-12)
    best = [label.probability for label in found.labels]
    assert best == sorted(best, reverse=True)  # type: ignore[type-var]
    assert found.label == found.labels[0].text


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=10),
    suffix=st.sampled_from(["", ">"]),
    space=st.sampled_from(["always", "never", "both"]),
    chunk=st.sampled_from([1, 20_000, 1 << 26]),
)
def test_labels_of_a_tokenizer_equal_enumeration(
    texts: list[str], suffix: str, space: Any, chunk: int
) -> None:
    texts = [text for text in texts if text.strip(" \t\n\r\v\f") and not text.startswith(" ")]
    texts = [text for text in texts if text[0] != ">"] or ["a"]
    vocabulary = byte_level()
    constraint = set_constraint(texts, vocabulary, suffix=suffix, leading_space=space)
    model = hashed_model(vocabulary)
    heads = {"always": [" "], "never": [""], "both": ["", " "]}[space]
    rows = {
        text: [tuple(vocabulary.encode([head + text + suffix])[0]) for head in heads]
        for text in texts
    }
    everything = {row for some in rows.values() for row in some}
    expected = {
        text: math.fsum(_probability(model, row, everything, bool(suffix)) for row in set(some))
        for text, some in rows.items()
    }
    total = math.fsum(expected.values())
    classifier = Classifier(chunk_bytes=chunk)
    (found,) = classifier.run(model, [ClassifyRequest("", constraint)])
    assert isinstance(found, Classification)
    assert len(found.labels) == len(expected)
    for label in found.labels:
        assert label.probability == pytest.approx(expected[label.text] / total, rel=1e-9)
        assert label.logprob == pytest.approx(math.log(expected[label.text]), abs=1e-9)


def _probability(
    model: TabularModel, row: tuple[int, ...], rows: set[tuple[int, ...]], ends_itself: bool
) -> float:
    (root,) = model.prefill([""])
    log_p, context = 0.0, int(root)
    for token in row:
        log_p += float(model.next_logprobs([context])[0, token])
        context = int(model.advance([context], [token])[0])
    begins = any(other[: len(row)] == row for other in rows - {row})
    if not ends_itself or begins:
        ends = list(model.vocabulary.eos_token_ids)
        log_p += float(np.logaddexp.reduce(model.next_logprobs([context])[0, ends]))
    model.release([root])
    return math.exp(log_p)


def test_results_do_not_depend_on_what_shares_the_batch() -> None:
    vocabulary = byte_level()
    words = ["Paris", "Parish", "New York", "London", "été"]
    sets = [set_constraint(words, vocabulary), set_constraint(words[:2], vocabulary)]
    requests = [ClassifyRequest("", sets[i % 2]) for i in range(7)]
    together = Classifier().run(hashed_model(vocabulary), requests)
    apart = [Classifier().run(hashed_model(vocabulary), [request])[0] for request in requests]
    turned = Classifier().run(hashed_model(vocabulary), requests[::-1])[::-1]
    assert together == apart == turned


def test_labels_given_as_texts_are_those_of_a_set_and_their_order_does_not_matter() -> None:
    vocabulary = byte_level()
    model = hashed_model(vocabulary)
    texts = ["Paris", "Parish", "London", "Paris", "München"]
    (mine,) = classify(model, texts, [""])
    (turned,) = classify(model, texts[::-1], [""])
    (theirs,) = classify(model, set_constraint(texts, vocabulary), [""])
    assert mine == turned
    assert by_text(mine) == by_text(theirs) and len(mine.labels) == 4
    assert [label.logprob for label in mine.labels] == [label.logprob for label in theirs.labels]


def test_one_label_has_all_the_probability() -> None:
    found = one(toy_b())
    (alone,) = classify(toy_b().model(), toy_set([toy_b().members[0]], toy_b().vocabulary), [""])
    (label,) = alone.labels
    assert label.probability == 1.0
    assert label.logprob == alone.log_mass
    assert {each.text: each.logprob for each in found.labels}["a"] == label.logprob


def test_a_prompt_that_is_a_text_has_one_result() -> None:
    toy = toy_b()
    assert classify(toy.model(), toy.constraint, "one") == one(toy)
    assert classify(toy.model(), toy.constraint, []) == []


def test_top_keeps_the_best_and_changes_no_probability() -> None:
    everything, some = one(toy_b()), one(toy_b(), top=2)
    assert list(some.labels) == list(everything.labels[:2])
    assert some.log_mass == everything.log_mass
    assert one(toy_b(), top=99) == everything


def test_each_prefix_is_evaluated_once_a_prompt() -> None:
    toy = toy_b()
    found = classify(toy.model(), toy.constraint, ["", "", ""])
    prefixes = {row[:depth] for row in toy.members for depth in range(len(row) + 1)}
    assert {each.distinct_evaluations for each in found} == {len(prefixes)}


def test_ids_of_labels_are_told() -> None:
    labels = [{"text": "Paris", "id": "Q90"}, {"text": "Paris", "id": "Q8"}, {"text": "Rome"}]
    constraint = set_constraint(labels, byte_level())
    (found,) = classify(hashed_model(byte_level()), constraint, [""])
    told = {label.text: label.to_json() for label in found.labels}
    assert told["Paris"]["id"] == "Q90" and told["Paris"]["entity_ids"] == ["Q90", "Q8"]
    assert told["Rome"]["id"] == "3" and "entity_ids" not in told["Rome"]


def test_calibration_divides_by_what_is_said_without_content() -> None:
    toy = toy_b()
    vocabulary = toy.vocabulary

    class Prompted(TabularModel):
        """A model that hears its prompt: it goes on as the toy does after these tokens."""

        def _forward(self, nodes: Any) -> Any:
            rows = [
                toy.probabilities(tuple(self._prompt_ids[int(root)] + self._tree.tokens(int(node))))
                for node, root in zip(nodes, self._tree.roots(nodes), strict=True)
            ]
            self._count(nodes, 1, 1)
            return np.log(np.array(rows))

    model = Prompted(toy.probabilities, vocabulary)
    prompts, free = [[0], [1, 2]], [[2], [2, 2]]
    plain = [by_text(found) for found in classify(model, toy.constraint, prompts)]
    without = [by_text(found) for found in classify(model, toy.constraint, free)]
    options: Any = {"calibrate": "contextual", "content_free": free}
    found = classify(model, toy.constraint, prompts, **options)
    for raw, calibrated in zip(plain, found, strict=True):
        mean = {text: (without[0][text] + without[1][text]) / 2 for text in raw}  # type: ignore[operator]
        ratio = {text: raw[text] / mean[text] for text in raw}  # type: ignore[operator]
        total = sum(ratio.values())
        for label in calibrated.labels:
            assert label.probability == pytest.approx(ratio[label.text] / total, rel=1e-12)
        assert calibrated.calibrate == "contextual"
        shown = [label.probability for label in calibrated.labels]
        assert shown == sorted(shown, reverse=True)  # type: ignore[type-var]
    plainly = classify(model, toy.constraint, prompts)
    assert [each.log_mass for each in found] == [each.log_mass for each in plainly]
    # Of the content-free prompt itself, nothing is left.
    (same,) = classify(model, toy.constraint, [[2]], calibrate="contextual", content_free=[[2]])
    assert all(label.probability == pytest.approx(1 / 6) for label in same.labels)


def test_calibration_is_refused_where_a_label_has_no_probability_without_content() -> None:
    def never(prefix: tuple[int, ...]) -> Any:
        return np.array([1.0, 0.0, 0.0]) if len(prefix) < 1 else np.array([0.0, 0.0, 1.0])

    toy = toy_a()
    model = TabularModel(never, toy.vocabulary)
    labels = toy_set([(0,), (1,)], toy.vocabulary)
    (found,) = classify(model, labels, [""])
    assert [label.probability for label in found.labels] == [1.0, 0.0]
    assert found.labels[1].logprob is None
    with pytest.raises(UsageError, match="without content"):
        classify(model, labels, [""], calibrate="contextual")
    (nothing,) = classify(model, toy_set([(1,)], toy.vocabulary), [""])
    assert nothing.label is None and nothing.log_mass is None
    assert nothing.labels[0].probability is None


def test_what_cannot_be_classified_is_refused() -> None:
    from cdec.compilers import grammar_constraint

    vocabulary = byte_level()
    model = hashed_model(vocabulary)
    for bad in ("red", [], ["red", " "]):
        with pytest.raises(UsageError):
            classify(model, bad, [""])
    with pytest.raises(UntokenizableError):
        classify(hashed_model(lossy()), ["Été"], [""])
    with pytest.raises(UsageError, match="members of a set"):
        own = byte_vocabulary()
        classify(hashed_model(own), grammar_constraint('start: "a"', own), [""])
    with pytest.raises(TokenizerMismatchError):
        classify(model, toy_a().constraint, [""])
    for options in ({"top": 0}, {"calibrate": "yes"}, {"content_free": "N/A"}):
        with pytest.raises(UsageError):
            classify(model, ["red"], [""], **options)  # type: ignore[arg-type]


def test_one_bad_prompt_becomes_an_error_in_its_place() -> None:
    vocabulary = byte_level()
    model = hashed_model(vocabulary)
    model.context_length = 4
    labels = set_constraint(["London Bridge is in London"], vocabulary)
    fine = set_constraint(["a"], vocabulary)
    requests = [
        ClassifyRequest([], fine),
        ClassifyRequest([], labels),
        ClassifyRequest([99_999], fine),
        ClassifyRequest([], None),
    ]
    found = Classifier().run(model, requests)
    assert isinstance(found[0], Classification)
    assert isinstance(found[1], ContextLengthError)
    assert isinstance(found[2], CdecError) and isinstance(found[3], UsageError)


# --- classify on the embedded model: what plain forward passes of transformers say of each label.

LABELS = ["Paris", "Parma", "Berlin", "New York", "New Delhi", "ein Haus", "été", "1,234"]
PROMPTS = [
    "Question: What is the capital of France?\nAnswer:",
    'Question: Name the German word for "flower".\nAnswer:',
    "A",
]
EVENTS = 8
"""Most tokens of a label here, its end counted."""


@pytest.fixture(scope="module")
def module() -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(embedded_model_path(), dtype=torch.float32).eval()


def plainly(module: Any, model: LanguageModel, prompt: str, texts: list[str]) -> Any:
    """log P of texts and their end, each with a forward pass of its own, float64[L]."""
    found = []
    start = model.encode_prompt(prompt)
    for text in texts:
        row = model.vocabulary.encode([text])[0]
        with torch.no_grad():
            logits = module(torch.tensor([[*start, *row]])).logits[0, len(start) - 1 :].double()
        log_p = torch.log_softmax(logits, -1)
        events = log_p[torch.arange(len(row)), torch.tensor(row)].sum()
        ends = torch.logsumexp(log_p[len(row), list(model.vocabulary.eos_token_ids)], 0)
        found.append(float(events + ends))
    return np.array(found)


def test_labels_are_scored_as_by_plain_forward_passes(model: LanguageModel, module: Any) -> None:
    for prompt, found in zip(PROMPTS, classify(model, LABELS, PROMPTS), strict=True):
        expected = plainly(module, model, prompt, [f" {label}" for label in LABELS])
        mine = {label.text: label for label in found.labels}
        log_p = [mine[label].logprob for label in LABELS]
        assert log_p == near(expected.tolist(), EVENTS)
        law = np.exp(expected - np.logaddexp.reduce(expected))
        assert [mine[text].probability for text in LABELS] == near(law.tolist(), 2 * EVENTS)
        assert found.log_mass == near(float(np.logaddexp.reduce(expected)), EVENTS)
        assert sum(label.probability or 0.0 for label in found.labels) == pytest.approx(
            1.0, abs=1e-12
        )


def test_batches_of_any_size_agree(model: LanguageModel) -> None:
    labels = set_constraint(LABELS, model.vocabulary)
    together = classify(model, labels, PROMPTS * 2)
    for prompt, found in zip(PROMPTS * 2, together, strict=True):
        (alone,) = classify(model, labels, [prompt])
        mine = {label.text: label.logprob for label in found.labels}
        theirs = {label.text: label.logprob for label in alone.labels}
        assert mine == near(theirs, EVENTS)


def test_a_prompts_caches_are_released(model: LanguageModel) -> None:
    before = model.tree.live
    classify(model, LABELS, PROMPTS, calibrate="contextual")
    assert model.tree.live == before
