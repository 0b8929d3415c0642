"""The rooms: no circles of imports, a docstring in every room, and nothing that grows unseen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import House, line_count, read_house

LINES_A_FUNCTION = 60

CIRCLES: list[list[str]] = []
"""Groups of files that still import each other; a group that is cut open leaves the list."""

BUDGETS: dict[str, tuple[int, int]] = {
    "cdec.samplers.masked": (40, 8_130),
    "cdec.samplers.disc": (41, 8_695),
    "cdec.samplers.exact": (43, 9_120),
    "cdec.samplers.cdsl": (53, 11_700),
    "cdec.cli.check": (115, 24_530),
    "cdec.cli.compile_set": (76, 15_205),
    "cdec.core.schemas.session": (13, 2_333),
    "cdec.core.grammars.session": (6, 1_620),
}
"""Files and lines that a reader of a module opens at most, types included: may only shrink."""

PARAMETERS, WIDE_FUNCTIONS = 6, 31
"""How many functions take more parameters than that, ``self`` not counted: may only fall."""

LONG_FUNCTIONS: dict[str, int] = {}
"""Functions with more lines of code than the limit, and how many: these may only shrink."""


@pytest.fixture(scope="module")
def house() -> House:
    return read_house()


def test_no_circle_of_imports_but_the_listed_ones(house: House) -> None:
    assert house.circles() == sorted(CIRCLES)


def test_every_room_says_what_lives_there(house: House) -> None:
    silent = [
        str(room)
        for room in house.rooms()
        if not ast.get_docstring(ast.parse((house.root / room / "__init__.py").read_text()))
    ]
    assert silent == []


@pytest.mark.parametrize("module", BUDGETS)
def test_a_reader_opens_few_files(house: House, module: str) -> None:
    opened = house.opened(module)
    lines = sum(line_count(house.files[name]) for name in opened)
    most_files, most_lines = BUDGETS[module]
    assert (len(opened) <= most_files, lines <= most_lines) == (True, True), (len(opened), lines)


def test_functions_are_short(house: House) -> None:
    sizes = {
        f"{place(house, path)}:{function.name}": code_lines(function)
        for path in house.files.values()
        for function in functions(parse(path))
    }
    assert beyond(sizes, LINES_A_FUNCTION) == LONG_FUNCTIONS


def test_few_functions_take_many_parameters(house: House) -> None:
    wide = [
        f"{place(house, path)}:{function.name}"
        for path in house.files.values()
        for function in functions(parse(path))
        if parameters(function) > PARAMETERS
    ]
    assert len(wide) <= WIDE_FUNCTIONS, wide


def test_circles_through_types_and_functions_are_found(tmp_path: Path) -> None:
    room = tmp_path / "core"
    room.mkdir()
    (room / "__init__.py").write_text('"""Core."""\n')
    (room / "types.py").write_text("if TYPE_CHECKING:\n    from cdec.core.late import Late\n")
    (room / "late.py").write_text("def late():\n    import cdec.core.types\n")
    (room / "apart.py").write_text("from cdec.core import late\n")
    assert read_house(tmp_path).circles() == [["cdec.core.late", "cdec.core.types"]]
    assert read_house(tmp_path).opened("cdec.core.apart") == {
        "cdec.core.apart",
        "cdec.core.late",
        "cdec.core.types",
    }


def beyond(sizes: dict[str, int], limit: int) -> dict[str, int]:
    """Return what is larger than ``limit``."""
    return {name: size for name, size in sorted(sizes.items()) if size > limit}


def place(house: House, path: Path) -> str:
    """Return where a file stands in the repository."""
    return str(path.relative_to(house.root))


def parse(path: Path) -> ast.Module:
    """Return the syntax of a file."""
    return ast.parse(path.read_text())


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method of a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many parameters a function names, without what it is called on."""
    given = node.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def code_lines(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a file or function, without its own docstring."""
    if not node.body:
        return 0
    last = max(child.end_lineno or 0 for child in node.body)
    first = 0 if isinstance(node, ast.Module) else node.lineno - 1
    lines = last - first
    if ast.get_docstring(node) is not None:
        docstring = node.body[0]
        lines -= (docstring.end_lineno or 0) - docstring.lineno + 1
    return lines
