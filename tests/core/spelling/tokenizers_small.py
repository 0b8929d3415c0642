"""Small real tokenizers of the kinds in use, trained in a moment, and texts to try them with."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from cdec.core.tokens.spec import normalizers as normalizers_of
from cdec.core.tokens.vocabulary import Vocabulary

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace("{1,3}", "")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PIECES = (
    *("it's", "THEY'LL", "Hello", " world", "don't", "def f(x):", '{"name": "Ann"}', "</a>", "a"),
    *("\n", "\n\n", "  ", "   ", "\t", "\r\n", " \n ", "   a", " b", "\u00a0", "\u3000", "\u200b"),
    *("1234567", "12", "½", ".", "...", "!?", "_x", "'", "''", "'S", "ſ", "<tool>", "<to", "ol>"),
    *("é", "e\u0301", "\u0301", "naïve", "日本", "語", "Привет", "한국", "ᄀ", "ᅡ", "😀", "Σς", "ﬃ"),
    *("<0x0A>", "▁", "\x00", "ǅ", "aaaa", "aaaaaaa", " the", "their", "name", '"', ",", ": "),
)
CORPUS = [" ".join(PIECES), "".join(PIECES), 'the name of {"name": "their"} aaaa aaa 1234 123'] * 6


def random_texts(seed: int, n: int, longest: int = 6) -> list[str]:
    """Return texts of pieces, and of single characters of any kind."""
    rng = np.random.default_rng(seed)
    ranges = ((32, 127), (0x80, 0x3000), (0x3000, 0xD800), (0xE000, 0x20000))

    def piece() -> str:
        if rng.random() < 0.8:
            return PIECES[rng.integers(len(PIECES))]
        return chr(rng.integers(*ranges[rng.integers(len(ranges))]))

    return ["".join(piece() for _ in range(rng.integers(1, longest + 1))) for _ in range(n)]


def _trained(tokenizer: Tokenizer, size: int, added: Sequence[str] = (), **options: Any) -> Any:
    alphabet = options.pop("alphabet", [])
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<unk>", "</s>"],
        initial_alphabet=alphabet,
        show_progress=False,
        **options,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in added])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    return vocabulary.with_eos([tokenizer.token_to_id("</s>")])


def _byte_level(
    split: Any = None, *, nfc: bool = False, added: Sequence[str] = (), whole: bool = False
) -> Vocabulary:
    tokenizer = Tokenizer(models.BPE(ignore_merges=whole))
    parts = [] if split is None else [split]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*parts, last])
    tokenizer.decoder = decoders.ByteLevel()
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made: Vocabulary = _trained(tokenizer, 420, added, alphabet=alphabet)
    return made


def _by(pattern: str) -> Any:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def _sentencepiece(*, splits: bool) -> Vocabulary:
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=splits, prepend_scheme="first")
    trainer = trainers.BpeTrainer(
        vocab_size=560,
        special_tokens=["<unk>", "</s>", *fallback],
        limit_alphabet=60,
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    vocab = tokenizer.get_vocab()
    bare = Tokenizer.from_str(tokenizer.to_str())
    spec = _without_special(bare, set(fallback))
    vocabulary = Vocabulary.from_tokenizer(Tokenizer.from_str(spec))
    return vocabulary.with_eos([vocab["</s>"]])


def _unigram(*, splits: bool, falls_back: bool, added: Sequence[str] = ()) -> Vocabulary:
    """Return a trained Unigram tokenizer of SentencePiece's kind."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=splits, prepend_scheme="first")
    special = ["<unk>", "</s>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=160, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    spec = json.loads(tokenizer.to_str())
    pieces = [(piece, score) for piece, score in spec["model"]["vocab"]]
    return unigram_of(
        pieces, pre_tokenizer=tokenizer.pre_tokenizer, falls_back=falls_back, added=added
    )


def _scored(seed: int, **parts: Any) -> Vocabulary:
    """Return a Unigram tokenizer of random pieces, whose sums of scores are often equal."""
    rng, text = np.random.default_rng(seed), CORPUS[0] + CORPUS[-1]
    mark = "▁" if "pre_tokenizer" in parts or "normalizer" in parts else " "
    pieces = dict.fromkeys(text[:200:3])
    while len(pieces) < 200:
        start, size = int(rng.integers(len(text))), int(rng.integers(2, 7))
        pieces.setdefault(text[start : start + size])
    scores = rng.choice([-0.1, -0.2, -0.3, -0.7, -1.1, -1.3, -2.4], len(pieces))
    marked = [piece.replace(" ", mark) for piece in pieces]
    listed = [(piece, float(score)) for piece, score in zip(marked, scores, strict=True)]
    return unigram_of([("<unk>", 0.0), ("</s>", 0.0), *listed], **parts)


def unigram_of(
    pieces: Sequence[tuple[str, float]],
    *,
    falls_back: bool = False,
    added: Sequence[str] = (),
    **parts: Any,
) -> Vocabulary:
    """Return a Unigram tokenizer of pieces with scores, of which the first is the unknown one."""
    listed = [*pieces, *((f"<0x{byte:02X}>", 0.0) for byte in range(256 * falls_back))]
    tokenizer = Tokenizer(models.Unigram(listed, unk_id=0, byte_fallback=falls_back))
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in added])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    return vocabulary.with_eos([tokenizer.token_to_id("</s>")])


def _trained_file(**options: Any) -> Vocabulary:
    """Return a tokenizer that SentencePiece trained, with its own normaliser."""
    from sentencepiece import SentencePieceTrainer

    lines = [line for text in CORPUS for line in text.splitlines()]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "small.model"
        with path.open("wb") as file:
            SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=file,
                vocab_size=500,
                hard_vocab_limit=False,
                minloglevel=2,
                **options,
            )
        vocabulary: Vocabulary = Vocabulary.from_tokenizer(path)
        return vocabulary


def _words(*before: Any) -> Vocabulary:
    """Return a tokenizer that marks each word, as T5, XLM-R and ALBERT do."""
    model = tokenizer_named("unknown").spec()
    table = next(p for p in normalizers_of(model) if p["type"] == "Precompiled")
    map_ = normalizers.Precompiled(b64decode(table["precompiled_charsmap"]))
    pieces = [(piece, score) for piece, score in model["model"]["vocab"][3:]]
    pieces += [(char, -7.5) for char in "'`Ae\u0301" if char not in dict(pieces)]
    pieces += [("''", -6.0), ("▁''", -6.0), ("\u3000a", -3.0)]
    return unigram_of(
        [("<unk>", 0.0), ("</s>", 0.0), *pieces],
        normalizer=normalizers.Sequence([*before, map_]),
        pre_tokenizer=pre_tokenizers.Sequence(
            [
                pre_tokenizers.WhitespaceSplit(),
                pre_tokenizers.Metaspace(prepend_scheme="always"),
            ]
        ),
    )


def escaping(*, squeezes: bool) -> Any:
    """Return the normaliser of SentencePiece's own files."""
    one = [normalizers.Replace(Regex(" {2,}"), " ")] if squeezes else []
    return normalizers.Sequence([*one, normalizers.Replace(" ", "▁")])


def _without_special(tokenizer: Tokenizer, names: set[str]) -> str:
    spec = json.loads(tokenizer.to_str())
    spec["added_tokens"] = [t for t in spec["added_tokens"] if t["content"] not in names]
    return json.dumps(spec)


@cache
def tokenizer_named(name: str) -> Vocabulary:
    """Return one of ``NAMES``."""
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True)])
    makers = {
        "gpt2": lambda: _byte_level(),
        "llama3": lambda: _byte_level(_by(LLAMA3), whole=True),
        "qwen": lambda: _byte_level(_by(QWEN), nfc=True, added=["<tool>", "</tool>", "<tool>>"]),
        "o200k": lambda: _byte_level(_by(O200K)),
        "digits": lambda: _byte_level(
            pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), _by(QWEN)])
        ),
        "single": lambda: _byte_level(digits),
        "runs": lambda: _byte_level(added=["  ", "   ", "     "]),
        "pieces": lambda: _sentencepiece(splits=False),
        "metaspace": lambda: _sentencepiece(splits=True),
        "unigram": lambda: _unigram(splits=True, falls_back=False),
        "unigram-bytes": lambda: _unigram(splits=True, falls_back=True, added=["<tool>", "  "]),
        "unigram-whole": lambda: _unigram(splits=False, falls_back=True),
        "scored": lambda: _scored(1),
        "scored-bytes": lambda: _scored(2, falls_back=True, normalizer=escaping(squeezes=False)),
        "squeezed": lambda: _scored(3, falls_back=True, normalizer=escaping(squeezes=True)),
        "nmt": lambda: _trained_file(byte_fallback=True),
        "nfkc": lambda: _trained_file(byte_fallback=True, normalization_rule_name="nfkc"),
        "unknown": lambda: _trained_file(),
        "t5": lambda: _words(),
        "albert": lambda: _words(
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
        ),
        "identity": lambda: _trained_file(
            normalization_rule_name="identity",
            byte_fallback=True,
            remove_extra_whitespaces=False,
            split_by_whitespace=False,
        ),
        "embedded": lambda: Vocabulary.from_tokenizer("embedded"),
    }
    return makers[name]()


CHARSMAPS = ("nmt", "nfkc")
WORDS = ("t5", "albert")
FILES = (*CHARSMAPS, "unknown", "identity")
UNIGRAMS = (
    "unigram",
    "unigram-bytes",
    "unigram-whole",
    "scored",
    "scored-bytes",
    "squeezed",
    *FILES,
    *WORDS,
)
NAMES = (
    *("gpt2", "llama3", "qwen", "o200k", "digits", "single", "runs", "pieces", "metaspace"),
    *("embedded", *UNIGRAMS),
)


def shared_files() -> dict[str, Path]:
    """Return real tokenizers of the shared folder, by name."""
    from tests.shared import shared_folder

    folder = shared_folder() / "data" / "tokenizers"
    return {
        "gpt2": folder / "gpt2" / "encoder.json",
        "cl100k": folder / "tiktoken" / "cl100k_base.tiktoken.xz",
        "neox": folder / "neox_20b" / "tokenizer.json.xz",
        "mistral": folder / "mistral" / "tokenizer.model.v1",
    }
