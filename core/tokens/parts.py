"""What every reader of tokenizers hands over, and what a vocabulary is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdec.core.errors import ModelError
from cdec.core.tokens.spec import FRAMING, Spec, continuation_spec, flagged_special_ids
from cdec.core.tokens.token_bytes import MAX_TOKENS, refuse_unfaithful, token_bytes
from cdec.core.tokens.tokenization import Tokenization

END_NAMES = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "<|im_end|>")
"""Special tokens that mean the end, for a tokenizer that does not say which one does."""
BEGIN_NAMES = ("<s>", "<bos>", "<|begin_of_text|>")


@dataclass(frozen=True, slots=True)
class UncheckedTokenizer:
    """A tokenizer as its source tells it.

    Attributes:
        spec: Its ``tokenizer.json``, as parsed.
        special_ids: Ids that stand for no text, beyond those the spec marks.
        eos_token_ids: Empty where the source does not say: then the usual names are looked for.
        bos_token_id: Likewise.
        name: Shown to people.
    """

    spec: Spec
    special_ids: set[int]
    eos_token_ids: set[int]
    bos_token_id: int | None
    name: str


@dataclass(frozen=True, slots=True)
class TokenizerParts:
    """All that ``Vocabulary`` is constructed from."""

    token_bytes: list[bytes]
    eos_token_ids: list[int]
    special_token_ids: set[int]
    bos_token_id: int | None
    tokenization: Tokenization
    name: str


def assemble(given: UncheckedTokenizer) -> TokenizerParts:
    """Turn a tokenizer as read into bytes, special ids and an encoder of continuation text.

    Raises:
        ModelError: Its tokens are not byte strings, it has none that are text, or its file says
            something that the ``tokenizers`` library never writes.
    """
    try:
        return _assemble(given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"{given.name}: the tokenizer's file is damaged: {type(error).__name__}: {error}",
            hint="Fetch the file again, or save the tokenizer with a current transformers.",
        ) from error


def _assemble(given: UncheckedTokenizer) -> TokenizerParts:
    refuse_unfaithful(given.spec)
    hidden = given.special_ids | flagged_special_ids(given.spec)
    eos = given.eos_token_ids or _first_named(given.spec, END_NAMES, hidden)
    bos = given.bos_token_id
    if bos is None:
        bos = next(iter(_first_named(given.spec, BEGIN_NAMES, hidden)), None)
    # subtle: a generation configuration may end sequences with an ordinary token, say a newline.
    # It ends them, but how text is encoded, and so the hash, does not depend on it.
    special = hidden | eos | (set() if bos is None else {bos})
    wrong = [token_id for token_id in special if not 0 <= token_id < MAX_TOKENS]
    if wrong:
        raise ModelError(
            f"{given.name}: a special token has the id {wrong[0]}, expected 0 <= id < {MAX_TOKENS}",
            hint="Check eos_token_id in generation_config.json and the tokenizer's files.",
            token_id=wrong[0],
        )
    spec = continuation_spec(given.spec, hidden)
    table = token_bytes(spec, special)
    if not any(table):
        # subtle: transformers builds a tokenizer of two special tokens, without a word, for a
        # folder that holds a model and no tokenizer.
        raise ModelError(
            f"{given.name}: the tokenizer has no token that is text",
            hint="Check that the tokenizer's files lie beside the model, or name another one.",
        )
    framing = {name: given.spec.get(name) for name in FRAMING}
    tokenization = Tokenization(spec, hidden, framing)
    return TokenizerParts(table, sorted(eos), special, bos, tokenization, given.name)


def _first_named(spec: Spec, names: Iterable[str], special: set[int]) -> set[int]:
    ids = {t["content"]: t["id"] for t in spec["added_tokens"] if t["id"] in special}
    found = next((ids[name] for name in names if name in ids), None)
    return set() if found is None else {found}
