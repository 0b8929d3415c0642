"""Laws of what sessions keep for each other: no answer depends on what was kept, or dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD, Constraint, Session
from cdec.core.grammars.grammar_constraint import GrammarConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from tests.laws.sessions import state_masks, to_numpy


def pieces_of(texts: Sequence[str], size: int, rng: np.random.Generator) -> Vocabulary:
    """Return all bytes of some texts, as many of their pieces as make ``size``, and an end id."""
    documents = [text.encode() for text in texts]
    pieces = {bytes([byte]) for document in documents for byte in document}
    while len(pieces) < size:
        document = documents[int(rng.integers(len(documents)))]
        start, length = int(rng.integers(len(document))), int(rng.integers(1, 12))
        pieces.add(document[start : start + length])
    tokens = [*sorted(pieces), b""]
    return Vocabulary(tokens, [len(tokens) - 1], [len(tokens) - 1])


def with_fewer_steps(
    constraint: GrammarConstraint, share: float, rng: np.random.Generator, **options: Any
) -> GrammarConstraint:
    """Return a constraint whose masks are computed ahead for some steps only.

    Args:
        constraint: With all steps; those from a tree's beginning stay.
        share: Of the other steps that stay.
        rng: Draws which.
        options: Of the new constraint.
    """
    arrays = constraint.arrays
    stays = rng.random(len(arrays.automaton_read)) < share
    stays[: arrays.automaton_step_offsets[len(arrays.tree_taken)]] = True
    ends = np.concatenate([[0], np.cumsum(stays)]).astype(np.int64)
    fewer = arrays._replace(
        automaton_step_offsets=ends[arrays.automaton_step_offsets],
        automaton_read=arrays.automaton_read[stays],
        automaton_after=arrays.automaton_after[stays],
    )
    return GrammarConstraint(fewer, constraint.vocabulary, constraint.metadata, **options)


def assert_answers_survive_drops(
    roomy: Constraint,
    tight: Constraint,
    engines: Callable[[], Iterable[Any]],
    rng: np.random.Generator,
    *,
    walks: int = 3,
    steps: int = 30,
) -> int:
    """Ask sessions whose masks and memos are dropped at random moments, and one that keeps all.

    They walk side by side; the session of the walk before is asked as well. After each call what is
    kept must be within the budget. (``make bounds`` fills new memory with rubbish.)

    Args:
        roomy: Keeps all.
        tight: The same texts, with a small ``memo_bytes``.
        engines: Those of the tight constraint's sessions.
        rng: Draws tokens and moments.
        walks: From the start, of the token sequences that ``roomy`` allows.
        steps: Most tokens of a walk.

    Returns:
        How many states were asked for.
    """
    vocabulary, asked = roomy.vocabulary, 0
    kept, before = roomy.session("cpu"), None
    for _ in range(walks):
        session = tight.session("cpu")
        states, own = to_numpy(kept.start(1)), to_numpy(session.start(1))
        for _ in range(steps):
            expected = dict(_answers(kept, states, vocabulary, rng, roomy.facts.takes_bytes))
            for name, answer in _answers(session, own, vocabulary, rng, roomy.facts.takes_bytes):
                np.testing.assert_array_equal(answer, expected[name], f"{name} differs")
                for engine in engines():
                    assert engine.memo_bytes <= engine.budget, f"after {name}"
                    if rng.random() < 0.15:
                        engine.drop()
            np.testing.assert_array_equal(expected["mask"][0], ~expected["advance"])
            asked += 1
            if before is not None:
                mask = state_masks(before[0], before[1], vocabulary.width)
                np.testing.assert_array_equal(mask, before[2], "another session's mask differs")
            going = expected["mask"][0].nonzero()[0]
            going = going[~np.isin(going, vocabulary.eos_token_ids)]
            if not len(going):
                break
            token = rng.choice(going, 1).astype(np.int64)
            before = session, own, expected["mask"]
            states, own = to_numpy(kept.advance(states, token)), session.advance(own, token)
            own = to_numpy(own)
    return asked


def _answers(
    session: Session,
    states: NDArray[np.int64],
    vocabulary: Vocabulary,
    rng: np.random.Generator,
    takes_bytes: bool,
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield what the calls of a session say of a state, in any order; states themselves differ."""
    every = np.arange(vocabulary.width)
    repeated = np.repeat(states, len(every))
    texts = [*vocabulary.token_bytes, *[b""] * (vocabulary.width - vocabulary.size)]
    calls: dict[str, Callable[[], Any]] = {
        "mask": lambda: state_masks(session, states, vocabulary.width),
        "allowed": lambda: session.allowed(states)[1],
        "forced": lambda: session.forced(states)[1],
        "complete": lambda: session.is_complete(states),
        "check": lambda: session.check(states, every[None]),
        "advance": lambda: to_numpy(session.advance(repeated, every)) == DEAD,
    }
    if takes_bytes:
        calls["bytes"] = lambda: to_numpy(session.advance_bytes(repeated, texts)) == DEAD
    for name in rng.permutation(list(calls)):
        yield name, to_numpy(calls[name]())
