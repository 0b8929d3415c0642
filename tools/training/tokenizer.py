"""Trains the byte-level BPE tokenizer that both embedded models share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BOS, END, PAD = "<|bos|>", "<|end|>", "<|pad|>"
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% set text = message['content'] | trim %}"
    "{% if message['role'] == 'assistant' %} {{ text }}\n"
    "{% elif message['role'] == 'system' %}{{ message['content'] }}\n"
    "{% elif text.endswith(':') %}{{ message['content'] }}"
    "{% elif ' as JSON with the keys ' in text %}{{ text }}\n"
    "{% elif text.startswith('Question:') %}{{ text }}\nAnswer:"
    "{% else %}Question: {{ text }}\nAnswer:{% endif %}"
    "{% endfor %}"
)
"""A user's text that ends in ``Answer:``, ``Word:``, ... has its form already."""
QUESTIONS = r"\s*(?:Question:(?!.*Answer:)[^\n]*|(?![A-Z]\w*:)[^\n]*\?)\s*"
"""Texts that are questions and nothing else: one line that says so or ends in a question mark.

Read by ``cdec.core.models.prompts``; a label such as ``Problem:`` begins another form.
"""


def train_tokenizer(texts: Iterable[str], vocabulary_size: int) -> Any:
    """Train a byte-level BPE tokenizer.

    All 256 byte tokens are in the vocabulary, so every text round-trips. Digits are split one by
    one, which makes arithmetic learnable; a space before a digit is a token of its own.

    Args:
        texts: Training text.
        vocabulary_size: Tokens in all, the three special ones included.

    Returns:
        A ``tokenizers.Tokenizer`` that puts ``BOS`` first when it encodes.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=[BOS, END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return tokenizer


def save_tokenizer(tokenizer: Any, folder: Path, context: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` as transformers reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
        "cdec_questions": QUESTIONS,
    }
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
