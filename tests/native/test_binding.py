"""The compiled library's binding and its wheels."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
import weakref
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cdec.core import native
from cdec.core.errors import NativeLibraryError
from cdec.core.native import library
from cdec.core.sets.session import make_view
from cdec.core.sets.trie import build_trie
from cdec.core.tokens.vocabulary import Vocabulary

# --- The binding of the compiled library: what it takes, refuses and says, and the ABI it
# declares.

NATIVE = Path(__file__).resolve().parent.parent.parent / "native"
HEADER = (NATIVE / "include" / "cdec_native.h").read_text()


def texts(**other: Any) -> list[Any]:
    """Arguments of ``hash_texts``, some of them replaced."""
    given = {
        "data": np.frombuffer(b"abc", np.uint8),
        "offsets": np.array([0, 1, 3]),
        "hashes": np.empty(2, np.uint64),
    }
    return list((given | other).values())


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("other", "error", "said"),
    [
        ({"data": np.zeros(3, np.int8)}, TypeError, "data is an array of 'b'"),
        ({"data": np.zeros((3, 1), np.uint8)}, TypeError, "of 2 dimensions, not of uint8 of 1"),
        ({"data": np.zeros(6, np.uint8)[::2]}, TypeError, "data is no array, is not contiguous"),
        ({"data": None}, TypeError, "data is no array"),
        ({"offsets": np.array([0, 1, 3], np.int32)}, TypeError, "not of int64 of 1"),
        ({"offsets": np.array([0, 1, 3], ">i8")}, TypeError, "offsets is an array of '>q'"),
        ({"hashes": read_only(np.empty(2, np.uint64))}, TypeError, "or may not be written"),
        ({"hashes": np.empty(3, np.uint64)}, ValueError, "hashes has length 3, expected 2"),
        ({"offsets": np.empty(0, np.int64)}, ValueError, "offsets has length 0"),
    ],
)
def test_what_does_not_fit_is_named(other: dict[str, Any], error: type, said: str) -> None:
    with pytest.raises(error, match="hash_texts: ") as raised:
        library.hash_texts(*texts(**other))
    assert said in str(raised.value)


def test_a_wrong_number_of_arguments_names_them() -> None:
    with pytest.raises(TypeError, match=r"takes 3 arguments, not 1: data:b offsets:n\+1"):
        library.hash_texts(np.empty(0, np.uint8))


def test_numbers_and_structs_are_checked() -> None:
    with pytest.raises(TypeError):
        library.first_keys(np.zeros(1, np.int32), np.zeros(2, np.int64), "x", 8, texts()[2][:1])
    with pytest.raises(OverflowError):
        library.tree_level_order(1 << 70, *[np.zeros(1, np.int32)] * 2, np.zeros(1, np.int64))
    with pytest.raises(TypeError, match="nodes is no tuple of 5 fields"):
        library.fill_nodes(
            *[np.zeros(1, np.int32), np.zeros(2, np.int64)], np.zeros(1, np.int32), ()
        )


def test_arrays_of_a_held_struct_stay_alive() -> None:
    arrays = build_trie(np.array([1, 2], np.int32), np.array([0, 1, 2]))
    view = make_view(arrays, Vocabulary([b"a"] * 3, [2], [2]), None, ends_itself=False)
    alive = weakref.ref(view.end_ids)
    held = library.hold_trie(view)
    del view
    assert alive() is not None
    del held
    assert alive() is None


def test_scores_may_be_rows_of_a_wider_array() -> None:
    wide = np.log(np.arange(1, 13, dtype=np.float32)).reshape(2, 6)
    ids, sums = np.array([0, 1, 3], np.int32), np.empty(1)
    values = np.empty(3)
    library.gather_exp(wide[1:, :3], 3.0, ids, values, sums)
    np.testing.assert_allclose(values, np.array([7, 8, 0]) * np.exp(-3.0), rtol=1e-6)
    with pytest.raises(TypeError, match="row is no array of rows of float32 or float64"):
        library.gather_exp(wide.T[1:], 3.0, ids, values, sums)


def test_every_function_of_the_header_is_a_row_of_the_table() -> None:
    declared = {*re.findall(r"^CDEC_API (?:int64_t |\w+ \*)cdec_(\w+)\(", HEADER, re.M)}
    rows = {name for name in vars(library) if not name.startswith(("_", "hold_"))} - {"sources"}
    assert declared == rows
    for name in rows:
        parameters = re.search(rf"cdec_{name}\((.*?)\);", HEADER, re.S)
        assert parameters is not None
        assert len(parameters[1].split(",")) == len(getattr(library, name).__doc__.split()), name


def test_a_library_of_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_digest", lambda sources: "another")
    with pytest.raises(NativeLibraryError, match="made of other sources") as raised:
        native.load()
    assert "python native/build.py" in str(raised.value.hint)


def test_the_build_and_the_loader_call_the_sources_alike() -> None:
    spec = importlib.util.spec_from_file_location("native_build", NATIVE / "build.py")
    assert spec is not None and spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    assert build.digest() == native._digest(NATIVE) == library.sources


needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


def compiled(tmp_path: Path, name: str, source: str, *flags: str) -> Path:
    (tmp_path / name).write_text(source)
    language = "c" if name.endswith(".c") else "c++"
    words = ["c++", "-x", language, tmp_path / name, *flags, f"-I{NATIVE / 'include'}"]
    done = subprocess.run([*words, "-o", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tmp_path / "out"


@needs_compiler
def test_the_header_is_plain_c(tmp_path: Path) -> None:
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-c")
    compiled(tmp_path, "header.c", '#include "cdec_native.h"\n', *flags)


LAYOUTS = {
    "Py_buffer": "buf obj len itemsize readonly ndim format shape strides suboffsets internal",
    "PyMethodDef": "ml_name ml_meth ml_flags ml_doc",
    "PyModuleDef_Slot": "slot value",
    "PyModuleDef": "m_name m_doc m_size m_methods m_slots m_traverse m_clear m_free",
}
FLAGS = [
    "METH_FASTCALL",
    "Py_mod_exec",
    "PyBUF_WRITABLE",
    "PyBUF_FORMAT",
    "PyBUF_ND",
    "PyBUF_STRIDES",
    "PyBUF_C_CONTIGUOUS",
]


@needs_compiler
def test_layouts_are_those_of_python_s_own_header(tmp_path: Path) -> None:
    include = sysconfig.get_path("include")
    if not (Path(include) / "Python.h").exists():
        pytest.skip("no Python.h")
    measured = [f"sizeof({struct})" for struct in LAYOUTS]
    measured += [
        f"offsetof({s}, {field})" for s, fields in LAYOUTS.items() for field in fields.split()
    ]
    body = "".join(f'std::printf("%d\\n", (int)({each}));' for each in [*measured, *FLAGS])
    program = f"#include <cstddef>\n#include <cstdio>\nint main() {{ {body} }}\n"
    found = []
    for head in ('#include "python_abi.h"\n', "#include <Python.h>\n"):
        flags = ("-std=c++20", f"-I{include}", f"-I{NATIVE / 'binding'}", "-w")
        path = compiled(tmp_path, "layouts.cc", head + program, *flags)
        found.append(subprocess.run([path], capture_output=True, check=True).stdout)
    assert found[0] == found[1] != b""


# --- What ``make wheels`` reads in a library: symbols, format and system.

NATIVE_FOLDER = Path(__file__).resolve().parents[2] / "native"


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("lief", reason="reads libraries: pip install lief (make wheels does)")
    monkeypatch.syspath_prepend(str(NATIVE_FOLDER))
    import wheels

    return wheels


def test_a_library_for_this_machine_has_all_names(wheels: ModuleType) -> None:
    names = wheels.declared()
    told = wheels.faults(wheels.build.LIBRARY, wheels.build.HERE, names)
    assert not [fault for fault in told if not fault.startswith("needs")]
    assert "cdec_trie_advance" in names.exported and "PyErr_Format" in names.functions


def test_names_that_are_missing_or_not_declared_are_told(wheels: ModuleType) -> None:
    names = wheels.declared()
    exported, functions = names.exported | {"cdec_other"}, names.functions - {"PyErr_NoMemory"}
    wrong = replace(names, exported=exported, functions=functions)
    told = wheels.faults(wheels.build.LIBRARY, wheels.build.HERE, wrong)
    assert {"not exported: cdec_other", "not declared: PyErr_NoMemory"} <= set(told)


@pytest.mark.skipif(sys.platform == "win32", reason="the library is one for Windows here")
def test_a_library_of_another_system_is_told(wheels: ModuleType) -> None:
    told = wheels.faults(wheels.build.LIBRARY, "x86_64-windows-gnu", wheels.declared())
    assert told == ["format of another system: Binary"]
