"""The Python surface, and data frames."""

from __future__ import annotations

import datetime
import decimal
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cdec
from cdec.core import load_model
from cdec.core.combine.denial import deny
from cdec.core.errors import DuplicateIdError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.record_fields import fields_of
from cdec.core.shown import TraceLines, safe
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data import embedded_model_path
from cdec.integrations.frames import sample
from cdec.integrations.records import sample_records

# --- ``import cdec``: public names on first use, objects that say what they are, wrong types
# named.

PUBLIC: Any = cdec
"""As it is at run time: what stands for type checkers is checked by them."""


@pytest.fixture
def model() -> TabularModel:
    vocabulary = Vocabulary([b"a", b"b", b"<i>", b""], [3], [3], name="toy")
    return TabularModel(lambda prefix: [0.25] * 4, vocabulary)


@pytest.fixture
def constraint(model: TabularModel) -> Any:
    return PUBLIC.regex_constraint("a|ab|<i>", model.vocabulary)


def test_names_are_listed_and_imported_on_first_use() -> None:
    code = (
        "import cdec, json, sys\n"
        "assert cdec.core.__name__ == 'cdec.core' and cdec.integrations.__path__\n"
        "names = dir(cdec)\n"
        "before = [m for m in ('numpy', 'torch', 'pyarrow') if m in sys.modules]\n"
        "found = [callable(getattr(cdec, n)) for n in ('load_model', 'sample', 'set_constraint')]\n"
        "print(json.dumps([names, before, found, cdec.__version__, cdec.__file__]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, before, found, version, file = json.loads(done.stdout)
    assert {"load_model", "sample", "open_artifact", "compile_set", "__version__"} <= set(names)
    assert (before, found) == ([], [True, True, True])
    assert version == PUBLIC.core.__version__
    assert file is not None


def test_every_public_name_of_the_packages_is_one_of_cdec() -> None:
    from cdec import compilers, core, samplers

    for package in (core, compilers, samplers):
        for name in package.__all__:
            assert getattr(PUBLIC, name) == getattr(package, name)
            assert name in dir(PUBLIC)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'cdec' has no attribute 'lod_model'"):
        PUBLIC.lod_model  # noqa: B018


def test_objects_say_in_one_line_what_matters(model: TabularModel, constraint: Any) -> None:
    assert repr(model) == "TabularModel('toy', 4 tokens, on cpu)"
    warped = repr(model.with_warping(0.5, 2, 0.9))
    assert warped == ("TabularModel('toy', 4 tokens, on cpu, temperature 0.5, top_k 2, top_p 0.9)")
    assert repr(constraint) == "GrammarConstraint('a|ab|<i>', for 'toy')"
    (sample,) = PUBLIC.sample(model, constraint, "x", "greedy")
    assert repr(sample).startswith("Sample('ab', complete, valid, logprob=-4.159, ")
    assert "\n" not in repr(sample) and "token_ids" not in repr(sample)


def test_a_schema_and_what_is_made_of_it_say_where_they_come_from(model: TabularModel) -> None:
    schema = PUBLIC.schema_constraint(
        {"enum": ["ab"]}, Vocabulary.from_tokenizer(embedded_model_path())
    )
    assert repr(schema) == "SchemaConstraint('{\"enum\": [\"ab\"]}', for 'embedded')"
    denied = deny(PUBLIC.regex_constraint("a|b", model.vocabulary), [b"a"])
    assert repr(denied) == "DeniedConstraint(GrammarConstraint('a|b', for 'toy'))"


def test_a_set_says_how_many_members_it_has(tmp_path: Any, model: TabularModel) -> None:
    PUBLIC.compile_token_set([[0], [0, 1], [2]], model.vocabulary, tmp_path / "s.arrow")
    found = PUBLIC.open_artifact(tmp_path / "s.arrow", vocabulary=model.vocabulary)
    assert repr(found) == "SetConstraint(3 members, for 'toy')"
    assert repr(found.deny_texts([b"a"])) == "SetConstraint(2 members, for 'toy')"


def test_notebooks_get_samples_and_traces_escaped(model: TabularModel) -> None:
    from cdec.samplers import SAMPLERS, Request
    from cdec.samplers.scoring.trace import Tracer

    held = PUBLIC.regex_constraint("<i>", model.vocabulary)
    request = Request.numbered("x", held, id="<b>", n=1, seed=0)
    ((sample,),) = SAMPLERS["masked"]().draw_batch(model, [request], observer=Tracer())
    assert isinstance(sample.trace, TraceLines)
    shown, trace = sample._repr_html_(), sample.trace._repr_html_()
    assert trace in shown and shown.count("<table>") == 2
    for page in (shown, trace):
        assert "&lt;i&gt;" in page and "<i>" not in page and "<b>" not in page
    assert safe("\u202ea\x1b[0m\n&") == "\\u202ea\\u001b[0m\n&amp;"


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda m, c: PUBLIC.sample("gpt2", c, "x"), "model"),
        (lambda m, c: PUBLIC.sample(m, "a.arrow", "x"), "constraint"),
        (lambda m, c: PUBLIC.sample(m, [c, "a.arrow"], ["x", "y"]), "constraint"),
        (lambda m, c: PUBLIC.sample(m, c, 5), "prompts"),
        (lambda m, c: PUBLIC.sample(m, c, b"x"), "prompts"),
        (lambda m, c: PUBLIC.sample(m, c, [1, 2]), "prompts"),
        (lambda m, c: PUBLIC.sample(m, c, {"prompt": "x"}), "prompts"),
        (lambda m, c: PUBLIC.sample(m, c, [{"role": "user"}]), "prompts"),
        (lambda m, c: PUBLIC.sample(m, c, "x", 3), "method"),
        (lambda m, c: PUBLIC.sample(m, c, "x", n="3"), "n"),
        (lambda m, c: PUBLIC.sample(m, c, "x", n=1.5), "n"),
        (lambda m, c: PUBLIC.sample(m, c, "x", n=True), "n"),
        (lambda m, c: PUBLIC.sample(m, c, "x", seed=None), "seed"),
        (lambda m, c: PUBLIC.sample(m, c, "x", temperature="1"), "temperature"),
        (lambda m, c: PUBLIC.sample(m, c, "x", top_k=1.5), "top_k"),
        (lambda m, c: PUBLIC.sample(m, c, "x", max_new_tokens="8"), "max_new_tokens"),
        (lambda m, c: PUBLIC.sample(m, c, "x", batch_size=None), "batch_size"),
        (lambda m, c: PUBLIC.set_constraint("red", m.vocabulary), "texts"),
        (lambda m, c: PUBLIC.set_constraint({"red": 1}, m.vocabulary), "texts"),
        (lambda m, c: PUBLIC.set_constraint(None, m.vocabulary), "texts"),
        (lambda m, c: PUBLIC.set_constraint(["red"], m), "vocabulary"),
        (lambda m, c: PUBLIC.compile_set("red.txt", m.vocabulary, "red.arrow"), "lines"),
    ],
)
def test_a_wrong_type_is_a_usage_error_that_names_the_argument(
    model: TabularModel, constraint: Any, call: Callable[..., object], argument: str
) -> None:
    with pytest.raises(PUBLIC.CdecError, match=f"^`{argument}` is ") as caught:
        call(model, constraint)
    assert caught.value.code == "E_USAGE"
    assert caught.value.hint


# --- Frames in, frames out: the rows of pandas and polars are records, their samples are rows.

LIBRARIES = ("pandas", "polars")
COLUMNS: dict[str, list[Any]] = {
    "id": ["a", "b", "c", "d"],
    "prompt": ["The capital of France is", "The capital of Italy is", "x", None],
    "n": [2, None, 1, None],
    "candidates": [None, ["Oslo", "Rome"], None, None],
    "gold": ["Paris", "Rome", None, "?"],
}
RECORDS = [
    {name: cells[i] for name, cells in COLUMNS.items() if cells[i] is not None} for i in range(4)
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model, a set of cities in its tokens and a method."""
    from cdec.compilers import compile_set

    model = load_model("embedded")
    path: Path = tmp_path_factory.mktemp("frames") / "cities.arrow"
    compile_set(["Paris", "Rome", "Oslo", "New York"], model.vocabulary, path)
    return {"model": model, "artifact": path, "method": "masked", "seed": 3}


def frame_of(library: str, columns: dict[str, list[Any]]) -> Any:
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    return module.DataFrame(columns)


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame of samples, empty cells left out."""
    is_pandas = type(frame).__module__.startswith("pandas")
    rows = frame.astype(object).to_dict("records") if is_pandas else frame.to_dicts()
    return [{name: cell for name, cell in row.items() if is_there(cell)} for row in rows]


def is_there(cell: Any) -> bool:
    is_nan = isinstance(cell, float) and cell != cell
    return cell is not None and not is_nan and type(cell).__name__ != "NAType"


def without_empty(value: Any) -> Any:
    """Return a record without null fields: a struct of polars has all fields of its column."""
    if isinstance(value, dict):
        return {name: without_empty(item) for name, item in value.items() if is_there(item)}
    return value


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_frame_of_samples_holds_what_the_records_get(
    settings: dict[str, Any], library: str
) -> None:
    frame = frame_of(library, COLUMNS)
    found = sample(frame, **settings)
    assert type(found) is type(frame)
    expected = [without_empty(record) for record in sample_records(RECORDS, **settings)]
    assert [without_empty(row) for row in rows_of(found)] == expected
    assert [row["id"] for row in rows_of(found)] == ["a", "a", "b", "c", "d"]
    assert [row.get("error", {}).get("code") for row in rows_of(found)][3:] == [None, "E_FIELD"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_numbers_stay_whole_beside_empty_cells(settings: dict[str, Any], library: str) -> None:
    columns = {"id": [1, 2, 3], "prompt": ["x", None, "y"], "seed": [5, 6, None]}
    found = sample(frame_of(library, columns), **settings)
    records = [{"id": 1, "prompt": "x", "seed": 5}, {"id": 2, "seed": 6}, {"id": 3, "prompt": "y"}]
    expected = list(sample_records(records, **settings))
    drawn = [record for record in expected if "error" not in record]
    rows = [row for row in rows_of(found) if "error" not in row]
    assert [(row["id"], row["seed"], row["text"]) for row in rows] == [
        (record["id"], record["seed"], record["text"]) for record in drawn
    ]
    assert all(type(row["seed"]) is int for row in rows)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_frame_without_rows_gives_one(settings: dict[str, Any], library: str) -> None:
    found = sample(frame_of(library, {"prompt": []}), **settings)
    assert len(found) == 0
    assert tuple(found.columns) == fields_of("sample")
    some = sample(frame_of(library, {"prompt": []}), **settings, fields=["id", "text"])
    assert list(some.columns) == ["id", "text"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_times_decimals_and_bytes_are_the_texts_that_a_table_gives(
    settings: dict[str, Any], library: str
) -> None:
    when = datetime.datetime(2024, 5, 6, 7, 8, 9)
    columns: dict[str, list[Any]] = {
        "id": ["a", "b", "c"],
        "prompt": ["x", b"y", "z"] if library == "pandas" else ["x", "y", "z"],
        "when": [when, None, when],
        "day": [when.date(), None, None],
        "took": [datetime.timedelta(days=1), None, None],
        "price": [decimal.Decimal("1.50"), decimal.Decimal("NaN"), None]
        if library == "pandas"
        else [decimal.Decimal("1.50"), None, None],
        "raw": ["é".encode(), None, b"\xff"],
    }
    rows = rows_of(sample(frame_of(library, columns), **settings))
    assert [row["id"] for row in rows[:2]] == ["a", "b"]
    told = {"when": "2024-05-06T07:08:09", "day": "2024-05-06", "price": "1.50", "raw": "é"}
    assert {name: rows[0]["input"][name] for name in told} == told
    assert rows[0]["input"]["took"].startswith("1 day")
    assert [name for name, cell in (rows[1].get("input") or {}).items() if is_there(cell)] == []
    assert rows[2]["error"]["code"] == "E_FIELD", "bytes that are no text"


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_id_in_two_rows_is_refused_before_a_model_loads(library: str) -> None:
    twice = frame_of(library, {"id": ["a", "a"], "prompt": ["x", "y"]})
    with pytest.raises(DuplicateIdError, match="line 2 has the id 'a' of line 1"):
        sample(twice, "no/such/model")


def test_what_is_no_frame_is_refused(settings: dict[str, Any]) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    with pytest.raises(UsageError, match="is a list"):
        sample([{"prompt": "x"}], **settings)
    with pytest.raises(UsageError, match="LazyFrame"):
        sample(polars.LazyFrame({"prompt": ["x"]}), **settings)
    with pytest.raises(UsageError, match="two columns"):
        sample(pandas.DataFrame([["x", "y"]], columns=["prompt", "prompt"]), **settings)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_lines_of_a_trace_come_as_those_of_records_do(
    library: str, settings: dict[str, Any]
) -> None:
    lines: list[list[Any]] = [[], []]
    sample(frame_of(library, COLUMNS), **settings, trace=lines[0].append)
    list(sample_records(RECORDS, **settings, trace=lines[1].append))
    untimed = [[{**line, "seconds": 0} for line in some] for some in lines]
    assert untimed[0] == untimed[1] and untimed[0]
