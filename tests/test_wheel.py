"""The wheel holds every module and asset, and nothing lands in site-packages under a bare name."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDERS = ["cli", "core", "compilers", "samplers", "data", "integrations"]
SURFACE = REPOSITORY / "integrations" / "python" / "__init__.py"
"""Installs as the package itself."""
ENGINES = {"llama_cpp", "sglang", "vllm"}
"""Packages that integrations are for, and that need not be there."""


@pytest.fixture(scope="module")
def wheel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> zipfile.ZipFile:
    """A wheel built from the working tree; building takes seconds, so ``make lint`` asks for it."""
    if not request.config.getoption("--wheel"):
        pytest.skip("builds a wheel: run with --wheel (make lint does)")
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), "."]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    return zipfile.ZipFile(next(out.glob("*.whl")))


def tracked_modules() -> list[str]:
    """Every module of the folders, by its installed path."""
    return sorted(
        "cdec/__init__.py" if path == SURFACE else f"cdec/{path.relative_to(REPOSITORY)}"
        for folder in FOLDERS
        for path in (REPOSITORY / folder).rglob("*.py")
    )


def test_every_room_is_listed_in_the_packages() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    rooms = {path.removesuffix("/__init__.py").replace("/", ".") for path in tracked_modules()}
    rooms = {room for room in rooms if not room.endswith(".py")}
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted(rooms)


def test_wheel_holds_every_module_and_no_bare_package(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert set(tracked_modules()) == {name for name in names if name.endswith(".py")}
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"cdec"}


def test_wheel_holds_the_embedded_models_and_lists(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    embedded = REPOSITORY / "data" / "embedded"
    files = {f"cdec/{p.relative_to(REPOSITORY)}" for p in embedded.rglob("*") if p.is_file()}
    assert any(name.endswith("target/model.safetensors") for name in files)
    assert files <= names


def test_every_module_imports_from_the_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in tracked_modules()
        if not name.endswith("__main__.py")
    ]
    code = (
        "import importlib, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import cdec\n"
        "assert cdec.__all__ and all(hasattr(cdec, name) for name in cdec.__all__)\n"
        f"for name in {modules!r}:\n"
        "    try:\n"
        "        module = importlib.import_module(name)\n"
        "    except ModuleNotFoundError as error:\n"
        f"        if error.name not in {ENGINES!r}: raise\n"
        "        continue\n"
        f"    assert module.__file__.startswith({str(tmp_path)!r}), module.__file__\n"
    )
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=environment)
