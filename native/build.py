"""Build of the compiled library: finds a C++ compiler and makes ``cdec/core/_native``.

``python native/build.py`` compiles what changed and links it into ``core/``, for an editable
installation; ``--sanitize NAMES`` with sanitizers, ``--again`` without, whatever is there;
``--find`` looks for a compiler only; ``--fuzzers FOLDER`` builds these. It is the build backend of
the project as well: setuptools' own, which asks for the package ``ziglang`` (a C++ compiler that an
index brings) where the system has none. That one compiles its own C++ library first, which takes a
minute.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from setuptools import build_meta

NATIVE = Path(__file__).resolve().parent
ROOMS = (
    "common",
    "sets",
    "sampling",
    "automata",
    "trees",
    "grammars",
    "schemas",
    "canonical",
    "binding",
)
OBJECTS = NATIVE / ".objects"
"""Where compilers run, and leave what they leave."""
LIBRARY = NATIVE.parent / "core" / ("_native.pyd" if os.name == "nt" else "_native.abi3.so")
"""Where an editable installation finds the library."""
ZIG = [sys.executable, "-m", "ziglang", "c++"]
HERE = "-".join(
    [
        {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine()),
        {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform),
    ]
)
"""This machine's system."""
_KEPT_SECONDS = 30 * 24 * 3600
_FLAGS = ["-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"]


def sources() -> list[Path]:
    """Return the files to compile."""
    return sorted(path for room in ROOMS for path in (NATIVE / room).glob("*.cc"))


def digest() -> str:
    """Return the hash of all sources, headers and this file: what a library was made of."""
    found = hashlib.sha256()
    for path in sorted([*NATIVE.rglob("*.cc"), *NATIVE.rglob("*.h"), NATIVE / "build.py"]):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def compiler() -> list[str] | None:
    """Return the command of a C++ compiler: ``CXX``, the system's, or that of ``ziglang``."""
    if os.environ.get("CXX"):
        return shlex.split(os.environ["CXX"])
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang"):
        return ZIG
    return None


def _flags(command: list[str], triple: str, sanitize: str | None) -> list[str]:
    """Return the flags for a system: ``triple`` as the compiler of ``ziglang`` names it."""
    is_zig, flags = "ziglang" in command, [*_FLAGS, "-Iinclude", *(f"-I{room}" for room in ROOMS)]
    if triple.startswith("x86_64"):
        flags.append("-mcpu=x86_64_v2" if is_zig else "-march=x86-64-v2")
    if is_zig:
        flags += ["-s", "-target", triple] if triple != HERE else ["-s"]
    elif sanitize:
        flags += ["-g", f"-fsanitize={sanitize}", "-fno-sanitize-recover=all"]
    elif "linux" in triple:
        # Whatever C++ library another machine has.
        flags += ["-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL"]
    if "macos" in triple:
        flags += ["-undefined", "dynamic_lookup", f"-Wl,-install_name,{LIBRARY.name}"]
    return flags


def build(
    target: Path = LIBRARY,
    *,
    again: bool = False,
    sanitize: str | None = None,
    triple: str = HERE,
    libraries: Sequence[Path] = (),
) -> Path:
    """Compile the library; a library of the same sources is left as it is.

    Args:
        target: Where it goes.
        again: Compile it whatever is there.
        sanitize: With these sanitizers of the compiler, as "address,undefined".
        triple: The system that it is for; any but this one with the compiler of ``ziglang``.
        libraries: What it is linked with as well.

    Raises:
        SystemExit: There is no compiler, or it fails.
    """
    again = again or sanitize is not None
    if not again and target.exists() and digest().encode() in target.read_bytes():
        return target
    command = compiler() if triple == HERE else ZIG
    if command is None:
        raise SystemExit("no C++ compiler: install one, or `pip install ziglang`, and run it again")
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    OBJECTS.mkdir(exist_ok=True)
    made = target.with_name(f".{os.getpid()}.{target.name}")
    flags = _flags(command, triple, sanitize)
    try:
        with ThreadPoolExecutor(os.cpu_count()) as workers:
            objects = list(workers.map(partial(_compiled, [*command, *flags]), sources()))
        _run([*command, *flags, "-shared", *map(str, [*objects, *libraries]), "-o", str(made)])
        made.replace(target)
        _forget_old()
    finally:
        made.unlink(missing_ok=True)
    return target


def fuzzers(folder: Path) -> None:
    """Build a fuzzer of each kind of artifact, ``native/fuzz``, with clang.

    Args:
        folder: Where they go.
    """
    flags = _flags(["clang++"], HERE, "fuzzer-no-link,address,undefined")
    rooms = [path for path in sources() if path.parent.name != "binding"]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        objects = list(workers.map(partial(_compiled, ["clang++", *flags]), rooms))
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted((NATIVE / "fuzz").glob("*.cc")):
        linked = ["-fsanitize=fuzzer", str(source), *map(str, objects)]
        _run(["clang++", *flags, *linked, "-o", str(folder.resolve() / source.stem)], NATIVE)


def _kept() -> Path:
    """Return the folder of compiled files in the user's cache, which all checkouts share."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "cdec" / "objects"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder if os.access(folder, os.W_OK) else OBJECTS
    except (OSError, RuntimeError):
        return OBJECTS


def _included(source: Path) -> set[Path]:
    """Return a file and the headers that it includes, theirs included."""
    found, begun = {source}, [source]
    while begun:
        file = begun.pop()
        for name in re.findall(r'#include "([^"]+)"', file.read_text()):
            folders = [file.parent, *(NATIVE / room for room in ("include", *ROOMS))]
            header = next(folder / name for folder in folders if (folder / name).exists())
            if header not in found:
                found.add(header)
                begun.append(header)
    return found


@cache
def _version(*compiler: str) -> bytes:
    """Return what tells a compiler from another of the same name."""
    return subprocess.run([*compiler, "--version"], stdout=subprocess.PIPE, check=False).stdout


def _compiled(command: list[str], source: Path) -> Path:
    """Compile one file, unless that was done before; only ``module.cc`` holds the digest."""
    made_of = hashlib.sha256(
        shlex.join(command).encode() + _version(*command[: command.index(_FLAGS[0])])
    )
    for path in sorted(_included(source)):
        made_of.update(path.relative_to(NATIVE).as_posix().encode() + path.read_bytes())
    if source.name == "module.cc":
        command = [*command, f'-DCDEC_SOURCES="{digest()}"']
        made_of.update(digest().encode())
    folder = _kept()
    target = folder / f"{source.parent.name}-{source.stem}.{made_of.hexdigest()[:32]}.o"
    if target.exists():
        target.touch()
        return target
    made = target.with_suffix(f".{os.getpid()}")
    _run([*command, "-c", source.relative_to(NATIVE).as_posix(), "-o", str(made)], NATIVE)
    made.replace(target)
    return target


def _forget_old() -> None:
    """Remove compiled files that no build has used for long."""
    for path in _kept().glob("*.o"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _KEPT_SECONDS:
                path.unlink()


def _run(command: list[str], folder: Path = OBJECTS) -> None:
    # subtle: linkers for Windows leave files where they run.
    done = subprocess.run(command, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with status {done.returncode}")


def _required(given: list[str]) -> list[str]:
    return given if compiler() else [*given, "ziglang"]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what setuptools asks for, and a compiler where there is none."""
    return _required(build_meta.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Return what setuptools asks for, and a compiler where there is none."""
    return _required(build_meta.get_requires_for_build_editable(config_settings))


build_wheel = build_meta.build_wheel
build_editable = build_meta.build_editable
build_sdist = build_meta.build_sdist
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Builds the compiled library.")
    for option in ("again", "find"):
        parser.add_argument(f"--{option}", action="store_true")
    parser.add_argument("--sanitize", metavar="SANITIZERS")
    parser.add_argument("--fuzzers", metavar="FOLDER", type=Path)
    given = parser.parse_args()
    if given.find:
        sys.exit(0 if compiler() else 1)
    if given.fuzzers:
        sys.exit(fuzzers(given.fuzzers))
    build(again=given.again, sanitize=given.sanitize)
