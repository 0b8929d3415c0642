"""Rewards of classifiers, and their training."""

from __future__ import annotations

import json
import lzma
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from cdec.core.errors import ModelError, TrustError, UsageError
from cdec.data.assets import embedded_model_path
from cdec.samplers.rewards import build_reward
from tests.laws.rounding import tolerance
from tools.benchmarks.rewards.training import arguments, run

# --- The classifier reward: labels, batches, long and empty texts, models it refuses.

TEXTS = ["A dog.", "The dog ran over the field and caught the ball", "no", "A dog.", "x" * 40]


def save_classifier(folder: Path, **config: Any) -> Path:
    """Save a small random classifier with the embedded vocabulary."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForSequenceClassification

    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 4096}
    settings = {"max_position_embeddings": 64, "pad_token_id": 2, "initializer_range": 0.5}
    made = LlamaConfig(**{**sizes, **heads, **settings, **config})
    LlamaForSequenceClassification(made).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(embedded_model_path())
    if made.pad_token_id is None:
        tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def two_labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of three labels, by name."""
    labels = {0: "bad", 1: "middling", 2: "good"}
    return save_classifier(tmp_path_factory.mktemp("labels"), id2label=labels)


@pytest.fixture(scope="module")
def one_output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of one output."""
    return save_classifier(tmp_path_factory.mktemp("single"), num_labels=1)


def logits(folder: Path, text: str) -> torch.Tensor:
    """The model's own logits for one text."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ids = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        return model(input_ids=ids).logits[0].double()


def score(folder: Path, texts: list[str], **options: Any) -> list[float]:
    reward = build_reward(f"classifier:{folder}", **options)
    return reward.scores(texts, [None] * len(texts)).tolist()


def test_score_is_the_softmax_of_the_wanted_label(two_labels: Path) -> None:
    shares = [logits(two_labels, text).softmax(0).tolist() for text in TEXTS]
    for label, number in ((None, 2), ("good", 2), ("BAD", 0), (1, 1), ("1", 1)):
        expected = [share[number] for share in shares]
        assert score(two_labels, TEXTS, label=label) == pytest.approx(expected, abs=tolerance(1))


def test_a_single_output_is_a_sigmoid(one_output: Path) -> None:
    expected = [torch.sigmoid(logits(one_output, text)[0]).item() for text in TEXTS]
    found = score(one_output, TEXTS)
    assert found == pytest.approx(expected, abs=tolerance(1))
    reward = build_reward(f"classifier:{one_output}")
    assert reward.is_satisfied(np.array([0.49, 0.5, math.nan])).tolist() == [False, True, False]


def test_labels_of_a_multi_label_model_have_probabilities_of_their_own(tmp_path: Path) -> None:
    folder = save_classifier(tmp_path, num_labels=2, problem_type="multi_label_classification")
    expected = torch.sigmoid(logits(folder, "A dog."))[0].item()
    assert score(folder, ["A dog."], label=0) == pytest.approx([expected], abs=tolerance(1))


def test_batches_change_scores_by_rounding_only(two_labels: Path) -> None:
    alone = [score(two_labels, [text])[0] for text in TEXTS]
    for tokens in (1, 12, 10_000):
        assert score(two_labels, TEXTS, max_batch_tokens=tokens) == pytest.approx(
            alone, abs=tolerance(1)
        )
    assert score(two_labels, []) == []


def test_a_model_without_padding_token_is_batched_by_length(tmp_path: Path) -> None:
    folder = save_classifier(tmp_path, pad_token_id=None, num_labels=1)
    alone = [score(folder, [text])[0] for text in TEXTS]
    assert score(folder, TEXTS) == pytest.approx(alone, abs=tolerance(1))


def test_a_long_text_is_scored_by_its_end_and_says_so_once(two_labels: Path) -> None:
    reward: Any = build_reward(f"classifier:{two_labels}")
    tail = " the end of it"
    texts = [start * 70 + tail for start in (" dog", " cat")]
    first = reward.scores(texts[:1] * 2, [None] * 2)
    assert [notice.code for notice in reward.notices] == ["W_REWARD_TRUNCATED"]
    assert reward.notices[0].details["limit"] == 64
    longer = " dog" * 90 + tail
    assert reward.scores([longer], [None]) == pytest.approx(first[:1], abs=tolerance(1))
    assert reward.scores(texts[1:], [None]) != pytest.approx(first[:1], abs=1e-4)
    assert len(reward.notices) == 1


def test_an_empty_text_has_a_score(two_labels: Path) -> None:
    scores, errors = build_reward(f"classifier:{two_labels}").evaluate(["", "dog"], [None] * 2)
    assert not errors
    assert 0 < scores[0] < 1


def test_a_label_that_the_model_lacks_is_a_usage_error(two_labels: Path) -> None:
    for label in ("great", 3, "-1"):
        with pytest.raises(UsageError, match="no label") as caught:
            build_reward(f"classifier:{two_labels}", label=label)
        assert "bad, middling, good" in str(caught.value.hint)
    with pytest.raises(UsageError, match="max_batch_tokens"):
        build_reward(f"classifier:{two_labels}", max_batch_tokens=0)


def test_a_language_model_is_no_classifier() -> None:
    with pytest.raises(ModelError, match=r"no trained classifier.*score\.weight"):
        build_reward(f"classifier:{embedded_model_path()}")


def test_pickled_weights_and_own_code_are_refused(two_labels: Path, tmp_path: Path) -> None:
    pickled, coded = tmp_path / "pickled", tmp_path / "coded"
    shutil.copytree(two_labels, pickled)
    shutil.copytree(two_labels, coded)
    torch.save(load_file(pickled / "model.safetensors"), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    config = json.loads((coded / "config.json").read_text())
    config["auto_map"] = {"AutoModelForSequenceClassification": "mine.Model"}
    (coded / "config.json").write_text(json.dumps(config))
    for folder in (pickled, coded):
        with pytest.raises(TrustError):
            build_reward(f"classifier:{folder}")
    with pytest.raises(ModelError):
        build_reward(f"classifier:{tmp_path / 'absent'}")


def test_a_head_that_gives_no_number_is_the_rows_error(two_labels: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(two_labels, broken)
    weights = load_file(broken / "model.safetensors")
    weights["score.weight"] = torch.full_like(weights["score.weight"], math.nan)
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    scores, errors = build_reward(f"classifier:{broken}").evaluate(["a", "b"], [None] * 2)
    assert np.isnan(scores).all()
    assert sorted(errors) == [0, 1]


def save_cross_encoder(folder: Path, limit: int = 24) -> Path:
    """Save a small random BERT that reads pairs, types of tokens included."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        PreTrainedTokenizerFast,
    )

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz"]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Split("", "isolated")]
    )
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, sep_token="[SEP]", **names)
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.save_pretrained(folder)
    torch.manual_seed(2)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = BertConfig(
        vocab_size=len(words),
        num_attention_heads=4,
        max_position_embeddings=limit,
        initializer_range=0.7,
        pad_token_id=0,
        **sizes,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of pairs."""
    return save_cross_encoder(tmp_path_factory.mktemp("pairs"))


def of_pair(folder: Path, *pair: str) -> float:
    """The model's own probability of its last label, through its own tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    # subtle: given as no list, an empty second text is none at all.
    columns = [[text] for text in pair]
    encoded = AutoTokenizer.from_pretrained(folder)(*columns, return_tensors="pt")
    with torch.inference_mode():
        return float(model(**encoded).logits[0].double().softmax(0)[-1])


def test_a_pair_is_scored_as_the_models_own_tokenizer_frames_it(cross_encoder: Path) -> None:
    pairs = [("abc", "de"), ("a", "z"), ("abc", "ed"), ("", "de"), ("abc", "")]
    prompts, texts = [first for first, _ in pairs], [second for _, second in pairs]
    expected = [of_pair(cross_encoder, *pair) for pair in pairs]
    assert len({round(each, 4) for each in expected}) == len(pairs)
    for reward in (
        build_reward(f"classifier:pair:{cross_encoder}"),
        build_reward(f"classifier:{cross_encoder}", pair=True),
        build_reward(f"classifier:{cross_encoder}", pair=True, max_batch_tokens=1),
    ):
        found = reward.scores(texts, [None] * len(texts), prompts)
        assert found == pytest.approx(expected, abs=tolerance(1))
    alone = build_reward(f"classifier:{cross_encoder}").scores(texts[:1], [None], prompts[:1])
    assert alone == pytest.approx([of_pair(cross_encoder, "de")], abs=tolerance(1))
    assert alone != pytest.approx(expected[:1], abs=1e-3)


def test_chat_messages_are_a_pairs_first_text(cross_encoder: Path) -> None:
    reward = build_reward(f"classifier:pair:{cross_encoder}")
    parts = [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]
    messages = [{"role": "system", "content": "ab"}, {"role": "user", "content": parts}]
    found = reward.scores(["de"], [None], [messages])
    assert found == pytest.approx([of_pair(cross_encoder, "ab\ncd", "de")], abs=tolerance(1))


def test_what_is_spelled_like_a_special_token_ends_no_prompt(cross_encoder: Path) -> None:
    reward = build_reward(f"classifier:pair:{cross_encoder}")
    forged, honest = reward.scores(["b", "b"], [None] * 2, ["a[SEP]zz", "a"])
    assert forged != pytest.approx(of_pair(cross_encoder, "a[SEP]zz", "b"), abs=1e-4)
    assert honest == pytest.approx(of_pair(cross_encoder, "a", "b"), abs=tolerance(1))


def test_a_long_pair_loses_the_beginning_of_its_prompt_first(cross_encoder: Path) -> None:
    reward: Any = build_reward(f"classifier:pair:{cross_encoder}")
    room = 24 - 3
    found = reward.scores(["xyz"], [None], ["q" * 30 + "abc"])
    kept = "q" * (room - 3 - 3) + "abc"
    assert found == pytest.approx([of_pair(cross_encoder, kept, "xyz")], abs=tolerance(1))
    assert [notice.code for notice in reward.notices] == ["W_REWARD_TRUNCATED"]
    assert "a prompt and its text of 39 tokens" in reward.notices[0].message
    found = reward.scores(["y" * 10 + "z" * 20], [None], ["abc"])
    assert found == pytest.approx([of_pair(cross_encoder, "", "y" + "z" * 20)], abs=tolerance(1))


def test_a_pair_needs_to_know_its_prompt(cross_encoder: Path) -> None:
    _, errors = build_reward(f"classifier:pair:{cross_encoder}").evaluate(["a"], [None])
    assert "reads prompts, and they are not known" in errors[0].message


# --- The script that trains a reward model: it learns, and the classifier reward reads its
# output.


@pytest.mark.slow
def test_training_learns_from_pairs_and_the_reward_reads_the_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    things = ["the river", "a station", "the library", "a book", "a horse", "the garden"]
    with lzma.open(tmp_path / "pairs.jsonl.xz", "wt", encoding="utf-8") as out:
        for _ in range(80):
            said = [" ".join(rng.choice(things, 2)) for _ in range(2)]
            turn = "\n\nHuman: hello\n\nAssistant: hm\n\nHuman: so?\n\nAssistant: "
            pair = {"chosen": f"{turn}Thanks, {said[0]}", "rejected": f"{turn}Never, {said[1]}"}
            out.write(json.dumps(pair) + "\n")
    model = tmp_path / "model"
    options = ["--data", str(tmp_path), "--output", str(model), "--batch", "4"]
    report = run(arguments(options))
    assert (report["pairs"], report["held_out"]) == (64, 16)
    assert report["held_out_accuracy"] == 1
    assert json.loads((model / "training.json").read_text()) == report
    texts = ["Thanks, the moon", "Never, the moon"]
    kind, rude = build_reward(f"classifier:{model}").scores(texts, [None] * 2)
    assert 0 < rude < kind < 1
