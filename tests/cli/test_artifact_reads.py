"""Every artifact of a run is read once, whatever looks at it before and after the model loads."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdec.core.artifacts import opened
from cdec.core.artifacts import read as artifact_read

from .conftest import Runner

pytestmark = pytest.mark.usefixtures("loaded", "grammar_child")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the files that are mapped and verified, by name."""
    counted: Counter[str] = Counter()
    plain: Callable[..., Any] = opened.map_verified

    def counting(path: Path, *arguments: Any, **named: Any) -> Any:
        counted[path.name] += 1
        return plain(path, *arguments, **named)

    monkeypatch.setattr(opened, "map_verified", counting)
    return counted


def test_each_command_reads_an_artifact_once(
    cdec: Runner, cities: Path, reads: Counter[str]
) -> None:
    for name in ("a.arrow", "b.arrow", "c.arrow"):
        shutil.copy(cities, name)
    words = ("-a", "a.arrow", "--constraint", "b=b.arrow", "--and", "c.arrow")
    for command in ("sample", "mass", "score"):
        reads.clear()
        result = cdec(
            command, *words, *(() if command == "score" else ("--prompt", "x")), stdin=b"Rome\n"
        )
        assert result.status in (0, 3), result.stderr
        assert reads == {"a.arrow": 1, "b.arrow": 1, "c.arrow": 1}


def test_options_that_look_at_the_kind_read_it_no_further(
    cdec: Runner, reads: Counter[str]
) -> None:
    Path("words.lark").write_text('start: "yes" | "no"\n')
    assert cdec("compile-grammar", "words.lark").status == 0
    for more in (("--lookahead", "1"), ("--heal",)):
        reads.clear()
        result = cdec("sample", "-a", "words.arrow", "--method", "masked", "--prompt", "x", *more)
        assert result.status == 0, result.stderr
        assert reads == {"words.arrow": 1}
    reads.clear()
    assert cdec("check", "words.arrow", stdin=b"yes\n").status == 0
    assert cdec("check", "words.arrow", "--explain", stdin=b"yes\n").status == 0
    assert cdec("inspect", "words.arrow").status == 0
    assert reads == {"words.arrow": 3}


@pytest.mark.parametrize(
    "words",
    [
        ("sample", "-a", "{}", "--prompt", "x", "--method", "masked"),
        ("score", "-a", "{}", "-i", "t.txt", "--prompt", "x"),
        ("check", "{}", "-i", "t.txt"),
    ],
)
def test_copy_reads_artifacts_of_any_size_into_memory(
    cdec: Runner, letters: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    Path("t.txt").write_text("a\n")
    largest: list[int] = []
    plain = artifact_read.contents_of

    def noted(path: Path, limits: Any, copied_bytes: int) -> Any:
        largest.append(copied_bytes)
        return plain(path, limits, copied_bytes)

    monkeypatch.setattr(artifact_read, "contents_of", noted)
    typed = [word.format(letters) for word in words]
    for copy in ((), ("--copy",)):
        assert cdec(*typed, *copy).status == 0
    assert largest == [artifact_read.COPIED_BYTES, sys.maxsize]
