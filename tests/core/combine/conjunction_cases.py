"""Small constraints to conjoin, what they accept by their sessions, and laws short of soundness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cdec.core.constraint import DONE
from cdec.core.tokens.vocabulary import Vocabulary
from tests.core.grammars.finite_language import FiniteLanguage
from tests.core.sets.set_cases import make_set
from tests.laws.grammar_cases import compiled
from tests.laws.sessions import assert_batch_is_rows, assert_states_agree

BYTES = [b"a", b"b", b"c", b"ab", b"bc", b"a", b"", b"cc", b""]
VOCABULARY = Vocabulary(BYTES, eos_token_ids=[6, 8], width=40)
Outcome = tuple[tuple[int, ...], bool]


def outcomes(constraint: Any, longest: int, device: str = "cpu") -> set[Outcome]:
    """Return the token sequences that a session accepts, and whether they end themselves."""
    session = constraint.session(device)
    found: set[Outcome] = set()
    level = {(): int(session.start(1)[0])}
    for _ in range(longest + 1):
        following = {}
        for prefix, state in level.items():
            if session.is_complete(np.array([state]))[0]:
                found.add((prefix, state == DONE))
            _, ids = session.allowed(np.array([state]))
            for token in set(ids.tolist()) - set(constraint.vocabulary.eos_token_ids):
                after = session.advance(np.array([state]), np.array([token]))
                following[(*prefix, token)] = int(after[0])
        level = following
    return {outcome for outcome in found if len(outcome[0]) <= longest}


def common(first: set[Outcome], second: set[Outcome]) -> set[Outcome]:
    """Return what two constraints have in common; one that ends itself ends for both."""
    ends = [dict(first), dict(second)]
    return {(row, ends[0][row] or ends[1][row]) for row in ends[0].keys() & ends[1].keys()}


def random_rows(rng: np.random.Generator, n: int, longest: int = 4) -> list[tuple[int, ...]]:
    tokens = [0, 1, 2, 3, 4, 5, 7]
    return [tuple(rng.choice(tokens, size=rng.integers(0, longest + 1)).tolist()) for _ in range(n)]


def random_side(rng: np.random.Generator, shared: list[tuple[int, ...]]) -> Any:
    """Return a set (with or without ends of its own) or a finite language, some members shared."""
    rows = [*random_rows(rng, int(rng.integers(1, 30))), *shared]
    kind = rng.integers(3)
    if kind == 2:
        return FiniteLanguage([VOCABULARY.decode(row) for row in rows], VOCABULARY)
    return make_set(rows, VOCABULARY, options={"ends_itself": bool(kind)})


def assert_session_laws_without_soundness(
    constraint: Any, rng: np.random.Generator, members: Any = ()
) -> None:
    """Check all laws on walks that end where nothing is allowed any more."""
    session = constraint.session()
    states = set(session.start(1).tolist())
    level = sorted(states)
    for _ in range(5):
        offsets, ids = session.allowed(np.array(level, np.int64))
        after = session.advance(np.repeat(np.array(level), np.diff(offsets)), ids)
        level = sorted(set(after.tolist()) - states)
        states.update(level)
        if not level:
            break
    some = rng.permutation(sorted(states))[:60]
    masks = assert_states_agree(session, np.append(some, [-1, -2]), constraint.vocabulary)
    assert_batch_is_rows(session, some[:10], constraint.vocabulary)
    device = constraint.session("torch:cpu")
    for member in members:
        on_device, on_host = device.start(1), session.start(1)
        for token in member:
            on_device, on_host = (
                device.advance(on_device, np.array([token])),
                session.advance(on_host, np.array([token])),
            )
        assert device.is_complete(on_device)[0] and session.is_complete(on_host)[0]
    assert masks.shape[1] == constraint.vocabulary.width


def words(pattern: str, folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    return compiled(f"start: {pattern}\n", folder)
