"""A tree on disk: the prefixes of one record, for a later run of the same record to go on with.

What a tree certifies holds for one model, warping, prompt, constraint and length limit; the file
says which (``tree_key``), and reading it back checks more than the words: what the constraint
forbids at the prefixes nearest to the root, and what the model says there. The law of later draws
is that of one long run; the draws themselves are not, since rounds begin anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.read import ArtifactFile, ArtifactKind, ArtifactLimits, map_verified
from cdec.core.artifacts.write import write_artifact
from cdec.core.constraint import DEAD
from cdec.core.errors import ArtifactError, ArtifactInvalidError, OutputError, UsageError
from cdec.core.files.whole import refuse_existing
from cdec.core.mask import allocate_mask
from cdec.samplers.learning.saved import columns as tree_columns
from cdec.samplers.learning.saved.key import mismatch, require_same_key, tree_key
from cdec.samplers.learning.tree.kernels import EVALUATED
from cdec.samplers.walks.batch import FREE

if TYPE_CHECKING:
    from cdec.samplers.walks.batch import Batch

MAX_BYTES = 4 << 30
"""Largest file that is read, bytes: some 170 million prefixes."""
_MASKS = 256
"""Prefixes, the nearest to the root, at which masks are compared."""
_PROBES = 8
"""Of these, the prefixes at which the model is asked again, if they have children."""
_NOISE = {8: 1e-6, 4: 0.25}
"""How far a log P may be from the stored one, by the bytes of a score: batching changes the last
digits of bfloat16 weights' scores."""
_MAX_CANDIDATES = 1 << 53
_ELSEWHERE = "Name a file in a folder that can be written to with `tree`."


KIND = "tree"
KINDS: Mapping[str, ArtifactKind] = {
    KIND: ArtifactKind(tree_columns.COLUMNS, tree_columns.check_shape, tree_columns.check, 1)
}


@dataclass
class TreeFile:
    """Where a record's tree comes from and goes to.

    Attributes:
        path: The file; it need not be there.
        names: What tells the constraint from others, in words that messages use; None takes the
            digest of the constraint's artifact (what narrows it is then seen by its masks alone).
        max_bytes: Largest file that is read.
        candidates: How many candidates the tree has learnt from, all runs together.
    """

    path: Path
    names: Mapping[str, str] | None = None
    max_bytes: int = MAX_BYTES
    candidates: int = 0
    _key: dict[str, str] = field(default_factory=dict, repr=False)

    def load(self, batch: Batch) -> int:
        """Enter the file's tree into a batch that has drawn nothing, if the file is there.

        Args:
            batch: Of one record; its tree keeps states.

        Returns:
            How many candidates it has learnt from: the next one's number.

        Raises:
            UsageError: The record has no constraint.
            TreeMismatchError: A tree of another model, warping, prompt, constraint or limit.
            ArtifactError, InputMissingError, LimitError: A file that is no tree, is damaged, cannot
                be read or is too large.
            OutputError: The file could not be written later.
        """
        if batch.session_of[0] == FREE:
            raise UsageError("a tree is about a constraint, and the record has none")
        self.require_writable()
        self._key = tree_key(batch, self.names)
        self.candidates = 0
        if self.path.exists():
            try:
                self.candidates = self._load(batch)
            except ArtifactError as error:
                error.hint = "Name another file with `tree`; a damaged tree cannot be mended."
                raise
        return self.candidates

    def require_writable(self) -> None:
        """Check, before anything is drawn, that the tree can be kept.

        Raises:
            OutputError: No such folder, no permission, or no regular file.
        """
        try:
            refuse_existing(self.path, force=True)
        except OutputError as error:
            error.hint = _ELSEWHERE
            raise
        if not os.access(self.path.parent, os.W_OK):
            raise OutputError(
                f"cannot write {self.path}: no permission in {self.path.parent}",
                hint=_ELSEWHERE,
                path=str(self.path),
            )

    def save(self, batch: Batch, candidates: int, round_size: int) -> None:
        """Write the tree, in the place of an older file.

        Args:
            batch: As for ``load``, after its draws.
            candidates: How many candidates the tree has learnt from, all runs together.
            round_size: Of this run; a note for readers.

        Raises:
            OutputError: It cannot be written.
        """
        self.candidates = candidates
        if not candidates:
            return
        batch.tree.update()
        nodes = tree_columns.level_order(batch, 0)
        arrays = tree_columns.to_arrays(batch, 0, nodes)
        metadata = {
            "cdec.tree_key": json.dumps(self._key),
            "cdec.tree_masks": _mask_digest(batch, batch.tree["state"][nodes]),
            "cdec.tree_candidates": str(candidates),
            "cdec.tree_round": str(round_size),
        }
        write_artifact(self.path, KIND, arrays, metadata, force=True)

    def _load(self, batch: Batch) -> int:
        file = map_verified(self.path, KINDS, ArtifactLimits(self.max_bytes), copy=True)
        name = str(self.path)
        require_same_key(name, _recorded_key(file), self._key)
        candidates = _recorded_candidates(file)
        restored = tree_columns.restore(batch, 0, file.arrays, name)
        same = not np.any(restored.states == DEAD)
        masks = _mask_digest(batch, restored.states) if same else ""
        if masks != file.metadata.get("cdec.tree_masks"):
            raise mismatch(name, "of another constraint (other tokens are allowed)", ["constraint"])
        tree_columns.check_bounds(batch, 0, restored, name)
        _check_model(batch, file.arrays, restored.nodes, name)
        return candidates


def _mask_digest(batch: Batch, states: NDArray[np.int64]) -> str:
    """Return a digest of the tokens allowed at the first of a tree's states, int64[n]."""
    first = states[:_MASKS]
    session = batch.sessions[int(batch.session_of[0])]
    mask = allocate_mask(len(first), batch.model.vocabulary.width, batch.model.device)
    session.fill_mask(batch.index(first), mask)
    return hashlib.sha256(np.ascontiguousarray(batch.to_host(mask)).tobytes()).hexdigest()


def _check_model(
    batch: Batch, arrays: Mapping[str, NDArray[Any]], nodes: NDArray[np.int64], path: str
) -> None:
    """Ask the model again at some nodes, and compare with what led to their children.

    Raises:
        TreeMismatchError: It says something else.
    """
    parent = arrays["parent"][1:]
    asked = np.unique(parent)[:_PROBES]
    if not asked.size:
        return
    tree = batch.tree
    # They are paid for by the run's first candidate, which passes the root at least.
    tree["draw"][nodes[asked]] = 0
    tree["flags"][nodes[asked]] |= np.uint8(EVALUATED)
    scores = batch.model.next_logprobs(nodes[asked])
    children = np.flatnonzero(np.isin(parent, asked)) + 1
    rows = np.searchsorted(asked, arrays["parent"][children])
    tokens = arrays["token"][children].astype(np.int64)
    log_p = batch.to_host(scores[batch.index(rows), batch.index(tokens)])
    noise = _NOISE[log_p.dtype.itemsize]
    with np.errstate(invalid="ignore"):
        off = np.abs(log_p.astype(np.float64) - arrays["edge"][children])
    if not bool(np.all(off <= noise)):
        raise mismatch(path, "of another model (it gives other probabilities)", ["model"])


def _recorded_key(file: ArtifactFile) -> dict[str, object]:
    try:
        key = json.loads(file.metadata["cdec.tree_key"])
    except (KeyError, ValueError, RecursionError):
        key = None
    if not isinstance(key, dict):
        raise ArtifactInvalidError(f"{file.path} does not say what its tree is of")
    return key


def _recorded_candidates(file: ArtifactFile) -> int:
    text = file.metadata.get("cdec.tree_candidates", "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    if not 0 < number < _MAX_CANDIDATES:
        raise ArtifactInvalidError(f"{file.path} was grown by {text[:20]!r} candidates")
    return number
