"""RunSettings: keywords of record samplers become three parts, and options of the method."""

from __future__ import annotations

from pathlib import Path

from cdec.integrations.records.settings import DEFAULT, RunSettings


def test_keywords_go_to_the_part_that_has_them_and_others_to_the_method() -> None:
    run = RunSettings.of(
        model="m",
        method="disc",
        artifact=Path("a.arrow"),
        constraint={"b": Path("b.arrow")},
        conjoined=[Path("c.arrow")],
        deny=["x"],
        n=3,
        heal=True,
        strict=True,
        load=None,
        K=2,
    )
    assert (run.drawing.method, run.drawing.n, dict(run.drawing.options)) == ("disc", 3, {"K": 2})
    assert run.constraint.named == {DEFAULT: Path("a.arrow"), "b": Path("b.arrow")}
    assert run.constraint.others == {"c.arrow": Path("c.arrow")}
    assert (run.constraint.denied, run.constraint.heal) == (["x"], True)
    assert (run.execution.model, run.execution.strict, run.execution.load) == ("m", True, {})
    assert {"artifact", "n", "batch_size"} <= RunSettings.keywords()
    assert "named" not in RunSettings.keywords()


def test_nothing_given_is_the_embedded_model_by_the_usual_method() -> None:
    assert RunSettings.of() == RunSettings()
