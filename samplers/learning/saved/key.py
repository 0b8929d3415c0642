"""What a saved tree is a tree of: model, warping, prompt, constraint, limit; and what differs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cdec.core.errors import TreeMismatchError
from cdec.core.models.fingerprint import model_fingerprint
from cdec.samplers.drafts.counts import fingerprint_of

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
    constraint = {"constraint": fingerprint_of(request.constraint)} if names is None else names
    return {
        "model": model_fingerprint(model),
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
