"""Vocabularies that lack bytes of JSON: compiling says which, and that texts may get stuck."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.cli.compile_schema import schema_rows
from cdec.cli.inspect import overview
from cdec.compilers import SchemaOptions, compile_schema
from cdec.compilers.schemas.opened import schema_constraint
from cdec.core.artifacts.opened import open_artifact
from cdec.core.errors import CdecError
from cdec.core.tokens.vocabulary import Vocabulary
from tests.compilers.schemas.random_schemas import random_document


def lacking(missing: bytes) -> Vocabulary:
    """Return all single bytes but some."""
    tokens = [bytes([byte]) for byte in range(256) if byte not in missing]
    return Vocabulary([*tokens, b""], [len(tokens)], name="toy")


def gets_stuck(constraint: Any, rng: random.Random) -> bool:
    """Walk along the masks; say whether one is empty before the text is complete."""
    session, ends = constraint.session("cpu"), constraint.vocabulary.eos_token_ids
    states = session.start(1)
    for _ in range(60):
        ids = session.allowed(states)[1].tolist()
        if not ids:
            return not bool(session.is_complete(states)[0])
        token = rng.choice(ids)
        if token in ends:
            return False
        states = session.advance(states, np.array([token]))
    return False


@pytest.mark.parametrize("missing", [b"46", b"u", b"\\", b"\xc3", b"}", b"\x80", b'"'])
def test_missing_bytes_are_warned_of_and_recorded(missing: bytes, tmp_path: Path) -> None:
    toy, path = lacking(missing), tmp_path / "x.arrow"
    report = compile_schema({"type": "string", "pattern": "^[a-c]*$"}, toy, path)
    (notice,) = report.notices
    assert (notice.code, notice.details["bytes"]) == ("W_MISSING_BYTES", missing.hex())
    assert not report.is_sound and "unproved" in report.sound_reason
    opened: Any = open_artifact(path, vocabulary=toy)
    assert not opened.is_sound and opened.metadata["cdec.sound_reason"] == report.sound_reason
    described = {**opened.summary(), "bytes": 1, "kind": "schema"}
    assert dict(overview(path, 0.0, described))["sound"] == report.sound_reason
    assert dict(schema_rows(report))["sound"] == report.sound_reason
    assert report.to_json()["sound"] is False


def test_a_tab_is_missed_where_a_token_can_begin_lines_that_tabs_indent() -> None:
    tokens = [bytes([byte]) for byte in range(256) if byte != 0x09] + [b"\n\t"]
    toy = Vocabulary([*tokens, b""], [len(tokens)], name="toy")
    nested = {"type": "array", "items": {"type": "array", "minItems": 1}, "minItems": 1}
    found = {
        kind: schema_constraint(nested, toy, SchemaOptions(whitespace=kind)).is_sound
        for kind in ("usual", "any", "compact", "pretty")
    }
    assert found == {"usual": False, "any": True, "compact": True, "pretty": True}
    usual = schema_constraint(nested, toy)
    session = usual.session()
    states = session.advance_bytes(session.start(1), [b"[\n\t[\n\t"])
    assert len(session.allowed(states)[1]) == 0, "only a tab may come, and there is no such token"


@pytest.mark.parametrize("missing", [b"", b"\x00\x1f\xc0\xc1\xf5\xff\t\r"])
def test_bytes_that_no_text_needs_are_not_missed(missing: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    report = compile_schema({"type": "string"}, lacking(missing), path)
    assert report.is_sound and not report.notices
    opened: Any = open_artifact(path, vocabulary=lacking(missing))
    described = {**opened.summary(), "bytes": 1, "kind": "schema"}
    assert dict(overview(path, 0.0, described))["sound"].startswith("yes")


def test_walks_get_stuck_only_where_soundness_is_unproved() -> None:
    rng, stuck, walked = random.Random(12), 0, 0
    choices = [*b'0123456789abcdefu"}]:,n.-', 0x80, 0xA9, 0xC3, 0xF0, 0x09, 0xFF, 0x1F]
    texts = [{"type": "string", "pattern": f"^[{c}]*$"} for c in ("abc", "é", "1-4", "^a-z")]
    for _ in range(60):
        missing = bytes(rng.sample(choices, rng.choice([0, 1, 2, 4])))
        schema = rng.choice([random_document(rng), {"enum": [46, "4é", True]}, *texts])
        try:
            constraint: Any = schema_constraint(json.dumps(schema), lacking(missing))
        except CdecError:
            continue
        for _ in range(4):
            walked += 1
            if gets_stuck(constraint, rng):
                stuck += 1
                assert not constraint.is_sound, (schema, missing)
    assert stuck >= 3 and walked >= 60
