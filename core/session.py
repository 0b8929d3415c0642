"""Session: one decoding run over a constraint, and the laws that every kind of session keeps.

A batch of *states* is an opaque int64 array on the session's device: equal integers are equal
states, so mixed depths, beams, forks, rollback and caches are plain indexing.

Laws (checked by ``tests/laws/sessions.py`` for every kind of constraint):

1.  For every state and every token: mask bit set ⇔ token in ``allowed`` ⇔ ``check`` is true ⇔
    ``advance`` does not give DEAD. Padding ids are never allowed.
2.  No reachable state before the end has an empty mask, unless the constraint says its soundness
    is unproved; DONE and DEAD have an empty mask, and ``advance`` from them gives DEAD.
3.  Every member's canonical tokenisation is accepted token by token, and its last state is
    complete (or DONE, where the constraint ends members itself).
4.  End-of-sequence ids are allowed exactly in complete states that are not DONE; each gives DONE.
5.  ``forced`` lists the allowed end event or token where it is the only one (several ids of one end
    event count as one), and nothing elsewhere.
6.  A batch gives what single rows give.
7.  Where the constraint ``takes_bytes``, ``advance_bytes`` over the bytes of tokens that
    ``advance`` follows comes to a state that is complete where that after the tokens is.
8.  The tokens of ``completions`` lead to a state that is complete, or DONE, and their scores, and
    that of the end, sum to ``totals``.
9.  Where the constraint ``has_speculation_keys``, equal tokens lead to equal keys in all of its
    sessions.
10. Threads may share a session, and sessions of one constraint: each gets what it would get alone.
    Calls that work in memory that is shared take turns; a state that one thread was given is a
    state to all.
11. Where the constraint has a ``reach``, ``fewest_tokens`` is 0 in complete states and DONE; from
    all others some allowed token leads to a state of which it is less. ``fewest_ahead`` is at least
    that of every state an allowed token leads to.

On ``cpu`` a session takes and gives numpy arrays; on a torch device, torch tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.core.mask import offsets_of

DEAD = -1
"""State after a token that was not allowed."""
DONE = -2
"""State after an end-of-sequence id, or after the last token of a member that ends itself."""
FAR = np.iinfo(np.int64).max
"""With how few tokens a text may end where no end is known to be in reach."""

_NO_BYTES = "this constraint is walked token by token, not byte by byte"
States: TypeAlias = Any
"""int64[n], numpy on ``cpu``, a torch tensor on a device."""


class Completions(ABC):
    """Best completions of states, each token by itself; states on the host."""

    @abstractmethod
    def totals(self, states: Any) -> NDArray[np.float64]:
        """Return the best score of what follows states int64[n], float64[n]."""

    @abstractmethod
    def tokens(self, states: Any, most: int) -> NDArray[np.int64]:
        """Return the tokens that score so, int64[n, most], -1 after the last.

        Args:
            states: int64[n].
            most: Where longer completions are cut.
        """


class FittedCalls(NamedTuple):
    """Masks and steps of states that count tokens, as ``cdec_fitted_split`` takes them apart.

    Attributes:
        handle: The library's object. product: Makes of it the product with spellings.
        fill_mask, advance: Give fewer rows than they are given where some end may be near.
    """

    handle: Any
    fill_mask: Callable[..., int]
    advance: Callable[..., int]
    product: Callable[..., Any]


class Session(ABC):
    """One decoding run; every array lies on the session's device.

    Threads may share it (law 10): where there is memory that grows, it has a lock, which costs 0.1
    to 0.2 microseconds a call.

    Attributes:
        device: As the caller named it: ``cpu``, ``cuda:1``, ``torch:cpu``.
        words: int32 words of a mask row, ``ceil(width / 32)``.
        counts_states: Whether states are numbers from 0 on, as they are met, below 2**40.
        memo_budget: Bytes of masks that may be kept, by whoever keeps some of it; None: any.
    """

    device: str
    words: int
    counts_states: bool = False
    memo_budget: int | None = None

    @property
    def fitted_calls(self) -> FittedCalls | None:
        """Calls of the library where ``counts_states``, by which texts are fitted in one call."""
        return None

    @abstractmethod
    def start(self, n: int) -> States:
        """Return ``n`` states at the beginning, int64[n]."""

    @abstractmethod
    def advance(self, states: States, token_ids: Any) -> States:
        """Follow one token a state, int64[n]; DEAD where it is not allowed, DONE after an end."""

    @abstractmethod
    def fill_mask(self, states: States, mask: Any) -> None:
        """Overwrite ``mask`` (int32[n, words]) with the exact masks of ``states``."""

    @abstractmethod
    def check(self, states: States, token_ids: Any) -> Any:
        """Say of proposed tokens int[n, M] whether each is allowed, bool[n, M]."""

    @abstractmethod
    def allowed(self, states: States) -> tuple[Any, Any]:
        """Return the allowed tokens, ragged and sorted: offsets int64[n + 1], ids int32[...]."""

    @abstractmethod
    def is_complete(self, states: States) -> Any:
        """Say where the text so far is a member (or DONE), bool[n]."""

    @abstractmethod
    def forced(self, states: States) -> tuple[Any, Any]:
        """Return the only possible next events: offsets int64[n + 1], ids int32[...]."""

    def advance_bytes(self, states: States, texts: Sequence[bytes]) -> States:
        """Follow bytes that need not be tokens, one text a state, int64[n].

        Args:
            states: int64[n].
            texts: n byte strings; an empty one leaves its state as it is.

        Raises:
            UsageError: The constraint does not ``takes_bytes``.
        """
        raise UsageError(_NO_BYTES)

    def speculation_keys(self, states: States) -> Any:
        """Return what a next token may be learnt for, int64[n]: equal numbers in every session.

        Raises:
            UsageError: The constraint has none.
        """
        raise UsageError("the states of this constraint are no places to count tokens at")

    def fewest_tokens(self, states: States) -> Any:
        """Return with how few further tokens texts may end, int64[n], or FAR; no end event counts.

        An upper bound, unless the constraint's ``reach`` is exact.

        Raises:
            UsageError: The constraint has no ``reach``.
        """
        raise UsageError("how many tokens texts of this constraint still need is not known")

    def fewest_ahead(self, states: States) -> Any:
        """Return the most of ``fewest_tokens`` behind any allowed token, or more, int64[n].

        Raises:
            UsageError: The constraint has no ``reach``.
        """
        raise UsageError("how many tokens texts of this constraint still need is not known")

    def completions(
        self, scores: NDArray[np.float64], ends: NDArray[np.float64]
    ) -> Completions | None:
        """Find the completions that are best by scores of single tokens; None where none are known.

        They are guesses, for searches that try likely texts first: no result depends on them.

        Args:
            scores: float64[V] of each token. ends: float64[V] of the end event after each token;
                nothing is added where a member ends itself.
        """
        return None

    def statistics(self) -> Mapping[str, int]:
        """Return counts of what the session holds: ``states``, 0 where they cost nothing."""
        return {"states": 0}


class HostSession(Session):
    """A session on the CPU: what it is given is checked here, and its rows are worked on below.

    Subclasses set ``words`` and ``_start``, and fill arrays: ``_advance_rows``, ``_fill_rows``,
    ``_check_rows``, ``_complete_rows`` and, where they take bytes, ``_advance_texts``.
    """

    device = "cpu"
    _start: int

    def start(self, n: int) -> NDArray[np.int64]:
        return np.full(n, self._start, np.int64)

    def advance(self, states: Any, token_ids: Any) -> NDArray[np.int64]:
        at, tokens = integers(states, 1, "states"), integers(token_ids, 1, "token ids")
        require_rows(len(at), len(tokens), "token ids")
        out = np.empty(len(at), np.int64)
        self._advance_rows(at, tokens, out)
        return out

    def fill_mask(self, states: Any, mask: NDArray[np.int32]) -> None:
        """Overwrite ``mask`` int32[n, words] with the exact masks; fastest if C-contiguous."""
        at = integers(states, 1, "states")
        shape = require_mask(mask, len(at), self.words)
        is_plain = mask.flags.c_contiguous and mask.flags.writeable
        packed = mask if is_plain else np.empty(shape, np.int32)
        self._fill_rows(at, packed)
        if not is_plain:
            mask[:] = packed

    def check(self, states: Any, token_ids: Any) -> NDArray[np.bool_]:
        at, tokens = integers(states, 1, "states"), integers(token_ids, 2, "token ids")
        require_rows(len(at), len(tokens), "rows of token ids")
        out = np.empty(tokens.shape, np.bool_)
        self._check_rows(at, tokens, out)
        return out

    def is_complete(self, states: Any) -> NDArray[np.bool_]:
        at = integers(states, 1, "states")
        out = np.empty(len(at), np.bool_)
        self._complete_rows(at, out)
        return out

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes that need not be tokens, int64[n]: DEAD where no member begins so."""
        at = integers(states, 1, "states")
        require_rows(len(at), len(texts), "texts")
        offsets = offsets_of([len(text) for text in texts])
        out = np.empty(len(at), np.int64)
        self._advance_texts(at, np.frombuffer(bytearray(b"".join(texts)), np.uint8), offsets, out)
        return out

    @abstractmethod
    def _advance_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.int64]
    ) -> None:
        """Write the states after one token each, int64[n]."""

    @abstractmethod
    def _fill_rows(self, at: NDArray[np.int64], packed: NDArray[np.int32]) -> None:
        """Write the masks, int32[n, words], C-contiguous."""

    @abstractmethod
    def _check_rows(
        self, at: NDArray[np.int64], tokens: NDArray[np.int64], out: NDArray[np.bool_]
    ) -> None:
        """Write whether each token of int64[n, M] is allowed, bool[n, M]."""

    @abstractmethod
    def _complete_rows(self, at: NDArray[np.int64], out: NDArray[np.bool_]) -> None:
        """Write where the text so far is a member, bool[n]."""

    def _advance_texts(
        self,
        at: NDArray[np.int64],
        flat: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        out: NDArray[np.int64],
    ) -> None:
        """Write the states after ``flat[offsets[i] : offsets[i + 1]]`` each, int64[n]."""
        raise UsageError(_NO_BYTES)


def integers(values: Any, dimensions: int, name: str) -> NDArray[np.int64]:
    """Return an argument as a contiguous writable int64 array, the kernels' one type.

    Raises:
        UsageError: No integers, or another number of dimensions.
    """
    array = np.asarray(values)
    if array.ndim != dimensions or (array.size and array.dtype.kind not in "iu"):
        raise UsageError(
            f"{name} must be integers in {dimensions} dimension(s), not "
            f"{array.dtype}{list(array.shape)}"
        )
    return np.require(array, np.int64, ["C", "W"])


def require_rows(states: int, others: int, name: str) -> None:
    """Check that there are as many of something as states.

    Raises:
        UsageError: There are not.
    """
    if states != others:
        raise UsageError(f"{states} states and {others} {name}: expected as many of both")


def require_mask(mask: Any, n: int, words: int) -> tuple[int, int]:
    """Check that a mask to be filled on the host is numpy int32[n, words]; return that shape.

    Raises:
        UsageError: It is not.
    """
    shape = (n, words)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.int32 or mask.shape != shape:
        found = f"{getattr(mask, 'dtype', type(mask).__name__)}{list(np.shape(mask))}"
        raise UsageError(
            f"the mask of {n} states must be numpy int32{list(shape)}, not {found}",
            hint="Use allocate_mask(n, vocabulary.width).",
        )
    return shape


def require_tensor_mask(mask: Any, n: int, words: int) -> tuple[int, int]:
    """Check that a mask to be filled on a device is a tensor int32[n, words]; return that shape.

    Raises:
        UsageError: It is not.
    """
    import torch

    shape = (n, words)
    if mask.dtype != torch.int32 or tuple(mask.shape) != shape:
        raise UsageError(
            f"the mask of {n} states must be int32{list(shape)}, not "
            f"{mask.dtype}{list(mask.shape)}",
            hint="Use allocate_mask(n, vocabulary.width, session.device).",
        )
    return shape
