"""Artifacts: one Arrow IPC file each, verified, memory-mapped and opened as a constraint.

Writing is ``write``, reading and verifying ``read``; what the columns of a kind must hold is one
file a kind, named in ``CONSTRAINTS``. ``open_artifact`` is ``bind_artifact`` of ``read_artifact``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from cdec.core.artifacts.read import ArtifactFile, ArtifactKind, ArtifactLimits, map_verified
from cdec.core.artifacts.write import write_artifact
from cdec.core.constraint import Constraint
from cdec.core.errors import ArtifactInvalidError, TokenizerMismatchError
from cdec.core.grammars import artifact as grammar
from cdec.core.sets.artifact import COLUMNS, check_set, open_set
from cdec.core.tokens.vocabulary import Vocabulary

__all__ = [
    "CONSTRAINTS",
    "ArtifactFile",
    "ArtifactKind",
    "ArtifactLimits",
    "bind_artifact",
    "open_artifact",
    "read_artifact",
    "write_artifact",
]

CONSTRAINTS: Mapping[str, ArtifactKind] = {
    "set": ArtifactKind(COLUMNS, check_set, 1, open_set),
    "grammar": ArtifactKind(grammar.COLUMNS, grammar.check_grammar, 1, grammar.open_grammar),
}
"""Every kind of artifact this version reads."""


def open_artifact(
    path: str | Path,
    *,
    vocabulary: Vocabulary | None = None,
    limits: ArtifactLimits | None = None,
) -> Constraint:
    """Open an artifact as a constraint.

    Args:
        path: The file.
        vocabulary: The vocabulary of the model that will draw; default: the token bytes stored in
            the artifact, enough to inspect and check without a tokenizer.
        limits: What reading may cost.

    Returns:
        The constraint. Cost: a read of the file the first time, milliseconds afterwards.

    Raises:
        InputMissingError: No such file.
        ArtifactFormatError, ArtifactVersionError, ArtifactSchemaError, ArtifactChecksumError,
        ArtifactInvalidError: A damaged or foreign file.
        TokenizerMismatchError: Compiled for another vocabulary, tokenisation or end of sequence.
        LimitError: Larger than the limits, or compressed.
    """
    return bind_artifact(read_artifact(path, limits=limits), vocabulary)


def read_artifact(path: str | Path, *, limits: ArtifactLimits | None = None) -> ArtifactFile:
    """Map and verify an artifact file, whatever its vocabulary.

    Args:
        path: The file.
        limits: What reading may cost.

    Returns:
        Kind, schema metadata and arrays (read-only views of the map). Cost: a read of the file the
        first time, milliseconds afterwards.

    Raises:
        As ``open_artifact``, but for the mismatch.
    """
    return map_verified(Path(path), CONSTRAINTS, limits or ArtifactLimits())


def bind_artifact(file: ArtifactFile, vocabulary: Vocabulary | None = None) -> Constraint:
    """Open a verified artifact for a vocabulary; the file is not read again.

    So an artifact can be refused before a model loads, and opened for the model's vocabulary after.

    Args:
        file: As ``read_artifact`` gives it.
        vocabulary: As in ``open_artifact``.

    Returns:
        The constraint. Cost: independent of the size of the artifact.

    Raises:
        ArtifactInvalidError: Its end-of-sequence ids are no token ids.
        TokenizerMismatchError: Compiled for another vocabulary, tokenisation or end of sequence.
    """
    recorded_eos = _recorded_eos(file)
    if vocabulary is None:
        vocabulary = _stored_vocabulary(file, recorded_eos)
    _check_fingerprints(file, vocabulary, recorded_eos)
    return CONSTRAINTS[file.kind].open(file, vocabulary)


def _recorded_eos(file: ArtifactFile) -> tuple[int, ...]:
    try:
        ids = json.loads(file.metadata["cdec.eos"])
    except (KeyError, ValueError, RecursionError):
        ids = None
    size = int(file.metadata["cdec.vocabulary_size"])
    if not isinstance(ids, list) or any(type(i) is not int or not 0 <= i < size for i in ids):
        raise ArtifactInvalidError(
            f"{file.path}: cdec.eos is no list of token ids",
            hint="compile the artifact again",
            path=str(file.path),
        )
    return tuple(sorted(set(ids)))


def _stored_vocabulary(file: ArtifactFile, eos: tuple[int, ...]) -> Vocabulary:
    """Make a vocabulary from the token bytes in the artifact; ids without bytes are special."""
    flat = file.arrays["vocabulary_bytes"].tobytes()
    offsets = file.arrays["vocabulary_offsets"].tolist()
    token_bytes = [flat[a:b] for a, b in pairwise(offsets)]
    special = np.flatnonzero(np.diff(file.arrays["vocabulary_offsets"]) == 0).tolist()
    name = file.metadata.get("cdec.vocabulary_name", "")
    return Vocabulary(token_bytes, eos, special, name=name)


def _check_fingerprints(file: ArtifactFile, vocabulary: Vocabulary, eos: tuple[int, ...]) -> None:
    """Compare vocabulary, tokenisation and end-of-sequence ids with the recorded ones."""
    hash_recorded = file.metadata.get("cdec.vocabulary_hash", "")
    splits_recorded = file.metadata.get("cdec.tokenization_hash", "")
    splits = vocabulary.tokenization_hash
    if hash_recorded != vocabulary.vocabulary_hash:
        raise _mismatch(file, "vocabulary", hash_recorded, vocabulary.vocabulary_hash, vocabulary)
    if splits_recorded and splits is not None and splits_recorded != splits:
        raise _mismatch(file, "tokenisation", splits_recorded, splits, vocabulary)
    if eos != vocabulary.eos_token_ids:
        found, expected = str(list(eos)), str(list(vocabulary.eos_token_ids))
        raise _mismatch(file, "end-of-sequence ids", found, expected, vocabulary)


def _mismatch(
    file: ArtifactFile, what: str, recorded: str, found: str, vocabulary: Vocabulary
) -> TokenizerMismatchError:
    name = file.metadata.get("cdec.vocabulary_name") or "another tokenizer"
    return TokenizerMismatchError(
        f"{file.path} was compiled for {name}: its {what} is {recorded}, that of "
        f"{vocabulary.name or 'the model'} is {found}",
        hint="compile the artifact again with this model's tokenizer",
        path=str(file.path),
        artifact=recorded,
        model=found,
    )
