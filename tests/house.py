"""Measures the house: files and lines of every room, and how many files a reader has to open.

``python -m tests.house cdec.samplers.masked cdec.cli.check`` prints Markdown tables. Imports are
read from the syntax of the files, so nothing is run; those under ``TYPE_CHECKING`` and inside
functions count like the others, and so do names of modules in strings (``import_module``), but for
those of the visible dicts of kinds. ``--repository DIR`` measures another checkout.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDERS = ("core", "compilers", "samplers", "data", "integrations", "cli")
TABLES = (
    "core/kinds.py",
    "samplers/registry.py",
    "samplers/wrappers.py",
    "cli/frame/registry.py",
)
"""The visible dicts of kinds: who reads one opens the row that is wanted, not all of them."""


@dataclass(frozen=True)
class House:
    """The modules of a checkout by dotted name, and for each the modules that it imports."""

    root: Path
    files: dict[str, Path]
    imports: dict[str, frozenset[str]]

    def opened(self, module: str) -> set[str]:
        """Return ``module`` and all that it imports, directly or through others."""
        found = {module}
        waiting = [module]
        while waiting:
            new = self.imports[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    def circles(self) -> list[list[str]]:
        """Return the groups of modules that import each other, each in alphabetical order."""
        opened = {module: self.opened(module) for module in self.files}
        groups = {
            tuple(sorted(b for b in opened[a] if a in opened[b])) for a in self.files if opened[a]
        }
        return sorted(list(group) for group in groups if len(group) > 1)

    def rooms(self) -> dict[Path, list[Path]]:
        """Return the Python files of every folder that holds some."""
        rooms: dict[Path, list[Path]] = {}
        for path in sorted(self.files.values()):
            rooms.setdefault(path.parent.relative_to(self.root), []).append(path)
        return rooms


def read_house(root: Path = REPOSITORY) -> House:
    """Read the modules of the folders that install as ``cdec.*`` and what they import."""
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    files = {_module_name(path.relative_to(root)): path for path in paths}
    imports = {
        module: frozenset(_imported(path, files, named=str(path.relative_to(root)) not in TABLES))
        - {module}
        for module, path in files.items()
    }
    return House(root, files, imports)


def _module_name(path: Path) -> str:
    parts = ("cdec", *path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, files: dict[str, Path], *, named: bool) -> Iterator[str]:
    """Yield the modules of the house that a file imports, ``named`` in strings too."""
    modules = {name for name, file in files.items() if named and file.name != "__init__.py"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom) and node.module in files:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in files else node.module
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            yield from {name, name.rpartition(".")[0]} & modules


def line_count(path: Path) -> int:
    """Return the lines of a file, docstrings and blank lines included."""
    return len(path.read_text().splitlines())


def _room_table(house: House) -> Iterator[str]:
    yield "| room | files | lines |"
    yield "|---|---|---|"
    total = 0
    for room, paths in house.rooms().items():
        lines = sum(map(line_count, paths))
        total += lines
        yield f"| `{room}` | {len(paths)} | {lines:,} |"
    yield f"| all | {len(house.files)} | {total:,} |"


def _reader_table(house: House, modules: list[str]) -> Iterator[str]:
    yield "| module | samplers and cli: files | lines | all: files | lines |"
    yield "|---|---|---|---|---|"
    for module in modules:
        opened = house.opened(module)
        near = {name for name in opened if name.startswith(("cdec.samplers", "cdec.cli"))}
        counts = [
            f"{len(names)} | {sum(line_count(house.files[name]) for name in names):,}"
            for names in (near, opened)
        ]
        yield f"| `{module}` | {' | '.join(counts)} |"


def main() -> None:
    """Print the tables that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("modules", nargs="*", help="modules whose transitive imports are counted")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="the checkout to read")
    arguments = parser.parse_args()
    house = read_house(arguments.repository.resolve())
    unknown = [module for module in arguments.modules if module not in house.files]
    if unknown:
        parser.error(f"no module {', '.join(unknown)} under {house.root}")
    print("\n".join(_room_table(house)))
    if arguments.modules:
        print("\n" + "\n".join(_reader_table(house, arguments.modules)))


if __name__ == "__main__":
    main()
