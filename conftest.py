"""Options and fixtures of all trees of tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.laws.sizes import HEAVY
from tests.shared import shared_folder

# Collection makes objects that stay; a third of its time would go into searching them for garbage.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also run the second tier of tests")
    parser.addoption("--heavy", action="store_true", help="also run tests that need gigabytes")
    parser.addoption("--wheel", action="store_true", help="also build and check the wheel")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--heavy"):
        os.environ[HEAVY] = "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what no option asks for: tests marked ``heavy`` or ``slow``, cases beyond shares.

    A test that is named on the command line by its node id runs whatever its tier.
    """
    if config.getoption("--heavy"):
        return
    skip = pytest.mark.skip(reason="needs gigabytes or minutes: run with --heavy")
    for item in items:
        if "heavy" in item.keywords:
            item.add_marker(skip)
    if config.getoption("--all") or any("::" in word for word in config.args):
        return
    left_out = {item.nodeid for item in items if "slow" in item.keywords}
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("share") is not None:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        kept = share_of(cases)
        left_out |= {case.nodeid for case in cases if case not in kept}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


def pytest_collection_finish() -> None:
    """Let the collector of garbage look at nothing but what tests make."""
    gc.freeze()
    gc.enable()


def share_of(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of a parametrized test that the first tier runs.

    ``share(n)`` keeps n of them, evenly spread; ``share("a", "b")`` one of each pair of values of
    these parameters, which together go through the values of the others.
    """
    marker = cases[0].get_closest_marker("share")
    assert marker is not None
    if isinstance(marker.args[0], int):
        count = min(marker.args[0], len(cases))
        return [cases[i * len(cases) // count] for i in range(count)]
    groups: dict[str, list[pytest.Item]] = {}
    for case in cases:
        values = case.callspec.params  # type: ignore[attr-defined]
        groups.setdefault(repr([values[name] for name in marker.args]), []).append(case)
    return [group[i % len(group)] for i, group in enumerate(groups.values())]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared data; the test skips where it is absent."""
    folder = shared_folder()
    if not (folder / "data").is_dir():
        pytest.skip(f"no shared data at {folder}: set CDEC_SHARED")
    return folder


@pytest.fixture(scope="session")
def embedded_model() -> Any:
    """The embedded model, loaded once for all tests."""
    import torch

    from cdec.core import load_model
    from cdec.data.assets import embedded_model_path

    # A model this small gains nothing from threads, and loses much where cores are busy.
    torch.set_num_threads(1)
    return load_model(embedded_model_path())


@pytest.fixture(scope="session")
def model(embedded_model: Any) -> Any:
    """The embedded model, where tests have no other."""
    return embedded_model


@pytest.fixture(scope="session")
def vocabulary() -> Any:
    """The embedded model's vocabulary, where tests have no other."""
    from cdec.core import Vocabulary
    from cdec.data.assets import embedded_model_path

    return Vocabulary.from_tokenizer(embedded_model_path())


@pytest.fixture(scope="session")
def _table_process() -> Iterator[Any]:
    from cdec.data.rows.table_process import TableProcess

    class Kept(TableProcess):
        def __exit__(self, *_: object) -> None:
            return

    tables = Kept()
    yield tables
    tables.stop()


@pytest.fixture
def kept_tables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let readings in this process share one process that opens tables."""
    from cdec.data.entities import request as entities
    from cdec.data.prompts import read, texts

    for module in (entities, read, texts):
        monkeypatch.setattr(
            module, "TableProcess", lambda: request.getfixturevalue("_table_process")
        )


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests' remembered digests out of the user's cache."""
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cdec-cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
