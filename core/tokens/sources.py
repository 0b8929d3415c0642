"""Vocabularies of named tokenizers: a tokenizer object, a folder, a name of the hub, a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from cdec.core.errors import ModelError, TrustError, UsageError
from cdec.core.tokens.files import (
    check_spec,
    end_ids,
    generation_eos,
    read_bounded,
    read_sentencepiece,
    read_tokenizer_file,
)
from cdec.core.tokens.locations import (
    HubUnavailable,
    hub_unavailable,
    is_shipped,
    located,
    named,
    require_hub_name,
)
from cdec.core.tokens.spec import (
    FRAMING,
    MAX_TOKENS,
    Spec,
    Tokenization,
    UncheckedTokenizer,
    continuation_spec,
    flagged_special_ids,
    refuse_unfaithful,
    token_bytes,
)
from cdec.core.tokens.vocabulary import Vocabulary

END_NAMES = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "<|im_end|>")
"""Special tokens that mean the end, for a tokenizer that does not say which one does."""
BEGIN_NAMES = ("<s>", "<bos>", "<|begin_of_text|>")


def assemble(given: UncheckedTokenizer) -> Vocabulary:
    """Turn a tokenizer as read into a vocabulary that encodes continuation text.

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


def _assemble(given: UncheckedTokenizer) -> Vocabulary:
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
    return Vocabulary(
        table,
        sorted(eos),
        special,
        bos_token_id=bos,
        tokenization=tokenization,
        name=given.name,
        special_tokens={
            token["content"]: token["id"]
            for token in given.spec["added_tokens"]
            if token["id"] in special and token["content"]
        },
    )


def _first_named(spec: Spec, names: Iterable[str], special: set[int]) -> set[int]:
    ids = {t["content"]: t["id"] for t in spec["added_tokens"] if t["id"] in special}
    found = next((ids[name] for name in names if name in ids), None)
    return set() if found is None else {found}


_HUGGING_FACE = ("tokenizer_config.json", "config.json")
"""A folder with one of these is for ``AutoTokenizer``, if it has a vocabulary as well."""
_VOCABULARIES = (
    "tokenizer.json*",
    "tekken*.json*",
    "vocab.json*",
    "encoder.json*",
    "*.model",
    "*.model.*",
    "*.tiktoken*",
    "*.spm",
    "vocab.txt",
)


def read_tokenizer(
    source: Any, *, width: int | None = None, revision: str | None = None
) -> Vocabulary:
    """Read any tokenizer; see ``Vocabulary.from_tokenizer`` for the sources and errors."""
    made = assemble(_unchecked(source, revision))
    return made if width is None else made.with_width(width)


def _unchecked(source: Any, revision: str | None) -> UncheckedTokenizer:
    if not isinstance(source, str | os.PathLike):
        return _from_object(source)
    path = Path(located(source)).expanduser()
    if path.is_dir():
        return _from_folder(path)
    if path.exists():
        return read_tokenizer_file(path)
    return _from_hub(str(source), revision)


def _from_object(tokenizer: Any) -> UncheckedTokenizer:
    """Read a ``tokenizers.Tokenizer``, or a transformers tokenizer; neither is changed."""
    # A transformers tokenizer has no to_str of its own, but the tokenizers object it wraps has.
    if hasattr(tokenizer, "to_str"):
        return UncheckedTokenizer(_spec_of(tokenizer, "tokenizer"), set(), set(), None, "tokenizer")
    if not hasattr(tokenizer, "all_special_ids"):
        raise UsageError(
            f"a {type(tokenizer).__name__} is no tokenizer; expected a transformers or tokenizers "
            "tokenizer, a folder, a file or a hub name"
        )
    name = named(str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__))
    special = {int(token_id) for token_id in tokenizer.all_special_ids}
    eos = set() if tokenizer.eos_token_id is None else {int(tokenizer.eos_token_id)}
    bos = None if tokenizer.bos_token_id is None else int(tokenizer.bos_token_id)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    pieces = _sentencepiece_origin(tokenizer, name)
    if backend is not None and hasattr(backend, "to_str"):
        spec = _spec_of(backend, name)
        if pieces is not None:
            _take_merges(spec, pieces.spec)
        return UncheckedTokenizer(spec, special, eos, bos, name)
    if pieces is not None:
        return UncheckedTokenizer(pieces.spec, pieces.special_ids | special, eos, bos, name)
    raise ModelError(
        f"{name}: the tokenizer of class {type(tokenizer).__name__} has no fast form",
        hint="Name its tokenizer.json, tokenizer.model or tekken.json instead.",
        tokenizer_class=type(tokenizer).__name__,
    )


def _sentencepiece_origin(tokenizer: Any, name: str) -> UncheckedTokenizer | None:
    """Return the SentencePiece model that transformers converted, None where it read a JSON."""
    named = getattr(tokenizer, "vocab_file", None)
    if not isinstance(named, str) or ".model" not in Path(named).name:
        return None
    file = Path(named)
    if not file.is_file() or (file.parent / "tokenizer.json").exists():
        return None
    return read_sentencepiece(read_bounded(file), name)


def _take_merges(spec: dict[str, Any], pieces: dict[str, Any]) -> None:
    # subtle: transformers 5.23 converts a Llama model's pieces with its merges in the order of ids,
    # where SentencePiece goes by score: it gives "a  b" other tokens than the model was trained on.
    if spec["model"]["type"] == "BPE" and spec["model"]["vocab"] == pieces["model"]["vocab"]:
        spec["model"]["merges"] = pieces["model"]["merges"]


def _spec_of(backend: Any, name: str) -> dict[str, Any]:
    try:
        return check_spec(orjson.loads(backend.to_str()), name)
    except Exception as error:  # a component written in Python cannot be serialised
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"{name}: the tokenizer cannot be written as JSON: {error}",
            hint="Replace its custom Python components, or name its file instead.",
        ) from error


def vocabulary_files(folder: Path) -> list[Path]:
    """Return the files of a folder that may hold a tokenizer's vocabulary.

    Raises:
        ModelError: There is none.
    """
    found = [file for pattern in _VOCABULARIES for file in sorted(folder.glob(pattern))]
    if not found:
        raise ModelError(
            f"the folder {folder} has no tokenizer: none of {', '.join(_VOCABULARIES)}",
            hint="Save the tokenizer beside the model, or name another tokenizer.",
            path=str(folder),
        )
    return found


def _from_folder(folder: Path) -> UncheckedTokenizer:
    vocabularies = vocabulary_files(folder)
    name = named(str(folder))
    if is_shipped(name):
        # The same as through transformers, whose import takes seconds.
        given = read_tokenizer_file(folder / "tokenizer.json")
    elif any((folder / file).exists() for file in _HUGGING_FACE):
        given = _auto_tokenizer(str(folder), None)
    else:
        given = read_tokenizer_file(_only_one(folder, vocabularies))
    eos = given.eos_token_ids | generation_eos(folder)
    return UncheckedTokenizer(given.spec, given.special_ids, eos, given.bos_token_id, name)


def _only_one(folder: Path, files: list[Path]) -> Path:
    # tokenizer.model and tekken.json of one folder are two forms of one tokenizer; two versions of
    # one form are not, and guessing would give another model's tokens.
    names = {file.name.removesuffix(".xz") for file in files}
    if len(names) > 1:
        raise ModelError(
            f"the folder {folder} has several tokenizers: {', '.join(sorted(names))}",
            hint="Name one of the files.",
            path=str(folder),
        )
    return files[0]


def _from_hub(name: str, revision: str | None) -> UncheckedTokenizer:
    require_hub_name(name, f"there is no tokenizer at {name!r}: neither a file nor a folder")
    unavailable = hub_unavailable()
    given = _auto_tokenizer(name, revision, unavailable)
    eos = given.eos_token_ids | _hub_eos(name, revision, unavailable)
    return UncheckedTokenizer(given.spec, given.special_ids, eos, given.bos_token_id, name)


def _auto_tokenizer(
    name: str, revision: str | None, unavailable: HubUnavailable | None = None
) -> UncheckedTokenizer:
    """Load a tokenizer of a folder or the hub; ``unavailable`` says why the hub is not asked."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            name,
            revision=revision,
            trust_remote_code=False,
            local_files_only=unavailable is not None,
        )
    except Exception as error:  # the library raises OSError, ValueError, ImportError, KeyError, ...
        first = str(error).strip().partition("\n")[0]
        if "trust_remote_code" in str(error):
            raise TrustError(
                f"{name}: the tokenizer wants to run its own code, which is not allowed",
                hint="Name its tokenizer.json, tokenizer.model or tekken.json instead.",
                name=name,
            ) from error
        raise ModelError(
            f"the tokenizer {name} cannot be loaded: {first}"
            if unavailable is None
            else f"the tokenizer {name} is not on this machine, and {unavailable.reason}",
            hint="Check the name, or name a local folder."
            if unavailable is None
            else unavailable.hint,
            name=name,
        ) from error
    return _from_object(tokenizer)


def _hub_eos(name: str, revision: str | None, unavailable: HubUnavailable | None) -> set[int]:
    from transformers import GenerationConfig

    try:
        config = GenerationConfig.from_pretrained(
            name, revision=revision, local_files_only=unavailable is not None
        )
    except (OSError, ValueError):  # most repositories of mere tokenizers have none
        return set()
    return end_ids(config.eos_token_id)
