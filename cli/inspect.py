"""``cdec inspect``: what an artifact holds."""

from __future__ import annotations

import math
import shlex
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.command import Run
from cdec.cli.frame.console import escape, redact
from cdec.cli.frame.declaration import CommonOptions, option
from cdec.cli.frame.kinds import Described, Rows, command_of, count
from cdec.cli.frame.tables import flatten, print_json, print_table, print_wrapped, shown_bytes
from cdec.cli.options import shared
from cdec.cli.options.shared import holds_documents, refuse_unused, set_words
from cdec.cli.runs.artifacts import found_artifact, read_artifact
from cdec.core.files.remote import Place
from cdec.core.progress import silent

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile

_EMBEDDED = "embedded"
_SOURCES = ("grammar", "schema")
_TREE = ("depth", "width", "state")


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec inspect``; the documented defaults stand here."""

    artifact: Place | None = shared.artifact_argument()
    all: bool = option(
        False, "Show hashes, fingerprints, sizes and columns.", shared.OUTPUT, common=True
    )
    verify: bool = option(
        False,
        "Compile it again from what it holds, and compare all columns and metadata.",
        shared.OUTPUT,
        common=True,
    )
    tree: bool = option(
        False,
        "Show part of a set's trie, or one subterminal tree of a grammar.",
        shared.OUTPUT,
        common=True,
    )
    depth: int = option(3, "Sets: levels of --tree.", shared.OUTPUT, at_least=1, at_most=math.inf)
    width: int = option(
        8,
        "Children a node of --tree; grammars: groups, and tokens a group.",
        shared.OUTPUT,
        at_least=1,
        at_most=math.inf,
    )
    state: int = option(
        0, "Grammars: the scanner state whose tree --tree shows.", shared.OUTPUT, metavar="N"
    )
    json: bool = shared.json_option()


def execute(options: Options, run: Run) -> int:
    """Show what an artifact holds.

    What it is, what it was made from and for which tokenizer, whether every allowed token is proved
    to have a completion, and what to type next. --all adds hashes, statistics and columns, --json
    everything, the source included. Opening an artifact checks that nothing in it can lead astray
    in memory; --verify compiles it again, in a limited process, and exits 65 where the tables are
    not those of the source, or the trie not that of the rows.

    \b
    Examples:
      cdec inspect titles.arrow
      cdec inspect titles.arrow --all
      cdec inspect downloaded.arrow --verify
      cdec inspect titles.arrow --json | jq .counts
      cdec inspect titles.arrow --tree --depth 2
      cdec inspect json.arrow --tree --state 5
    """
    from cdec.core.artifacts.opened import bind_artifact, constraint_class
    from cdec.core.files.remote import is_url, public_name

    if not options.tree:
        refuse_unused(_TREE, run.typed, "without --tree")
    artifact = options.artifact or found_artifact(run, "cdec inspect")
    # What lies here is opened in milliseconds.
    is_far = is_url(artifact)
    shown = run.console.stage(f"opening {artifact}") if is_far else nullcontext(silent)
    with shown as progress:
        file = read_artifact(artifact, run, progress=progress)
    status = file.local.stat()
    known = constraint_class(file.kind).tree_parameters
    if not known:
        refuse_unused(("tree",), run.typed, f"to a {file.kind}")
    constraint = bind_artifact(file)
    described: dict[str, Any] = {
        "path": public_name(str(artifact)),
        "bytes": status.st_size,
        **constraint.summary(),
        "statistics": constraint.statistics(),
        "columns": {name: f"{array.dtype}[{len(array)}]" for name, array in file.arrays.items()},
    }
    given = {"depth": options.depth, "width": options.width, "state": options.state}
    if options.verify:
        described["verified"] = _verified(file, run)
    tree = constraint.tree(**{name: given[name] for name in known}) if options.tree else None
    refuse_unused(set(_TREE) - known, run.typed, f"to a {file.kind}")
    if options.json:
        print_json(run.console, described | ({} if tree is None else {"tree": tree.to_json()}))
        return 0
    if options.all:
        # The source is a page of its own: in the object, not in the table.
        print_table(run.console, flatten({k: described[k] for k in described if k not in _SOURCES}))
    else:
        print_wrapped(run.console, overview(public_name(str(artifact)), status.st_mtime, described))
        run.console.data("\nNext:")
        for command in _next_commands(redact(str(artifact)), described):
            run.console.data(f"  {escape(command)}")
    if options.verify:
        same = len(described["verified"]["same"])
        run.console.data(f"\nVerified: {same} columns and entries are what it compiles to")
    if tree is not None:
        run.console.data("")
        for line in tree.lines():
            run.console.data(escape(line))
    return 0


def _verified(file: ArtifactFile, run: Run) -> dict[str, Any]:
    """Compile an artifact again, and return what was the same.

    Raises:
        ArtifactInvalidError: Something was not.
    """
    from cdec.compilers.verify import verify_artifact

    with run.console.stage("starting the compiler") as progress:
        return dict(verify_artifact(file, progress=progress).to_json())


def overview(path: str, written: float, described: Described) -> Rows:
    """Return what a person wants to know first: what it is, made of what, for which tokenizer.

    Args:
        path: Of the artifact, as it may be shown.
        written: When that was written, seconds since the epoch.
        described: What ``inspect --json`` prints of it.
    """
    command = command_of(described)
    kind = described["kind"]
    what, rows = (f"a {kind}", []) if command is None else command.overview(described)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(written))
    return [
        ("artifact", f"{path}: {what}, {shown_bytes(described['bytes'])}"),
        ("made from", f"{described.get('source') or 'unnamed'}; written {when}"),
        ("tokenizer", f"{_model(described)}, {count(described, 'vocabulary_size')} tokens"),
        *rows,
    ]


def _next_commands(path: str, described: Described) -> list[str]:
    """Return what to type next: a draw with the model that it was compiled for, a check, more."""
    model = [] if _model(described) == _EMBEDDED else ["-m", _model(described)]
    held = described.get("sets", ())
    sets, prompt = set_words(held), "-i RECORDS" if holds_documents(held) else '--prompt "TEXT"'
    sample = shlex.join(["cdec", "sample", "-a", path, *model, *sets])
    inspect = shlex.join(["cdec", "inspect", path])
    return [
        f"{sample} {prompt}",
        shlex.join(["cdec", "check", path, *sets, "-i", "TEXTS"]),
        f"{inspect} --all  # hashes, sizes, columns; or --tree, --json",
    ]


def _model(described: Described) -> str:
    return str(described.get("vocabulary_name") or "MODEL")
