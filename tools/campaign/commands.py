"""The command lines that are attacked, each one entry: what it reads, writes and how it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cdec.compilers import compile_grammar
from tests.cli import light

RECORDS = 4
NAMES = ("Paris", "Rome", "Oslo", "New York")
GRAMMAR = 'start: A+\nA: "a" | "ab" "a"\n'


@dataclass(frozen=True)
class Command:
    """A command line under attack.

    Attributes:
        words: What is typed.
        outputs: File name → ``whole`` (there as before or as it must be, never between) or
            ``lines`` (whole lines of what it must be, those that stood there before among them; of
            Parquet its rows, wherever they stand meanwhile).
        before: Command lines that leave what the attacked one finds.
        again: What completes an attacked run that has begun to write.
        kept_lines: Of outputs that ``before`` wrote, how many lines are left.
        learns: Completing it goes on from what it learnt, and so gives other records.
    """

    words: tuple[str, ...]
    outputs: Mapping[str, str]
    again: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    kept_lines: Mapping[str, int] = field(default_factory=dict)
    learns: bool = False


def sample_words(*more: str, artifact: str = "letters.arrow") -> tuple[str, ...]:
    """Return a command line that samples: eight draws of four records, one record a batch."""
    read = ("-i", "prompts.jsonl", "--batch-size", "1", "-n", "2", "-o", "out.jsonl", "--quiet")
    method = () if "--method" in more else ("--method", "masked")
    return ("sample", "-a", artifact, *read, *method, *more)


_COUNTS = ("--method", "greedy", "--draft", "counts", "--save-counts", "counts.json")
_COUNTS = (*_COUNTS, "--max-new-tokens", "6")
_TREE = ("--method", "exact", "--tree", "tree.arrow", "-i", "one.jsonl", "-n", "2", "--quiet")
_TREE = ("sample", "-a", "letters.arrow", *_TREE, "-o", "out.jsonl", "--max-draws", "50")
_SET = ("compile-set", "names.txt", "-o", "names.arrow", "--quiet")
_GRAMMAR = ("compile-grammar", "a.lark", "-o", "a.arrow", "--quiet")
_OUT = {"out.jsonl": "lines"}

COMMANDS: dict[str, Command] = {
    "compile-set": Command(_SET, {"names.arrow": "whole"}, _SET),
    "compile-set --force": Command(
        (*_SET, "--force"),
        {"names.arrow": "whole"},
        (*_SET, "--force"),
        (("compile-set", "other.txt", "-o", "names.arrow", "--quiet"),),
    ),
    "compile-grammar": Command(_GRAMMAR, {"a.arrow": "whole"}, _GRAMMAR),
    "sample": Command(sample_words(), _OUT, sample_words("--resume")),
    "sample --resume": Command(
        sample_words("--resume"),
        _OUT,
        sample_words("--resume"),
        (sample_words(),),
        {"out.jsonl": 3},
    ),
    "sample --force": Command(
        sample_words("--force"), _OUT, sample_words("--resume"), (sample_words("--seed", "5"),)
    ),
    "sample -o out.parquet": Command(
        sample_words("-o", "out.parquet"),
        {"out.parquet": "lines"},
        sample_words("-o", "out.parquet", "--resume"),
    ),
    "sample --save-counts": Command(
        sample_words(*_COUNTS, artifact="letters-grammar.arrow"),
        _OUT | {"counts.json": "whole"},
        sample_words(*_COUNTS, "--force", artifact="letters-grammar.arrow"),
    ),
    "sample --tree": Command(
        _TREE, _OUT | {"tree.arrow": "whole"}, (*_TREE, "--force"), learns=True
    ),
}

WARM_UP = tuple(
    COMMANDS[name].words
    for name in (
        "compile-set",
        "compile-grammar",
        "sample",
        "sample -o out.parquet",
        "sample --save-counts",
        "sample --tree",
    )
)


def prepare(folder: Path) -> Path:
    """Write the files that the command lines read; return the folder that holds them."""
    work = folder / "work"
    work.mkdir()
    light.compile_letters(work / "letters.arrow")
    compile_grammar(GRAMMAR, light.vocabulary(), work / "letters-grammar.arrow")
    lines = [json.dumps({"id": i, "prompt": f"p{i}"}) + "\n" for i in range(RECORDS)]
    (work / "prompts.jsonl").write_text("".join(lines))
    (work / "one.jsonl").write_text(lines[0])
    (work / "names.txt").write_text("".join(f"{name}\n" for name in NAMES))
    (work / "other.txt").write_text("Berlin\n")
    (work / "a.lark").write_text(GRAMMAR)
    return work
