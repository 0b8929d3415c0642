"""Vocabularies given as ranked byte strings: tekken JSON and tiktoken files, as tokenizer specs.

A rank file lists byte strings; the pair of neighbours whose concatenation has the lowest rank is
merged first, and a word that is a token itself is taken whole. The ``tokenizers`` library wants the
pairs written out: for every token, each way to cut it into two tokens is a merge of its rank.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from cdec.core.errors import ModelError
from cdec.core.tokens.parts import UncheckedTokenizer
from cdec.core.tokens.spec import Spec
from cdec.core.tokens.token_bytes import byte_alphabet

_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# subtle: written without possessive quantifiers, which mean the same here; the library's regular
# expressions read ``{1,3}+`` as a repeated group and would not cut numbers.
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TIKTOKEN_ENCODINGS: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "r50k_base": (_GPT2, 50256, ()),
    "p50k_base": (_GPT2, 50256, ()),
    "cl100k_base": (_CL100K, 100257, (100258, 100259, 100260, 100276)),
}
"""File stem -> (pattern that cuts text into words, id of the end, other special ids), as tiktoken
defines them."""


def read_tiktoken(data: bytes, name: str) -> UncheckedTokenizer:
    """Read a ``.tiktoken`` file, whose pattern and special tokens follow from its name.

    Args:
        data: Lines of base64 bytes, a space, a rank.
        name: File name; its stem is the encoding's name.

    Raises:
        ModelError: An unknown encoding, or a line of another form.
    """
    encoding = Path(name).name.partition(".")[0]
    if encoding not in TIKTOKEN_ENCODINGS:
        raise ModelError(
            f"{name}: the tiktoken encoding {encoding!r} is not known; expected one of "
            f"{', '.join(TIKTOKEN_ENCODINGS)}",
            hint="Give the model's tokenizer.json instead.",
            path=name,
        )
    pattern, end, others = TIKTOKEN_ENCODINGS[encoding]
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise ModelError(
                f"{name}, line {number}: expected base64 bytes, a space and a rank",
                hint="Check that the file is whole.",
                path=name,
                line=number,
            ) from error
    special = {end, *others}
    return UncheckedTokenizer(rank_spec(ranks, pattern, special), special, {end}, None, encoding)


def read_tekken(document: Mapping[str, Any], name: str) -> UncheckedTokenizer:
    """Read a ``tekken.json`` document: rank r has the id r + number of special tokens.

    Raises:
        ModelError: A field that is missing or of another form.
    """
    try:
        config = document["config"]
        n_special = int(config["default_num_special_tokens"])
        n_ordinary = int(config["default_vocab_size"]) - n_special
        pattern = str(config["pattern"])
        vocab = document["vocab"][:n_ordinary]
        ranks = {base64.b64decode(token["token_bytes"]): int(token["rank"]) for token in vocab}
        listed = document.get("special_tokens") or []
        special = {str(token["token_str"]): int(token["rank"]) for token in listed}
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{name} is no tekken vocabulary: {type(error).__name__} {error}",
            hint="Expected the fields config, vocab and token_bytes of mistral-common's files.",
            path=name,
        ) from error
    # Files of the first format name no special tokens; these two have had their ids since then.
    begin, end = special.get("<s>", 1), special.get("</s>", 2)
    shifted = {token: rank + n_special for token, rank in ranks.items()}
    hidden = set(range(n_special))
    spec = rank_spec(shifted, pattern, hidden)
    return UncheckedTokenizer(spec, hidden, {end}, begin, Path(name).name)


def rank_spec(ranks: Mapping[bytes, int], pattern: str, special_ids: Collection[int]) -> Spec:
    """Return the spec of a byte-level BPE given by ranks.

    Args:
        ranks: Byte string -> id, lowest merged first.
        pattern: Regular expression that matches the words of a text, Oniguruma syntax.
        special_ids: Ids that ``ranks`` does not have.

    Returns:
        A spec whose model has the special ids too, under names that no text has.
        Cost: 0.7 s for 131,072 tokens.

    Raises:
        ModelError: A possessive interval in the pattern, which the library reads as a repetition.
    """
    if re.search(r"\{\d*,?\d*\}\+", pattern):
        raise ModelError(
            f"the pattern {pattern!r} has a possessive interval, read as a repetition here",
            hint="Give the model's tokenizer.json instead.",
        )
    alphabet = dict(enumerate(byte_alphabet()))
    ids = {token.decode("latin-1").translate(alphabet): i for token, i in ranks.items()}
    ordered = sorted(ids, key=ids.__getitem__)
    merges = [pair for token in ordered if len(token) > 1 for pair in _cuts(token, ids)]
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    levels = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return {
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split, levels | {"trim_offsets": False}],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": ids | {f" special {i}": i for i in special_ids},
            "merges": merges,
        },
    }


def _cuts(token: str, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return every way to cut a token into two tokens, lowest ids first."""
    cuts = [
        (ids[token[:k]], ids[token[k:]], k)
        for k in range(1, len(token))
        if token[:k] in ids and token[k:] in ids
    ]
    cuts.sort()
    return [(token[:k], token[k:]) for _, _, k in cuts]
