"""The error tree: every error has a code and an exit status, and its docstring tells the truth."""

from __future__ import annotations

import re

from cdec.core import errors
from cdec.core.errors import CdecError, EncodingError, LimitError


def concrete_errors() -> dict[str, type[CdecError]]:
    """Every error class that defines a code of its own, by name."""
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, CdecError) and "code" in vars(value)
    }


def test_codes_are_unique_and_well_formed() -> None:
    codes = [error.code for error in concrete_errors().values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"E_[A-Z_]+", code) for code in codes)


def test_tree_drawn_in_the_docstring_is_the_real_one() -> None:
    drawn = dict(re.findall(r"(\w+Error) +(E_\w+)", errors.__doc__ or ""))
    assert drawn == {name: error.code for name, error in concrete_errors().items()}


def test_exit_statuses_are_those_of_the_contract() -> None:
    statuses = {error.exit_status for error in concrete_errors().values()}
    assert statuses == {2, 65, 66, 69, 70, 73, 74, 75, 78}


def test_error_becomes_json_with_its_details() -> None:
    error = EncodingError("line 2 is not UTF-8", hint="re-encode it", line=2, byte_offset=8)
    assert error.to_json() == {
        "code": "E_ENCODING",
        "message": "line 2 is not UTF-8",
        "hint": "re-encode it",
        "line": 2,
        "byte_offset": 8,
    }


def test_error_without_a_hint_has_no_hint_key() -> None:
    assert "hint" not in LimitError("too many", limit="max_entities 5").to_json()
