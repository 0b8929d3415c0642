"""References to other documents: how they are found, what they mean, what an artifact keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdec.compilers import SchemaLimits, compile_schema, schema, schema_constraint
from cdec.compilers.schemas.options import SchemaOptions
from cdec.compilers.schemas.references import references_of
from cdec.compilers.verify import verify_artifact
from cdec.core.artifacts.opened import open_artifact, read_artifact
from cdec.core.artifacts.write import write_artifact
from cdec.core.errors import (
    ArtifactInvalidError,
    CdecError,
    InputMissingError,
    LimitError,
    UsageError,
)
from cdec.core.schemas.errors import SchemaInvalidError, SchemaJsonError, SchemaRefError
from cdec.core.schemas.references import References
from cdec.core.schemas.schema_constraint import SchemaConstraint
from cdec.core.schemas.validity import parser_of, stored_language
from tests.laws.grammar_cases import byte_vocabulary
from tools.benchmarks.schemas.outcomes import follows

Verdicts = dict[str, bool]
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
LATEST = "https://json-schema.org/draft/2020-12/schema"


def constraint_of(schema: Any, refs: Any) -> SchemaConstraint:
    text = json.dumps(schema)
    options = SchemaOptions(references=references_of(refs)).for_text(text)
    return schema_constraint(text, byte_vocabulary(), options)


def verdicts(constraint: SchemaConstraint, texts: Any) -> Verdicts:
    """Return which texts are taken, by masks and by the jsonschema package alike."""
    session, parse = constraint.session(), parser_of(*stored_language(constraint.metadata).parts)
    assert parse is not None
    taken = {text: follows(session, text) for text in texts}
    assert taken == {text: parse(text, 0.0) for text in texts}
    return taken


def write(folder: Path, documents: dict[str, Any]) -> Path:
    for name, document in documents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document))
    return folder


# --- What references mean: across documents as within one.

TREE = {
    "$schema": LATEST,
    "$id": "https://x.org/tree",
    "$dynamicAnchor": "node",
    "type": "object",
    "properties": {"data": True, "children": {"items": {"$dynamicRef": "#node"}}},
}
STRICT = {
    "$schema": LATEST,
    "$dynamicAnchor": "node",
    "$ref": "https://x.org/tree",
    "unevaluatedProperties": False,
}
MEANINGS: dict[str, tuple[Any, dict[str, Any], Verdicts]] = {
    "a whole document": (
        {"items": {"$ref": "https://x.org/a"}},
        {"https://x.org/a": {"type": "integer", "minimum": 1}},
        {"[1,2]": True, "[0]": False},
    ),
    "a pointer, escaped": (
        {"$ref": "https://x.org/a#/$defs/a~1b%25"},
        {"https://x.org/a": {"$defs": {"a/b%": {"const": 1}}}},
        {"1.0": True, "2": False},
    ),
    "an anchor": (
        {"$ref": "https://x.org/a#here"},
        {"https://x.org/a": {"$defs": {"x": {"$anchor": "here", "const": 1}}}},
        {"1": True, "2": False},
    ),
    "an anchor of draft-07, by a relative URI": (
        {"$schema": DRAFT_7, "$id": "http://x.org/root.json", "items": {"$ref": "a.json#here"}},
        {"http://x.org/a.json": {"definitions": {"x": {"$id": "#here", "const": 1}}}},
        {"[1]": True, "[2]": False},
    ),
    "back to the schema": (
        {"$id": "https://x.org/r", "anyOf": [{"const": 1}, {"$ref": "a"}]},
        {"https://x.org/a": {"type": "array", "items": {"$ref": "r"}}},
        {"1": True, "[1,[1]]": True, "[2]": False},
    ),
    "relative to the other document's own URI": (
        {"$ref": "https://x.org/a"},
        {
            "https://x.org/a": {"$id": "https://x.org/in/a", "items": {"$ref": "b"}},
            "https://x.org/in/b": {"const": 1},
        },
        {"[1]": True, "[2]": False},
    ),
    "an embedded document": (
        {"$ref": "https://x.org/a#/$defs/b"},
        {
            "https://x.org/a": {"$defs": {"b": {"$id": "in/b", "$ref": "c"}}},
            "https://x.org/in/c": {"const": 1},
        },
        {"1": True, "2": False},
    ),
    "another draft": (
        {"$schema": DRAFT_7, "items": {"$ref": "a"}},
        {"a": {"$schema": DRAFT_4, "type": "integer", "minimum": 0, "exclusiveMinimum": True}},
        {"[1]": True, "[0]": False, "[1.0]": False, "[12345678901234567890123]": True},
    ),
    "the schema's draft where none is said": (
        {"$schema": DRAFT_7, "$ref": "a"},
        {"a": {"$ref": "#/definitions/b", "const": 1, "definitions": {"b": {"type": "integer"}}}},
        {"2": True, '"a"': False},
    ),
    "a dynamic anchor that the schema has as well": (
        STRICT,
        {"https://x.org/tree": TREE},
        {'{"children":[{"data":1}]}': True, '{"children":[{"daat":1}]}': False},
    ),
    "a dynamic anchor of the other document alone": (
        {"$schema": LATEST, "$ref": "https://x.org/tree", "unevaluatedProperties": False},
        {"https://x.org/tree": TREE},
        {'{"children":[{"daat":1}]}': True, '{"daat":1}': False},
    ),
    "a dynamic reference to a plain anchor": (
        {"$schema": LATEST, "$ref": "a", "$defs": {"n": {"$dynamicAnchor": "n", "const": 1}}},
        {"a": {"items": {"$dynamicRef": "#n"}, "$defs": {"n": {"$anchor": "n", "const": 2}}}},
        {"[2]": True, "[1]": False},
    ),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_a_reference_means_what_the_standard_says(name: str) -> None:
    schema, refs, expected = MEANINGS[name]
    assert verdicts(constraint_of(schema, refs), expected) == expected


def test_an_anchor_that_several_other_documents_have_is_refused() -> None:
    refs = {"https://x.org/tree": TREE, "https://x.org/strict": STRICT | {"$id": "strict"}}
    with pytest.raises(CdecError, match="depends on how its place was reached"):
        constraint_of({"items": {"$ref": "https://x.org/strict"}}, refs)


# --- Which document a URI finds.

COMMON = {"type": "object", "properties": {"a": {"$ref": "deep/b"}}, "required": ["a"]}
FOLDER = {
    "common.json": COMMON,
    "deep/b.json": {"const": 1},
    "named.json": {"$id": "https://y.org/own", "const": 2},
    "broken.json": '{"const": ',
    "list.json": "[1, 2]",
    "text.txt": '{"const": 3}',
}
FOUND: dict[str, str] = {
    "common.json": "common.json",
    "common": "common.json",
    "https://z.org/schemas/common.json": "common.json",
    "https://z.org/deep/b": "deep/b.json",
    "https://y.org/own": "named.json",
    "named.json": "named.json",
    "https://z.org/b": "",
    "https://z.org/named.json": "",
    "text.txt": "",
    "broken.json": "",
    "list.json": "",
    "../common.json": "common.json",
}


@pytest.mark.parametrize("uri", FOUND)
def test_a_document_of_a_folder_is_found_by_id_and_by_name(tmp_path: Path, uri: str) -> None:
    read = references_of(write(tmp_path, FOLDER))
    found = References(read).find(uri)
    assert (found.tail if found else "") == FOUND[uri]
    near = References(read).near(json.dumps({"$ref": uri}))
    assert {one.tail for one in near} >= {FOUND[uri]} - {""}
    if FOUND[uri] == "common.json":
        assert {one.tail for one in near} == {"common.json", "deep/b.json"}
        taken = verdicts(constraint_of({"$ref": uri}, tmp_path), ['{"a":1}', '{"a":2}'])
        assert list(taken.values()) == [True, False]


def test_what_is_given_for_a_uri_goes_before_what_comes_first_and_then_the_next(
    tmp_path: Path,
) -> None:
    one, two = write(tmp_path / "one", {"a.json": {"const": 1}}), tmp_path / "two"
    write(two, {"a.json": {"const": 2}, "b.json": {"const": 3}})
    assert verdicts(constraint_of({"$ref": "a.json"}, [one, two]), "12") == {"1": True, "2": False}
    given = [two, {"a.json": {"const": 4}}]
    assert verdicts(constraint_of({"$ref": "a.json"}, given), "24") == {"2": False, "4": True}
    assert verdicts(constraint_of({"$ref": "b.json"}, [one, two]), "3") == {"3": True}


def test_a_document_does_not_stand_for_one_of_its_own_name_elsewhere(tmp_path: Path) -> None:
    """Such a file says that the schema lies elsewhere: by its name it would lead to itself."""
    block = {"$ref": "https://z.org/block.json"}
    write(tmp_path, {"block.json": block, "user.json": {"items": {"$ref": "block.json"}}})
    for referring in (block, {"items": {"$ref": "block.json"}}):
        with pytest.raises(SchemaRefError) as error:
            constraint_of(referring, tmp_path)
        assert error.value.details["uri"] == "https://z.org/block.json"


def test_nothing_is_read_that_was_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.json": {"const": 1}, "in/b.json": {"const": 2}})
    (tmp_path / "in" / "link.json").symlink_to(tmp_path / "a.json")
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for uri in ("a.json", "../a.json", f"file://{tmp_path}/a.json", "link.json", "out/a.json"):
        with pytest.raises(SchemaRefError, match="was not given"):
            constraint_of({"$ref": uri}, tmp_path / "in")


def test_an_error_says_what_to_give() -> None:
    with pytest.raises(SchemaRefError) as error:
        constraint_of({"$id": "https://x.org/r", "items": {"$ref": "a.json#/b"}}, {})
    assert error.value.details == {"path": "/items/$ref", "uri": "https://x.org/a.json"}
    assert "`refs` https://x.org/a.json=FILE" in str(error.value.hint)
    with pytest.raises(SchemaRefError, match="there is nothing there"):
        constraint_of({"$ref": "a#/b"}, {"a": {}})
    with pytest.raises(SchemaInvalidError, match=r"^a: a/type is 'x'"):
        constraint_of({"$ref": "a"}, {"a": {"type": "x"}})


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"a.json": '{"const": ', "b.json": json.dumps({"const": "x" * 90})})
    small = SchemaLimits(max_schema_bytes=90)
    cases: list[tuple[Any, SchemaLimits, type[CdecError]]] = [
        ({"a": tmp_path / "a.json"}, SchemaLimits(), SchemaJsonError),
        ({"a": tmp_path / "none.json"}, SchemaLimits(), InputMissingError),
        (tmp_path / "none", SchemaLimits(), InputMissingError),
        ({"b": tmp_path / "b.json"}, small, LimitError),
        (tmp_path, small, LimitError),
        (tmp_path, SchemaLimits(max_reference_bytes=50), LimitError),
        ([7], SchemaLimits(), UsageError),
        ({"deep": "[" * 1000}, SchemaLimits(), LimitError),
    ]
    for refs, limits, kind in cases:
        with pytest.raises(kind):
            references_of(refs, limits)


@pytest.mark.parametrize(
    "text",
    [
        '{"$ref": "\\q"}',
        '{"$ref": "a\tb"}',
        '{"$ref": "\\ud800"}',
        '{"$ref": "http://[x#a"}',
        '{"$id": "http://[x", "$ref": "y#b"}',
        '{"$id": "http://[x#a", "items": {"$ref": "y"}}',
        '{"$id": "http://x/", "$ref": "//[#b"}',
        '{"$ref": "http://x:99999999/a"}',
        '{"$ref": "%ZZ%00"}',
    ],
)
def test_texts_that_are_no_references_are_errors(text: str) -> None:
    for refs in ({}, {"a": {"$id": "http://[z#q"}, "b": True}, {"http://[x": {}}):
        options = SchemaOptions(references=references_of(refs)).for_text(text)
        with pytest.raises(CdecError):
            schema_constraint(text, byte_vocabulary(), options)


# --- What an artifact keeps.


def compiled(path: Path, refs: Any) -> Any:
    schema = {"type": "array", "items": {"$ref": "a.json"}}
    return compile_schema(schema, byte_vocabulary(), path, refs=refs, force=True)


def test_an_artifact_holds_what_it_refers_to_and_nothing_else(tmp_path: Path) -> None:
    folder = write(tmp_path / "refs", {"a.json": {"$ref": "b.json"}, "b.json": {"const": 1}})
    write(folder, {"c.json": {"const": 2}})
    report = compiled(tmp_path / "x.arrow", folder)
    assert {one["uri"] for one in report.references} == {"a.json", "b.json"}
    file = read_artifact(tmp_path / "x.arrow")
    stored = json.loads(file.metadata["cdec.references"])
    assert [one["tail"] for one in stored] == ["a.json", "b.json"]
    assert all(len(one["digest"]) == 64 for one in stored)
    (folder / "a.json").unlink()
    constraint = open_artifact(tmp_path / "x.arrow", vocabulary=byte_vocabulary())
    assert constraint.accepts(b"[1]") is True and constraint.accepts(b"[2]") is False
    verify_artifact(file)


def test_an_artifact_whose_documents_were_changed_is_refused(tmp_path: Path) -> None:
    compiled(tmp_path / "x.arrow", {"a.json": {"const": 1}})
    file = read_artifact(tmp_path / "x.arrow")
    stored = json.loads(file.metadata["cdec.references"])
    for forged in ([], [stored[0] | {"text": "true"}], [{"uri": "a"}], [7], 7):
        metadata = file.metadata | {"cdec.references": json.dumps(forged)}
        if forged != []:
            with pytest.raises(ArtifactInvalidError):
                write_artifact(tmp_path / "y.arrow", "schema", file.arrays, metadata, force=True)
                read_artifact(tmp_path / "y.arrow")
            continue
        write_artifact(tmp_path / "y.arrow", "schema", file.arrays, metadata, force=True)
        with pytest.raises(CdecError):
            verify_artifact(read_artifact(tmp_path / "y.arrow"))


def test_schemas_in_one_line_may_refer_to_what_is_given() -> None:
    source = schema({"$ref": "a"}, SchemaOptions(), refs={"a": {"enum": ["x", "y"]}})
    constraint = source.of(byte_vocabulary())
    assert constraint.accepts(b'"x"') is True and constraint.accepts(b'"z"') is False


def test_options_with_documents_travel_and_decide_by_digest() -> None:
    options = SchemaOptions(references=references_of({"a": {"const": 1}}))
    assert SchemaOptions.from_json(json.loads(json.dumps(options.to_json()))) == options
    other = SchemaOptions(references=references_of({"a": {"const": 2}}))
    assert options.deciding() != other.deciding()
    assert options.for_text("{}").deciding() == other.for_text("{}").deciding()
