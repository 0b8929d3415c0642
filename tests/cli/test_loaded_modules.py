"""A command loads what its run needs: over a set no grammar engine, free text or rewards, with the
embedded models no transformers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cdec.cli.frame.registry import COMMANDS
from cdec.compilers import compile_set
from cdec.core import Vocabulary

from . import light

SCRIPT = """
import json, sys
from cdec.cli.app import main
from cdec.cli.runs import models

def letters(options):
    from cdec.core.models.tabular import TabularModel
    from cdec.core.tokens.vocabulary import Vocabulary

    vocabulary = Vocabulary([b"a", b"b", "\u00e9".encode(), b""], [3], [3])
    return TabularModel(lambda prefix: [0.25] * 4, vocabulary)

models.open_model = letters
status = main({words!r})
loaded = {{name: module for name, module in sys.modules.items() if name.startswith("cdec.")}}
print(json.dumps({{"status": status, "modules": sorted(loaded)}}),
      file=sys.stderr)
"""
NOT_FOR_SETS = (
    "cdec.core.grammars.engine",
    "cdec.core.schemas.engine",
    "cdec.core.combine.conjunction",
    "cdec.core.combine.free_part",
    "cdec.core.combine.tagged",
    "cdec.compilers.grammars.",
    "cdec.compilers.regular",
    "cdec.compilers.schemas.",
    "cdec.samplers.free",
    "cdec.samplers.rewards",
    "cdec.samplers.cdlh",
    "cdec.samplers.cdsl",
    "cdec.samplers.lookahead",
    "cdec.samplers.mentored",
)
DECLARATIONS = {
    "cdec.compilers.grammars.definition",
    "cdec.compilers.grammars.options",
    "cdec.compilers.schemas.options",
}
"""What options and their bounds are read from: nothing that runs."""
SAMPLE = ("sample", "-a", "letters.arrow", "--prompt", "x", "--quiet")


@pytest.mark.parametrize(
    "words",
    [
        SAMPLE,
        (*SAMPLE, "--method", "topn", "-n", "2"),
        (*SAMPLE, "--method", "masked"),
        (*SAMPLE, "--method", "greedy"),
        ("compile-set", "list.txt", "--quiet"),
        ("check", "letters.arrow", "-i", "list.txt", "--quiet"),
    ],
    ids=("sample", "topn", "masked", "greedy", "compile-set", "check"),
)
def test_a_run_over_a_set_loads_no_other_kinds_of_constraint(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    light.compile_letters(tmp_path / "letters.arrow")
    (tmp_path / "list.txt").write_text("a\nab\n")
    code = SCRIPT.format(words=list(words))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    found = json.loads(done.stderr.splitlines()[-1])
    assert found["status"] == 0, done.stderr
    modules = set(found["modules"])
    assert {n for n in modules if n.startswith(NOT_FOR_SETS)} - DECLARATIONS == set()


EMBEDDED = """
import sys
from cdec.cli.app import main

status = main({words!r})
print(" ".join(sorted(name for name in sys.modules if "." not in name)), file=sys.stderr)
sys.exit(status)
"""
NOT_FOR_EMBEDDED = {"transformers", "huggingface_hub", "pandas", "sympy", "scipy"}


@pytest.mark.parametrize(
    "words",
    [
        ("sample", "-a", "names.arrow", "--prompt", "What is it?"),
        ("sample", "-a", "names.arrow", "--prompt", "x", "--method", "masked", "-n", "3"),
        ("classify", "names.txt", "--prompt", "x"),
        ("mass", "-a", "names.arrow", "--prompt", "x"),
        ("score", "-a", "names.arrow", "-i", "names.txt", "--prompt", "x"),
        ("compile-set", "names.txt", "-o", "again.arrow"),
    ],
    ids=lambda words: " ".join(words[:1] + words[5:]),
)
def test_the_embedded_models_need_no_transformers(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "names.txt").write_text("Paris\nRome\n")
    compile_set(["Paris", "Rome"], Vocabulary.from_tokenizer("embedded"), tmp_path / "names.arrow")
    code = EMBEDDED.format(words=[*words, "--quiet"])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert NOT_FOR_EMBEDDED & set(done.stderr.splitlines()[-1].split()) == set()


@pytest.mark.parametrize(
    "words",
    [
        ("compile-grammar", "json", "-o", "json.arrow"),
        ("compile-regex", "[a-z]+", "-o", "regex.arrow"),
        ("compile-schema", "s.json", "-o", "schema.arrow"),
    ],
    ids=lambda words: words[0],
)
def test_who_asks_for_an_artifact_loads_neither_arrow_nor_protocols(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "s.json").write_text('{"type": "integer"}')
    code = EMBEDDED.format(words=[*words, "--quiet"])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {"pyarrow", "ssl", "lark"} & set(done.stderr.splitlines()[-1].split()) == set()


def test_what_was_loaded_is_not_looked_through_for_garbage(tmp_path: Path) -> None:
    compile_set(["Paris"], Vocabulary.from_tokenizer("embedded"), tmp_path / "names.arrow")
    words = ["sample", "-a", "names.arrow", "--prompt", "x", "--quiet"]
    code = (
        "import gc\n"
        "from cdec.cli.app import main\n"
        f"assert main({words!r}) == 0\n"
        "import sys\n"
        "print(gc.isenabled(), gc.get_freeze_count(), len(gc.get_objects()), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    enabled, frozen, looked_through = done.stderr.splitlines()[-1].split()
    assert enabled == "True"
    assert int(frozen) > 10 * int(looked_through)


def test_a_command_imports_the_modules_of_no_other(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from cdec.cli.app import main\n"
        "status = main(['methods', 'masked'])\n"
        "print(*(name for name in sys.modules if name.startswith('cdec.cli.')), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    others = {command.module for name, command in COMMANDS.items() if name != "methods"}
    assert others & loaded == set()
