"""``cdec reproduce``: the papers' tables and figures, computed anew, and whether they hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.command import SOME_DO_NOT_HOLD, SOME_RECORDS_FAILED, Run
from cdec.cli.frame.declaration import CommonOptions, option
from cdec.cli.frame.tables import print_json, print_wrapped
from cdec.cli.options import shared
from cdec.core.files.whole import whole_file

if TYPE_CHECKING:
    from cdec.integrations.findings.finding import Finding
    from cdec.integrations.findings.laboratory import Laboratory

_PAGE = "index.html"
_SUMMARY = "findings.json"


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec reproduce``; the documented defaults stand here."""

    only: list[str] = option(
        [],
        "Compute this finding, or those of a paper (`disc`); may be given several times.",
        metavar="NAME",
        common=True,
    )
    listing: bool = option(False, "Say which findings there are, and compute none.", common=True)
    data: Path | None = option(
        None,
        "Folder of the data sets that some findings need; those are not run without.",
        metavar="DIR",
        common=True,
    )
    tasks: Path | None = option(
        None,
        "Folder of task models, which some findings take instead of the embedded one.",
        metavar="DIR",
        common=True,
    )
    all_data: bool = option(
        False, "Take all of the data in the place of a part; hours rather than minutes."
    )
    strict: bool = option(
        False, "Exit with status 1 if a finding that was run does not hold.", common=True
    )
    model: str | None = shared.model_option()
    draft: str | None = option(
        None,
        "Draft model; the embedded one if not given.",
        shared.MODEL,
        metavar="NAME_OR_PATH",
        common=True,
        names_model=shared.names_model,
    )
    reward: str | None = option(
        None,
        "Classifier of prompt and text that findings on judged texts look ahead for; those are not "
        "run without.",
        shared.MODEL,
        metavar="NAME_OR_PATH",
        common=True,
    )
    judge: str | None = option(
        None,
        "Classifier that judges these texts, learnt from other data.",
        shared.MODEL,
        metavar="NAME_OR_PATH",
        common=True,
    )
    device: str = option("cpu", "cpu, cuda, cuda:1 or auto.", shared.MODEL, common=True)
    dtype: str | None = option(None, "float32, bfloat16, float16.", shared.MODEL)
    output: Path = option(
        Path("reproduced"),
        "Folder of what is found: a JSON file a finding, all of them, plots, a page. Findings that "
        "it has are not computed again.",
        shared.OUTPUT,
        metavar="DIR",
        common=True,
        typed_only=True,
    )
    plots: bool = option(True, "Draw plots; it needs matplotlib.", shared.OUTPUT)
    force: bool = shared.force_option()
    json: bool = option(False, "Print one JSON object.", shared.OUTPUT, common=True)


def execute(options: Options, run: Run) -> int:
    """Compute the papers' tables and figures anew.

    Each finding is a table, figure or theorem: what it shows in one sentence, whether that holds
    here, and where this differs from the paper. Whether it holds is computed from the numbers,
    which the folder has in full. With the embedded models all take less than 40 minutes on two
    cores; equal runs find the same but for times. A run that ended early goes on when it is typed
    again.

    \b
    Examples:
      cdec reproduce --list
      cdec reproduce --only disc --only asap-toys
      cdec reproduce --data data --strict -o findings
    """
    from cdec.integrations.findings.table import FINDINGS, named_findings

    findings = named_findings(options.only or FINDINGS)
    if options.listing:
        _print([finding.to_json() for finding in findings], options, run)
        return 0
    if options.plots:
        from cdec.data.reports.plots import require_plots

        require_plots()
    run.kept = lambda: f"{options.output} has what was computed; the same command goes on"
    rows = _computed(findings, _laboratory(options), options, run)
    _write(rows, options, run)
    _print(rows, options, run)
    states = {row["state"] for row in rows}
    if "error" in states:
        return SOME_RECORDS_FAILED
    return SOME_DO_NOT_HOLD if options.strict and "does not hold" in states else 0


def _laboratory(options: Options) -> Laboratory:
    from cdec.integrations.findings.laboratory import EMBEDDED, Laboratory

    return Laboratory(
        model=options.model or EMBEDDED,
        draft=options.draft or EMBEDDED,
        device=options.device,
        dtype=options.dtype,
        data=options.data,
        tasks=options.tasks,
        reward=options.reward,
        judge=options.judge,
        all_data=options.all_data,
    )


def _computed(
    findings: Sequence[Finding], laboratory: Laboratory, options: Options, run: Run
) -> list[dict[str, Any]]:
    from cdec.integrations.findings.reproduce import reproduce

    rows, begun = [], set()

    def begin(finding: Finding) -> None:
        begun.add(finding.name)
        run.console.note(f"{finding.name}: computing {finding.place}")

    for row in reproduce(findings, laboratory, options.output, force=options.force, begin=begin):
        run.signals.checkpoint()
        how = (
            f"{row.get('seconds', 0):.0f} s" if row["name"] in begun else row.get("reason", "kept")
        )
        run.console.note(f"{row['name']}: {row['state']} ({how})")
        rows.append(row)
    return rows


def _write(rows: Sequence[Mapping[str, Any]], options: Options, run: Run) -> None:
    """Write plots, the page, and all findings in one file; each whole, or not at all."""
    import orjson

    from cdec.data.reports.findings import page, plots

    drawn = {row["name"]: plots(row) if options.plots else [] for row in rows}
    for name, own in drawn.items():
        for plot in own:
            for form, drawing in plot.files.items():
                with whole_file(options.output / f"{name}.{plot.name}.{form}", force=True) as file:
                    file.write(drawing)
    with whole_file(options.output / _SUMMARY, force=True) as file:
        file.write(orjson.dumps({"findings": rows}, option=orjson.OPT_INDENT_2) + b"\n")
    with whole_file(options.output / _PAGE, force=True) as file:
        for part in page(rows, drawn):
            file.write(part.encode("utf-8", "backslashreplace"))
    run.console.note(f"page: {options.output / _PAGE}")


def _print(rows: Sequence[Mapping[str, Any]], options: Options, run: Run) -> None:
    if options.json:
        print_json(run.console, {"findings": rows})
        return
    from cdec.data.reports.findings import task_models

    for row in rows:
        print_wrapped(run.console, [(row["name"], _told(row))])
        print_wrapped(run.console, [("", row["sentence"]), ("", f"Differs: {row['differs']}")])
        if said := task_models(row):
            print_wrapped(run.console, [("", said)])
        for check in row.get("checks", ()):
            if not check["holds"]:
                print_wrapped(run.console, [("", f"Fails: {_failed(check)}")])


def _told(row: Mapping[str, Any]) -> str:
    state = f"{row['state']}: " if "state" in row else ""
    reason = f" ({row['reason']})" if "reason" in row else ""
    return f"{state}{row['paper']}, {row['place']}{reason}"


def _failed(check: Mapping[str, Any]) -> str:
    from cdec.data.reports.findings import bounds

    value = math.nan if check["value"] is None else check["value"]
    return f"{check['said']}: {value:.4g}, must be {bounds(check)}"
