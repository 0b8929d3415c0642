"""Build of the compiled library: finds a C++ compiler and makes ``cdec/core/_native``.

``python native/build.py`` compiles what changed and links it into ``core/``, for an editable
installation; ``--sanitize`` with the sanitizers, ``--again`` without them, whatever is there;
``--find`` looks for a compiler only. It is the build backend of the project as well: setuptools'
own, which asks for the package ``ziglang`` (a C++ compiler that an index brings) where the system
has none. That one compiles its own C++ library first, which takes a minute.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from setuptools import build_meta

NATIVE = Path(__file__).resolve().parent
ROOMS = ("common", "sets", "sampling", "automata", "trees", "grammars", "schemas", "binding")
OBJECTS = NATIVE / ".objects"
"""Compiled files, by the hash of what they were made of."""
LIBRARY = NATIVE.parent / "core" / ("_native.pyd" if os.name == "nt" else "_native.abi3.so")
"""Where an editable installation finds the library."""
_SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
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
        return [sys.executable, "-m", "ziglang", "c++"]
    return None


def _flags(is_zig: bool, sanitize: bool) -> list[str]:
    flags = [
        *_FLAGS,
        *(_SANITIZE if sanitize else []),
        f"-I{NATIVE / 'include'}",
    ]
    flags += [f"-I{NATIVE / room}" for room in ROOMS]
    if platform.machine().lower() in ("x86_64", "amd64"):
        flags.append("-mcpu=x86_64_v2" if is_zig else "-march=x86-64-v2")
    if sys.platform == "linux" and not is_zig and not sanitize:
        # Whatever C++ library another machine has.
        flags += ["-static-libstdc++", "-static-libgcc"]
    if is_zig:
        flags.append("-s")
    if sys.platform == "darwin":
        flags += ["-undefined", "dynamic_lookup"]
    return flags


def build(target: Path = LIBRARY, *, again: bool = False, sanitize: bool = False) -> Path:
    """Compile the library; a library of the same sources is left as it is.

    Args:
        target: Where it goes.
        again: Compile it whatever is there.
        sanitize: With AddressSanitizer and UndefinedBehaviorSanitizer.

    Raises:
        SystemExit: There is no compiler, or it fails.
    """
    again = again or sanitize
    if not again and target.exists() and digest().encode() in target.read_bytes():
        return target
    command = compiler()
    if command is None:
        raise SystemExit("no C++ compiler: install one, or `pip install ziglang`, and run it again")
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_name(f".{os.getpid()}.{target.name}")
    flags = _flags("ziglang" in command, sanitize)
    try:
        with ThreadPoolExecutor(os.cpu_count()) as workers:
            objects = list(workers.map(partial(_compiled, [*command, *flags]), sources()))
        _run([*command, *flags, "-shared", *map(str, objects), "-o", str(made)])
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)
    return target


def _compiled(command: list[str], source: Path) -> Path:
    """Compile one file, unless that was done before; only ``module.cc`` holds the digest."""
    made_of = hashlib.sha256(shlex.join(command).encode())
    for path in [source, *sorted(NATIVE.rglob("*.h"))]:
        made_of.update(path.read_bytes())
    if source.name == "module.cc":
        command = [*command, f'-DCDEC_SOURCES="{digest()}"']
        made_of.update(digest().encode())
    name = f"{source.parent.name}-{source.stem}"
    target = OBJECTS / f"{name}.{made_of.hexdigest()[:16]}.o"
    if not target.exists():
        OBJECTS.mkdir(exist_ok=True)
        for old in OBJECTS.glob(f"{name}.{'?' * 16}.o"):
            old.unlink(missing_ok=True)
        made = target.with_suffix(f".{os.getpid()}")
        _run([*command, "-c", str(source), "-o", str(made)])
        made.replace(target)
    return target


def _run(command: list[str]) -> None:
    done = subprocess.run(command)
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
    for option in ("again", "sanitize", "find"):
        parser.add_argument(f"--{option}", action="store_true")
    given = parser.parse_args()
    if given.find:
        sys.exit(0 if compiler() else 1)
    build(again=given.again, sanitize=given.sanitize)
