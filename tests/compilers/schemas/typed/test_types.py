"""Python types read as schemas: ranges, refinements, models."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import random
import re
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import pytest
from annotated_types import Predicate

from cdec.compilers import compile_schema, schema_constraint, typed
from cdec.compilers.schemas.kind import verify_schema
from cdec.compilers.schemas.typed import kinds
from cdec.compilers.schemas.typed.kinds import schema_of, schema_text, value_parser
from cdec.compilers.schemas.typed.numbers import (
    at_least,
    at_most,
    from_text,
    one_of,
    up_to_text,
    whole,
)
from cdec.compilers.schemas.typed.standard import standard_schema
from cdec.core import open_artifact
from cdec.core.artifacts.opened import KINDS
from cdec.core.artifacts.read import verify_bytes
from cdec.core.constraint import text_verdicts
from cdec.core.models.tabular import TabularModel
from cdec.core.schemas.own_keywords import NOTE, NUMBERS, UNENFORCED
from cdec.core.schemas.schema_constraint import SchemaConstraint
from cdec.core.schemas.validity import parser_of
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import sample
from tests.compilers.schemas.typed.kinds_of_types import RANDOM, TYPES
from tests.compilers.schemas.typed.test_kinds import CASES
from tests.core.test_core import a_sample
from tests.laws.grammar_cases import byte_vocabulary
from tests.laws.sizes import heavy_or
from tools.benchmarks.schemas.random_walks import Walker, walking_vocabulary

# --- Every text that a type's masks complete is read by the type, and its own texts are allowed.

_WALKS = heavy_or(8, 60)
_LEFT = {"set of two": "whether enough items differ once they are read"}
"""What is not enforced of a type, and told: its reader refuses some of its texts."""


@cache
def _constraint(name: str) -> SchemaConstraint:
    return _made(TYPES[name][0])


def _made(kind: Any) -> SchemaConstraint:
    source = schema_text(kind)
    assert isinstance(source, str)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return schema_constraint(kind, walking_vocabulary(source))


def _walked(constraint: SchemaConstraint, seed: bytes) -> list[str]:
    """Return texts along masks, some short and some long."""
    random, session, texts = np.random.default_rng(list(seed)), constraint.session(), []
    for _ in range(_WALKS):
        walker = Walker(constraint.vocabulary, random, patience=int(random.integers(4, 60)))
        texts.append(walker.draw(session))
    return [text.decode() for text in texts if text is not None]


@pytest.mark.share(40)
@pytest.mark.parametrize("name", TYPES)
def test_every_text_of_the_masks_is_read(name: str) -> None:
    constraint, read = _constraint(name), value_parser(TYPES[name][0])
    judge = parser_of(constraint.metadata["cdec.schema"], numbers="finite")
    assert judge is not None
    assert [item["reason"] for item in constraint.facts.unenforced] == [
        *([_LEFT[name]] if name in _LEFT else [])
    ]
    texts = _walked(constraint, name.encode())
    assert texts
    for text in texts:
        assert judge(text, 0.0) is True, text
        if name not in _LEFT:
            read(text)


@pytest.mark.share(26)
@pytest.mark.parametrize("name", [name for name, (_, values) in TYPES.items() if values])
def test_what_the_type_writes_is_allowed(name: str) -> None:
    kind, values = TYPES[name]
    adapter = pydantic.TypeAdapter(kind)
    texts = [adapter.dump_json(value, by_alias=True) for value in values]
    for text, verdict in zip(texts, text_verdicts(_constraint(name), texts), strict=True):
        assert verdict["valid"] and verdict.get("written", True), (text, verdict)


@pytest.mark.parametrize("name", RANDOM)
def test_random_values_are_allowed(name: str) -> None:
    kind, draw = RANDOM[name]
    rng, adapter = Random(name), pydantic.TypeAdapter(kind)
    texts = [adapter.dump_json(draw(rng)) for _ in range(heavy_or(30, 400))]
    for text, verdict in zip(texts, text_verdicts(_made(kind), texts), strict=True):
        assert verdict["valid"] and verdict.get("written", True), (text, verdict)


@pytest.mark.parametrize("kind", [kind for kind, _, _ in CASES], ids=str)
def test_types_are_read_without_pydantic(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_adapter", lambda kind: None)
    read = value_parser(kind)
    for text in _walked(_made(kind), json.dumps(schema_of(kind)).encode()):
        read(text)


# --- Expressions of numbers and texts on one side of a bound, against fractions and comparison.


def _number(rng: random.Random) -> str:
    digits = str(rng.choice([0, rng.randrange(3), rng.randrange(30), rng.randrange(2000)]))
    if rng.random() < 0.6:
        digits += "." + "".join(rng.choice("0159") for _ in range(rng.randrange(1, 4)))
    return rng.choice(["", "-"]) + digits


@pytest.mark.parametrize("excluded", [False, True])
def test_numbers_on_one_side_of_a_bound_are_those_that_compare_so(excluded: bool) -> None:
    rng = random.Random(5)
    for _ in range(300):
        bound = _number(rng)
        low = re.compile(whole(at_least(Fraction(bound), excluded=excluded)))
        high = re.compile(whole(at_most(Fraction(bound), excluded=excluded)))
        for text in [bound, *(_number(rng) for _ in range(20))]:
            value, limit = Fraction(text), Fraction(bound)
            is_in = not excluded or value != limit
            assert bool(low.search(text)) == (value >= limit and is_in), (bound, text)
            assert bool(high.search(text)) == (value <= limit and is_in), (bound, text)


def test_what_stands_around_the_digits_stands_behind_the_sign() -> None:
    pattern = re.compile(whole(at_least(Fraction(-5), around=("PT", "S"))))
    assert [bool(pattern.search(text)) for text in ("PT7.5S", "-PT5S", "-PT5.5S", "7S")] == [
        *(True, True, False, False)
    ]


@pytest.mark.parametrize("excluded", [False, True])
def test_texts_of_one_form_are_compared_as_texts(excluded: bool) -> None:
    rng = random.Random(6)
    for _ in range(200):
        texts = [f"{rng.randrange(3000):04}-{rng.randrange(13):02}" for _ in range(20)]
        bound = texts[0]
        low = re.compile(whole(from_text(bound, excluded=excluded)))
        high = re.compile(whole(up_to_text(bound, excluded=excluded)))
        for text in texts:
            is_in = not excluded or text != bound
            assert bool(low.search(text)) == (text >= bound and is_in)
            assert bool(high.search(text)) == (text <= bound and is_in)


def test_nothing_matches_none_of_no_expressions() -> None:
    assert not re.search(one_of([]), "a\n")


# --- What types ask beyond their JSON Schema: what is refused, named, and read as None.

VOCABULARY = byte_vocabulary()
field = pydantic.Field
TODAY = datetime.date.today()


class Level(enum.IntEnum):
    LOW = 1


class Even(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number

    @pydantic.model_validator(mode="after")
    def is_small(self) -> Even:
        assert self.number < 100
        return self


@dataclasses.dataclass
class Made:
    size: int

    def __post_init__(self) -> None:
        assert self.size


class Begun(pydantic.BaseModel):
    size: int

    def model_post_init(self, _context: object) -> None:
        assert self.size


def _allowed(kind: Any, texts: list[str]) -> list[bool]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        constraint = schema_constraint(kind, VOCABULARY)
    return [each["valid"] for each in text_verdicts(constraint, [text.encode() for text in texts])]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (int, ["1e119", "100000000000000000000.0", "1.0", "1e3"]),
        (list[pydantic.StrictInt], ["[1.0]"]),
        (Level, ["1.0"]),
        (Literal[1, "a"], ["1e0"]),
        (Annotated[float, field(gt=0, lt=1)], ["1e-400", "0.99999999999999999999999", "0", "1"]),
        (float, ["1e400", "-1e309", "1e-5000"]),
        (Decimal, ['"abc"', '"1e400"', '"NaN"', '" 1"']),
        (
            pydantic.condecimal(max_digits=5, decimal_places=2),
            ['"1000"', "0.125", "1000", '"1.234"'],
        ),
        (Annotated[Decimal, field(gt=0)], ['"0"', '"-1"', "0", '"0.00"']),
        (pydantic.UUID4, ['"12345678-1234-1234-8234-123456789012"']),
        (pydantic.UUID4, ['"12345678-1234-4234-c234-123456789012"']),
        (pydantic.HttpUrl, ['"ftp://a.b"', '"http:"', '"http://a..b"', '"http://a.b:99999"']),
        (pydantic.IPvAnyNetwork, ['"1.2.3.4/24"', '"2001:db8::1/32"', '"1.2.3.0/33"']),
        (pydantic.NaiveDatetime, ['"2024-01-01T00:00:00Z"', '"2024-01-01"']),
        (pydantic.AwareDatetime, ['"2024-01-01T00:00:00"']),
        (pydantic.PastDate, [f'"{TODAY + datetime.timedelta(1)}"', '"2999-01-01"']),
        (pydantic.FutureDatetime, ['"2024-01-01T00:00:00Z"']),
        (datetime.time, ['"12:00:60Z"', '"24:00"']),
        (datetime.timedelta, ['"P"', '"PT"', '"P1000000000D"', '"P1H"']),
        (dict[int, str], ['{"a": ""}', '{"1.0": ""}', '{"": ""}']),
        (dict[tuple[int, int], str], ['{"1,2": ""}']),
        (pydantic.Json, ['"a"', '"[1,]"', '""', '"1e400"']),
        (pydantic.Json[list[int]], ['"1"', '"[1.5]"', "[1]"]),
        (pydantic.Base64Bytes, ['"YQ"', '"YWI"', '"Y"']),
        (pydantic.Base64Str, ['"gA=="']),
        (pydantic.ByteSize, ['"1x"', "-1", '"Ki"']),
        (pydantic.constr(strip_whitespace=True, min_length=1), ['" "', '""']),
        (pydantic.conbytes(max_length=2), ['"\u4e16"']),
        (Annotated[int | float, field(gt=0)], ["0", "-1.5"]),
    ],
)
def test_what_the_reader_refuses_is_not_allowed(kind: Any, texts: list[str]) -> None:
    assert _allowed(kind, texts) == [False] * len(texts)


def test_validators_are_named_as_not_enforced(tmp_path: Path) -> None:
    with pytest.warns(UserWarning) as found:
        constraint = schema_constraint(Even, VOCABULARY)
    said = " ".join(str(each.message) for each in found)
    assert "/properties/number: masks do not enforce Even.is_even" in said
    assert "the type: masks do not enforce Even.is_small" in said
    assert {(item["path"], item["reason"]) for item in constraint.facts.unenforced} == {
        ("/$defs/Even/properties/number/x-cdec-unenforced", "Even.is_even"),
        ("/x-cdec-unenforced", "Even.is_small"),
    }
    path = tmp_path / "even.arrow"
    report = compile_schema(Even, VOCABULARY, path)
    assert [notice.code for notice in report.notices] == ["W_TYPE_UNENFORCED"] * 2
    assert (
        open_artifact(path, vocabulary=VOCABULARY).facts.unenforced == constraint.facts.unenforced
    )
    assert not verify_schema(verify_bytes(path.read_bytes(), KINDS)).differing


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (Annotated[int, pydantic.AfterValidator(abs)], "abs"),
        (Annotated[int, pydantic.BeforeValidator(int)], "int"),
        (Annotated[int, pydantic.WrapValidator(lambda value, of: of(value))], "lambda"),
        (Annotated[int, pydantic.PlainValidator(abs)], "abs"),
        (Annotated[str, Predicate(str.islower)], "apply_known_metadata"),
        (pydantic.FilePath, "validate_file"),
        (Annotated[pydantic.Json, field(max_length=1)], "max_length"),
        (pydantic.Json[list[Annotated[int, pydantic.AfterValidator(abs)]]], "abs"),
        (Annotated[int | datetime.date, field(gt=TODAY)], "greater_than"),
        (Annotated[set[int], field(min_length=2)], "enough items differ"),
        (Annotated[str, field(pattern="^[[:alpha:]]+$")], "pattern"),
        (Made, "Made.__post_init__"),
        (Begun, "Begun.model_post_init"),
        (
            pydantic.create_model(
                "Led", a=(str, field(validation_alias=pydantic.AliasPath("b", 0)))
            ),
            r"path \['b', 0\]",
        ),
    ],
)
def test_whatever_code_may_refuse_more_is_named(kind: Any, named: str) -> None:
    with pytest.warns(UserWarning, match=named):
        schema_constraint(kind, VOCABULARY)


def test_a_text_that_the_type_refuses_is_not_valid_and_has_no_value() -> None:
    with pytest.warns(UserWarning):
        constraint = schema_constraint(Even, VOCABULARY)
    texts = [b'{"number": 2}', b'{"number": 3}', b'{"number": 102}']
    assert [verdict["valid"] for verdict in text_verdicts(constraint, texts)] == [True] * 3
    assert [constraint.accepts(text) for text in texts] == [True, False, False]
    samples = [a_sample(text=text.decode(), reader=constraint.facts.reader) for text in texts]
    assert [sample.parsed for sample in samples] == [Even(number=2), None, None]


def test_draws_that_the_type_refuses_are_not_valid_and_have_no_value() -> None:
    def odd(number: int) -> int:
        assert number % 2
        return number

    vocabulary = Vocabulary([b"1", b"2", b"3", b""], [3], [3])
    model = TabularModel(lambda prefix: [0.3, 0.3, 0.3, 0.1], vocabulary)
    with pytest.warns(UserWarning, match="odd"):
        kind = Annotated[Literal[1, 2, 3], pydantic.AfterValidator(odd)]
        constraint = schema_constraint(kind, vocabulary)
    samples = sample(model, constraint, "", method="masked", n=12)
    assert {each.text for each in samples} == {"1", "2", "3"}
    for each in samples:
        assert each.parsed == {"1": 1, "3": 3}.get(each.text)
        assert each.valid is (each.text != "2")
        assert "odd" in each.unenforced[0]["reason"]


def test_the_day_of_past_and_future_is_told() -> None:
    assert TODAY.isoformat() in schema_of(pydantic.PastDate)[NOTE]
    with pytest.warns(UserWarning, match=f"/properties/born: .*{TODAY.isoformat()}"):
        schema_constraint(pydantic.create_model("Born", born=pydantic.PastDate), VOCABULARY)


def test_a_type_whose_schema_says_all_of_it_is_compiled_without_a_warning() -> None:
    class Plain(pydantic.BaseModel):
        name: str
        at: pydantic.HttpUrl
        more: dict[int, Decimal] | None = None

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constraint = schema_constraint(Plain, VOCABULARY)
    assert constraint.facts.unenforced == []


def test_the_schema_of_a_type_stays_one_that_others_read() -> None:
    """Its own keywords are comments elsewhere; here they count where texts are judged, too."""
    schema = {"type": "number", NUMBERS: "integers"}
    validates = parser_of(json.dumps(schema))
    assert validates is not None
    assert [validates(text, 0.0) for text in ("1", "-0", "1.0", "1e0", "15e-1", "9" * 2000)] == [
        *(True, True, False, False, False, True)
    ]
    validates = parser_of(json.dumps({NUMBERS: "doubles"}))
    assert validates is not None
    assert [validates(text, 0.0) for text in ("1e400", "1e-400", "0e9", '"a"', "1e308")] == [
        *(False, False, True, True, True)
    ]


@pytest.mark.parametrize("sign", ["w", "W", "s", "S", "D", "b.\\b"])
def test_classes_of_characters_are_those_that_both_engines_see(sign: str) -> None:
    """Pydantic matches by Rust's expressions, whose letters and blanks are not all Python's."""
    kind = Annotated[str, field(pattern=rf"^\{sign}$")]
    adapter, schema = pydantic.TypeAdapter(kind), schema_of(kind)
    allowed = [re.compile(each["pattern"]) for each in [schema, *schema["allOf"]]]
    points = [*range(0x3100), *range(0x3100, 0x110000, heavy_or(211, 1))]
    for character in (chr(point) for point in points if not 0xD800 <= point < 0xE000):
        if all(each.search(character) for each in allowed):
            adapter.validate_python(character)


def test_flags_of_a_compiled_expression_count() -> None:
    kind = Annotated[str, field(pattern=re.compile("^B  a$ # two", re.I | re.X))]
    assert _allowed(kind, ['"ba"', '"Ba"', '"B  a"']) == [True, True, False]


def test_a_post_init_is_named_without_pydantic() -> None:
    assert standard_schema(Made)["$defs"]["Made"][UNENFORCED] == ["Made.__post_init__"]


def test_the_artifact_of_a_type_reads_its_samples_again(tmp_path: Path) -> None:
    path = tmp_path / "decimal.arrow"
    compile_schema(Decimal, VOCABULARY, path)
    opened = typed(open_artifact(path, vocabulary=VOCABULARY), Decimal)
    assert opened.facts.reader('"1.50"') == Decimal("1.50")
