"""Wires readers to compilers and artifacts to commands; no algorithm lives here."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.console import escape
from cdec.cli.runs.artifact_files import read_artifact
from cdec.cli.runs.tokenizers import load_vocabulary

if TYPE_CHECKING:
    from cdec.cli import compile_set, inspect
    from cdec.cli.frame.command import Run
    from cdec.cli.frame.progress import Progress
    from cdec.compilers import SetLimits, SetProgress, SetReport
    from cdec.core.sets.report import TreeNode
    from cdec.data.input.source import InputLimits, SourceStats


_FOR_MACHINES = frozenset({"cdec.names", "cdec.characters"})
"""Metadata as long as a grammar that says nothing its source does not."""


def compile_set_file(
    options: compile_set.Options,
    run: Run,
    *,
    output: Path,
    prefix: str,
    suffix: str,
    limits: tuple[InputLimits, SetLimits],
    memory_limit: int | None,
) -> SetReport:
    """Read entities (or token rows), compile them, and return the report with all notices."""
    from cdec.compilers import compile_set, compile_token_set
    from cdec.data.input.source import SourceStats

    require_input(options.source)
    deny = read_denied(options.deny)
    stats = SourceStats()
    source = _begun(_source(options, limits[0], stats))
    vocabulary, name = load_vocabulary(options.tokenizer, options.model, options.revision)
    run.console.note(f"tokenizer: {name}")
    with run.console.progress("entities") as progress:
        shared: dict[str, Any] = {
            "deny": deny,
            "keep_empty": options.keep_empty,
            "bad_lines": options.bad_lines,
            "memory_limit": memory_limit,
            "limits": limits[1],
            "source": "stdin" if options.source == "-" else options.source,
            "force": options.force,
            "progress": _progress(progress),
        }
        if options.token_ids:
            report = compile_token_set(source, vocabulary, output, **shared)
        else:
            shared |= {"leading_space": options.leading_space, "normalize": options.normalize}
            shared |= {"prefix": prefix, "suffix": suffix}
            report = compile_set(source, vocabulary, output, **shared)
    return _with_reading(report, stats)


def _source(options: compile_set.Options, limits: InputLimits, stats: SourceStats) -> Any:
    """Return the reader that the options ask for: batches of entities or of token rows."""
    from cdec.data.entities.source import read_entities, read_token_rows

    reading: dict[str, Any] = {"bad_lines": options.bad_lines, "limits": limits, "stats": stats}
    if options.token_ids:
        return read_token_rows(options.source, **reading)
    return read_entities(
        options.source,
        format=options.format,
        field=options.field,
        id_field=options.id_field,
        **reading,
    )


def _begun(batches: Iterator[Any]) -> Iterator[Any]:
    """Read the first batch now: what is bad at once is refused before a tokenizer loads."""
    first = list(itertools.islice(batches, 1))
    return itertools.chain(first, batches)


def _progress(progress: Progress) -> Any:
    def update(state: SetProgress) -> None:
        progress.update(state.phase, state.done, state.total)

    return update


def _with_reading(report: SetReport, stats: SourceStats) -> SetReport:
    """Add what the reader skipped and warned of to the compiler's report."""
    return dataclasses.replace(
        report,
        skipped=report.skipped + stats.skipped,
        notices=[*stats.notices, *report.notices],
    )


def require_input(source: str) -> None:
    """See whether an input can be opened, before anything that costs time.

    Raises:
        InputMissingError: It is not there or cannot be read.
    """
    from cdec.data.input.source import open_source

    path = Path(source)
    # subtle: a named pipe must be opened once only, or its writer meets a closed end.
    if source != "-" and (path.is_file() or not path.exists()):
        with open_source(path):
            pass


def read_denied(path: Path | None) -> list[str]:
    """Return the texts of ``--deny``, one a line, blank lines left out; none without a file."""
    from cdec.data.entities.source import read_entities

    batches = () if path is None else read_entities(path, format="text")
    return [text for batch in batches for text in batch.texts if text]


def line_limits(longest: int | None) -> InputLimits:
    """Return the limits of records' inputs with ``--max-line-bytes``, None for the default."""
    from cdec.data.input.source import PROMPT_LIMITS

    longest = PROMPT_LIMITS.max_line_bytes if longest is None else longest
    return dataclasses.replace(PROMPT_LIMITS, max_line_bytes=longest)


def describe_artifact(
    options: inspect.Options,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what is known of an artifact and, if asked for, part of its tree."""
    from cdec.core.artifacts.kinds import open_artifact

    file = read_artifact(options.artifact)
    constraint: Any = open_artifact(options.artifact)
    metadata: dict[str, Any] = {
        key.removeprefix("cdec."): _json_or_text(value)
        for key, value in file.metadata.items()
        if key not in _FOR_MACHINES
    }
    if file.kind == "grammar":
        metadata |= {"sound": constraint.is_sound, "grammar": file.metadata["cdec.grammar"]}
    described: dict[str, Any] = {
        "path": str(options.artifact),
        "bytes": options.artifact.stat().st_size,
        **metadata,
        "statistics": constraint.statistics(),
        "columns": {name: f"{array.dtype}[{len(array)}]" for name, array in file.arrays.items()},
    }
    if not options.tree:
        return described, None
    if file.kind == "grammar":
        from cdec.cli.frame.grammar_tree import tree_to_json
        from cdec.core.grammars.tree_report import describe_subterminal_tree

        view = describe_subterminal_tree(constraint, options.state, options.width)
        return described, tree_to_json(view)
    return described, _tree(constraint.describe_tree(options.depth, options.width))


def _json_or_text(value: str) -> Any:
    """Metadata values that are JSON objects, lists or counts become those; all else is text."""
    if value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    if value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def tree_lines(node: Mapping[str, Any], indent: int = 0) -> list[str]:
    """Return a described trie as indented lines, every text quoted and escaped."""
    member = "  member" if node["is_member"] else ""
    # The root has a text of its own where the set has a single row.
    label = f'"{escape(node["text"])}"' if indent or node["text"] else "(root)"
    lines = [f"{'  ' * indent}{label}  {node['rows']:,}{member}"]
    for child in node["children"]:
        lines += tree_lines(child, indent + 1)
    if node["hidden"]:
        lines.append(f"{'  ' * (indent + 1)}... {node['hidden']:,} more")
    return lines


def _tree(node: TreeNode) -> dict[str, Any]:
    """Return a node as JSON-ready data; bytes that are no UTF-8 are escaped."""
    return {
        "text": node.text.decode("utf-8", "backslashreplace"),
        "token_ids": node.token_ids,
        "rows": node.rows,
        "is_member": node.is_member,
        "children": [_tree(child) for child in node.children],
        "hidden": node.hidden,
    }
