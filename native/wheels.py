"""Wheels for all systems, by cross-compiling: what ``make wheels`` runs.

One wheel is built for this machine; the others are copies with a library that the compiler of the
package ``ziglang`` made for another system. Each library is read again: format, processor, exported
and imported symbols, lowest version of its system. The wheel for this machine is installed into a
directory that cannot be written, and tried there with no compiler to be found.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lief

import build

GLIBC, MACOS = (2, 28), (11, 0)
"""Lowest versions of the systems."""
_LINUX = f"linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
_MACOS = f"macos.{MACOS[0]}.{MACOS[1]}"
TRIPLES = {
    f"manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64": f"x86_64-{_LINUX}",
    f"manylinux_{GLIBC[0]}_{GLIBC[1]}_aarch64": f"aarch64-{_LINUX}",
    f"macosx_{MACOS[0]}_{MACOS[1]}_x86_64": f"x86_64-{_MACOS}",
    f"macosx_{MACOS[0]}_{MACOS[1]}_arm64": f"aarch64-{_MACOS}",
    "win_amd64": "x86_64-windows-gnu",
}
"""What the compiler calls the system, by platform tag of the wheel."""
_TRY = """
import cdec.core.native, sys
from cdec.cli.app import main
assert cdec.core.native.library.__file__.startswith(sys.path[0]), cdec.core.native.library.__file__
sys.argv = ["cdec", "demo"]
main()
"""


@dataclass(frozen=True)
class Names:
    """The names that a library may and must have.

    Attributes:
        functions: Of Python, that the binding declares.
        data: Of Python, likewise.
        exported: Of the interface, and the module's own.
    """

    functions: frozenset[str]
    data: frozenset[str]
    exported: frozenset[str]


def declared() -> Names:
    """Read the names from the headers."""
    abi = (build.NATIVE / "binding" / "python_abi.h").read_text()
    interface = (build.NATIVE / "include" / "cdec_native.h").read_text()
    data = re.search(r"PYTHON_DATA PyObject ([^;]+);", abi)
    return Names(
        functions=frozenset(re.findall(r"\b(Py[A-Z]\w*_\w+|Py_\w+Ref)\(", abi)),
        data=frozenset(re.findall(r"\w+", data[1] if data else "")),
        exported=frozenset(re.findall(r"CDEC_API \w+ \*?(cdec_\w+)\(", interface))
        | {"PyInit__native"},
    )


def import_library(names: Names, folder: Path) -> Path:
    """Make the import library of Windows' ``python3.dll`` from the names."""
    lines = [*sorted(names.functions), *(f"{name} DATA" for name in sorted(names.data))]
    listed, made = folder / "python3.def", folder / "python3.lib"
    listed.write_text("\n".join(["LIBRARY python3.dll", "EXPORTS", *lines, ""]))
    tool = [sys.executable, "-m", "ziglang", "dlltool", "-m", "i386:x86-64"]
    _run([*tool, "-d", str(listed), "-l", str(made)])
    return made


def faults(library: Path, triple: str, names: Names) -> list[str]:
    """Return what is wrong with a library for some system."""
    found = lief.parse(str(library))
    kinds = {"linux": lief.ELF.Binary, "macos": lief.MachO.Binary, "windows": lief.PE.Binary}
    system = triple.split("-")[1].split(".")[0]
    if not isinstance(found, kinds[system]):
        return [f"format of another system: {type(found).__name__}"]
    strip = "_" if system == "macos" else ""
    exported = {_name(each, strip) for each in found.exported_functions}
    imported = {_name(each, strip) for each in _undefined(found)}
    python = {name for name in imported if name.startswith("Py")}
    told = [
        *(f"not exported: {name}" for name in names.exported - exported),
        *(f"not declared: {name}" for name in python - names.functions - names.data),
    ]
    lowest, most = _lowest(found)
    return [*told, *([f"needs {lowest}, more than {most}"] if lowest > most else [])]


def _undefined(library: Any) -> Iterable[Any]:
    # subtle: in an ELF file, what is not defined has no type: functions are symbols like others.
    if isinstance(library, lief.ELF.Binary):
        return [each for each in library.dynamic_symbols if each.shndx == 0]
    return (
        library.imported_functions
        if isinstance(library, lief.PE.Binary)
        else library.imported_symbols
    )


def _name(symbol: object, strip: str) -> str:
    return str(getattr(symbol, "name", symbol)).removeprefix(strip)


def _lowest(library: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the version of its system that a library needs, and the most that it may."""
    if isinstance(library, lief.ELF.Binary):
        versions = [
            tuple(int(part) for part in str(each.name).removeprefix("GLIBC_").split("."))
            for needed in library.symbols_version_requirement
            for each in needed.get_auxiliary_symbols()
            if re.fullmatch(r"GLIBC_[\d.]+", str(each.name))
        ]
        return max(versions, default=(0,)), GLIBC
    if isinstance(library, lief.MachO.Binary):
        return tuple(library.build_version.minos[:2]), MACOS
    return (0,), (0,)


def wheels(folder: Path, tags: Iterable[str]) -> list[Path]:
    """Build and check wheels, and say what was made.

    Args:
        folder: Where they go.
        tags: Platform tags of those to build.

    Raises:
        SystemExit: A library is not as it must be.
    """
    names, made = declared(), list[Path]()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        _run([*pip, "-w", temporary, str(build.NATIVE.parent)])
        _wheel("unpack", str(next(Path(temporary).glob("*.whl"))), "-d", temporary)
        unpacked = next(path for path in Path(temporary).iterdir() if path.is_dir())
        core = unpacked / "cdec" / "core"
        for tag in tags:
            triple = TRIPLES[tag]
            for old in core.glob("_native.*"):
                old.unlink()
            is_windows = "windows" in triple
            library = core / ("_native.pyd" if is_windows else "_native.abi3.so")
            linked = [import_library(names, Path(temporary))] if is_windows else []
            build.build(library, triple=triple, libraries=linked)
            wrong = faults(library, triple, names)
            if wrong:
                raise SystemExit(f"{tag}: " + "; ".join(wrong))
            made.append(_packed(unpacked, folder, tag))
            size = library.stat().st_size / 1e6
            print(f"{made[-1].name}: {len(names.exported)} symbols, library {size:.2f} MB")
    return made


def _packed(unpacked: Path, folder: Path, tag: str) -> Path:
    """Pack a wheel under a platform tag."""
    told = next(unpacked.glob("*.dist-info")) / "WHEEL"
    kept = [line for line in told.read_text().splitlines() if line and not line.startswith("Tag:")]
    told.write_text("\n".join([*kept, f"Tag: cp311-abi3-{tag}", ""]))
    _wheel("pack", str(unpacked), "-d", str(folder))
    return next(folder.glob(f"*-cp311-abi3-{tag}.whl"))


def try_out(wheel: Path) -> None:
    """Install a wheel where nobody can write, and run the demo there without compilers or a home.

    As another user, where this one is root and the other can run this interpreter.
    """
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "installed"
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile"]
        _run([*pip, "--target", str(place), str(wheel)])
        for path in [Path(temporary), *place.rglob("*"), place]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        code = "import sys; sys.path.insert(0, " + repr(str(place)) + ")" + _TRY
        command, other = [sys.executable, "-c", code], _other_user()
        environment = {"PATH": "/nowhere", "HOME": "/nowhere", "LANG": "C.UTF-8"}
        done = subprocess.run(command, env=environment, cwd="/", stdout=subprocess.DEVNULL, **other)
        Path(temporary).chmod(0o755)
        if done.returncode:
            raise SystemExit(f"{wheel.name}, installed: status {done.returncode}")
    user = "another user" if other else "this user"
    print(f"{wheel.name}: runs where nobody can write, no compiler, home unwritable, as {user}")


def _other_user() -> dict[str, Any]:
    """Return the arguments of ``subprocess.run`` for another user; none where there can be none."""
    other = {"user": 65534, "group": 65534}
    try:
        subprocess.run([sys.executable, "-c", ""], cwd="/", check=True, **other)
    except OSError:
        return {}
    return other


def _wheel(*arguments: str) -> None:
    _run([sys.executable, "-m", "wheel", *arguments], quiet=True)


def _run(command: list[str], quiet: bool = False) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL if quiet else None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Builds wheels for all systems.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("dist"))
    parser.add_argument("--tag", choices=TRIPLES, action="append", help="only these")
    given = parser.parse_args()
    own = [tag for tag, triple in TRIPLES.items() if triple.startswith(build.HERE)]
    for each in wheels(given.folder, given.tag or TRIPLES):
        if any(each.name.endswith(f"{tag}.whl") for tag in own):
            try_out(each)
