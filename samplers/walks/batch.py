"""Batches: the requests of one run opened against a model; roots, sessions, limits, seeds, tree.

Requests that cannot be opened are set aside with their error; all others decode together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.constraint import DONE
from cdec.core.errors import CdecError, FitError, TokenizerMismatchError
from cdec.core.models.language_model import warped_rounding
from cdec.samplers.prefix_tree import PrefixTree
from cdec.samplers.request import text_limit

if TYPE_CHECKING:
    from typing import Self

    from cdec.core.constraint import Constraint, Session
    from cdec.core.models.language_model import LanguageModel
    from cdec.samplers.loops import LoopWatch
    from cdec.samplers.request import Request

UNCONSTRAINED = -1
"""Session number of a request without constraint."""


class Batch:
    """Open requests and their draws; a context manager that releases the model's prompts.

    Attributes:
        model: The language model.
        masks: Whether constraints forbid events; if not, their states only follow the walks.
        stop_loops: Whether walks end where their texts loop.
        told: As ``cdec.samplers.walks.candidates.Told``; None where nobody asks.
        requests: All requests, R of them.
        errors: Error by number of the request that could not be opened, or that failed while
            decoding.
        roots: int64[R] context of each prompt.
        prompt_lengths: int64[R] tokens.
        limits: int64[R] most tokens of a text, end event not counted: what was asked for, and what
            fits the model's context, after whose last token the end event still has a probability.
        sessions: Distinct sessions; ``session_of`` int64[R] numbers them, UNCONSTRAINED for none.
        sole: The session of all open requests; None where they have several, or some have none.
        least_limit: The smallest of ``limits``: below it no walk is at its limit.
        draw_request: int64[D] request of every draw of the open requests.
        draw_index: int64[D] position of the draw in its request, from 0.
        seeds: D seeds.
        tree: What was visited.
        path_calls: int64[R, N] calls of the model by draw, or by candidate where these have owners
            (``Outcome``), as if no prefix were kept: each walk pays for itself.
        is_end: bool[V] end ids; ``end_ids`` int64[...] lists them.
    """

    def __init__(
        self,
        model: LanguageModel,
        requests: Sequence[Request],
        *,
        masks: bool = True,
        stop_loops: bool = False,
        told: Callable[..., None] | None = None,
    ) -> None:
        self.model = model
        self.told = told
        self.masks = masks
        self.stop_loops = stop_loops
        self.requests = requests
        self.errors: dict[int, CdecError] = {}
        count = len(requests)
        self.roots = np.full(count, -1, np.int64)
        self.prompt_lengths = np.zeros(count, np.int64)
        self.limits = np.zeros(count, np.int64)
        self.sessions: list[Session] = []
        self.session_of = np.full(count, UNCONSTRAINED, np.int64)
        noise = warped_rounding(model.event_rounding, model.warping.temperature)
        self.tree = PrefixTree(count, model.tree, model.rounding, noise)
        self.is_end = np.zeros(model.vocabulary.width, np.bool_)
        self.end_ids = np.array(model.vocabulary.eos_token_ids, np.int64)
        self.is_end[self.end_ids] = True
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        self._list_draws()
        live = np.unique(self.draw_request)
        used = np.unique(self.session_of[live])
        alone = len(used) == 1 and used[0] != UNCONSTRAINED
        self.sole: Session | None = self.sessions[int(used[0])] if alone else None
        self.least_limit = int(self.limits[live].min(initial=np.iinfo(np.int64).max))
        self._grouped: tuple[Any, list[tuple[Session, NDArray[np.int64]]]] = (None, [])
        self.path_calls = np.zeros((count, 8), np.int64)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.model.release(self.roots[self.roots >= 0])

    @property
    def on_host(self) -> bool:
        """True where scores and states are numpy arrays, or torch tensors that can be viewed so."""
        return self.model.device == "cpu"

    def index(self, rows: NDArray[Any]) -> Any:
        """Return ``rows``, or other values, as an array on the model's device."""
        if self.on_host:
            return rows
        import torch

        device = self.model.device.removeprefix("torch:")
        return torch.from_numpy(np.ascontiguousarray(rows)).to(device, non_blocking=True)

    def index_of(self, chosen: NDArray[np.bool_]) -> Any:
        """Return the rows where ``chosen`` (bool[n]) holds, as ``index`` does."""
        return self.index(np.flatnonzero(chosen))

    def to_host(self, values: Any) -> NDArray[Any]:
        """Return an array of the model's device as numpy."""
        return np.asarray(values if self.on_host else values.cpu().numpy())

    def start_states(self, request: NDArray[np.int64]) -> Any:
        """Return constraint states at the beginning, int64[n] on the device; else 0."""
        if self.sole is not None:
            return self.sole.start(len(request))
        states = self.index(np.zeros(len(request), np.int64))
        for session, rows in self.groups(request):
            states[self.index(rows)] = session.start(len(rows))
        return states

    def advance_states(self, request: NDArray[np.int64], states: Any, tokens: Any) -> Any:
        """Follow one token a state, int64[n]; states without constraint stay 0."""
        if self.sole is not None:
            return self.sole.advance(states, tokens)
        if not self.sessions:
            return states
        after = self.index(np.zeros(len(request), np.int64))
        for session, rows in self.groups(request):
            at = self.index(rows)
            after[at] = session.advance(states[at], tokens[at])
        return after

    def is_complete(self, request: NDArray[np.int64], states: Any) -> NDArray[np.bool_]:
        """Say where the text is a member, bool[n]; False where unconstrained."""
        complete = np.zeros(len(request), np.bool_)
        for session, rows in self.groups(request):
            complete[rows] = self.to_host(session.is_complete(states[self.index(rows)]))
        return complete

    def forced(self, request: NDArray[np.int64], states: Any) -> NDArray[np.int64]:
        """Return the only possible next token, int64[n]; -1 for a choice or an end event."""
        tokens = np.full(len(request), -1, np.int64)
        for session, rows in self.groups(request) if self.masks else []:
            offsets, ids = session.forced(states[self.index(rows)])
            starts = self.to_host(offsets)
            has_one = np.flatnonzero(np.diff(starts) > 0)
            tokens[rows[has_one]] = self.to_host(ids)[starts[has_one]]
        tokens[(tokens >= 0) & self.is_end[tokens]] = -1
        return tokens

    def is_member(self, request: NDArray[np.int64], states: Any) -> NDArray[np.bool_]:
        """Say where an end event makes a member, bool[n]; wherever a mask let it happen."""
        if self.masks:
            return np.ones(len(request), np.bool_)
        unconstrained: NDArray[np.bool_] = self.session_of[request] == UNCONSTRAINED
        return self.is_complete(request, states) | unconstrained

    def is_done(self, request: NDArray[np.int64], states: Any) -> NDArray[np.bool_]:
        """Say where a constraint has ended the text itself, bool[n]."""
        if not self.sessions:
            return np.zeros(len(request), np.bool_)
        # What has no constraint stays at 0, which is not DONE.
        done: NDArray[np.bool_] = self.to_host(states) == DONE
        return done

    def is_unconstrained(self, request: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which requests (int64[n]) allow every event, bool[n]."""
        if not self.masks or not self.sessions:
            return np.ones(len(request), np.bool_)
        unconstrained: NDArray[np.bool_] = self.session_of[request] == UNCONSTRAINED
        return unconstrained

    def loop_watch(self, request: NDArray[np.int64]) -> LoopWatch | None:
        """Return what sees whether walks of requests (int64[n]) loop; None where nobody asks."""
        if not self.stop_loops:
            return None
        # What nobody asks for compiles nothing, and reads no kernel from the cache.
        from cdec.samplers.loops import LoopWatch

        watch = LoopWatch(self.model.vocabulary, len(request))
        for number in np.unique(request).tolist():
            watch.begin(np.flatnonzero(request == number), self.requests[number].begun)
        return watch

    def count_calls(self, request: NDArray[Any], draw: NDArray[Any], calls: Any = 1) -> None:
        """Add to ``path_calls``, for W walks that ask, one each or int64[W] ``calls``."""
        widest, room = int(draw.max(initial=-1)), self.path_calls.shape[1]
        if widest >= room:
            self.path_calls = np.pad(self.path_calls, ((0, 0), (0, widest)))
        np.add.at(self.path_calls, (request, draw), calls)

    def groups(self, request: NDArray[np.int64]) -> list[tuple[Session, NDArray[np.int64]]]:
        """Return each session among ``request`` (int64[n]) with the rows it holds."""
        if self.sole is not None:
            return [(self.sole, np.arange(len(request)))]
        if not self.sessions:
            return []
        # Walks keep their requests from step to step, so that this is asked again and again.
        if self._grouped[0] is not request:
            used = self.session_of[request]
            groups = [
                (self.sessions[number], np.flatnonzero(used == number))
                for number in np.unique(used).tolist()
                if number != UNCONSTRAINED
            ]
            self._grouped = request, groups
        return self._grouped[1]

    def _open(self) -> None:
        numbers: dict[Constraint, int] = {}
        for i, request in enumerate(self.requests):
            try:
                self._open_session(i, request.constraint, numbers)
                self.limits[i] = text_limit(request.max_new_tokens, request.constraint)
            except CdecError as error:
                self.errors[i] = error
        self._prefill([i for i in range(len(self.requests)) if i not in self.errors])

    def _open_session(
        self, i: int, constraint: Constraint | None, numbers: dict[Constraint, int]
    ) -> None:
        if constraint is None:
            return
        if constraint not in numbers:
            require_same_vocabulary(self.model, constraint)
            self.sessions.append(self.model.beside(constraint.session(self.model.device)))
            # subtle: numbered last; one that cannot be opened must not lend its place to the next.
            numbers[constraint] = len(self.sessions) - 1
        self.session_of[i] = numbers[constraint]

    def _prefill(self, numbers: list[int]) -> None:
        try:
            opened = [self.requests[i] for i in numbers]
            begun = [request.begun for request in opened]
            roots = self.model.prefill([request.prompt for request in opened], None, begun)
        except CdecError as error:
            if len(numbers) == 1:
                self.errors[numbers[0]] = error
                return
            for i in numbers:  # One prompt is bad: find it.
                self._prefill([i])
            return
        for i, root in zip(numbers, roots.tolist(), strict=True):
            self.roots[i] = root
            self.prompt_lengths[i] = self.model.prompt_length(root)
            room = self.model.max_new_tokens(root)
            if room is not None and room < self.limits[i]:
                self._cut(i, room)

    def _cut(self, i: int, room: int) -> None:
        """Bound the texts of a request by the room in the context, unless all must end before."""
        constraint = self.requests[i].constraint
        fit = None if constraint is None else constraint.facts.fit
        longest = None if constraint is None else constraint.max_tokens
        if fit is None or (longest is not None and longest <= room):
            self.limits[i] = room
            return
        self.errors[i] = FitError(
            f"texts are to end within {longest} tokens, the model's context has room for "
            f"{room} behind the prompt",
            hint=f"lower `max_new_tokens` to {room} or less, or shorten the prompt",
            limit=room,
        )

    def _list_draws(self) -> None:
        live = [i for i in range(len(self.requests)) if i not in self.errors]
        counts = [len(self.requests[i].seeds) for i in live]
        self.draw_request = np.repeat(np.array(live, np.int64), counts)
        self.draw_index = np.concatenate([np.arange(n) for n in counts] or [np.arange(0)])
        self.seeds = [int(seed) for i in live for seed in self.requests[i].seeds]


def require_same_vocabulary(model: LanguageModel, constraint: Constraint) -> None:
    """Refuse a constraint that was opened for another vocabulary.

    Raises:
        TokenizerMismatchError: It was.
    """
    ours, theirs = model.vocabulary, constraint.vocabulary
    if ours is theirs:
        return
    same = ours.vocabulary_hash == theirs.vocabulary_hash and ours.width == theirs.width
    if not same or ours.eos_token_ids != theirs.eos_token_ids:
        raise TokenizerMismatchError(
            f"the constraint was opened for another vocabulary (width {theirs.width}, end ids "
            f"{list(theirs.eos_token_ids)}) than the model's (width {ours.width}, end ids "
            f"{list(ours.eos_token_ids)})",
            hint="Open the artifact with vocabulary=model.vocabulary.",
        )
