"""Constraints of every kind under the processors of other libraries: texts are their own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cdec.compilers import choices, grammar, regex, schema, spans, tools
from cdec.core import Constraint, Vocabulary
from cdec.core.combine.fitting import fit
from cdec.core.combine.free_parts import FreeTextConstraint
from cdec.core.combine.free_text import FreeText
from cdec.core.constraint import NarrowedSet
from cdec.core.constraint_source import Held
from cdec.core.errors import UsageError
from cdec.core.mask import allocate_mask, apply_mask
from cdec.integrations.transformers import ConstraintProcessor

PAGE = "Lyon lies on two rivers. The Rhône is the longer one."
TOWNS = ["Oslo", "Os", 'A "B"', "Zürich"]
HAS_CITY = {
    "type": "object",
    "properties": {"c": {"type": "string", "x-cdec-set": "cities"}},
    "required": ["c"],
    "additionalProperties": False,
}
COLOUR = "https://x.org/colour.json"
COLOURED = {"type": "array", "items": {"$ref": COLOUR}, "minItems": 1, "maxItems": 2}
TOOL = {"type": "function", "function": {"name": "now"}}
DIGITS = regex("[0-9]{2}")


def _held(vocabulary: Vocabulary, *narrowed: NarrowedSet) -> Constraint:
    towns = choices(TOWNS).of(vocabulary)
    return schema(HAS_CITY, sets={"cities": towns}).of(vocabulary).narrowed(narrowed)


MADE: Mapping[str, Callable[[Vocabulary], Constraint]] = {
    "choices": choices(["red", "green"]).of,
    "regex": DIGITS.of,
    "grammar": grammar('start: "ab" "ab"?').of,
    "schema": schema({"type": "boolean"}).of,
    "references": schema(COLOURED, refs={COLOUR: {"enum": ["red", "blue"]}}).of,
    "tools": tools([TOOL]).of,
    "set": _held,
    "candidates": lambda known: _held(known, NarrowedSet("cities", ("Zürich",))),
    "denied": lambda known: _held(known, NarrowedSet("cities", ("Oslo", "Os"), True)),
    "pieces": spans(PAGE, whole="words").of,
    "fit": lambda known: fit(regex("[0-9]{2}-[0-9]+").of(known), 6),
    "few tokens of a string": schema({"type": "string", "x-cdec-max-tokens": 3}).of,
    "few tokens of a terminal": grammar('start: W ("," W)* "."\nW[max_tokens=2]: /[a-z]+/').of,
    "after": lambda known: FreeTextConstraint(DIGITS.of(known), FreeText((":",), budget=4)),
    "between": lambda known: FreeTextConstraint(
        DIGITS.of(known), FreeText((), ("<", ">"), budget=4, regions=1)
    ),
}
MOST, WIDTH, END = 60, 4096, 1


def scores_of(step: int, width: int) -> Any:
    """Return what a model would give at a step, float32[width], whatever was before."""
    return np.random.default_rng(step).normal(size=width).astype(np.float32)


def own_text(constraint: Constraint) -> list[int]:
    """Return the most probable tokens within a constraint, by its own session."""
    session, tokens = constraint.session("cpu"), []
    states = session.start(1)
    for step in range(MOST):
        mask = allocate_mask(1, WIDTH)
        session.fill_mask(states, mask)
        scores = scores_of(step, WIDTH)[None]
        apply_mask(scores, mask)
        tokens.append(int(scores.argmax()))
        if tokens[-1] == END:
            return tokens
        states = session.advance(states, np.array(tokens[-1:]))
    return tokens


def text_under(masked: Callable[[Any, Any], Any]) -> list[int]:
    """Return the same under a processor of token ids and scores."""
    tokens: list[int] = []
    for step in range(MOST):
        tokens.append(int(masked([5, 6, *tokens], scores_of(step, WIDTH)).argmax()))
        if tokens[-1] == END:
            break
    return tokens


def under_transformers(processor: Any) -> list[int]:
    def masked(tokens: list[int], scores: Any) -> Any:
        return processor(torch.tensor([tokens]), torch.from_numpy(scores)[None])[0]

    return text_under(masked)


def under_llama(processor: Any) -> list[int]:
    return text_under(lambda tokens, scores: processor(np.array(tokens), scores))


@pytest.fixture(scope="module", params=MADE)
def constraint(request: pytest.FixtureRequest, vocabulary: Vocabulary) -> Constraint:
    return MADE[request.param](vocabulary)


@pytest.fixture
def llama(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> Callable[[Held], Any]:
    """Return the processor for llama-cpp-python, with a stand-in for that library."""
    place = "cdec.integrations.llama_cpp"
    stand_in: Any = ModuleType("llama_cpp")
    kinds = ("VOCAB_TYPE_SPM", "VOCAB_TYPE_BPE", "VOCAB_TYPE_UGM")
    attributes = ("TOKEN_ATTR_UNKNOWN", "TOKEN_ATTR_UNUSED", "TOKEN_ATTR_CONTROL")
    vars(stand_in).update({f"LLAMA_{name}": 0 for name in (*kinds, *attributes)})
    stand_in.Llama = object
    monkeypatch.setitem(sys.modules, "llama_cpp", stand_in)
    monkeypatch.delitem(sys.modules, place, raising=False)
    module = importlib.import_module(place)
    monkeypatch.setitem(sys.modules, place, module)
    monkeypatch.setattr(module, "gguf_vocabulary", lambda _: vocabulary)
    model = SimpleNamespace(draft_model=None, n_vocab=lambda: vocabulary.width)
    return lambda held: module.ConstraintProcessor(held, model)


def test_the_vocabulary_is_that_of_these_tests(vocabulary: Vocabulary) -> None:
    assert (vocabulary.width, tuple(vocabulary.eos_token_ids)) == (WIDTH, (END,))


def test_texts_under_the_processor_of_transformers(
    constraint: Constraint, vocabulary: Vocabulary
) -> None:
    processor = ConstraintProcessor(constraint, vocabulary=vocabulary)
    assert under_transformers(processor) == own_text(constraint)


def test_texts_under_the_processor_of_llama_cpp(
    constraint: Constraint, vocabulary: Vocabulary, llama: Callable[[Held], Any]
) -> None:
    assert under_llama(llama(constraint)) == own_text(constraint)


def test_sources_are_made_for_the_vocabulary(
    vocabulary: Vocabulary, llama: Callable[[Held], Any]
) -> None:
    with pytest.raises(UsageError, match="for the model's vocabulary, and none is given") as caught:
        ConstraintProcessor([None, DIGITS])
    assert "`vocabulary`" in (caught.value.hint or "")
    own = own_text(DIGITS.of(vocabulary))
    assert under_transformers(ConstraintProcessor(DIGITS, vocabulary=vocabulary)) == own
    assert under_llama(llama(DIGITS)) == own
