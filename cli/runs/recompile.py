"""The command that compiles an artifact again, for the tokenizer of another model."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.declaration import flag_of
from cdec.compilers.schemas.options import MAX_WHITESPACE
from cdec.core.errors import TokenizerMismatchError

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.artifacts.stored import StoredConstraint
    from cdec.core.tokens.vocabulary import Vocabulary


def bind_for(file: ArtifactFile, vocabulary: Vocabulary | None) -> StoredConstraint:
    """Open a verified artifact for a model's vocabulary.

    Raises:
        TokenizerMismatchError: It was compiled for another one; the hint is what to type.
    """
    from cdec.core.artifacts.kinds import bind_artifact

    try:
        return bind_artifact(file, vocabulary)
    except TokenizerMismatchError as error:
        if not isinstance(file.path, Path):
            raise  # nobody knows where it should be written
        name = vocabulary.name if vocabulary is not None else ""
        again = recompiling(file.path, bind_artifact(file).summary(), name or "MODEL")
        error.hint = error.hint if again is None else f"compile it again: {again}"
        raise


def recompiling(path: Path, described: Mapping[str, Any], tokenizer: str) -> str | None:
    """Return the command that writes an artifact again; None where nobody knows it.

    Args:
        path: Of the artifact, which is replaced.
        described: What it says of itself: its source and the options that made it.
        tokenizer: Of the model that it shall fit.
    """
    found = COMMANDS.get(described["kind"])
    if found is None:
        return None
    tail = ["--tokenizer", tokenizer, "-o", str(path), "--force"]
    return f"{found(path, described)} {shlex.join(tail)}"


def _set(path: Path, described: Mapping[str, Any]) -> str:
    options = described["options"]
    words = ["cdec", "compile-set", _named(described) or "FILE"]
    for name in ("prefix", "suffix"):
        words += [f"--{name}", options[name]] if options.get(name) else []
    asked = options.get("leading_space_requested", "auto")
    words += ["--leading-space", asked] if asked != "auto" else []
    words += ["--normalize", options["normalize"]] if options.get("normalize") != "none" else []
    return shlex.join([*words, *(["--keep-empty"] if options.get("keep_empty") else [])])


def _grammar(path: Path, described: Mapping[str, Any]) -> str:
    from cdec.data.assets import grammar_names

    options = described["options"]
    name = _named(described)
    kept = shlex.join(["cdec", "inspect", str(path), "--json"])
    if options["dialect"] == "regex":
        is_there = name is not None and Path(name).is_file()
        words = ["cdec", "compile-regex", "--file", str(name) if is_there else "-"]
        for flag, key in (("--and", "conjoined"), ("--deny-regex", "deny_regex")):
            words += [f"{flag}={pattern}" for pattern in options[key]]
        return shlex.join(words) if is_there else f"{kept} | jq -r .grammar | {shlex.join(words)}"
    is_there = name is not None and (name in grammar_names() or Path(name).is_file())
    words = ["cdec", "compile-grammar", str(name) if is_there else "-"]
    words += ["--format", options["dialect"]] if not is_there else []
    words += ["--start", options["start"], "--lexer", options["lexer"]]
    return shlex.join(words) if is_there else f"{kept} | jq -r .grammar | {shlex.join(words)}"


def _schema(path: Path, described: Mapping[str, Any]) -> str:
    options = described["options"]
    words = ["cdec", "compile-schema", "-"]
    words += ["--lenient"] if options.get("lenient") else []
    for name, usual in (("property_order", "any"), ("whitespace", "usual"), ("formats", "enforce")):
        value = options.get(name, usual)
        words += [flag_of(name), value] if value != usual else []
    # Artifacts from before there was an option hold any.
    for name, usual in (("numbers", "finite"), ("escapes", "usual")):
        value = options.get(name, "any")
        words += [flag_of(name), value] if value != usual else []
    is_usual = options.get("whitespace") == "usual"
    if not is_usual and options.get("max_whitespace", MAX_WHITESPACE) != MAX_WHITESPACE:
        words += ["--max-whitespace", str(options["max_whitespace"])]
    # The stored text, and not the file: that may be a list of tools, or another one by now.
    kept = shlex.join(["cdec", "inspect", str(path), "--json"])
    return f"{kept} | jq -r .schema | {shlex.join(words)}"


def _named(described: Mapping[str, Any]) -> str | None:
    source = str(described.get("source") or "")
    return source if source and source != "stdin" else None


COMMANDS: dict[str, Callable[[Path, Mapping[str, Any]], str]] = {
    "set": _set,
    "grammar": _grammar,
    "schema": _schema,
}
"""Kind of artifact → the command that compiles it, but for the tokenizer and the output."""
