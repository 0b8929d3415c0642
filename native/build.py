"""Build of the compiled library: finds a C++ compiler and makes ``cdec/core/_native``.

``python native/build.py`` compiles what changed into ``core/``, for an editable installation;
``--again`` whether it changed or not, ``--sanitize`` with the sanitizers, ``--find`` looks for a
compiler only. It is the build backend of the project as well: setuptools' own, which asks for the
package ``ziglang`` (a C++ compiler that an index brings) where the system has none. That one
compiles its own C++ library first, which takes a minute.
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
from pathlib import Path
from typing import Any

from setuptools import build_meta

NATIVE = Path(__file__).resolve().parent
ROOMS = ("common", "sets", "sampling", "binding")
LIBRARY = NATIVE.parent / "core" / ("_native.pyd" if os.name == "nt" else "_native.abi3.so")
"""Where an editable installation finds the library."""
_SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
_FLAGS = ["-std=c++20", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]


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
        f'-DCDEC_SOURCES="{digest()}"',
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
    files = [str(path) for path in sources()]
    try:
        done = subprocess.run(
            [*command, *_flags("ziglang" in command, sanitize), *files, "-o", str(made)]
        )
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)} ended with status {done.returncode}")
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)
    return target


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
