"""Laws of every constraint's sessions."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DEAD, DONE, Constraint, Session
from cdec.core.mask import allocate_mask, mask_words, unpack_mask
from cdec.core.session import FAR
from tests.laws.constraints import assert_constraint_laws

# --- Reusable checks of the laws in ``cdec.core.session``, for every kind of constraint.

_SHARED = 40
"""Prefixes that several threads follow at once."""
Allowed = Callable[[tuple[int, ...]], set[int]]
"""Plain reference: the allowed token ids after a prefix of tokens."""


def to_numpy(values: Any) -> NDArray[Any]:
    """Return a session's result as numpy, whatever its device."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def state_masks(session: Session, states: Any, width: int) -> NDArray[np.bool_]:
    """Return the states' masks as bool[n, width]; filled over rubbish, so a bit left over shows."""
    mask = allocate_mask(len(states), width, session.device)
    mask[:] = -1
    session.fill_mask(states, mask)
    host = to_numpy(mask)
    assert host.shape == (len(states), mask_words(width))
    every_bit = unpack_mask(np.ascontiguousarray(host), mask_words(width) * 32)
    assert not every_bit[:, width:].any(), "a bit past the logits width is set"
    return np.asarray(every_bit[:, :width])


def own_mask(constraint: Constraint, tokens: Sequence[int]) -> NDArray[np.bool_]:
    """Return a constraint's own mask after some tokens, by a session of its own, bool[width]."""
    session = constraint.session("cpu")
    mask: NDArray[np.bool_] = state_masks(
        session, states_after(session, [tokens]), constraint.vocabulary.width
    )[0]
    return mask


def states_after(session: Session, prefixes: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return the state after each prefix of tokens, int64[n]; all walk side by side."""
    states = to_numpy(session.start(len(prefixes))).astype(np.int64)
    for depth in range(max(map(len, prefixes), default=0)):
        moving = np.array([len(prefix) > depth for prefix in prefixes])
        tokens = np.array([prefix[depth] for prefix in prefixes if len(prefix) > depth])
        states[moving] = to_numpy(session.advance(states[moving], tokens))
    return states


def random_prefixes(
    session: Session, rng: np.random.Generator, n: int, steps: int
) -> set[tuple[int, ...]]:
    """Return all prefixes along ``n`` walks over uniformly drawn allowed tokens."""
    states = to_numpy(session.start(n)).astype(np.int64)
    paths: list[tuple[int, ...]] = [()] * n
    seen = set(paths)
    for _ in range(steps):
        live = states != DONE
        states, paths = (
            states[live],
            [path for path, alive in zip(paths, live, strict=True) if alive],
        )
        if not paths:
            break
        offsets, ids = map(to_numpy, session.allowed(states))
        sizes = np.diff(offsets)
        assert (sizes > 0).all(), "a reachable state allows nothing"
        picked = ids[offsets[:-1] + (rng.random(len(paths)) * sizes).astype(np.int64)]
        states = to_numpy(session.advance(states, picked))
        assert (states != DEAD).all(), "an allowed token led to DEAD"
        paths = [(*path, int(token)) for path, token in zip(paths, picked, strict=True)]
        seen.update(paths)
    return seen


def assert_states_agree(session: Session, states: Any, vocabulary: Any) -> NDArray[np.bool_]:
    """Check laws 1, 4 and 5 for every token of the vocabulary; return the masks bool[n, width].

    Law 2's second half as well: nothing leads out of DONE and DEAD.
    """
    width = vocabulary.width
    states = np.asarray(states, np.int64)
    n = len(states)
    masks = state_masks(session, states, width)
    every = np.broadcast_to(np.arange(width), (n, width))
    checked = to_numpy(session.check(states, np.ascontiguousarray(every)))
    np.testing.assert_array_equal(checked, masks, "check differs from the mask")
    after = to_numpy(session.advance(np.repeat(states, width), every.reshape(-1).copy()))
    after = after.reshape(n, width)
    np.testing.assert_array_equal(after != DEAD, masks, "advance differs from the mask")
    offsets, ids = map(to_numpy, session.allowed(states))
    rows, columns = masks.nonzero()
    np.testing.assert_array_equal(np.repeat(np.arange(n), np.diff(offsets)), rows)
    np.testing.assert_array_equal(ids, columns, "allowed differs from the mask")
    assert not masks[:, vocabulary.size :].any(), "a padding id is allowed"
    _assert_ends(session, states, masks, after, vocabulary)
    _assert_forced(session, states, masks, vocabulary)
    outside = session.check(states, np.tile([-1, -(2**40), width, width + 31, 2**40], (n, 1)))
    assert not to_numpy(outside).any(), "an id outside of the logits is allowed"
    return masks


def _assert_ends(
    session: Session,
    states: NDArray[np.int64],
    masks: NDArray[np.bool_],
    after: NDArray[np.int64],
    vocabulary: Any,
) -> None:
    ends = list(vocabulary.eos_token_ids)
    complete = to_numpy(session.is_complete(states))
    assert complete[states == DONE].all() and not complete[states == DEAD].any()
    may_end = complete & (states != DONE)
    np.testing.assert_array_equal(masks[:, ends], np.repeat(may_end[:, None], len(ends), 1))
    assert (after[:, ends][may_end] == DONE).all(), "an end id does not give DONE"
    finished = (states == DONE) | (states == DEAD)
    assert not masks[finished].any(), "something is allowed after the end"


def _assert_forced(
    session: Session, states: NDArray[np.int64], masks: NDArray[np.bool_], vocabulary: Any
) -> None:
    offsets, ids = map(to_numpy, session.forced(states))
    ends = list(vocabulary.eos_token_ids)
    for i, row in enumerate(masks):
        events = [token for token in row.nonzero()[0].tolist() if token not in ends]
        events += ends[:1] if ends and row[ends[0]] else []
        expected = events if len(events) == 1 else []
        assert ids[offsets[i] : offsets[i + 1]].tolist() == expected


def assert_batch_is_rows(session: Session, states: Any, vocabulary: Any) -> None:
    """Check law 6: a batch gives what its rows give alone, and an empty batch gives nothing."""
    states = np.asarray(states, np.int64)
    together = state_masks(session, states, vocabulary.width)
    for i, state in enumerate(states):
        alone = state_masks(session, np.array([state]), vocabulary.width)
        np.testing.assert_array_equal(alone[0], together[i])
    none = np.empty(0, np.int64)
    assert state_masks(session, none, vocabulary.width).shape == (0, vocabulary.width)
    assert len(session.advance(none, none)) == 0 and len(session.is_complete(none)) == 0
    assert session.check(none, none.reshape(0, 3)).shape == (0, 3)
    for offsets, ids in (session.allowed(none), session.forced(none)):
        assert to_numpy(offsets).tolist() == [0] and len(ids) == 0


def assert_threads_agree(
    constraint: Constraint, prefixes: Sequence[Sequence[int]], expected: NDArray[np.bool_]
) -> None:
    """Check law 10: three threads that share a session get what one gets alone.

    Args:
        constraint: Any kind.
        prefixes: Token sequences that are allowed; each thread follows them in its own order.
        expected: bool[n, width], the masks after them.
    """
    session, width = constraint.session("cpu"), constraint.vocabulary.width
    found: dict[int, NDArray[np.bool_]] = {}

    def follow(thread: int) -> None:
        order = np.random.default_rng(thread).permutation(len(prefixes))
        masks = np.zeros_like(expected)
        for part in np.array_split(order, 1 + len(order) // 8):
            states = states_after(session, [prefixes[i] for i in part.tolist()])
            masks[part] = state_masks(session, states, width)
        found[thread] = masks

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=follow, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    for thread in range(3):
        assert thread in found, "a thread that shares a session failed"
        np.testing.assert_array_equal(found[thread], expected, "a thread's masks differ")


def assert_members(session: Session, members: Sequence[Sequence[int]]) -> None:
    """Check law 3: each member is accepted token by token and may end, or has, after its last."""
    for member in members:
        path = states_after(session, prefixes_of(tuple(member)))
        assert DEAD not in path, f"member {list(member)} dies at token {list(path).index(DEAD)}"
        assert DONE not in path[:-1], f"member {list(member)} ends before its last token"
        assert to_numpy(session.is_complete(path[-1:]))[0], f"{list(member)} may not end"


def token_rows(constraint: Constraint, most: int, *, finite: bool = False) -> list[tuple[int, ...]]:
    """Return all token sequences of at most so many tokens; nothing on the way gets stuck.

    Where the constraint is ``finite`` all of them, and beginnings, have fewer.
    """
    session, ends = constraint.session(), set(constraint.vocabulary.eos_token_ids)
    found: list[tuple[int, ...]] = []
    waiting: list[tuple[tuple[int, ...], int]] = [((), int(session.start(1)[0]))]
    while waiting:
        row, state = waiting.pop()
        at = np.array([state])
        if session.is_complete(at)[0]:
            found.append(row)
        ids = [token for token in session.allowed(at)[1].tolist() if token not in ends]
        after = session.advance(np.full(len(ids), state), np.array(ids, np.int64))
        assert (after >= 0).all() and (ids or session.is_complete(at)[0]), row
        assert len(row) < most or not finite
        if len(row) < most:
            waiting += [((*row, t), s) for t, s in zip(ids, after.tolist(), strict=True)]
    return sorted(found)


def prefixes_of(member: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return all prefixes of a member, the empty one and itself included."""
    return [member[:n] for n in range(len(member) + 1)]


def assert_session_laws(
    constraint: Constraint,
    members: Iterable[Sequence[int]],
    rng: np.random.Generator,
    *,
    devices: Sequence[str] = ("cpu", "torch:cpu"),
    walks: int = 8,
    max_steps: int = 64,
    max_states: int = 200,
) -> None:
    """Check every law of ``cdec.core.session`` and ``cdec.core.constraint`` on a constraint.

    Args:
        constraint: Any kind.
        members: Token sequences of members, in the vocabulary's canonical tokenisation.
        rng: Draws the walks, and the prefixes that are checked if there are more than max_states.
        devices: Sessions on all of them are checked, after the same prefixes, and must agree.
        walks: Random walks from the start, of max_steps tokens at most.
        max_states: Prefixes checked with every token of the vocabulary.
    """
    vocabulary = constraint.vocabulary
    members = [tuple(member) for member in members]
    walked = random_prefixes(constraint.session(devices[0]), rng, walks, max_steps)
    prefixes = sorted(walked.union(*(prefixes_of(member) for member in members)))
    if len(prefixes) > max_states:
        prefixes = [prefixes[i] for i in rng.choice(len(prefixes), max_states, replace=False)]
    reference: NDArray[np.bool_] | None = None
    for device in devices:
        session = constraint.session(device)
        assert session.device == device
        assert_members(session, members)
        states = np.append(states_after(session, prefixes), [DONE, DEAD])
        masks = assert_states_agree(session, states, vocabulary)
        if constraint.facts.is_sound:
            stuck = ~masks.any(1) & (states != DONE) & (states != DEAD)
            assert not stuck.any(), f"nothing is allowed after {prefixes[int(stuck.argmax())]}"
        if reference is not None:
            np.testing.assert_array_equal(masks, reference, f"{device} differs from {devices[0]}")
        if constraint.facts.reach is not None:
            assert_ends_are_near(session, states, vocabulary)
        assert_batch_is_rows(session, states[-16:], vocabulary)
        reference = masks
    if reference is not None:
        shared = slice(-_SHARED, None)
        assert_threads_agree(constraint, prefixes[shared], reference[:-2][shared])
    assert_constraint_laws(constraint, members, prefixes[:16])


def assert_ends_are_near(session: Session, states: Any, vocabulary: Any) -> None:
    """Check law 11 at some states: an end that is in reach is nearer behind some token."""
    live = states[(states != DONE) & (states != DEAD)]
    fewest, ahead = map(to_numpy, (session.fewest_tokens(live), session.fewest_ahead(live)))
    np.testing.assert_array_equal(fewest == 0, to_numpy(session.is_complete(live)))
    for row, state in enumerate(live):
        ids = to_numpy(session.allowed(live[row : row + 1])[1])
        tokens = np.array([i for i in ids if i not in vocabulary.eos_token_ids], np.int64)
        after = to_numpy(session.advance(np.full(len(tokens), state), tokens))
        behind = np.zeros(len(tokens), np.int64)
        behind[after != DONE] = to_numpy(session.fewest_tokens(after[after != DONE]))
        is_settled = fewest[row] in (0, FAR)
        assert is_settled or behind.min() < fewest[row], f"no way on from row {row}"
        assert behind.max(initial=0) <= ahead[row], f"an end is farther ahead of row {row}"


def assert_allowed_is(
    session: Session, prefixes: Iterable[Sequence[int]], allowed: Allowed, width: int
) -> None:
    """Compare the masks after some prefixes with a plain reference, bit by bit."""
    prefixes = [tuple(prefix) for prefix in prefixes]
    masks = state_masks(session, states_after(session, prefixes), width)
    for prefix, row in zip(prefixes, masks, strict=True):
        assert set(row.nonzero()[0].tolist()) == allowed(prefix), f"after {prefix}"


# --- The law that all masks obey: a token is allowed exactly where its bytes can be followed.


def assert_masks_are_steps(session: Any, states: NDArray[np.int64], vocabulary: Any) -> None:
    """Compare masks of decoding states with stepping, for every token of the vocabulary.

    The bytes of a token are followed on their own as well, so that the same mistake in ``advance``
    and in the mask would show; ends and tokens without bytes are stepped as tokens only.
    """
    width = vocabulary.width
    texts = [*vocabulary.token_bytes, *[b""] * (width - vocabulary.size)]
    spelled = np.array([token for token, text in enumerate(texts) if text])
    masks = state_masks(session, states, width)
    for state, row in zip(states, masks, strict=True):
        stepped = session.advance(np.full(width, state), np.arange(width)) != DEAD
        differing = (row != stepped).nonzero()[0]
        assert not len(differing), f"mask and steps differ in {texts[differing[0]]!r}"
        followed = session.advance_bytes(
            np.full(len(spelled), state), [texts[token] for token in spelled]
        )
        differing = (row[spelled] != (followed != DEAD)).nonzero()[0]
        assert not len(differing), f"mask and bytes differ in {texts[spelled[differing[0]]]!r}"


def assert_masks_are_steps_along(
    session: Any,
    documents: Iterable[Sequence[int]],
    vocabulary: Any,
    rng: np.random.Generator,
    *,
    detours: int = 0,
) -> None:
    """Compare at every position of some documents, and a token beside the way now and then.

    Args:
        session: Of any grammar.
        documents: Token ids; they need not be complete texts.
        vocabulary: Of the session.
        rng: Draws the detours.
        detours: How many random positions of a document are left for another allowed token.
    """
    for ids in documents:
        states = session.start(1)
        leave = set(rng.integers(0, len(ids) + 1, detours).tolist())
        for position in range(len(ids) + 1):
            assert_masks_are_steps(session, states, vocabulary)
            if position in leave:
                _, allowed = session.allowed(states)
                aside = session.advance(states, rng.choice(allowed, 1).astype(np.int64))
                assert_masks_are_steps(session, aside, vocabulary)
            if position < len(ids):
                states = session.advance(states, np.array([ids[position]]))
                assert states[0] != DEAD, f"token {position} is refused"
