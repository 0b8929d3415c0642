"""Outputs named where something else is: inputs, links, folders of others; ``--force`` or not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np

from tools.campaign.attack import Try
from tools.campaign.commands import prepare
from tools.campaign.server import use_light_models
from tools.campaign.typed import typed

_READ = ("letters.arrow", "prompts.jsonl", "names.txt", "t.txt", "trace.jsonl", "counts.json")
_SAMPLE = ("sample", "-a", "letters.arrow", "-i", "prompts.jsonl", "--template", "t.txt")
_SAMPLE = (*_SAMPLE, "--method", "masked", "--quiet")
_GUESS = ("sample", "-a", "letters.arrow", "-i", "prompts.jsonl", "--method", "speculative")
_GUESS = (*_GUESS, "--draft", "counts", "--max-new-tokens", "5", "--quiet")
_WAYS = (
    ((*_SAMPLE, "-o", "{}"), ("letters.arrow", "prompts.jsonl", "t.txt")),
    ((*_SAMPLE, "-o", "out.jsonl", "--trace", "{}"), ("letters.arrow", "prompts.jsonl", "t.txt")),
    ((*_GUESS, "-o", "out.jsonl", "--save-counts", "{}"), ("letters.arrow", "prompts.jsonl")),
    (("trace", "trace.jsonl", "--html", "{}"), ("trace.jsonl",)),
    (("compile-set", "names.txt", "-o", "{}"), ("names.txt",)),
)
"""Command lines, and the files that each of them reads."""
_FORMS = ("{}", "./{}", "../work/{}", "soft-{}", "hard-{}", "deep-{}")


def open_outputs(folder: Path) -> Try:
    """Return what names an output badly, and looks whether all that is not the run's is whole."""
    use_light_models()
    work = prepare(folder)
    (work / "t.txt").write_text("{id}\n")
    (work / "counts.json").write_text("mine")
    os.chdir(work)
    typed([*_SAMPLE, "--trace", "trace.jsonl"], folder / "said", -1)
    good = folder / "good"
    work.rename(good)

    def write_one(seed: int) -> str:
        rng = np.random.default_rng(seed)
        os.chdir(folder)
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(good, work)
        os.chdir(work)
        kept = _surround(rng)
        way, read = _WAYS[int(rng.integers(len(_WAYS)))]
        name = str(rng.choice([*_READ, "new.jsonl", "new.parquet", "other.parquet"]))
        form = _FORMS[int(rng.integers(len(_FORMS)))] if name in _READ else "{}"
        words = [word.format(form.format(name)) for word in way]
        force = ["--force"] if rng.random() < 0.8 else []
        status, said = typed([*words, *force], folder / "said", seed)
        # A soft link is replaced, never what it leads to; a file that nobody reads may be.
        lost = {name} if name not in read and not form.startswith(("soft", "deep")) else set()
        for path in {*_READ, *kept} - lost:
            before = kept.get(path, (good / path).read_bytes() if path in _READ else b"")
            assert Path(path).read_bytes() == before, (seed, words, path, status, said)
        return "written" if status == 0 else said.partition("error ")[2].split(":")[0]

    return write_one


def _surround(rng: np.random.Generator) -> dict[str, bytes]:
    """Put links and folders of others beside the files; return what is in them."""
    for name in _READ:
        Path(f"soft-{name}").symlink_to(name)
        Path(f"deep-{name}").symlink_to(f"soft-{name}")
        os.link(name, f"hard-{name}")
    Path("own").mkdir()
    Path("own/file").write_bytes(b"own")
    if rng.random() < 0.5:
        Path("new.parquet.parts").symlink_to("own")
    Path("other.parquet.parts").mkdir()
    Path("other.parquet.parts/0.parquet").write_bytes(b"other")
    return {"own/file": b"own", "other.parquet.parts/0.parquet": b"other"}
