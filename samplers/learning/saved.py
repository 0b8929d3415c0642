"""Trees on disk: the prefixes of one record, for a later run of the same record to go on with.

What a tree certifies holds for one model, warping, prompt, constraint and length limit; the file
says which (``tree_key``), and reading it back checks more than the words: what the constraint
forbids at the prefixes nearest to the root, and what the model says there. The law of later draws
is that of one long run; the draws themselves are not, since rounds begin anew.

Nodes stand level by level, children of one parent together and in the order of the tree's lists, so
that a tree that was read back adds up its bounds in the same order.
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
from cdec.core.constraint import DEAD, DONE
from cdec.core.errors import (
    ArtifactError,
    ArtifactInvalidError,
    OutputError,
    TreeMismatchError,
    UsageError,
)
from cdec.core.files.whole import refuse_existing
from cdec.core.mask import allocate_mask
from cdec.core.native import library
from cdec.samplers.prefix_tree import EVALUATED, EXACT, NIL, NOBODY, TERMINAL, Arrivals
from cdec.samplers.walks.batch import UNCONSTRAINED

if TYPE_CHECKING:
    from cdec.samplers.walks.batch import Batch

_SHOWN = 24
"""Characters of a part that a message shows."""


def tree_key(batch: Batch, names: Mapping[str, str] | None) -> dict[str, str]:
    """Return all that decides the masses of a record's tree, by what people call it.

    Args:
        batch: Of one record.
        names: What tells the constraint from others; None takes the digest of its artifact.

    Returns:
        Texts, JSON-ready. Seeds, methods and sizes of rounds are left out: a tree is true whatever
        drew its candidates.
    """
    model, request = batch.model, batch.requests[0]
    width = model.vocabulary.width
    prompt = model.encode_prompt(request.prompt)
    warping = model.warping
    digest = (
        ""
        if request.constraint is None
        else request.constraint.facts.metadata.get("cdec.digest", "")
    )
    constraint = {"constraint": digest} if names is None else names
    return {
        "model": model.fingerprint(),
        "vocabulary": f"{model.vocabulary.vocabulary_hash} of {width}",
        "end ids": str(list(model.vocabulary.eos_token_ids)),
        "warping": f"temperature {warping.temperature!r}, top-k {warping.top_k}, "
        f"top-p {warping.top_p}",
        "prompt": f"{hash_of(prompt)} of {len(prompt)} tokens",
        "length limit": str(int(batch.limits[0])),
        **({"stop_loops": "on"} if batch.stop_loops else {}),
        **constraint,
    }


def hash_of(value: object) -> str:
    """Return a hash of something JSON-ready."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def require_same_key(path: str, found: Mapping[str, object], expected: Mapping[str, str]) -> None:
    """Check that a file's tree is the one that the run needs.

    Raises:
        TreeMismatchError: It is not; names every part that differs.
    """
    names = list(dict.fromkeys([*expected, *found]))
    differing = [name for name in names if found.get(name) != expected.get(name)]
    if differing:
        shown = "; ".join(
            f"{name}: {_shown(found.get(name))}, the run has {_shown(expected.get(name))}"
            for name in differing
        )
        raise mismatch(path, f"of another {' and '.join(differing)} ({shown})", differing)


def mismatch(path: str, what: str, differing: list[str]) -> TreeMismatchError:
    """Return the error of a tree that is not the run's."""
    return TreeMismatchError(
        f"{path} holds a tree {what}; its bounds would not be true here",
        hint="Name another file with `tree`, or give the run what the tree was grown with.",
        path=path,
        differing=differing,
    )


def _shown(part: object) -> str:
    text = "none" if part is None or part == "" else str(part)
    return text if len(text) <= 2 * _SHOWN else f"{text[:_SHOWN]}..."


COLUMNS: Mapping[str, str] = {
    "parent": "int32",
    "token": "int32",
    "edge": "float64",
    "mass": "float64",
    "flags": "uint8",
    "totals": "float64",
}
"""Columns of a file: 25 bytes a node; ``totals`` are log_found and log_truncated."""
_KEPT = EXACT | TERMINAL
_ROUNDING = 1e-3
"""How far above 0 the rounding of float32 scores may carry a log of a mass."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A tree that was read back.

    Attributes:
        nodes: int64[n] contexts, as the file's nodes stand.
        states: int64[n] constraint states, on the host.
    """

    nodes: NDArray[np.int64]
    states: NDArray[np.int64]


def level_order(batch: Batch, request: int) -> NDArray[np.int64]:
    """Return the visited nodes of a record that has been walked, level by level, int64[n]."""
    tree = batch.tree
    root = int(batch.roots[request])
    links = tree["first_child"], tree["next_sibling"]
    found = np.empty(len(links[0]), np.int64)
    return found[: library.tree_level_order(root, *links, found)]


def to_arrays(batch: Batch, request: int, nodes: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the tree of a record as ``COLUMNS``.

    Args:
        nodes: int64[n] as ``level_order`` gives them.
    """
    tree = batch.tree
    place = np.full(int(nodes.max()) + 1, NIL, np.int64)
    place[nodes] = np.arange(len(nodes))
    parents = tree["parent"][nodes]
    return {
        "parent": np.where(parents >= 0, place[parents], NIL).astype(np.int32),
        "token": tree["token"][nodes].astype(np.int32),
        "edge": tree["edge"][nodes],
        "mass": tree["mass"][nodes],
        "flags": tree["flags"][nodes] & np.uint8(_KEPT),
        "totals": np.array([tree.log_found[request], tree.log_truncated[request]]),
    }


def restore(batch: Batch, request: int, arrays: Mapping[str, NDArray[Any]], path: str) -> Restored:
    """Enter a tree that ``check`` has found good into a batch that has drawn nothing yet.

    Contexts of the model and states of the constraint are made anew, level by level.

    Args:
        batch: Its tree keeps states.
        request: The record.
        arrays: As ``to_arrays`` gives them. path: For messages.

    Returns:
        The nodes; a state is DEAD where the constraint forbids what the tree holds. Cost: O(n); the
        model is not asked.

    Raises:
        ArtifactInvalidError: Tokens or lengths that this model and limit cannot have.
    """
    parent, token = arrays["parent"].astype(np.int64), arrays["token"].astype(np.int64)
    _check_tokens(batch, token[1:], path)
    levels = _levels(parent, int(batch.limits[request]), path)
    count = len(parent)
    nodes, depth = np.zeros(count, np.int64), np.zeros(count, np.int64)
    states = np.zeros(count, np.int64)
    nodes[0] = batch.roots[request]
    states[:1] = batch.to_host(batch.start_states(np.array([request])))
    for level, (start, stop) in enumerate(levels[1:], 1):
        above, by = parent[start:stop], token[start:stop]
        nodes[start:stop] = batch.model.advance(nodes[above], by)
        owner = np.full(stop - start, request)
        moved = batch.advance_states(owner, batch.index(states[above]), batch.index(by))
        states[start:stop] = batch.to_host(moved)
        depth[start:stop] = level
    _enter(batch, request, arrays, nodes, depth)
    batch.tree["state"][nodes] = states
    return Restored(nodes, states)


def _enter(
    batch: Batch,
    request: int,
    arrays: Mapping[str, NDArray[Any]],
    nodes: NDArray[np.int64],
    depth: NDArray[np.int64],
) -> None:
    tree, count = batch.tree, len(nodes)
    # Lists grow at their heads: the last of each family first, after its parent's level.
    order = np.lexsort((-np.arange(count), depth))
    above = arrays["parent"][order].astype(np.int64)
    arrivals = Arrivals(
        context=nodes[order],
        parent=np.where(above >= 0, nodes[above], NIL),
        request=np.full(count, request),
        draw=np.full(count, NOBODY),
        log_edge=arrays["edge"][order],
        log_mass=arrays["mass"][order],
        flags=arrays["flags"][order],
    )
    tree.enter(arrivals)
    tree.log_found[request], tree.log_truncated[request] = arrays["totals"].tolist()
    tree.update()


def check_shape(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Check that there is a root, and one value of everything a node.

    Raises:
        ArtifactInvalidError: There is not.
    """
    count = len(arrays["parent"])
    for name in ("token", "edge", "mass", "flags"):
        _require(len(arrays[name]) == count, f"{len(arrays[name])} values of {name}, not {count}")
    _require(count > 0, "no root")
    _require(len(arrays["totals"]) == 2, "totals of something else")


def check(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Check what can be checked without the model: order, families, signs.

    Raises:
        ArtifactInvalidError: Something is wrong.
    """
    parent, flags = arrays["parent"], arrays["flags"]
    count = len(parent)
    _require(parent[0] == NIL, "no root")
    rest = parent[1:].astype(np.int64)
    _require(bool(np.all((rest >= 0) & (rest <= np.arange(count - 1)))), "a parent after its child")
    _require(bool(np.all(np.diff(rest) >= 0)), "levels out of order")
    keys = np.sort(rest << 32 | arrays["token"][1:].astype(np.int64) & 0xFFFFFFFF)
    _require(bool(np.all(np.diff(keys) > 0)), "a prefix twice")
    _require(not np.any(flags & ~np.uint8(_KEPT)), "unknown flags")
    _require(not np.any(flags[rest] & TERMINAL), "a text that goes on after its end")
    edge, mass = arrays["edge"], arrays["mass"]
    _require(bool(np.all(np.isfinite(edge) & (edge <= _ROUNDING))), "a step of no probability")
    # Comparisons are false for NaN.
    _require(bool(np.all(mass <= _ROUNDING)), "a mass above 1")
    totals = arrays["totals"]
    _require(bool(np.all(totals <= _ROUNDING)), "totals above 1")


def check_bounds(batch: Batch, request: int, restored: Restored, path: str) -> None:
    """Check what only the whole tree shows: that it bounds what was found, and where texts end.

    Raises:
        ArtifactInvalidError: It does not.
    """
    tree = batch.tree
    upper = tree.log_upper(int(batch.roots[request]))
    found = float(tree.log_found[request])
    _require(found <= upper + _ROUNDING, "more mass found than there is", path)
    ended = tree["flags"][restored.nodes] & TERMINAL > 0
    same = np.array_equal(restored.states == DONE, ended)
    _require(same, "texts that end where the constraint does not end them", path)


def _check_tokens(batch: Batch, tokens: NDArray[np.int64], path: str) -> None:
    width = batch.model.vocabulary.width
    _require(bool(np.all((tokens >= 0) & (tokens < width))), "a token outside the vocabulary", path)
    _require(not batch.is_end[tokens].any(), "an end id inside a text", path)


def _levels(parent: NDArray[np.int64], limit: int, path: str) -> list[tuple[int, int]]:
    """Return where each level of nodes begins and ends; refuse texts longer than ``limit``."""
    levels = [(0, 1)]
    while levels[-1][1] < len(parent):
        _require(len(levels) <= limit, f"texts of more than {limit} tokens", path)
        start = levels[-1][1]
        levels.append((start, int(np.searchsorted(parent, start))))
    return levels


def _require(holds: bool, what: str, path: str = "") -> None:
    if not holds:
        raise ArtifactInvalidError(
            f"{path + ': ' if path else ''}no tree of prefixes: {what}",
        )


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
KINDS: Mapping[str, ArtifactKind] = {KIND: ArtifactKind(COLUMNS, check_shape, check, 1)}


@dataclass
class TreeFile:
    """File that a record's tree comes from and goes to.

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
        if batch.session_of[0] == UNCONSTRAINED:
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
        batch.tree.update()
        if not batch.tree.visited().size:
            return
        nodes = level_order(batch, 0)
        arrays = to_arrays(batch, 0, nodes)
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
        restored = restore(batch, 0, file.arrays, name)
        same = not np.any(restored.states == DEAD)
        masks = _mask_digest(batch, restored.states) if same else ""
        if masks != file.metadata.get("cdec.tree_masks"):
            raise mismatch(name, "of another constraint (other tokens are allowed)", ["constraint"])
        check_bounds(batch, 0, restored, name)
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
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    if not 0 <= number < _MAX_CANDIDATES:
        raise ArtifactInvalidError(f"{file.path} was grown by {text[:20]!r} candidates")
    return number
