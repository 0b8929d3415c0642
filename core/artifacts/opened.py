"""Artifacts opened as constraints: their base class, and the kinds of ``cdec.core.kinds``."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from os import fspath
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from cdec.core.artifacts.read import (
    UNNAMED,
    ArtifactFile,
    ArtifactKind,
    ArtifactLimits,
    map_verified,
    verify_bytes,
)
from cdec.core.artifacts.write import DIGEST_KEY, digest_of_arrays
from cdec.core.constraint import Constraint, Facts, no_set, no_use
from cdec.core.errors import ArtifactInvalidError, TokenizerMismatchError, UsageError
from cdec.core.files.fetched import local_copy
from cdec.core.files.remote import FilePath, place_of
from cdec.core.kinds import SOURCE_KINDS, artifact_kinds, found
from cdec.core.progress import Progress, silent
from cdec.core.shown import cut, line
from cdec.core.tokens.vocabulary import Vocabulary


class TreeReport(Protocol):
    """Part of what an artifact compiled its texts to, for people and programs."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-ready data; bytes that are no UTF-8 are escaped."""

    def lines(self) -> list[str]:
        """Return it as indented lines, every text quoted; control characters are as they are."""


class StoredConstraint(Constraint):
    """The base of every constraint that ``cdec.core.kinds.SOURCE_KINDS`` names.

    What it can be asked belongs to the class, so that options are refused before a file is opened.

    Attributes:
        artifact: Columns of the file and their check.
        of_kind: What is declared of all artifacts of the kind.
        metadata: Of the file.
        memo_bytes: Most bytes of masks and memos that its sessions keep for each other from call to
            call, if any; set before the first. What they need in any case is not counted.
        tree_parameters: Names of the parameters that ``tree`` takes; none where there is no tree.
        size_said: How many members there are, for people; empty where they are no list.
    """

    artifact: ClassVar[ArtifactKind]
    of_kind: ClassVar[Facts]
    metadata: Mapping[str, str]
    memo_bytes: int = 0
    tree_parameters: ClassVar[frozenset[str]] = frozenset()
    size_said: str = ""

    @classmethod
    @abstractmethod
    def from_file(cls, file: ArtifactFile, vocabulary: Vocabulary) -> StoredConstraint:
        """Open a verified artifact of this kind; the vocabulary's fingerprints agree with it."""

    @classmethod
    def own_tokens(
        cls, token_bytes: list[bytes], metadata: Mapping[str, str]
    ) -> tuple[list[bytes], Mapping[str, int]]:
        """Return the bytes of the vocabulary that was compiled for, and its special tokens' words.

        Args:
            token_bytes: Of the artifact's columns.
            metadata: Of the artifact.
        """
        return token_bytes, {}

    def member_texts(self) -> Any:
        """Return its texts, for constraints that hold them within; None where they are no such."""
        return None

    @classmethod
    def looks_ahead(cls, metadata: Mapping[str, str]) -> bool:
        """Say whether a lookahead can change the masks of an artifact with these metadata."""
        return cls.of_kind.has_terminals

    def with_sets(self, sets: Mapping[str, Any]) -> StoredConstraint:
        """Return this constraint with the sets that it holds within it."""
        if not sets:
            return self
        raise no_set(self, next(iter(sets)))

    def with_lookahead(self, lookahead: int | None) -> StoredConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        raise no_use(self, "lookahead")

    def __repr__(self) -> str:
        source, name = self.metadata.get("cdec.source", ""), self.vocabulary.name
        has_name = source and not source.startswith("<")
        text = self.metadata.get(f"cdec.{self.of_kind.kind}", "")
        return line(
            type(self).__name__,
            repr(source) if has_name else cut(text) if text else "",
            self.size_said,
            f"for {name!r}" if name else "",
        )

    def summary(self) -> dict[str, Any]:
        """Return what the artifact's metadata say, JSON-ready; law: its ``kind`` is this one's."""
        return {
            key.removeprefix("cdec."): _json_or_text(value) for key, value in self.metadata.items()
        }

    def statistics(self) -> Mapping[str, int | float]:
        """Return sizes by name: counts, bytes."""
        return {}

    def tree(self, **parameters: int) -> TreeReport:
        """Return part of the compiled structure.

        Args:
            parameters: Those of ``tree_parameters``; all have defaults.

        Raises:
            UsageError: There is nothing to show.
        """
        raise UsageError(f"`tree` means nothing to a {self.of_kind.kind}", hint="leave it out")

    @property
    def terminal_patterns(self) -> Mapping[str, str]:
        """Regular expressions of the terminals that ``explain`` names, by name."""
        return {}

    def explain(self, token_ids: Sequence[int], *, shown: int = 10) -> Iterator[dict[str, Any]]:
        """Step through the tokens of a text: what each was read as, and what it left open.

        Raises:
            UsageError: Texts are not read as terminals.
        """
        kind = self.of_kind.kind
        raise UsageError(f"`explain` means nothing to a {kind} artifact", hint="leave it out")


def constraint_class(kind: str) -> type[StoredConstraint]:
    """Return the class that artifacts of a kind open as.

    Raises:
        KeyError: There is no such kind.
    """
    if kind not in artifact_kinds():
        raise KeyError(kind)
    opened: type[StoredConstraint] = found(SOURCE_KINDS[kind].constraint)
    return opened


class _Kinds(Mapping[str, ArtifactKind]):
    """What the files of each kind hold, read off its class."""

    def __getitem__(self, kind: str) -> ArtifactKind:
        return constraint_class(kind).artifact

    def __iter__(self) -> Iterator[str]:
        return iter(artifact_kinds())

    def __len__(self) -> int:
        return len(artifact_kinds())


KINDS: Mapping[str, ArtifactKind] = _Kinds()
"""Columns and checks of every kind of artifact."""


def open_artifact(
    path: FilePath,
    *,
    vocabulary: Vocabulary | None = None,
    limits: ArtifactLimits | None = None,
    copy: bool = False,
    sets: Mapping[str, Any] | None = None,
) -> StoredConstraint:
    """Open an artifact as a constraint.

    Args:
        path: The file, or the text of a URL (``s3://...``), as ``read_artifact`` takes it.
        vocabulary: The vocabulary of the model that will draw; default: the token bytes stored in
            the artifact, enough to inspect and check without a tokenizer.
        limits: What reading may cost.
        copy: As for ``read_artifact``.
        sets: Those that it holds within it, by name, as ``with_sets`` takes them.

    Returns:
        The constraint. Cost: a read of the file the first time, milliseconds afterwards.

    Raises:
        InputMissingError: No such file.
        ExtraMissingError: A URL whose package is not installed.
        ArtifactError: A damaged or foreign file: format, version, schema, checksum or ranges.
        TokenizerMismatchError: Compiled for another vocabulary, tokenisation or end of sequence.
        LimitError: Larger than the limits, or compressed.
    """
    opened = bind_artifact(read_artifact(path, limits=limits, copy=copy), vocabulary)
    return opened.with_sets(sets or {})


def bind_artifact(file: ArtifactFile, vocabulary: Vocabulary | None = None) -> StoredConstraint:
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
    return constraint_class(file.kind).from_file(file, vocabulary)


def require_vocabulary(file: ArtifactFile, vocabulary: Vocabulary) -> None:
    """See whether a verified artifact was compiled for a vocabulary; it is not opened.

    Raises:
        ArtifactInvalidError: Its end-of-sequence ids are no token ids.
        TokenizerMismatchError: Compiled for another vocabulary, tokenisation or end of sequence.
    """
    _check_fingerprints(file, vocabulary, _recorded_eos(file))


def open_bytes(data: Any, vocabulary: Vocabulary) -> StoredConstraint:
    """Open an artifact that nobody else will: verified, but not remembered in the user's cache.

    Args:
        data: The whole file, bytes or a map of it.
        vocabulary: Of the model that will draw.

    Raises:
        As ``open_artifact``.
    """
    return bind_artifact(verify_bytes(data, KINDS), vocabulary)


def bind_arrays(
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, str],
    vocabulary: Vocabulary,
) -> StoredConstraint:
    """Open what a compiler has just made, without a file; nothing is verified.

    Args:
        kind: One of ``artifact_kinds``.
        arrays: The columns; they become read-only.
        metadata: As ``write_artifact`` takes it; a digest of the columns is added.
        vocabulary: What it was compiled for.

    Returns:
        The constraint. Cost: one read of the columns.
    """
    for array in arrays.values():
        array.flags.writeable = False
    own = {"cdec.kind": kind, DIGEST_KEY: digest_of_arrays(arrays, metadata)}
    return bind_artifact(
        ArtifactFile(kind, dict(metadata) | own, dict(arrays), UNNAMED), vocabulary
    )


def read_artifact(
    path: FilePath,
    *,
    limits: ArtifactLimits | None = None,
    copy: bool = False,
    progress: Progress = silent,
) -> ArtifactFile:
    """Map and verify an artifact file, whatever its vocabulary.

    Args:
        path: The file. That of a URL is fetched once into the user's cache directory, and again
            when it has changed; what is then opened is the copy, by the same checks.
        limits: What reading may cost.
        copy: Read it into memory; else only files of at most ``COPIED_BYTES`` are, and larger ones
            are mapped: then they must not be cut or overwritten in place, for the system would end
            this process. What cdec writes takes the old file's name, and does neither.
        progress: Told how much of a URL's file is fetched.

    Returns:
        Kind, schema metadata and read-only arrays. Cost: a read of the file the
        first time, milliseconds afterwards.

    Raises:
        As ``open_artifact``, but for the mismatch.
    """
    limits = limits or ArtifactLimits()
    local = local_copy(path, max_bytes=limits.max_fetched_bytes, progress=progress)
    return map_verified(local, KINDS, limits, copy=copy, name=place_of(fspath(path)))


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
    columns = [flat[a:b] for a, b in pairwise(offsets)]
    token_bytes, words = constraint_class(file.kind).own_tokens(columns, file.metadata)
    special = [token for token, data in enumerate(token_bytes) if not data]
    name = file.metadata.get("cdec.vocabulary_name", "")
    return Vocabulary(token_bytes, eos, special, name=name, special_tokens=words)


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
        f"{file.path} was compiled for {name}: its {what} is {recorded[:16]}, that of "
        f"{vocabulary.name or 'the model'} is {found[:16]}",
        hint="compile the artifact again with this model's tokenizer",
        path=str(file.path),
        artifact=recorded,
        model=found,
    )


def _json_or_text(value: str) -> Any:
    """Metadata values that are JSON objects, lists or counts become those; all else is text."""
    if value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    if value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
