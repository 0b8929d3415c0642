"""The names of ``cdec.data`` are all there, and cost nothing before they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cdec.data


def test_every_public_name_can_be_imported() -> None:
    for name in cdec.data.__all__:
        assert getattr(cdec.data, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cdec.data.nonsense


def test_importing_the_folder_imports_nothing_heavy() -> None:
    code = (
        "import cdec.data, sys;"
        "assert not {'numpy', 'orjson', 'pyarrow', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
