"""``cdec reproduce``: states, statuses, what a folder keeps, and pages."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cdec.core.errors import FitError
from cdec.integrations.findings import table
from cdec.integrations.findings.finding import Check, Finding, Found, Line, Plot, Table
from cdec.integrations.findings.laboratory import Laboratory
from tests.cli.conftest import Runner
from tests.cli.test_report import Reader


@dataclass(frozen=True)
class Told(Finding):
    """A finding that was told what it finds, and counts how often it is asked."""

    paper: str = "A paper"
    place: str = "Table <1>"
    sentence: str = "One is at most two."
    differs: str = "Nothing."
    function: str = ""
    value: float = 1.0
    raised: BaseException | None = None
    asked: list[Laboratory] = field(default_factory=list)

    def compute(self, laboratory: Laboratory) -> Found:
        self.asked.append(laboratory)
        if self.raised is not None:
            raise self.raised
        line = Line("a <b>", [1.0, 2.0], [1.0, float("nan")], [0.5, 0.5], [1.5, 1.5])
        plot = Plot("lines", "What it shows.", "x", "y", [line])
        rows = [("a", self.value), ("b", 2)]
        tables = [Table("Numbers", ("name", "value"), rows)]
        times = [Table("Times", ("s",), [(float(len(self.asked)),)])]
        return Found([Check("one", self.value, at_most=2.0)], tables, [plot], times)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Told]:
    """Findings of every state in the place of the papers'."""
    findings = {
        finding.name: finding
        for finding in (
            Told("good-one"),
            Told("bad-one", value=3.0),
            Told("far-one", needs=("nowhere",)),
            Told("torn-one", raised=FitError("too long", hint="shorten it")),
            Told("model-one", uses=("model", "dtype")),
        )
    }
    monkeypatch.setattr(table, "FINDINGS", dict(findings))
    return findings


def rows_of(stdout: bytes) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(stdout)["findings"]}


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("seconds", "times")}


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("only", "status", "strict"),
    [("good-one", 0, 0), ("bad-one", 0, 1), ("far-one", 0, 0), ("torn-one", 3, 3)],
)
def test_statuses(cdec: Runner, told: dict[str, Told], only: str, status: int, strict: int) -> None:
    assert cdec("reproduce", "--only", only).status == status
    assert cdec("reproduce", "--only", only, "--strict").status == strict


def test_states_and_reasons(cdec: Runner, told: dict[str, Told]) -> None:
    rows = rows_of(cdec("reproduce", "--json").stdout)
    assert {name: row["state"] for name, row in rows.items()} == {
        "good-one": "holds",
        "bad-one": "does not hold",
        "far-one": "not run",
        "torn-one": "error",
        "model-one": "holds",
    }
    assert rows["far-one"]["reason"] == "data absent: nowhere"
    assert rows["torn-one"]["reason"] == "too long"
    assert rows["bad-one"]["checks"][0] == {
        "said": "one", "value": 3.0, "at_least": None, "at_most": 2.0, "holds": False
    }  # fmt: skip
    assert "Fails: one: 3, must be at most 2" in cdec("reproduce").stdout.decode()


def test_data_that_is_there_is_used(cdec: Runner, told: dict[str, Told]) -> None:
    Path("data/nowhere").mkdir(parents=True)
    rows = rows_of(cdec("reproduce", "--only", "far", "--data", "data", "--json").stdout)
    assert rows["far-one"]["state"] == "holds"
    assert told["far-one"].asked[0].data == Path("data")


def test_models_and_data_that_are_given_are_what_is_computed_with(
    cdec: Runner, told: dict[str, Told]
) -> None:
    given = ("--reward", "r", "--judge", "j", "--draft", "d", "--all-data")
    assert cdec("reproduce", "--only", "good", *given).status == 0
    (found,) = told["good-one"].asked
    assert (found.reward, found.judge, found.draft, found.all_data) == ("r", "j", "d", True)


def test_a_finding_without_the_models_that_it_asks_for_is_not_run(
    cdec: Runner, told: dict[str, Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(table.FINDINGS, "good-one", Told("good-one", given=("reward",)))
    row = rows_of(cdec("reproduce", "--only", "good", "--json").stdout)["good-one"]
    assert (row["state"], row["reason"]) == ("not run", "give `reward`")
    given = cdec("reproduce", "--only", "good", "--reward", "r", "--json")
    assert rows_of(given.stdout)["good-one"]["state"] == "holds"


def test_what_is_computed_is_kept(cdec: Runner, told: dict[str, Told]) -> None:
    first = rows_of(cdec("reproduce", "--json").stdout)
    again = cdec("reproduce", "--json")
    assert rows_of(again.stdout) == first
    assert [len(one.asked) for one in told.values()] == [1, 1, 0, 2, 1]
    assert "good-one: holds (kept)" in again.stderr
    forced = rows_of(cdec("reproduce", "--json", "--force").stdout)
    assert len(told["good-one"].asked) == 2
    assert forced["good-one"]["times"] != first["good-one"]["times"]
    assert list(map(without_times, forced.values())) == list(map(without_times, first.values()))


def test_a_run_that_was_ended_goes_on(
    cdec: Runner, told: dict[str, Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(table.FINDINGS, "bad-one", Told("bad-one", raised=MemoryError()))
    assert cdec("reproduce").status == 75
    assert sorted(path.name for path in Path("reproduced").iterdir()) == ["good-one.json"]
    monkeypatch.setitem(table.FINDINGS, "bad-one", told["bad-one"])
    cdec("reproduce")
    assert [len(one.asked) for one in told.values()] == [1, 1, 0, 1, 1]


def test_a_folder_of_another_model_is_refused(cdec: Runner, told: dict[str, Told]) -> None:
    assert cdec("reproduce", "--only", "model").status == 0
    refused = cdec("reproduce", "--only", "model", "--dtype", "float16")
    assert (refused.status, refused.error_code) == (65, "E_RESUME_MISMATCH")
    assert "other settings" in refused.stderr
    assert "--force" in refused.stderr
    assert cdec("reproduce", "--only", "model", "--dtype", "float16", "--force").status == 0
    assert cdec("reproduce", "--only", "good", "--dtype", "bfloat16").status == 0
    Path("reproduced/good-one.json").write_text("{")
    assert cdec("reproduce", "--only", "good").error_code == "E_DATA"


def test_task_models_are_taken_where_they_are(cdec: Runner, told: dict[str, Told]) -> None:
    told["task-one"] = Told("task-one", tasks=("mention-title",))
    table.FINDINGS["task-one"] = told["task-one"]
    lacking = cdec("reproduce", "--only", "task")
    assert b"mention-title (not there: the model instead)" in lacking.stdout
    home = Path("models/mention-title")
    home.mkdir(parents=True)
    (home / "model.safetensors").write_bytes(b"weights")
    asked = ("reproduce", "--only", "task", "--tasks", "models")
    refused = cdec(*asked)
    assert refused.error_code == "E_RESUME_MISMATCH"
    assert "other task_models" in refused.stderr
    row = rows_of(cdec(*asked, "--force", "--json").stdout)["task-one"]
    assert row["task_models"] == {"mention-title": hashlib.sha256(b"weights").hexdigest()[:12]}
    assert told["task-one"].asked[-1].tasks == Path("models")
    assert "Task models: mention-title" in Path("reproduced/index.html").read_text()
    assert cdec("reproduce", "--only", "good", "--tasks", "models").status == 0


def test_a_folder_of_task_models_that_is_none_is_refused(
    cdec: Runner, told: dict[str, Told]
) -> None:
    table.FINDINGS["task-one"] = Told("task-one", tasks=("mention-title",))
    refused = cdec("reproduce", "--only", "task", "--tasks", "nowhere")
    assert (refused.status, refused.error_code) == (66, "E_NOINPUT")
    assert "--tasks" in refused.stderr


@pytest.mark.parametrize(("typed", "meant"), [("disc-figur", "disc-figure"), ("dsic", "disc")])
def test_a_name_that_is_none_is_refused(cdec: Runner, typed: str, meant: str) -> None:
    refused = cdec("reproduce", "--only", typed)
    assert refused.status == 2
    assert f"did you mean {meant!r}?" in refused.stderr


def test_the_list_computes_nothing(cdec: Runner, told: dict[str, Told]) -> None:
    listed = cdec("reproduce", "--list").stdout.decode()
    assert "good-one  A paper, Table <1>\n  One is at most two.\n" in listed
    assert list(rows_of(cdec("reproduce", "--list", "--json").stdout)) == list(told)
    assert not Path("reproduced").exists()


def test_the_page_has_everything_and_loads_nothing(cdec: Runner, told: dict[str, Told]) -> None:
    cdec("reproduce")
    page = Path("reproduced/index.html").read_text()
    read = Reader(page)
    assert read.tags.isdisjoint({"script", "b", "img", "link", "iframe", "object"})
    for said in ("Table <1>", "One is at most two.", "data absent: nowhere", "at most 2", "Times"):
        assert said in read.text
    assert page.count("<svg") == 3
    names = {path.name for path in Path("reproduced").iterdir()}
    assert {"good-one.lines.svg", "good-one.lines.png", "findings.json"} <= names


def test_no_plots_no_pictures(cdec: Runner, told: dict[str, Told]) -> None:
    cdec("reproduce", "--no-plots")
    assert "<svg" not in Path("reproduced/index.html").read_text()
    assert not list(Path("reproduced").glob("*.png"))


def test_a_finding_of_a_paper_is_computed(cdec: Runner) -> None:
    rows = rows_of(cdec("reproduce", "--only", "disc-figure", "--json").stdout)
    assert rows["disc-figure"]["state"] == "holds"
    (found,) = rows["disc-figure"]["tables"]
    gloves = dict(zip(found["columns"], found["rows"][0], strict=True))
    assert (gloves["text"], gloves["P"], gloves["masked, law"]) == ("soccer gloves", 0.06, 0.6)
