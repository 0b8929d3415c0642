"""Random programs, and vocabularies of bytes and pieces that JSON texts are made of."""

from __future__ import annotations

import random
from dataclasses import replace

from cdec.core.schemas.program import OWN_STYLE, USUAL_ESCAPES, SchemaArrays
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.schemas.programs import (
    Array,
    Choice,
    Object,
    Text,
    Value,
    anything,
    blanks,
    integers,
    program,
    words,
)

_BYTES = b'{}[]",:\\/ \n\t-0129abcdeftruelsnDd83' + "é€😀".encode() + b"\xed\xa0\xff\x01"
_PIECES = [
    *(b'":', b'","', b'", "', b'{"', b'"}', b'"]', b"[[", b"]]", b"}}", b'": "', b'":{"', b"],["),
    *(b"\\u", b"\\u00", b"\\ud83d", b"\\ude", b"\\n", b'\\"', b"ab", b'a"', b'b":', b"12", b"true"),
    *(b"\n  ", b",\n", b"\n\t", b"    ", b": {", b'[\n    "', b'": [\n'),
    *(b" \n", b"  ", b", ", b"1,", b"1}", b"null]", "é".encode(), b"\xc3", b"\xa9\xa9", b'\xa9"'),
    *(
        b'abcde"',
        b"abc\\u0061",
        b"\\u007",
        b"\\u001",
        b"\\/",
        b'a\\u0022"',
        b'"\\u00e9"',
        b'"abc',
        b'"a":1',
        b"{}",
        b"[]",
        b'""',
        b"x",
        b"_",
        b"-1",
        b"false",
    ),
]
_LAYOUTS = [0, 0, 2, OWN_STYLE, OWN_STYLE]
_NAMES = ["a", "ab", "b", "é", "c\nd", ""]


def pieces() -> Vocabulary:
    """Return a vocabulary in which every byte of JSON is a token, and others cross its places."""
    tokens = sorted({bytes([byte]) for byte in _BYTES} | set(_PIECES))
    return Vocabulary([*tokens, tokens[3], b"", b""], [len(tokens) + 1, len(tokens) + 2])


def random_program(rng: random.Random, vocabulary: Vocabulary) -> SchemaArrays:
    """Return a program of some values; those behind the first are what it is made of."""
    n = rng.randint(2, 5)
    values = [_value(rng, n, last=number == n - 1) for number in range(n)]
    values = [_with_distinct(rng, value, values) for value in values]
    layout = rng.choice(_LAYOUTS) + rng.choice([0, USUAL_ESCAPES])
    return program(values, vocabulary, blanks(rng.choice([0, 1, 2, 3])), layout)


def _value(rng: random.Random, n: int, *, last: bool) -> Value:
    kinds = {kind for kind in ("raw", "string", "array", "object") if rng.random() < 0.55}
    if last or not kinds:
        kinds |= {rng.choice(["raw", "string"])}
    raw = rng.choice([integers(), words(["true", "null", "12", "-1"])])
    return Value(
        raw=raw if "raw" in kinds else None,
        strings=[_text(rng) for _ in range(rng.randint(1, 2))] if "string" in kinds else [],
        arrays=[_array(rng, n) for _ in range(rng.randint(1, 2))] if "array" in kinds else [],
        objects=[_object(rng, n) for _ in range(rng.randint(1, 2))] if "object" in kinds else [],
    )


def _with_distinct(rng: random.Random, value: Value, values: list[Value]) -> Value:
    """Return a value some of whose arrays hold no string twice, where any can be made longer."""
    arrays = []
    for array in value.arrays:
        held = [values[choice.value] for choices in array.positions for choice in choices]
        texts = [text for one in held for text in one.strings]
        endless = all(text.automaton.label(()) == 0 and text.high < 0 for text in texts)
        arrays.append(replace(array, distinct=endless and rng.random() < 0.5))
    return replace(value, arrays=arrays)


def _text(rng: random.Random) -> Text:
    if rng.random() < 0.5:
        low = rng.choice([0, 0, 2])
        return Text(anything(), low, rng.choice([-1, -1, low, low + 2]))
    return Text(words(rng.sample(["a", "ab", "é", "€a", "a😀", 'say "a"', "b\\", "\n", ""], 4)))


def _choices(rng: random.Random, n: int, counters: int) -> list[Choice]:
    picked = [rng.randrange(n) for _ in range(rng.choice([1, 1, 1, 2]))]
    return [
        Choice(value, tuple(c for c in range(counters) if rng.random() < 0.6)) for value in picked
    ]


def _counters(rng: random.Random) -> list[tuple[int, int]]:
    if rng.random() < 0.6:
        return []
    return [(low := rng.randint(0, 1), rng.choice([-1, low + 1])) for _ in range(rng.randint(1, 2))]


def _array(rng: random.Random, n: int) -> Array:
    counters = _counters(rng)
    positions = [_choices(rng, n, len(counters)) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        positions[-1] = []
    low = rng.choice([0, 0, 1])
    return Array(positions, low, rng.choice([-1, -1, low, low + 2]), counters)


def _object(rng: random.Random, n: int) -> Object:
    counters = _counters(rng)
    names = rng.sample(_NAMES, rng.randint(0, 4))
    heads = rng.choice([[], [""], ["a"], ["b", "a"], ["", "a"][::-1], ["ab", ""]])
    required = frozenset(name for name in names if rng.random() < 0.4)
    most = len(names) if not heads else 4
    low = rng.randint(0, min(most, 2))
    return Object(
        {name: _choices(rng, n, len(counters)) for name in names},
        {head: _choices(rng, n, len(counters)) for head in heads},
        required,
        low,
        rng.choice([-1, -1, max(low, len(required)), max(low, len(required)) + 1]),
        counters,
        rng.sample(names, len(names)) if rng.random() < 0.4 else None,
        rng.random() < 0.4,
    )
