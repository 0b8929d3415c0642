"""What a run of ``cdec sample`` is before a model is loaded: the command line, then its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.options.speculation import check_speculation, load_counts
from cdec.cli.runs.adaptation import require_grammars
from cdec.cli.runs.constraints import artifact_paths, refuse_unconstrained, verify_artifacts
from cdec.cli.runs.method import WITHOUT_CONSTRAINT, method_of
from cdec.cli.runs.narrowing import conjoined_paths
from cdec.cli.runs.partners import Partners, with_typed_budget
from cdec.cli.runs.pipeline import read_denied
from cdec.cli.runs.prompts import Prompts
from cdec.cli.runs.record_grammars import CacheLimits
from cdec.cli.runs.sample_checks import check_options, kept_fields, needs_constraint, refuse_output
from cdec.cli.runs.tree import RunConstraint, for_tree, tree_of

if TYPE_CHECKING:
    from cdec.cli.sample import Options
    from cdec.data.prompts.read import BadRecord, PromptRecord
    from cdec.samplers.base import Sampler
    from cdec.samplers.drafts.counts import Counts
    from cdec.samplers.learning.tree.file import TreeFile


@dataclass(frozen=True)
class Files:
    """The files of a run, opened or seen to be in order.

    Attributes:
        prompts: Where records come from.
        records: The records, from the first one on.
        held: What all records are held to.
    """

    prompts: Prompts
    records: Iterator[PromptRecord | BadRecord]
    held: RunConstraint


@dataclass(frozen=True)
class Plan:
    """A run whose command line makes sense.

    Attributes:
        options: As typed, and as ``cdec.toml`` says.
        partners: What the method works with beside the model.
        counts: What guesses begin with.
        sampler: None where it waits for a draft or a reward.
        tree: Where the draws of a single record are kept.
        fields: Of the samples; None keeps all.
        paths: Artifacts, by name.
        conjoined: Artifacts of ``--and``.
        cache: Limits on the grammars of records.
    """

    options: Options
    partners: Partners
    counts: Counts
    sampler: Sampler | None
    tree: TreeFile | None
    fields: Sequence[str] | None
    paths: Mapping[str, Path]
    conjoined: Mapping[str, Path]
    cache: CacheLimits

    @classmethod
    def of(cls, options: Options, typed: frozenset[str]) -> Plan:
        """Check the command line.

        Args:
            options: All options.
            typed: Fields that stood on the command line.

        Raises:
            CdecError: It makes no sense.
        """
        options = with_typed_budget(options, typed)
        method = method_of(options, typed)
        check_options(options, typed)
        partners = Partners.of(options, typed, method)
        check_speculation(options, typed, guesses=partners.keeps_counts)
        counts = load_counts(options, guesses=partners.keeps_counts)
        return cls(
            options=options,
            partners=partners,
            counts=counts,
            sampler=partners.early_sampler(counts),
            tree=tree_of(method, output=options.output, resume=options.resume),
            fields=kept_fields(options),
            paths=artifact_paths(options.artifact, options.constraint),
            conjoined=conjoined_paths(options.conjoined),
            cache=CacheLimits.of(options),
        )

    def open_files(self) -> Files:
        """Open the input, then see that the output may be written, then verify the artifacts.

        Raises:
            CdecError: One of them cannot be used.
        """
        options = self.options
        prompts = Prompts.open(options, max_n=options.max_n)
        records = prompts.records()
        if not self.paths and options.method not in WITHOUT_CONSTRAINT:
            records = refuse_unconstrained(records, needs_constraint(options))
        denied = read_denied(options.deny)
        refuse_output(options)
        digests = verify_artifacts(self.paths)
        also = sorted(verify_artifacts(self.conjoined).values())
        named = {**self.paths, **self.conjoined}
        require_grammars(options, named, guessing=self.partners.guessing)
        held = RunConstraint.of(options, digests, also, denied)
        has_file = options.counts is not None and self.partners.keeps_counts
        self.counts.require_artifacts(digests.values() if has_file else ())
        return Files(prompts, for_tree(records, self.tree, held), held)
