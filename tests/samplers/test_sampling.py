"""sample: what the command line draws, for one prompt and for many, by the names of options."""

from __future__ import annotations

import pytest

from cdec.compilers import set_constraint
from cdec.core import Constraint, LanguageModel, Sample, load_model
from cdec.core.errors import CdecError, UsageError
from cdec.samplers import sample

CITIES = ["Paris", "Lyon", "New York", "New York City", "Rome"]
PROMPTS = ["The capital of France is", "A city in Italy:", "The capital of France is"]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_model("embedded-draft")


@pytest.fixture(scope="module")
def cities(model: LanguageModel) -> Constraint:
    return set_constraint(CITIES, model.vocabulary)


def _drawn(found: list[list[Sample]]) -> list[list[tuple[int, str]]]:
    """Return what does not depend on how a batch rounds."""
    return [[(each.seed, each.text) for each in samples] for samples in found]


def test_one_prompt_gives_its_samples_and_many_give_lists(
    model: LanguageModel, cities: Constraint
) -> None:
    alone = sample(model, cities, PROMPTS[0], method="disc", K=4, n=3)
    assert [each.index for each in alone] == [0, 1, 2]
    assert all(each.text in CITIES and each.valid for each in alone)
    assert alone[0].log_mass < 0
    many = sample(model, cities, PROMPTS, method="disc", K=4, n=3)
    assert _drawn(many)[0] == _drawn([alone])[0]
    # A prompt that comes again is another record.
    assert many[2][0].id == f"{alone[0].id}-1"
    assert [s.seed for s in many[2]] != [s.seed for s in alone]
    single = sample(model, cities, PROMPTS, batch_size=1, method="disc", K=4, n=3)
    assert _drawn(single) == _drawn(many)
    assert sample(model, cities, [], n=3) == []


def test_constraints_may_differ_by_prompt_and_be_absent(
    model: LanguageModel, cities: Constraint
) -> None:
    colours = set_constraint(["red", "blue"], model.vocabulary)
    found = sample(model, [cities, colours, None], PROMPTS, method="greedy", max_new_tokens=3)
    assert found[0][0].text in CITIES and found[1][0].text in ("red", "blue")
    assert found[2][0].finish_reason == "length"
    with pytest.raises(UsageError, match="2 constraints for 3 prompts"):
        sample(model, [cities, colours], PROMPTS)


def test_names_of_methods_and_options_are_checked(model: LanguageModel, cities: Constraint) -> None:
    with pytest.raises(UsageError, match="no method 'disk'") as caught:
        sample(model, cities, "x", method="disk")
    assert caught.value.hint == "did you mean 'disc'?"
    with pytest.raises(TypeError, match="no option 'top_n'; did you mean 'top_m'"):
        sample(model, cities, "x", method="masked", top_n=5)
    for wrong in ({"n": 0}, {"temperature": 0}, {"top_p": 2.0}, {"K": 0}):
        with pytest.raises(UsageError):
            sample(model, cities, "x", **wrong)  # type: ignore[arg-type]


def test_the_first_error_of_a_prompt_is_raised(model: LanguageModel, cities: Constraint) -> None:
    with pytest.raises(CdecError, match="1000000"):
        sample(model, cities, ["x", [1_000_000]])
