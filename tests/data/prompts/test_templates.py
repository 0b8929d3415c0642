"""Prompt templates: literal fields, literal braces, nothing that could be a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.core.errors import EncodingError, FieldError, InputMissingError, LimitError, UsageError
from cdec.data.prompts.templates import PromptTemplate, read_template


def filled(template: str, **fields: object) -> str:
    return PromptTemplate.parse(template).fill(fields, 1)


def test_places_are_filled_and_doubled_braces_are_braces() -> None:
    assert filled('{{"q": "{q}"}} {q}{a}', q="x", a="y") == '{"q": "x"} xy'
    assert PromptTemplate.parse("{b} {a} {b}").fields == ("b", "a", "b")


def test_values_go_in_as_text_and_are_never_read_again() -> None:
    assert filled("<{q}>", q="{a} {{ }} %s $a {q.__class__}") == "<{a} {{ }} %s $a {q.__class__}>"
    assert filled("{a} {b} {c}", a=3, b=[1, "é"], c={"k": None}) == '3 [1,"é"] {"k":null}'
    assert filled("{empty}|", empty="") == "|"


@settings(max_examples=200, deadline=None)
@given(st.text("ab{}\n", max_size=12), st.text("xy{}", max_size=5))
def test_escaping_gives_any_text_back(text: str, value: str) -> None:
    escaped = text.replace("{", "{{").replace("}", "}}")
    assert filled(escaped) == text
    assert filled(escaped + "{v}", v=value) == text + value


def test_field_names_are_literal() -> None:
    template = PromptTemplate.parse("{first name} {a.b} {größe} {x-y}")
    fields = {"first name": "1", "a.b": "2", "größe": "3", "x-y": "4", "a": {"b": "no"}}
    assert template.fill(fields, 1) == "1 2 3 4"


@pytest.mark.parametrize("text", ["{", "a}", "{}", "{0}", "{a!r}", "{a[0]}", "{a:>3}", '{"a": 1}'])
def test_braces_that_are_no_place_are_refused_with_their_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        PromptTemplate.parse("fine {q}\n" + text, "t.txt")
    assert caught.value.details["line"] == 2
    assert "t.txt, line 2" in caught.value.message


@pytest.mark.parametrize(("fields", "found"), [({"a": 1}, "missing"), ({"q": None}, "null")])
def test_missing_or_null_field_is_named_with_the_records_line(
    fields: dict[str, object], found: str
) -> None:
    with pytest.raises(FieldError, match=found) as caught:
        PromptTemplate.parse("{q}").fill(fields, 12)
    assert caught.value.details == {"line": 12, "field": "q"}


def test_file_loses_one_final_newline_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"\xef\xbb\xbfQ: {q}\r\nA:\r\n")
    assert read_template(path).fill({"q": "x"}, 1) == "Q: x\nA:"
    path.write_bytes(b"{q}\n\n")
    assert read_template(path).fill({"q": "x"}, 1) == "x\n"


def test_file_that_cannot_be_a_template_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    with pytest.raises(InputMissingError):
        read_template(path)
    path.write_bytes(b"a\nb\xff")
    with pytest.raises(EncodingError) as caught:
        read_template(path)
    assert caught.value.details == {"line": 2, "byte_offset": 4}
    with pytest.raises(LimitError):
        read_template("/dev/zero")
