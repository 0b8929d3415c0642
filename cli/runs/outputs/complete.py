"""Finished runs: an output to resume that has all records needs no model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cdec.cli.frame.command import SOME_RECORDS_FAILED
from cdec.cli.frame.frames import plural

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.runs.inputs import Prompts
    from cdec.cli.runs.plan import Files, Plan
    from cdec.data.output.resume import FinishedRecords
    from cdec.data.prompts.read import BadRecord, PromptRecord

OF_MODEL = frozenset({"vocabulary", "prompt_form"})
"""What a manifest says that only the loaded model can tell."""


def finished_status(plan: Plan, files: Files, config: Mapping[str, object], run: Run) -> int | None:
    """Return the exit status of a run whose records are all there; None where some are not.

    Args:
        plan: Of the run.
        files: Of the run; its records are left unread.
        config: What decides the records, less what only the model can tell.
        run: Told of it.

    Raises:
        ResumeMismatchError: Another configuration wrote the output.
        CdecError: As ``open_writer``.
    """
    from cdec.data.output.manifest import check_manifest, manifest_config
    from cdec.data.output.writer import open_writer

    options = plan.options
    output = options.output_file
    if not options.resume or output is None or not (output.is_file() and output.stat().st_size):
        return None
    check_manifest(output, config, unknown=OF_MODEL)
    is_more = plan.tree is not None or options.save_counts is not None
    again = _again(files.prompts)
    if is_more or again is None:
        return None
    with open_writer(output, config=manifest_config(output), resume=True) as writer:
        finished = writer.finished
    count = _all_done(again.records(), finished, plan)
    if not count:
        return None
    run.console.warn([*writer.notices, *again.stats.notices])
    verb = "is" if count == 1 else "are"
    run.console.note(f"already complete: {plural(count, 'records')} {verb} in {output}")
    return SOME_RECORDS_FAILED if finished.errors else 0


def _again(prompts: Prompts) -> Prompts | None:
    """Return the same input with counts and notices of its own; None where it is read once."""
    from cdec.data.input.source import SourceStats
    from cdec.data.prompts.entries import can_repeat

    # subtle: the records of stdin have been begun, and it has one place where it stands.
    if "-" in prompts.sources or not all(map(can_repeat, prompts.sources)):
        return None
    return replace(prompts, stats=SourceStats(), others=replace(prompts.others, unread={}))


def _all_done(
    records: Iterable[PromptRecord | BadRecord], finished: FinishedRecords, plan: Plan
) -> int:
    """Return how many records there are, where all draws of all are there; 0 where not."""
    from cdec.integrations.openai_batch.responses import line_id
    from cdec.integrations.records.drawing import draws_of

    is_batch, count = plan.options.openai_batch, 0
    for record in records:
        if is_batch:
            missing = finished.missing(line_id(record.id), 1)
        else:
            missing = finished.missing(record.id, draws_of(record, plan.options.n))
        if missing:
            return 0
        count += 1
    return count
