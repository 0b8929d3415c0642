"""The engine that sessions of a schema share: long calls, its bounds, and several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cdec.core.errors import LimitError
from cdec.core.mask import allocate_mask
from cdec.core.native import library
from cdec.core.schemas import engine as schema_engine
from tests.core.schemas.programs import Text, Value, anything
from tests.core.schemas.test_schema_laws import constraint, record
from tests.laws.sessions import state_masks


def test_a_call_on_very_many_rows_comes_back_and_is_continued() -> None:
    session = record().session()
    states, n = session.start(1), 5_000_000
    brace = np.array([session.allowed(states)[1][0]], np.int64)
    many, tokens, out = np.repeat(states, n), np.repeat(brace, n), np.zeros(n, np.int64)
    done = library.schema_engine_advance(session._handle, many, tokens, out)
    after = session.advance(states, brace)[0]
    assert 0 < done < n and (out[:done] == after).all() and not out[done:].any()
    assert (session.advance(many, tokens) == after).all()


def test_one_mask_that_takes_long_is_worked_on_in_several_calls() -> None:
    made, n = constraint(Value(strings=[Text(anything(), 0, 2)])), 60_000
    made.arrays = made.arrays._replace(
        string_offsets=np.array([0, n]),
        string_start=np.repeat(made.arrays.string_start, n),
        string_min=np.repeat(made.arrays.string_min, n),
        string_max=np.repeat(made.arrays.string_max, n),
    )
    session = made.session()
    states = session.advance_bytes(session.start(1), [b'"'])
    mask = allocate_mask(1, made.vocabulary.width)
    calls = 1
    while not library.schema_engine_fill_mask(session._handle, states, mask):
        calls += 1
    assert calls > 1
    every = np.arange(made.vocabulary.width)[None]
    found = state_masks(session, states, made.vocabulary.width)
    np.testing.assert_array_equal(found, session.check(states, every))


def test_states_beyond_their_bound_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_engine, "_MOST_BYTES", 1 << 17)
    session = constraint(Value(strings=[Text(anything(), 0, 100_000)])).session()
    with pytest.raises(LimitError, match="states of the schema's texts take") as raised:
        session.advance_bytes(session.start(1), [b'"' + b"a" * 5000])
    assert raised.value.details["limit"] == "memo_bytes"


def test_a_maximum_beyond_32_bits_is_as_none() -> None:
    bounded = constraint(Value(strings=[Text(anything(), 0, (1 << 33) + 5)]))
    free = constraint(Value(strings=[Text(anything())]))
    masks = []
    for made in (bounded, free):
        session = made.session()
        states = session.advance_bytes(session.start(2), [b'"', b'"\\u00e9ab'])
        masks.append(state_masks(session, states, made.vocabulary.width))
    np.testing.assert_array_equal(*masks)


def test_threads_that_share_an_engine_are_told_the_same() -> None:
    made = record()
    made.memo_bytes = 1 << 12

    def walked(seed: int) -> list[list[int]]:
        session, rng, told = made.session(), np.random.default_rng(seed), []
        states = session.start(1)
        for _ in range(300):
            before, ids = states, session.allowed(states)[1]
            told.append(ids.tolist())
            going = ids[~np.isin(ids, made.vocabulary.eos_token_ids)]
            states = session.start(1)
            if len(going):
                states = session.advance(before, rng.choice(going, 1))
        return told

    alone = [walked(seed) for seed in range(4)]
    made._engine = None
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(walked, range(4))) == alone
