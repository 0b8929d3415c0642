"""Ids: hashes of content that do not depend on how it is written, and duplicates found."""

from __future__ import annotations

import pytest

from cdec.core.errors import DuplicateIdError
from cdec.core.seeds import content_id
from cdec.data.ids import IdRegistry, id_key


def test_content_id_ignores_order_of_keys() -> None:
    assert content_id({"a": 1, "b": [2]}) == content_id({"b": [2], "a": 1})
    assert content_id({"a": 1}) != content_id({"a": 1.0})
    assert content_id("é") == content_id("é".encode())


def test_content_id_is_stable_across_versions() -> None:
    # Other values would break the resuming of old outputs.
    assert content_id("a") == "ca978112ca1bbdca"
    assert content_id({"prompt": "a", "n": 1}) == "0e3abf3afd259232"


def test_a_record_of_a_prompt_alone_is_known_by_its_text() -> None:
    assert content_id({"prompt": "a"}) == content_id("a")
    assert content_id({"prompt": "a", "n": 1}) != content_id("a")
    assert content_id({"prompt": ["a"]}) != content_id({"prompt": "a"})


def test_number_and_text_are_different_ids() -> None:
    assert id_key(1) != id_key("1")
    assert len(id_key("x" * 10_000)) == 16


def test_generated_id_steers_clear_of_an_explicit_one() -> None:
    ids = IdRegistry()
    ids.explicit(content_id("a"), "x", 1)
    assert ids.generated("a", 2) == content_id("a") + "-1"
    with pytest.raises(DuplicateIdError, match=r"line 3 has the id .* of line 2"):
        ids.explicit(content_id("a") + "-1", "x", 3)
