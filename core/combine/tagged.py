"""Members behind a marker: begun by a token that stands before, or ended by a second marker.

A state of a tagged region is the state of the member within and the beginnings of the ending text
that the bytes so far may end with, behind a member: a subset construction, filled on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.combine.markers import Found, Markers, as_symbols, plain, plain_run
from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.combine.wrapped import ForwardingSession, WrappedConstraint
from cdec.core.constraint import Constraint, Facts
from cdec.core.device_session import on_device
from cdec.core.mask import pack_mask, unpack_mask
from cdec.core.session import DEAD, DONE, Completions, Session, integers, require_rows
from cdec.core.tokens.vocabulary import Vocabulary


class StartedSession(ForwardingSession):
    """A decoding run of another session, which starts at one of its states.

    Args:
        inner: On the host.
        vocabulary: Of both.
        first: The state to start in.
    """

    def __init__(self, inner: Session, vocabulary: Vocabulary, first: int) -> None:
        super().__init__(inner, vocabulary)
        self._first = first

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return np.full(n, self._first, np.int64)

    def completions(
        self, scores: NDArray[np.float64], ends: NDArray[np.float64]
    ) -> Completions | None:
        """Find the completions that are best by scores of single tokens."""
        return self._inside.completions(scores, ends)


class StartedConstraint(WrappedConstraint):
    """The members of a constraint that begin with given bytes, of which tokens spell the rest.

    The bytes are the end of a token that belongs to what stands before. Texts are whole.

    Args:
        inner: Any kind; where none of its members begins so, or it is walked by tokens alone, no
            token is allowed.
        begun: At least one byte.
    """

    def __init__(self, inner: Constraint, begun: bytes) -> None:
        super().__init__(inner)
        self.begun = begun

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(self._started(self.inner.session("cpu")), device)

    def session_for_texts(self) -> Session:
        """Start a run on the host that follows texts known beforehand."""
        return self._started(self.inner.session_for_texts())

    def with_lookahead(self, lookahead: int | None) -> StartedConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return StartedConstraint(self.inner.with_lookahead(lookahead), self.begun)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member, with what it was begun with."""
        return self.begun + self.vocabulary.decode(token_ids)

    def text_of_token(self, token_id: int) -> bytes:
        """Return the token's bytes: they stand behind what was begun."""
        return self.vocabulary.decode((token_id,))

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return None: the first token is not one of the member's own."""
        return None

    def _started(self, session: Session) -> StartedSession:
        first = DEAD
        if self.inner.facts.takes_bytes:
            first = int(session.advance_bytes(session.start(1), [self.begun])[0])
        return StartedSession(session, self.vocabulary, first)


_Configuration = tuple[int, tuple[int, ...]]
"""A state of the member (DEAD where it cannot go on), and of each ending text begun its symbols."""


@dataclass(frozen=True)
class _Region:
    """Tokens that may follow at one state, bool[V] and packed; ``ending`` are those that end it.

    ends: By token, the beginnings of the ending text reached. after: By token, the state after it.
    """

    allowed: NDArray[np.bool_]
    mask: NDArray[np.int32]
    ending: frozenset[int]
    ends: dict[int, tuple[int, ...]]
    after: dict[int, int] = field(default_factory=dict)


class TaggedSession(ForwardingSession):
    """Reads a region: the member goes on, or the ending text has begun, or both may be.

    Args:
        inner: Of the member, on the host.
        vocabulary: Of the model.
        end: Symbols of the ending text.
        begins: What must not stand whole behind it in its last token.
        tokens: Of the model's vocabulary.
        begun: Bytes that the region begins with already.
        takes_bytes: Whether ``inner`` does; else the ending text begins with a token.
    """

    def __init__(
        self,
        inner: Session,
        end: str,
        begins: Markers,
        tokens: SortedTokens,
        *,
        begun: bytes,
        takes_bytes: bool,
    ) -> None:
        super().__init__(None, tokens.vocabulary)
        self._member = inner
        self._end = end
        self._begins = begins
        self._tokens = tokens
        self._takes_bytes = takes_bytes
        self._lock = Lock()
        self._numbers: dict[_Configuration, int] = {}
        self._configurations: list[_Configuration] = []
        self._places: dict[int, _Region] = {}
        self._crossing: list[int] | None = None
        first = self._number((int(inner.start(1)[0]), ()))
        # Where tokens alone are followed, nothing that is begun goes on.
        self._first = self._follow(first, begun) if takes_bytes or not begun else DEAD

    def start(self, n: int) -> NDArray[np.int64]:
        """Return ``n`` states at the beginning, int64[n]."""
        return np.full(n, self._first, np.int64)

    def is_own(self, states: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which states are configurations, bool[n]."""
        return (states >= 0) & (states < len(self._configurations))

    def own_mask(self, state: int) -> NDArray[np.int32]:
        """Return the packed mask of a configuration, int32[words]."""
        return self._place(state).mask

    def own_after(self, state: int, token: int) -> int:
        """Return the state after a token; DONE where the region ends in it."""
        if not 0 <= token < self._vocabulary.width:
            return DEAD
        place = self._place(state)
        if not place.allowed[token]:
            return DEAD
        if token in place.ending:
            return DONE
        if token not in place.after:
            within = self._configurations[state][0]
            if within not in (DEAD, DONE):
                within = int(self._member.advance(np.array([within]), np.array([token]))[0])
            else:
                within = DEAD
            place.after[token] = self._number((within, place.ends.get(token, ())))
        return place.after[token]

    def advance_bytes(self, states: Any, texts: Sequence[bytes]) -> NDArray[np.int64]:
        """Follow bytes that need not be tokens, one text a state, int64[n]."""
        at = integers(states, 1, "states")
        require_rows(len(at), len(texts), "texts")
        pairs = zip(at.tolist(), texts, strict=True)
        return np.array([self._follow(state, text) for state, text in pairs], np.int64)

    def rest(self, state: int, token: int) -> bytes:
        """Return what a token that ends the region at a state has behind the region's end."""
        return self._read(self._configurations[state], self._piece(token), DEAD)[1] or b""

    def statistics(self) -> dict[str, int]:
        """Return how many states the session holds, those of the session within included."""
        return {"states": len(self._configurations) + self._member.statistics()["states"]}

    def _is_open(self, state: int) -> bool:
        return 0 <= state < len(self._configurations)

    def _number(self, configuration: _Configuration) -> int:
        if configuration[0] == DEAD and not configuration[1]:
            return DEAD
        with self._lock:
            number = self._numbers.setdefault(configuration, len(self._configurations))
            if number == len(self._configurations):
                self._configurations.append(configuration)
        return number

    def _follow(self, state: int, text: bytes) -> int:
        if not self._is_open(state) or not text:
            return state if self._is_open(state) or not text else DEAD
        configuration, rest = self._read(self._configurations[state], as_symbols(text), None)
        if rest is None:
            return self._number(configuration)
        return DEAD if isinstance(self._begins.follow(0, rest), Found) else DONE

    def _place(self, state: int) -> _Region:
        if state not in self._places:
            self._places[state] = self._filled(self._configurations[state])
        return self._places[state]

    def _filled(self, configuration: _Configuration) -> _Region:
        """Find what may follow: tokens of the member, and those that reach into the ending text."""
        within, _ = configuration
        allowed = np.zeros(self._vocabulary.width, np.bool_)
        if within not in (DEAD, DONE):
            mask = np.zeros((1, self.words), np.int32)
            self._member.fill_mask(np.array([within]), mask)
            allowed |= unpack_mask(mask, self._vocabulary.width)[0]
            allowed[self._end_ids] = False
        ends: dict[int, tuple[int, ...]] = {}
        ending = set()
        for token in self._reaching(configuration):
            (_, reached), rest = self._read(configuration, self._piece(token), DEAD)
            if rest is None:
                if reached:
                    ends[token] = reached
                    allowed[token] = True
                continue
            allowed[token] = not isinstance(self._begins.follow(0, rest), Found)
            if allowed[token]:
                ending.add(token)
        return _Region(allowed, pack_mask(allowed[None])[0], frozenset(ending), ends)

    def _reaching(self, configuration: _Configuration) -> set[int]:
        """Return the tokens that may reach into the ending text, or go on in it."""
        within, begun = configuration
        starts = [*begun, 0] if self._is_member(within) else [*begun]
        tokens: set[int] = set()
        # No token is longer than the longest: many places of a long text go on alike.
        for left in {self._end[start : start + self._tokens.longest + 1] for start in starts}:
            run = plain_run(left, 0, len(left))
            tokens.update(token for _, ids in self._tokens.beginnings(run) for token in ids)
            if len(run) == len(left):
                tokens.update(self._tokens.longer(run)[0])
            elif not run:
                tokens.add(ord(left[0]) - 256)
        if self._takes_bytes and within not in (DEAD, DONE):
            tokens.update(self._crossing_tokens())
        return tokens

    def _crossing_tokens(self) -> list[int]:
        """Return the tokens in which the ending text begins behind other bytes."""
        if self._crossing is None:
            pairs = zip(self._tokens.ids, self._tokens.texts, strict=True)
            self._crossing = [
                token
                for token, piece in pairs
                if any(self._begins_end(as_symbols(piece[at:])) for at in range(1, len(piece)))
            ]
        return self._crossing

    def _piece(self, token: int) -> str:
        special = chr(256 + token)
        return special if special in self._end else as_symbols(self._vocabulary.token_bytes[token])

    def _begins_end(self, text: str) -> bool:
        return self._end.startswith(text) or text.startswith(self._end)

    def _is_member(self, within: int) -> bool:
        return within != DEAD and bool(self._member.is_complete(np.array([within]))[0])

    def _read(
        self, configuration: _Configuration, piece: str, after: int | None
    ) -> tuple[_Configuration, bytes | None]:
        """Follow symbols from a configuration.

        Args:
            configuration: Where they begin.
            piece: At least one of them.
            after: The state of the member after them; None follows them by bytes.

        Returns:
            The one after them; and what they have behind the first end of the region, None
            where it does not end.
        """
        within, begun = configuration
        found = dict.fromkeys(begun, piece)
        reached: list[int] = []
        rests: list[str] = []
        if self._is_member(within):
            found[0] = piece
        parts = [*found.items()]
        if within not in (DEAD, DONE) and self._takes_bytes:
            splits = [at for at in range(1, len(piece)) if self._begins_end(piece[at:])]
            texts = [plain(piece[:at]) for at in splits]
            if splits:
                states = self._member.advance_bytes(np.full(len(splits), within, np.int64), texts)
                parts += [
                    (0, piece[at:])
                    for at, state in zip(splits, np.asarray(states).tolist(), strict=True)
                    if self._is_member(state)
                ]
        for start, part in parts:
            left = len(self._end) - start
            if len(part) < left and self._end.startswith(part, start):
                reached.append(start + len(part))
            elif part[:left] == self._end[start : start + len(part)]:
                rests.append(part[left:])
        if after is None:
            after = DEAD
            if within not in (DEAD, DONE):
                state = self._member.advance_bytes(np.array([within]), [plain(piece)])
                after = int(state[0])
        rest = max(rests, key=len, default=None)
        return (after, tuple(sorted(set(reached)))), None if rest is None else plain(rest)


class TaggedConstraint(WrappedConstraint):
    """Constraint of a tagged region: a member, and the text that ends the region.

    The region ends where, for the first time, its text is a member and the ending one. So a member
    that holds the ending text itself behind a shorter member is never drawn whole. The last token
    may go on behind the ending text, with whatever free text may begin with, but for a whole
    beginning of the next region. The end of the text is not allowed within.

    Args:
        inner: Any kind; where it is walked by tokens, the ending text begins with a token.
        end: The text that ends a region, as bytes or symbols; not empty.
        begin: The text that begins the next one; None where nothing stands behind the end.
        tokens: Of ``inner.vocabulary``; None sorts them.
        begun: What the token that began the region has behind its beginning text.
    """

    def __init__(
        self,
        inner: Constraint,
        end: bytes | str,
        begin: bytes | str | None,
        tokens: SortedTokens | None = None,
        *,
        begun: bytes = b"",
    ) -> None:
        super().__init__(inner)
        self._symbols = as_symbols(end)
        self.end = plain(self._symbols)
        self.begin = begin
        self.begun = begun
        self._tokens = tokens or SortedTokens(inner.vocabulary)

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens that no region exceeds; None where unbounded."""
        most = self.inner.max_tokens
        return None if most is None else most + len(self._symbols)

    @cached_property
    def facts(self) -> Facts:
        """A member ends with the region; what stands around it ends with the region's end."""
        frames = [(head, tail + self.end) for head, tail in self.inner.facts.frames]
        return self._facts_within(ends_itself=True, has_speculation_keys=False, frames=frames)

    @cached_property
    def _begins(self) -> Markers:
        if self.begin is None:
            return Markers([bytes([byte]) for byte in range(256)])
        return Markers([self.begin])

    def started(self, begun: bytes) -> TaggedConstraint:
        """Return this constraint behind the bytes of a token that began the region."""
        return TaggedConstraint(self.inner, self._symbols, self.begin, self._tokens, begun=begun)

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        return on_device(self._session(), device)

    def with_lookahead(self, lookahead: int | None) -> TaggedConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        inner = self.inner.with_lookahead(lookahead)
        return TaggedConstraint(inner, self._symbols, self.begin, self._tokens, begun=self.begun)

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone; of a region that has not ended, all there is of it."""
        return self.parted(token_ids)[0]

    def text_of_token(self, token_id: int) -> bytes | None:
        """Return None: a region's end is told by all tokens."""
        return None

    def parted(self, token_ids: Sequence[int]) -> tuple[bytes, bytes | None]:
        """Return the member of a region, and what its last token has behind the region's end.

        Of a region that has not ended all there is of its member, and None.
        """
        whole = as_symbols(self.begun) + self._read(token_ids)
        session = self.inner.session("cpu")
        if self.inner.facts.takes_bytes:
            at = whole.find(self._symbols)
            while at >= 0:
                state = np.asarray(session.advance_bytes(session.start(1), [plain(whole[:at])]))
                if state[0] != DEAD and bool(session.is_complete(state)[0]):
                    behind = plain(whole[at + len(self._symbols) :])
                    return self._content(plain(whole[:at])), behind
                at = whole.find(self._symbols, at + 1)
            return plain(whole), None
        states = session.start(1)
        for n, token in enumerate([*token_ids, -1]):
            rest = self._read(token_ids[n:])
            if rest.startswith(self._symbols) and bool(session.is_complete(states)[0]):
                return self.inner.member_text(token_ids[:n]), plain(rest[len(self._symbols) :])
            if token >= 0:
                states = session.advance(states, np.array([token]))
        return self.inner.member_text(token_ids), None

    def content(self, text: bytes) -> bytes | None:
        """Return the member of a whole region; None where it is none."""
        whole = self.begun + text
        if self._symbols[-1] > "\xff":  # nothing stands behind it, and it has no bytes
            member = self.inner.content(whole.removesuffix(self.end))
            is_one = whole.endswith(self.end) and member is not None and self.inner.accepts(member)
            return member if is_one else None
        at = whole.find(self.end)
        while at >= 0:
            member = self.inner.content(whole[:at])
            if member is not None and self.inner.accepts(member):
                return member
            at = whole.find(self.end, at + 1)
        return None

    def whole_texts(self, text: bytes, *, any_text: bool = False) -> list[bytes]:
        """Return what is drawn of a member's region, behind what the region was begun with."""
        wholes = [w + self.end for w in self.inner.whole_texts(text, any_text=any_text)]
        return [w.removeprefix(self.begun) for w in wholes if any_text or w.startswith(self.begun)]

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return None: the text that ends the region may be spelt in several ways."""
        return None

    def _read(self, token_ids: Sequence[int]) -> str:
        """Return tokens as symbols; special ones that do not stand in the end are passed over."""
        table, size = self.vocabulary.token_bytes, self.vocabulary.size
        return "".join(
            chr(256 + token)
            if chr(256 + token) in self._symbols
            else as_symbols(table[token] if token < size else b"")
            for token in token_ids
        )

    def _content(self, whole: bytes) -> bytes:
        member = self.inner.content(whole)
        return whole if member is None else member

    def _session(self) -> TaggedSession:
        return TaggedSession(
            self.inner.session("cpu"),
            self._symbols,
            self._begins,
            self._tokens,
            begun=self.begun,
            takes_bytes=self.inner.facts.takes_bytes,
        )
