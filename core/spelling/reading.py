"""What a tokenizer's own data say of how it spells texts; whatever else they say is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import CanonicalError
from cdec.core.spelling.added import AddedTokens
from cdec.core.spelling.classes import DIGIT, NO_DIGIT, CharacterClasses
from cdec.core.spelling.merges import Merges, merge_pairs
from cdec.core.spelling.patterns import PatternReader
from cdec.core.spelling.shapes import Parts, Shapes, parts_of
from cdec.core.spelling.splits import Splits
from cdec.core.tokens.spec import SPACE_MARK, Spec, byte_alphabet, normalizers, pre_tokenizers
from cdec.core.tokens.vocabulary import Vocabulary

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""What the library's ``ByteLevel`` splits by (Radford et al. 2019)."""
_DIGITS, _NUMBERS = f"{DIGIT}|{NO_DIGIT}+", f"{DIGIT}+|{NO_DIGIT}+"
ESCAPE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
"""What SentencePiece does to spaces."""


def refusal(what: str) -> CanonicalError:
    """Return the error of a tokenizer whose texts' tokens are not known."""
    return CanonicalError(
        f"which tokens the tokenizer writes is not known here: {what}",
        hint="leave `canonical` out",
        part=what,
    )


@dataclass(frozen=True, slots=True)
class Spelling:
    """A tokenizer as the way in which it spells texts.

    Attributes:
        vocabulary: Of the model.
        splits, shapes: Where it cuts texts, and its tokens as classes of characters.
        merges: Its byte pair encoding.
        parts: Bytes of each token, by id; None where a token is never written.
        added: Texts that it cuts out first. added_join: Whether what is cut out is normalised, too.
        is_composed: Whether it brings texts into normal form C.
        wholes: Bytes of tokens that it writes for whole pre-tokens, and merges do not make.
        characters: Code points with tokens, where all others are spelled by bytes; else None.
    """

    vocabulary: Vocabulary
    splits: Splits
    shapes: Shapes
    merges: Merges
    parts: Sequence[Parts | None]
    added: AddedTokens
    added_join: bool
    is_composed: bool
    wholes: frozenset[bytes]
    characters: NDArray[np.bool_] | None

    @classmethod
    def of(cls, vocabulary: Vocabulary, spec: Spec) -> Spelling:
        """Read the tokenizer of a vocabulary. Cost: some two seconds for 131,072 tokens.

        Args:
            vocabulary: Of the model.
            spec: ``vocabulary.spec()``, of byte pair encoding.

        Raises:
            CanonicalError: It has parts whose effect on a text is not known here.
        """
        model = spec["model"]
        is_composed = _is_composed(spec)
        atoms: list[str] = []
        programs = [PatternReader(p, atoms).read() for p in _patterns(spec)]
        classes = CharacterClasses(atoms)
        if ESCAPE in normalizers(spec):
            classes.of[ord(" ")] = classes.of[ord(SPACE_MARK)]
        added, added_join = added_tokens(spec, vocabulary)
        words, characters = _words(spec, vocabulary, added)
        merges = Merges(merge_pairs(model), model["vocab"], words, vocabulary.width)
        wholes = _wholes(model, words, merges, vocabulary)
        kept = merges.is_made.copy()
        kept[wholes] = True
        parts = [
            parts_of(token) if token and kept[i] else None
            for i, token in enumerate(vocabulary.token_bytes)
        ]
        _leave_out(parts, added.holding())
        if characters is not None:
            _leave_out(parts, _spelled_otherwise(words, parts, characters, spec))
        return cls(
            vocabulary,
            Splits(programs, classes.holds),
            Shapes.read(parts, classes.of, vocabulary.width),
            merges,
            parts,
            added,
            added_join,
            is_composed,
            frozenset(vocabulary.token_bytes[i] for i in wholes),
            characters,
        )


def _leave_out(parts: list[Parts | None], ids: Sequence[int]) -> None:
    for each in ids:
        parts[each] = None


def _is_composed(spec: Spec) -> bool:
    """Say whether texts are brought into normal form C; refuse other normalisers."""
    parts = normalizers(spec)
    if parts and parts[-1] == ESCAPE:
        parts.pop()
    if any(part["type"] != "NFC" for part in parts):
        wrong = next(part["type"] for part in parts if part["type"] != "NFC")
        raise refusal(f"its normaliser has a part of the type {wrong}")
    return bool(parts)


def _patterns(spec: Spec) -> list[str]:
    """Return the patterns by which a tokenizer splits texts, one after another."""
    parts, found = pre_tokenizers(spec), []
    kinds = [part["type"] for part in parts]
    # What comes behind these sees other characters than the text's.
    if "ByteLevel" in kinds[:-1] or ("Metaspace" in kinds and len(kinds) > 1):
        raise refusal("its pre-tokenizer goes on behind a part that changes characters")
    for part in parts:
        kind = part["type"]
        if kind == "Split" and part["behavior"] == "Isolated" and not part.get("invert"):
            if "Regex" not in part["pattern"]:
                raise refusal("its pre-tokenizer splits by a text")
            found.append(str(part["pattern"]["Regex"]))
        elif kind == "ByteLevel":
            found += [GPT2_PATTERN] * bool(part.get("use_regex", True))
        elif kind == "Digits":
            found.append(_DIGITS if part["individual_digits"] else _NUMBERS)
        elif kind == "Metaspace":
            found += [" [^ ]*|[^ ]+"] * bool(part.get("split", True))
        else:
            raise refusal(f"its pre-tokenizer has a part of the type {kind}")
    return found


def added_tokens(spec: Spec, vocabulary: Vocabulary) -> tuple[AddedTokens, bool]:
    """Return the added tokens that stand for text, and whether they are normalised."""
    kept = [t for t in spec["added_tokens"] if vocabulary.is_ordinary[t["id"]] and not t["special"]]
    for flag in ("single_word", "lstrip", "rstrip"):
        if any(token[flag] for token in kept):
            raise refusal(f"an added token has the flag {flag}")
    joins = {bool(token["normalized"]) for token in kept}
    if len(joins) > 1:
        raise refusal("some of its added tokens are normalised, and some are not")
    texts = {token["id"]: vocabulary.token_bytes[token["id"]] for token in kept}
    return AddedTokens(texts, vocabulary.token_bytes), joins == {True}


def _words(
    spec: Spec, vocabulary: Vocabulary, added: AddedTokens
) -> tuple[list[Sequence[int]], NDArray[np.bool_] | None]:
    """Return the symbols of every token, and the characters that are not spelled byte by byte."""
    model = spec["model"]
    vocab: dict[str, int] = model["vocab"]
    falls_back = bool(model.get("byte_fallback"))
    byte_names = {f"<0x{b:02X}>" for b in range(256)} if falls_back else set()
    if not byte_names <= vocab.keys():
        raise refusal("some bytes have no token")
    words: list[Sequence[int]] = [()] * vocabulary.size
    for token, number in vocab.items():
        if number in added.texts or not vocabulary.is_ordinary[number]:
            continue
        if token in byte_names:
            words[number] = (number,)
        else:
            words[number] = [vocab.get(char, -1) for char in token]
    if not falls_back:
        return words, None
    characters = np.zeros(0x110000, np.bool_)
    characters[[ord(token) for token in vocab if len(token) == 1]] = True
    characters[ord(" ")] = characters[ord(SPACE_MARK)]
    return words, characters


def _wholes(
    model: Spec, words: Sequence[Sequence[int]], merges: Merges, vocabulary: Vocabulary
) -> list[int]:
    """Return the tokens that are written for a whole pre-token, and which merges do not make."""
    if not model.get("ignore_merges"):
        return []
    alphabet = set(byte_alphabet())
    names = {number: token for token, number in model["vocab"].items()}
    unmade = [i for i, word in enumerate(words) if len(word) and not merges.is_made[i]]
    return [i for i in unmade if set(names[i]) <= alphabet and vocabulary.token_bytes[i]]


def _spelled_otherwise(
    words: Sequence[Sequence[int]],
    parts: Sequence[Parts | None],
    characters: NDArray[np.bool_],
    spec: Spec,
) -> list[int]:
    """Return the tokens of single bytes whose character has a token of its own."""
    vocab = spec["model"]["vocab"]
    ids = [vocab[f"<0x{b:02X}>"] for b in range(128)]
    return [i for i in ids if words[i] and (p := parts[i]) and characters[ord(p.text)]]
