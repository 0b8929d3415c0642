"""Requests to a server whose system gives nothing for a while: a code, and an answer later."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import numpy as np

from cdec.core.errors import CdecError, OutputError
from cdec.core.files.cache import CacheFolder
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.serving.constraints import ServedConstraints
from cdec.integrations.serving.settings import ServingLimits, ServingSettings
from tests.compilers.child.scarce import without_descriptors
from tools.campaign.attack import Try
from tools.campaign.mutants import damaged

_FAULTS = ("none", "no folder", "no descriptors", "killed", "damaged cache")


def open_scarcity(folder: Path) -> Try:
    """Return what asks a server under one fault, and again without it."""
    vocabulary = Vocabulary.from_tokenizer("embedded")
    limits = ServingLimits(compile_seconds=60, compile_megabytes=4096)
    settings = ServingSettings(
        artifacts={},
        allow=frozenset({"candidates", "grammar", "regex", "schema"}),
        tokenizer="embedded",
        limits=limits,
    )
    served = [with_cache_in(folder, ServedConstraints(settings, vocabulary))]
    served[0].read({"regex": "warm"})

    def ask(seed: int) -> str:
        rng = np.random.default_rng(seed)
        fault = _FAULTS[int(rng.integers(len(_FAULTS)))]
        number = int(rng.integers(30))
        kinds = ({"regex": f"x{{{number}}}"}, {"schema": {"const": number}})
        value = kinds[int(rng.integers(len(kinds)))]
        if rng.random() < 0.1:
            served[0].close()
            served[0] = with_cache_in(folder, ServedConstraints(settings, vocabulary))
        outcome = _faulty(served[0], value, fault, folder, rng)
        text = b"x" * number if "regex" in value else str(number).encode()
        assert served[0].read(value).accepts(text), (seed, fault)
        return f"{fault}: {outcome}"

    return ask


def with_cache_in(folder: Path, served: ServedConstraints) -> ServedConstraints:
    """Return a server that keeps what it compiled in a folder, and kernels where they are."""
    assert served._sources is not None
    served._sources._shared = CacheFolder("served", most=64, max_bytes=1 << 30, within=folder)
    return served


def _faulty(
    served: ServedConstraints, value: object, fault: str, folder: Path, rng: np.random.Generator
) -> str:
    """Ask under a fault; say what came of it."""
    before = tempfile.tempdir
    child = served._sources._child if served._sources is not None else None
    try:
        if fault == "no folder":
            tempfile.tempdir = "/nowhere/at/all"
        if fault == "killed" and child is not None and child.pid is not None:
            os.kill(child.pid, signal.SIGKILL)
        if fault == "damaged cache":
            for file in (folder / "served").glob("*.arrow"):
                file.write_bytes(damaged(file.read_bytes(), rng))
        if fault == "no descriptors":
            with without_descriptors():
                served.read(value)
        else:
            served.read(value)
    except OutputError:
        assert fault in ("no folder", "no descriptors")
        return "E_IO"
    except CdecError as error:
        raise AssertionError(f"{fault}: {error.code}: {error}") from error
    finally:
        tempfile.tempdir = before
    return "answered"
