"""set_constraint: a list of texts as a constraint without a file, equal to the one compiled to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.compilers import compile_set, set_constraint
from cdec.core import open_artifact
from cdec.core.errors import EmptySetError, FieldError, UntokenizableError, UsageError
from cdec.core.sets.set_constraint import SetConstraint
from tests.compilers.sets.small_tokenizers import byte_level, lossy
from tests.laws.toys import toy_a

TEXTS = ["Paris", "Parish", "New York", "München \U0001f600", "Paris"]


def made(texts: Any, **options: Any) -> SetConstraint:
    constraint = set_constraint(texts, byte_level(), **options)
    assert isinstance(constraint, SetConstraint)
    return constraint


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=12),
    space=st.sampled_from(["auto", "always", "never"]),
    prefix=st.sampled_from(["", "Entity: <"]),
    suffix=st.sampled_from(["", ">"]),
    normalize=st.sampled_from(["none", "nfc"]),
)
def test_it_is_what_the_file_opens_as(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], space: str, **options: Any
) -> None:
    options["leading_space"] = space
    path = tmp_path_factory.mktemp("sets") / "set.arrow"
    compile_set(texts, byte_level(), path, keep_empty=True, **options)
    opened = open_artifact(path, vocabulary=byte_level())
    assert isinstance(opened, SetConstraint)
    mine = made(texts, keep_empty=True, **options)
    for name, array in opened.arrays.to_mapping().items():
        assert np.array_equal(array, mine.arrays.to_mapping()[name])
    for text in texts:
        assert mine.annotations(text.encode()) == opened.annotations(text.encode())
        assert mine.accepts(text.encode()) == opened.accepts(text.encode())
    left_out = {"cdec.digest", "cdec.version", "cdec.format"}
    assert {k: v for k, v in opened.metadata.items() if k not in left_out} == {
        k: v for k, v in mine.metadata.items() if k not in left_out
    }
    assert mine.summary()["kind"] == mine.kind


def test_ids_come_from_mappings() -> None:
    constraint = made([{"text": "Paris", "id": "Q90"}, {"text": "Paris", "id": 5}, "Rome"])
    assert constraint.annotations(b"Paris") == {"entity_ids": ["Q90", "5"]}
    assert constraint.annotations(b"Rome") == {"entity_ids": ["3"]}


def test_its_arrays_are_read_only_and_its_digest_tells_sets_apart() -> None:
    one, again, other = made(TEXTS), made(TEXTS), made(TEXTS[1:3])
    assert not one.arrays.tokens.flags.writeable
    digests = [each.metadata["cdec.digest"] for each in (one, again, other)]
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 64


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made(TEXTS)
    assert not list(tmp_path.iterdir())


def test_refusals_are_those_of_compile_set() -> None:
    with pytest.raises(EmptySetError):
        made([])
    with pytest.raises(EmptySetError):
        made([" ", ""])
    with pytest.raises(FieldError):
        made([{"texts": "Paris"}])
    with pytest.raises(UsageError):
        made("Paris")
    with pytest.raises(UntokenizableError):
        set_constraint(["Été"], lossy())
    with pytest.raises(UsageError, match="no tokenizer"):
        set_constraint(["a"], toy_a().vocabulary)
    with pytest.raises(UsageError, match="leading_space"):
        made(TEXTS, leading_space="perhaps")
