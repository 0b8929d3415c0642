"""``import cdec``: public names on first use, objects that say what they are, wrong types named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import cdec
from cdec.core.combine.denial import deny
from cdec.core.models.tabular import TabularModel
from cdec.core.record_fields.shown import TraceLines, safe
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data import embedded_model_path

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
