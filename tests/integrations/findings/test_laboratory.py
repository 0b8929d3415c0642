"""What findings are computed with: models that are there, and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdec.core.errors import InputMissingError
from cdec.data.assets import embedded_model_path
from cdec.integrations.findings.laboratory import Laboratory


def test_a_task_model_is_loaded_where_its_folder_is(tmp_path: Path) -> None:
    (tmp_path / "ner").symlink_to(embedded_model_path("draft"))
    laboratory = Laboratory(tasks=tmp_path)
    model = laboratory.task("ner")
    assert model is not None and model is laboratory.task("ner")
    assert laboratory.task("arithmetic") is None
    assert Laboratory().task("ner") is None
    weights = laboratory.task_weights(["ner", "arithmetic"])
    assert weights["arithmetic"] is None and len(weights["ner"] or "") == 12


def test_a_folder_of_task_models_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match="no folder of task models"):
        Laboratory(tasks=tmp_path / "none")
    with pytest.raises(InputMissingError, match="no folder of data"):
        Laboratory(data=tmp_path / "none")


def test_a_folder_of_data_without_a_file_says_which(tmp_path: Path) -> None:
    (tmp_path / "webquestions").mkdir()
    laboratory = Laboratory(data=tmp_path)
    assert laboratory.missing(("webquestions",)) == []
    for read in (laboratory.rows, laboratory.lines):
        with pytest.raises(InputMissingError, match="no webquestions/devtest"):
            read("webquestions/devtest.jsonl.xz")
