"""The library names parameters; how they are typed is the command line's affair."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("core", "compilers", "samplers", "data", "integrations")
FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*|(?<= )-[oaiK]\b")
PARAMETER = re.compile(r"(?<!`)`([A-Za-z_]+)`(?!`)")
OF_COMMANDS = {"debug", "explain", "heal", "input_format", "openai_batch", "ref_dir", "save_counts"}
"""Parameters of commands alone, which say what the library's functions are used for."""

OF_ENGINES = {
    "do_sample",
    *("attention_mask", "position_ids", "input_ids", "decoder_input_ids", "encoder_outputs"),
    *("num_beams", "assistant_model"),
    *("logits_processors",),
}
"""Parameters of other libraries, of which messages about calls from there speak."""


def files_of(room: str) -> list[Path]:
    """Return a room's files."""
    return list((ROOT / room).rglob("*.py"))


def flags_in(path: Path) -> list[str]:
    return FLAG.findall(path.read_text())


def named_in(tree: ast.Module) -> set[str]:
    """Return the parameters of functions and the fields of classes that a file declares."""
    nodes = list(ast.walk(tree))
    fields = {node.target for node in nodes if isinstance(node, ast.AnnAssign)}
    return {node.arg for node in nodes if isinstance(node, ast.arg)} | {
        target.id for target in fields if isinstance(target, ast.Name)
    }


def said_in(tree: ast.Module) -> Iterator[str]:
    """Yield the words in backquotes of a file's messages: not of docstrings and of helps."""
    helps = [n.value for n in ast.walk(tree) if isinstance(n, ast.keyword) and n.arg == "help"]
    docstrings = [n.value for n in ast.walk(tree) if isinstance(n, ast.Expr)]
    left_out = {inner for node in (*helps, *docstrings) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out:
            yield from PARAMETER.findall(node.value)


@pytest.mark.parametrize("room", ROOMS)
def test_no_flag_is_named_in_library_code(room: str) -> None:
    named = {str(path.relative_to(ROOT)): flags_in(path) for path in files_of(room)}
    assert not {path: flags for path, flags in named.items() if flags}


def test_flags_are_found_where_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "said.py"
    file.write_text('hint = "raise --max-rules, or name another file with -o; jq -c --"\n')
    assert flags_in(file) == ["--max-rules", "-o"]


def test_messages_name_parameters_that_exist() -> None:
    trees = {path: ast.parse(path.read_text()) for room in ROOMS for path in files_of(room)}
    named = set().union(*map(named_in, trees.values()))
    # What fields mean is no message: backquotes hold the words that records have there.
    messages = {path: tree for path, tree in trees.items() if path.stem != "record_fields"}
    said = {word: path for path, tree in messages.items() for word in said_in(tree)}
    assert "max_rules" in said
    known = named | OF_COMMANDS | OF_ENGINES
    assert not {word: path for word, path in said.items() if word not in known}
