"""What ``--tree`` asks of a run: a single record, a file that can be written, and what it is of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.runs.constraints import DEFAULT
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.cli.options.constraint import ConstraintOptions
    from cdec.data.prompts.read import BadRecord, PromptRecord
    from cdec.samplers.learning.saved.file import TreeFile


@dataclass(frozen=True, kw_only=True)
class RunConstraint:
    """What all records of a run are held to.

    Attributes:
        digests: Of the artifacts, by name.
        also: Digests of the artifacts of ``--and``.
        denied: Texts of ``--deny``.
        lookahead: As typed. heal: As typed.
    """

    digests: Mapping[str, str] = field(default_factory=dict)
    also: Sequence[str] = ()
    denied: Sequence[str] = ()
    lookahead: int | None = None
    heal: bool = False

    @classmethod
    def of(
        cls,
        options: ConstraintOptions,
        digests: Mapping[str, str],
        also: Sequence[str],
        denied: Sequence[str],
    ) -> RunConstraint:
        """Return what a run's options and files say."""
        return cls(
            digests=digests,
            also=also,
            denied=denied,
            lookahead=options.lookahead,
            heal=options.heal,
        )

    def names(self, record: PromptRecord) -> dict[str, str]:
        """Return what tells a record's constraint from others, by the words of messages."""
        from cdec.samplers.learning.saved.key import hash_of

        own = {"grammar": record.grammar, "candidates": record.candidates}
        narrowed = {"--and": sorted(self.also), "--deny": sorted(set(self.denied))}
        names = {"artifact": self.digests.get(record.constraint or DEFAULT, "")}
        if record.grammar is not None:
            names = {}
        names |= {name: hash_of(value) for name, value in (own | narrowed).items() if value}
        if self.lookahead is not None:
            names["--lookahead"] = str(self.lookahead)
        return names | ({"--heal": "yes"} if self.heal else {})


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
        tree.names = held.names(first)
    return iter([] if first is None else [first])


def tree_of(keeper: object, *, output: Path | None = None, resume: bool = False) -> TreeFile | None:
    """Return the tree that a method or sampler keeps, if it keeps one.

    Raises:
        UsageError: ``--resume``, or a tree in the place of the output or of standard output.
    """
    tree: TreeFile | None = getattr(keeper, "tree", None)
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
