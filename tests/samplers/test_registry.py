"""METHODS and SAMPLERS: what is declared is what constructors take, and costs no heavy import."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

from cdec.core.errors import UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.base import Sampler
from cdec.samplers.registry import METHODS
from cdec.samplers.rewards import build_reward

NEEDED = {
    "draft": TabularModel(lambda prefix: [1.0], Vocabulary([b""], [0], [0])),
    "reward": build_reward("regex:."),
}


def needed(name: str) -> dict[str, Any]:
    """Return the arguments that a method cannot do without."""
    method = METHODS[name]
    wanted = {"draft": method.needs_draft, "reward": method.needs_reward}
    return {option: NEEDED[option] for option, is_needed in wanted.items() if is_needed}


def test_the_table_of_methods_imports_nothing_heavy() -> None:
    code = (
        "import sys, cdec.samplers.registry as registry; list(registry.SAMPLERS); "
        "print([name for name in ('numpy', 'torch', 'transformers', 'pyarrow') "
        "if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_samplers_are_a_mapping_from_names_to_classes() -> None:
    assert list(SAMPLERS) == list(METHODS)
    assert SAMPLERS.get("none") is None
    for name, sampler_class in SAMPLERS.items():
        assert issubclass(sampler_class, Sampler)
        assert sampler_class.name == name


@pytest.mark.parametrize("name", METHODS)
def test_a_constructor_takes_what_is_declared(name: str) -> None:
    sampler: Any = SAMPLERS[name](**needed(name))
    parameters = inspect.signature(SAMPLERS[name]).parameters
    assert list(parameters) == [option.name for option in METHODS[name].options]
    for option in METHODS[name].options:
        assert parameters[option.name].default == option.default
        assert hasattr(sampler, option.name)
    with pytest.raises(TypeError, match="no option 'colour'"):
        SAMPLERS[name](**needed(name), colour="red")


@pytest.mark.parametrize("name", METHODS)
def test_a_constructor_checks_what_is_declared(name: str) -> None:
    for option in METHODS[name].options:
        if option.at_least is None:
            continue
        with pytest.raises(UsageError) as caught:
            SAMPLERS[name](**needed(name), **{option.name: int(option.at_least) - 1})
        assert caught.value.details["option"] == option.name


def test_values_are_checked_without_a_sampler() -> None:
    assert METHODS["cdsl"].checked({"depth": 5})["depth"] == 5
    with pytest.raises(UsageError, match="`depth` is 0, expected at least 1"):
        METHODS["cdsl"].checked({"depth": 0})


@pytest.mark.parametrize("name", METHODS)
def test_every_option_says_what_it_is_for(name: str) -> None:
    for option in METHODS[name].options:
        assert option.help.endswith(".")
        assert "--" not in option.help


def test_an_option_that_does_not_exist_is_told_its_near_name() -> None:
    with pytest.raises(TypeError, match="disc has no option 'recycel'; did you mean 'recycle'"):
        SAMPLERS["disc"](recycel=True)


def test_one_option_has_a_second_name() -> None:
    two = {
        (option.name, option.also)
        for method in METHODS.values()
        for option in method.options
        if option.also
    }
    assert two == {("K", "max_tries")}
    sampler: Any = SAMPLERS["disc"](max_tries=7)
    assert sampler.K == 7
    with pytest.raises(UsageError, match="`K` is 0"):
        SAMPLERS["disc"](max_tries=0)
    with pytest.raises(TypeError, match="two names"):
        SAMPLERS["disc"](max_tries=7, K=7)


def test_options_are_called_as_they_are_typed() -> None:
    from cdec.cli.frame.declaration import flag_of

    names = {option.name for method in METHODS.values() for option in method.options}
    assert not {name for name in names if flag_of(name)[2:].replace("-", "_") != name}
