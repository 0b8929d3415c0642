"""Leaves of the core: errors, options, fields of records, seeds, masks, samples."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import pickle
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from cdec.core import errors
from cdec.core.combine.conjunction import ConjunctionConstraint, conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.constraint import Constraint, Facts, token_verdicts
from cdec.core.errors import CdecError, EncodingError, LimitError, UsageError
from cdec.core.mask import allocate_mask, apply_mask, mask_words, pack_mask, unpack_mask
from cdec.core.options import LARGEST_COUNT, Option, check_limits, limit, limits_of
from cdec.core.record_fields import RECORD_FIELDS, fields_of
from cdec.core.sample import SCHEMA_VERSION, Sample
from cdec.core.seeds import derive_seed
from cdec.samplers import SAMPLERS, build_reward, sample
from cdec.samplers.registry import METHODS
from tests.laws import worlds as toys
from tests.laws.worlds import toy_b

# --- The error tree: every error has a code and an exit status, and its docstring tells the
# truth.


def concrete_errors() -> dict[str, type[CdecError]]:
    """Every error class that defines a code of its own, by name."""
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, CdecError)
        if value.code != getattr(value.__base__, "code", None)
    }


def test_codes_are_unique_and_well_formed() -> None:
    codes = [error.code for error in concrete_errors().values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"E_[A-Z_]+", code) for code in codes)


def test_exit_statuses_are_those_of_the_contract() -> None:
    statuses = {error.exit_status for error in concrete_errors().values()}
    assert statuses == {2, 65, 66, 69, 70, 73, 74, 75, 78}


def test_error_becomes_json_with_its_details() -> None:
    error = EncodingError("line 2 is not UTF-8", hint="re-encode it", line=2, byte_offset=8)
    assert error.to_json() == {
        "code": "E_ENCODING",
        "message": "line 2 is not UTF-8",
        "hint": "re-encode it",
        "line": 2,
        "byte_offset": 8,
    }


def test_error_without_a_hint_has_no_hint_key() -> None:
    assert "hint" not in LimitError("too many", limit="max_entities 5").to_json()


# --- Option: what a declaration accepts, and in which words it refuses.

COUNT = Option(name="rounds", type=int, default=4, at_least=1)
SHARE = Option(name="share", type=float, default=0.5, at_least=0, at_most=1)
OPEN = Option(name="width", type=float, above=0, below=1, expected="a width", hint="Try 0.01.")
NATS = Option(name="nats", type=float, at_least=0, infinite=True)
WORD = Option(name="kind", type=("one", "two"), default="one")
GAMMA = Option(name="gamma", type=(int, "auto"), default=4, unit="tokens", at_least=1)


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        (COUNT, 1, 1),
        (COUNT, LARGEST_COUNT, LARGEST_COUNT),
        (SHARE, 1, 1.0),
        (OPEN, None, None),
        (NATS, math.inf, math.inf),
        (WORD, "two", "two"),
        (GAMMA, "auto", "auto"),
        (GAMMA, 7, 7),
        (Option(name="is_on", type=bool, default=False), True, True),
        (Option(name="file", type=Path), Path("a"), Path("a")),
        (Option(name="model", type=str, opened=True), 3.5, 3.5),
    ],
)
def test_values_within_bounds_are_returned(option: Option, value: Any, expected: Any) -> None:
    found = option.check(value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("option", "value", "message", "hint"),
    [
        (
            COUNT,
            0,
            "`rounds` is 0, expected at least 1",
            "give `rounds` a number of 1 or more, or leave it out",
        ),
        (
            COUNT,
            1 << 31,
            "`rounds` is 2147483648, expected at most 2147483647",
            "give `rounds` a smaller number, or leave it out",
        ),
        (
            Option(name="tries", type=int, default=4, at_most=9),
            10,
            "`tries` is 10, expected an integer of at most 9",
            "Give `tries` a value of 9 or less: memory grows with it.",
        ),
        (
            SHARE,
            2.0,
            "`share` is 2.0, expected a number of 0 or more and of 1 or less",
            "Give `share` such a number, or leave it out for the default.",
        ),
        (
            SHARE,
            math.nan,
            "`share` is nan, expected at least 0",
            "give `share` a number of 0 or more, or leave it out",
        ),
        (OPEN, 0.0, "`width` is 0.0, expected a width", "Try 0.01."),
        (WORD, "three", "`kind` is 'three', expected one of one, two", "Leave it out for one."),
        (
            GAMMA,
            0,
            "`gamma` is 0, expected a number of tokens from 1 to 2147483647, or auto",
            "give for example `gamma` 4",
        ),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_what_to_do(
    option: Option, value: Any, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        option.check(value)
    assert caught.value.message == message
    assert caught.value.hint == hint
    assert caught.value.details == {"option": option.name}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (COUNT, True),
        (COUNT, 1.0),
        (COUNT, "1"),
        (COUNT, None),
        (SHARE, "high"),
        (SHARE, True),
        (NATS, math.nan),
        (Option(name="score", type=float, default=0.3), math.inf),
        (Option(name="is_on", type=bool, default=False), 1),
        (GAMMA, "often"),
        (GAMMA, True),
        (Option(name="file", type=Path), "a"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(option: Option, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        option.check(value)
    assert f"`{option.name}` is {value!r}, expected" in caught.value.message


@dataclass(frozen=True)
class Bounds:
    most: int = limit(5, "Most of them.", unit="tokens")
    share: float = limit(0.5, "Share of them.", at_least=0.1)

    def __post_init__(self) -> None:
        check_limits(self)


def test_limits_are_options_with_the_names_types_and_defaults_of_their_fields() -> None:
    most, share = limits_of(Bounds)
    assert (most.name, most.type, most.default, most.unit) == ("most", int, 5, "tokens")
    assert (share.name, share.type, share.default, share.at_least) == ("share", float, 0.5, 0.1)


def test_a_limit_may_be_as_large_as_one_likes_but_not_nothing() -> None:
    assert Bounds(most=2**40, share=math.inf) == Bounds(2**40, math.inf)
    for wrong in ({"most": 0}, {"share": 0.05}, {"most": 1.5}):
        with pytest.raises(UsageError, match=r"^`(most|share)` is "):
            Bounds(**wrong)  # type: ignore[arg-type]


# --- Every field of every record is declared, and said to be of its command.


def test_names_stand_once_and_have_a_meaning() -> None:
    names = [field.name for field in RECORD_FIELDS]
    assert len(names) == len(set(names))
    assert all(field.meaning.endswith(".") and field.type for field in RECORD_FIELDS)


@pytest.mark.parametrize("name", METHODS)
def test_samples_hold_declared_fields_alone(name: str) -> None:
    toy = toys.toy_b()
    method = METHODS[name]
    options: dict[str, Any] = {}
    if method.needs_draft:
        options["draft"] = toy.model()
    if method.needs_reward:
        options["reward"] = build_reward("regex:a")
    sampler = SAMPLERS[name](**options)
    rng = np.random.default_rng(0)
    samples = sampler.draw(toy.model(), toy.constraint, "", n=2, rng=rng, max_new_tokens=4)
    for each in samples:
        assert isinstance(each, Sample)
        assert set(each.to_json()) <= set(fields_of("sample"))


# --- What masks leave open stands in every record, however the constraint is combined.

OPEN_SCHEMA = {"path": "/not", "keyword": "not", "reason": "nobody knows"}


class Lenient(WrappedConstraint):
    """A set whose masks leave something open: the text of its members is wrong all the same."""

    @cached_property
    def facts(self) -> Facts:
        """One keyword."""
        return self._facts_within(unenforced=(OPEN_SCHEMA,))

    def accepts(self, text: bytes) -> bool | None:
        """Refuse everything."""
        return False


def drawn(constraint: Constraint) -> list[dict[str, object]]:
    samples = sample(toy_b().model(), constraint, "", method="masked", n=2, max_new_tokens=4)
    return [each.to_json() for each in samples]


def test_samples_carry_it_whether_they_are_valid_or_not() -> None:
    toy = toy_b()
    assert "unenforced" not in drawn(toy.constraint)[0]
    for record in drawn(Lenient(toy.constraint)):
        assert record["unenforced"] == [OPEN_SCHEMA] and record["valid"] is False


def test_combinations_keep_it() -> None:
    toy = toy_b()
    lenient = Lenient(toy.constraint)
    restricted = conjoin(toy.constraint, lenient)
    member = toy.vocabulary.decode(toy.members[0])
    combined = (restricted, ConjunctionConstraint(toy.constraint, lenient), deny(lenient, [member]))
    assert [list(each.facts.unenforced) for each in combined] == [[OPEN_SCHEMA]] * 3


def test_verdicts_of_members_carry_it() -> None:
    toy = toy_b()
    (verdict,) = token_verdicts(
        ConjunctionConstraint(toy.constraint, toy.constraint), [toy.members[0]]
    )
    assert verdict["valid"] and "unenforced" not in verdict
    (verdict,) = token_verdicts(Lenient(toy.constraint), [toy.members[0]])
    assert verdict["valid"] and verdict["unenforced"] == [OPEN_SCHEMA]


# --- Derived seeds depend on the run, the record and the draw, and on nothing else.


def test_seed_is_stable_across_versions() -> None:
    # Recorded once: another value would silently change every published sample.
    assert derive_seed(0, "q17", 0) == 3503250832754781
    assert derive_seed(2**63 - 1, 5, 9_999) == 1089004766897312


def test_seeds_differ_in_every_part() -> None:
    ids: list[object] = [1, "1", "", "a", "1,0", '"', "é", -1]
    parts = list(itertools.product((0, 1, 2**63 - 1), ids, (0, 1, 10, 11)))
    assert len({derive_seed(*part) for part in parts}) == len(parts)


def test_seed_is_exact_as_a_json_number() -> None:
    for index in range(1000):
        seed = derive_seed(1, "x", index)
        assert 0 <= seed < 2**53
        assert int(float(seed)) == seed


# --- Packed masks: the layout, and that numpy and torch agree on it.

BOOLEANS = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=100))


@pytest.mark.parametrize(("width", "words"), [(1, 1), (31, 1), (32, 1), (33, 2), (131072, 4096)])
def test_words_cover_the_width(width: int, words: int) -> None:
    assert mask_words(width) == words


def test_token_i_is_bit_i_mod_32_of_word_i_div_32() -> None:
    width = 100
    for token in (0, 1, 30, 31, 32, 63, 64, 99):
        allowed = np.zeros((1, width), dtype=np.bool_)
        allowed[0, token] = True
        expected = np.zeros(4, dtype=np.uint32)
        expected[token // 32] = np.uint32(1) << np.uint32(token % 32)
        packed = pack_mask(allowed)
        assert packed.dtype == np.int32
        assert packed.tolist() == [expected.view(np.int32).tolist()]


def test_allocated_mask_allows_nothing() -> None:
    host = allocate_mask(3, 70)
    device = allocate_mask(3, 70, "torch:cpu")
    assert isinstance(host, np.ndarray) and host.dtype == np.int32 and host.shape == (3, 3)
    assert isinstance(device, torch.Tensor) and device.dtype == torch.int32
    assert not host.any() and not device.any()


@settings(max_examples=100, deadline=None)
@given(BOOLEANS)
def test_unpacking_gives_back_what_was_packed(allowed: np.ndarray) -> None:
    assert np.array_equal(unpack_mask(pack_mask(allowed), allowed.shape[1]), allowed)


@settings(max_examples=100, deadline=None)
@given(BOOLEANS)
def test_bits_past_the_width_are_never_set(allowed: np.ndarray) -> None:
    packed = pack_mask(allowed)
    whole = unpack_mask(packed, packed.shape[1] * 32)
    assert not whole[:, allowed.shape[1] :].any()


@settings(max_examples=100, deadline=None)
@given(BOOLEANS)
def test_torch_unpacks_as_numpy_does(allowed: np.ndarray) -> None:
    tensor = torch.from_numpy(pack_mask(allowed))
    unpacked = unpack_mask(tensor, allowed.shape[1])
    assert unpacked.dtype == torch.bool
    assert np.array_equal(unpacked.numpy(), allowed)


@settings(max_examples=60, deadline=None)
@given(BOOLEANS, st.integers(0, 2**32 - 1))
def test_blocked_logits_become_minus_infinity_and_the_others_stay(
    allowed: np.ndarray, seed: int
) -> None:
    logits = np.random.default_rng(seed).normal(size=allowed.shape).astype(np.float32)
    expected = np.where(allowed, logits, np.float32(-np.inf))
    mask = pack_mask(allowed)
    tensor = torch.from_numpy(logits.copy())
    assert apply_mask(tensor, mask) is tensor
    assert np.array_equal(tensor.numpy(), expected)
    mixed = apply_mask(logits.copy(), torch.from_numpy(mask))
    assert np.array_equal(mixed, expected)
    assert apply_mask(logits, mask) is logits
    assert np.array_equal(logits, expected)


def test_apply_takes_half_precision_and_a_torch_mask() -> None:
    logits = torch.zeros((1, 40), dtype=torch.bfloat16)
    allowed = np.arange(40)[None] % 3 == 0
    apply_mask(logits, torch.from_numpy(pack_mask(allowed)))
    assert np.array_equal(torch.isfinite(logits).numpy(), allowed)


def test_rows_of_a_non_contiguous_mask_unpack_alike() -> None:
    allowed = np.random.default_rng(0).random((6, 77)) < 0.5
    packed = pack_mask(allowed)
    assert np.array_equal(unpack_mask(packed[::2], 77), allowed[::2])
    assert np.array_equal(unpack_mask(torch.from_numpy(packed)[::2], 77).numpy(), allowed[::2])


def test_mask_without_rows_unpacks_on_both_kinds() -> None:
    assert unpack_mask(allocate_mask(0, 70), 70).shape == (0, 70)
    assert tuple(unpack_mask(allocate_mask(0, 70, "torch:cpu"), 70).shape) == (0, 70)


# --- Samples become JSON objects: documented keys, no NaN, fields selected in the order asked.


def a_sample(**changes: object) -> Sample:
    values: dict[str, object] = {
        "id": "q17",
        "index": 0,
        "text": "Foreign relations of Angola",
        "token_ids": [1, 2],
        "logprob": -4.25,
        "log_weight": 0.0,
        "log_candidate_weight": -0.5,
        "finish_reason": "complete",
        "valid": True,
        "method": "disc",
        "exactness": "asymptotic",
        "seed": 8123,
        "diagnostics": {"draws": 2, "accepted": True},
        "annotations": {"entity_ids": ["Q4761"]},
        "input": {"query": "which?"},
    }
    return Sample(**(values | changes))  # type: ignore[arg-type]


def test_record_holds_what_is_known_in_the_documented_order() -> None:
    record = a_sample().to_json()
    assert record["schema_version"] == SCHEMA_VERSION
    assert list(record)[:6] == ["schema_version", "id", "index", "text", "token_ids", "entity_ids"]
    assert record["draws"] == 2
    assert record["input"] == {"query": "which?"}


def test_non_finite_numbers_become_null() -> None:
    record = a_sample(log_weight=-math.inf, diagnostics={"log_mass": math.nan}).to_json()
    assert record["log_weight"] is None
    assert record["log_mass"] is None
    assert orjson.loads(orjson.dumps(record)) == record


def test_fields_are_selected_in_the_order_asked() -> None:
    record = a_sample().to_json(["text", "id", "draws"])
    assert list(record) == ["text", "id", "draws"]


def test_absent_input_is_left_out_and_null_is_kept() -> None:
    record = a_sample(input=None, valid=None).to_json()
    assert "input" not in record
    assert record["valid"] is None


def test_diagnostics_and_annotations_are_attributes() -> None:
    sample = a_sample()
    assert (sample.draws, sample.accepted, sample.entity_ids) == (2, True, ["Q4761"])
    assert {"draws", "entity_ids", "text"} <= set(dir(sample))


def test_a_diagnostic_that_does_not_apply_is_an_attribute_error_that_names_those_that_do() -> None:
    with pytest.raises(AttributeError, match=r"'log_mass'.*disc.*draws, accepted, entity_ids"):
        a_sample().log_mass  # noqa: B018
    assert not hasattr(a_sample(), "kl_spent")


def test_a_sample_is_copied_and_pickled_whole() -> None:
    sample = a_sample()
    assert copy.copy(sample) == sample == pickle.loads(pickle.dumps(sample))


def test_a_sample_of_a_schema_is_read_as_a_value_once_it_is_finished() -> None:
    sample = dataclasses.replace(a_sample(), text='{"a": [1]}', reader=json.loads)
    assert sample.parsed == {"a": [1]}
    assert "reader" not in sample.to_json() and pickle.loads(pickle.dumps(sample)).reader is None
    assert dataclasses.replace(sample, text='{"a": [1', valid=False).parsed is None
    cut = dataclasses.replace(sample, finish_reason="length")
    for other, said in ((cut, "not finished: length"), (a_sample(), "no other value")):
        with pytest.raises(UsageError, match=said):
            other.parsed  # noqa: B018
