"""Small real tokenizers, made in a moment: byte-level, lossy and normalising ones."""

from __future__ import annotations

from functools import cache

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from cdec.core.tokens.vocabulary import Vocabulary

WORDS = (
    "Paris Parish New York City London London Bridge of the is in Berlin Angola Foreign relations"
)
TEXT = [WORDS, f"{WORDS} <Asphalt> entity: \U0001f600 été", " ".join(reversed(WORDS.split()))] * 3


@cache
def byte_level(normalizer: str = "") -> Vocabulary:
    """Byte-level BPE with a few merges and an end-of-sequence token, id 256 or above."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer == "nfc":
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    end = tokenizer.token_to_id("<|endoftext|>")
    return vocabulary.with_eos([end])


@cache
def lossy() -> Vocabulary:
    """A word-piece-free BPE over letters and space; any other character is ``<unk>``."""
    letters = "abcdefghijklmnopqrstuvwxyz "
    vocabulary = {"<unk>": 0, "</s>": 1} | {letter: i + 2 for i, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.add_special_tokens([AddedToken("<unk>"), AddedToken("</s>")])
    return Vocabulary.from_tokenizer(tokenizer).with_eos([1])
