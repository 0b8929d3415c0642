"""What ``--tree`` asks of a run: a single record, a file that can be written, and what it is of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.core.errors import UsageError
from cdec.integrations.records.held import DEFAULT

if TYPE_CHECKING:
    from cdec.data.prompts.read import BadRecord, PromptRecord
    from cdec.integrations.records.held import RunConstraint
    from cdec.samplers.learning.saved.file import TreeFile


def for_tree(
    records: Iterator[PromptRecord | BadRecord], tree: TreeFile | None, held: RunConstraint
) -> Iterator[PromptRecord | BadRecord]:
    """Return the records; with a tree there must be no more than one, whose constraint it is of.

    Raises:
        UsageError: More records than one.
        OutputError: The tree could not be written.
    """
    if tree is None:
        return records
    from cdec.data.prompts.read import PromptRecord

    tree.require_writable()
    first, second = next(records, None), next(records, None)
    if second is not None:
        raise UsageError(
            "--tree keeps the tree of one record, and the input holds more",
            hint="give one prompt, or run each record with a --tree of its own",
        )
    if isinstance(first, PromptRecord):
        tree.names = names_of(held, first)
    return iter([] if first is None else [first])


def names_of(held: RunConstraint, record: PromptRecord) -> dict[str, str]:
    """Return what tells a record's constraint from others, by the words of messages."""
    from cdec.samplers.learning.saved.key import hash_of

    own = {**record.sources, "candidates": record.candidates}
    restricted = {"--and": held.other_digests, "--deny": sorted(set(held.denied))}
    names = {"artifact": held.digests.get(record.constraint or DEFAULT, "")}
    if record.sources:
        names = {}
    names |= {name: hash_of(value) for name, value in (own | restricted).items() if value}
    if held.lookahead is not None:
        names["--lookahead"] = str(held.lookahead)
    prefill = held.prefill_of(record)
    names |= {} if prefill is None else {"--prefill": hash_of(prefill)}
    return names | ({"--heal": "yes"} if held.heal else {})


def checked_tree(
    tree: TreeFile | None, *, output: Path | None = None, resume: bool = False
) -> TreeFile | None:
    """Return the tree of a run, if it keeps one.

    Raises:
        UsageError: ``--resume``, or a tree in the place of the output or of standard output.
    """
    if tree is None:
        return None
    if str(tree.path) == "-":
        raise UsageError("--tree is a file, and was given as -", hint="name a file")
    if resume:
        raise UsageError(
            "--resume would draw a record anew, and --tree holds what it drew before",
            hint="give one of them",
        )
    if output is not None and output.resolve() == tree.path.resolve():
        raise UsageError(f"{output} would be the output and the tree", hint="name two files")
    return tree
