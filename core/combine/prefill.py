"""Begun answers: the texts of a constraint that begin with what is written already.

    begun = begin(open_artifact("json.arrow"), '{"acti')
    request = Request(model.encode_prompt(prompt) + begun.read, begun, seeds)

Of what is written, a first part goes into the prompt, in the tokenizer's own tokens or those that
all members begin with; the rest is forced as in token healing, whatever tokens spell it, so that
no member's own tokens are lost. The law is that of the constraint's texts which begin with what is
written; probabilities, weights and masses are given the prompt with that first part in it, and
count the tokens that spell the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cdec.core.combine.healing import HealedSession, PrefixPosition, at_position
from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.constraint import Constraint, Facts
from cdec.core.device_session import on_device
from cdec.core.errors import FitError, PrefillError
from cdec.core.session import DEAD, Session
from cdec.core.verdicts import first_rejected_byte


@dataclass(slots=True)
class PrefixNode:
    """A position: where the constraint is, and what is to be spelt from there.

    Attributes:
        state: Of the session that the positions were found with.
        lefts: One text for each head that may be forced; none is empty.
        came: Number of the position and the token that lead here; None at the first.
        ahead: Number of the next position by token. beyond: Tokens that go beyond.
    """

    state: int
    lefts: tuple[bytes, ...]
    came: tuple[int, int] | None
    ahead: dict[int, int] = field(default_factory=dict)
    beyond: dict[int, bytes] = field(default_factory=dict)


def find_nodes(
    session: Session, state: int, lefts: tuple[bytes, ...], tokens: SortedTokens
) -> list[PrefixNode]:
    """Find the positions on the way through a beginning, breadth first.

    Args:
        session: On the host.
        state: Where it begins.
        lefts: The beginning; several where several may be forced; none is empty.
        tokens: Of the session's vocabulary.

    Returns:
        The positions, the first one first; each token in them leads to a way beyond. None where the
        first has no such token.
    """
    nodes = [PrefixNode(state, lefts, None)]
    known = {(state, lefts): 0}
    if state == DEAD:
        return []
    for number, node in enumerate(nodes):  # grows
        node.beyond, ahead = _spelling(session, node, tokens)
        for token, left, after in ahead:
            key = (after, left)
            if key not in known:
                known[key] = len(nodes)
                nodes.append(PrefixNode(after, left, (number, token)))
            node.ahead[token] = known[key]
    # subtle: what is left gets shorter with each token, so those behind come first.
    alive: set[int] = set()
    for at in sorted(range(len(nodes)), key=lambda at: max(map(len, nodes[at].lefts))):
        node = nodes[at]
        node.ahead = {token: to for token, to in node.ahead.items() if to in alive}
        if node.ahead or node.beyond:
            alive.add(at)
    return nodes if 0 in alive else []


def after_tokens(session: Session, token_ids: Sequence[int]) -> int:
    """Return the state after some tokens; DEAD where one is not allowed."""
    state = session.start(1)
    for token in token_ids:
        state = session.advance(state, np.array([token], np.int64))
    return int(state[0])


def _spelling(
    session: Session, node: PrefixNode, tokens: SortedTokens
) -> tuple[dict[int, bytes], list[tuple[int, tuple[bytes, ...], int]]]:
    """Return the allowed tokens that spell what is left.

    Returns:
        Those that spell all of it; and of those that spell a part the token, what is left after
        it, and the state.
    """
    whole: set[int] = set()
    parts: dict[int, list[bytes]] = {}
    for left in node.lefts:
        whole.update(tokens.longer(left)[0])
        for length, spelt in tokens.beginnings(left):
            for token in spelt:
                if length == len(left):
                    whole.add(token)
                else:
                    parts.setdefault(token, []).append(left[length:])
    ids = np.array(sorted(whole | parts.keys()), np.int64)
    if not ids.size:
        return {}, []
    states = np.array([node.state], np.int64)
    allowed = ids[np.asarray(session.check(states, ids[None]))[0]]
    after = np.asarray(session.advance(np.repeat(states, len(allowed)), allowed))
    moved = dict(zip(allowed.tolist(), after.tolist(), strict=True))
    ahead = [
        (token, tuple(sorted(lefts)), moved[token])
        for token, lefts in sorted(parts.items())
        if token in moved and token not in whole
    ]
    return dict.fromkeys(sorted(whole & moved.keys()), b""), ahead


_SHOWN = 5
"""Continuations that an error lists."""


def begin(
    inner: Constraint,
    prefill: str,
    tokens: SortedTokens | None = None,
    *,
    into_prompt: bool = True,
    heal: bool = True,
) -> BegunConstraint:
    """Return the texts of a constraint that begin with ``prefill``.

    Args:
        inner: Any kind.
        prefill: How texts begin, as ``member_text`` gives them: without what is forced before them.
        tokens: Of ``inner.vocabulary``; None sorts them.
        into_prompt: Whether a first part may go into the prompt; if not, every token is drawn.
        heal: Whether the last part may be spelt by any tokens; if not, all of it goes into the
            prompt, as far as the constraint lets it, for methods that force nothing.

    Returns:
        A constraint whose ``read`` belongs at the end of the prompt. Cost: one walk over the tokens
        that spell the rest of ``prefill``, milliseconds.

    Raises:
        PrefillError: No text of the constraint begins so.
    """
    tokens = tokens or SortedTokens(inner.vocabulary)
    read: list[int] = []
    if into_prompt and (not heal or inner.listed is None):
        read = _first_part(inner, prefill, tokens, heal)
    begun = BegunConstraint(inner, prefill, tokens, read)
    return begun.with_forced_read() if into_prompt and heal else begun


class BegunConstraint(WrappedConstraint):
    """The texts of a constraint that begin with a given text, of which a part is read already.

    Texts are whole, what is written included; tokens are those after ``read``.

    Args:
        inner: Any kind.
        prefill: As in ``begin``.
        tokens: Of ``inner.vocabulary``.
        read: Tokens that stand in the prompt; the constraint allows them.

    Raises:
        PrefillError: No text of the constraint begins so.
    """

    def __init__(
        self, inner: Constraint, prefill: str, tokens: SortedTokens, read: Sequence[int]
    ) -> None:
        super().__init__(inner)
        self.prefill: str = prefill
        self.read = list(read)
        self.begun = self.vocabulary.decode(self.read)
        self._tokens = tokens
        wholes = [head + prefill.encode() for head, _ in inner.facts.frames]
        lefts = {whole[len(self.begun) :] for whole in wholes if whole.startswith(self.begun)}
        # subtle: where nothing is left under one head, every text goes on as it likes.
        self._lefts = () if b"" in lefts else tuple(sorted(lefts))
        self._nodes: list[PrefixNode] = []
        if self._lefts:
            session = inner.session("cpu")
            state = after_tokens(session, self.read)
            self._nodes = find_nodes(session, state, self._lefts, tokens)
            if not self._nodes:
                raise self._nothing()

    @cached_property
    def facts(self) -> Facts:
        """Facts of the constraint within; it is walked by tokens."""
        return self._facts_within(
            takes_bytes=False, prefill=self.prefill, reach=self.inner.facts.reach
        )

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens that no member exceeds, those read not counted; None where unbounded."""
        most = self.inner.max_tokens
        return None if most is None else most - len(self.read)

    def within_tokens(self, most: int) -> BegunConstraint | None:
        """Return the texts of at most ``most`` tokens behind those read, where a list has them.

        Raises:
            FitError: Every text that begins so has more.
        """
        if self.inner.listed is None:
            return None
        smaller = self._within(most)
        if smaller is None:
            longer = range(most + 1, self.max_tokens or 0)
            more = bisect_left(longer, True, key=lambda n: self._within(n) is not None)
            raise FitError.of(self.inner.facts.kind, most, most + 1 + more)
        return smaller

    def _within(self, most: int) -> BegunConstraint | None:
        """Return a list's texts of at most ``most`` tokens behind those read; None for none."""
        try:
            smaller = self.inner.within_tokens(most + len(self.read))
            if smaller is not None:
                return BegunConstraint(smaller, self.prefill, self._tokens, self.read)
        except (FitError, PrefillError):
            pass
        return None

    def with_forced_read(self) -> BegunConstraint:
        """Return this constraint with all tokens read that are the only ones allowed, in turn."""
        read, node = list(self.read), self._nodes[0] if self._nodes else None
        while node is not None and len(node.ahead) == 1 and not node.beyond:
            ((token, number),) = node.ahead.items()
            read.append(token)
            node = self._nodes[number]
        if len(read) == len(self.read):
            return self
        return BegunConstraint(self.inner, self.prefill, self._tokens, read)

    def with_lookahead(self, lookahead: int | None) -> BegunConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return BegunConstraint(
            self.inner.with_lookahead(lookahead), self.prefill, self._tokens, self.read
        )

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device; it runs on the host."""
        inner = self.inner.session("cpu")
        states = [after_tokens(inner, self.read)]
        for node in self._nodes[1:]:
            number, token = node.came or (0, 0)
            states.append(int(inner.advance(np.array([states[number]]), np.array([token]))[0]))

        def enter(number: int, token: int) -> int:
            return int(inner.advance(np.array([states[number]]), np.array([token]))[0])

        first = at_position(0) if self._nodes else states[0]
        return on_device(
            HealedSession(inner, self.vocabulary, self._positions, enter, first), device
        )

    def accepts(self, text: bytes) -> bool | None:
        """Check a text by the path of the constraint within, and how it begins."""
        return self.inner.accepts(text) if text.startswith(self.prefill.encode()) else False

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member, with what is read."""
        return self.inner.member_text([*self.read, *token_ids])

    def content(self, text: bytes) -> bytes | None:
        """Return the member that the drawn ``text`` ends; None where it is none of them."""
        member = self.inner.content(self.begun + text)
        begins = member is not None and member.startswith(self.prefill.encode())
        return member if begins else None

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the tokens of a member that has only one tokenisation, those read left out."""
        ids = self.inner.token_ids_of(text)
        read = len(self.read)
        return ids[read:] if ids is not None and ids[:read] == self.read else None

    @cached_property
    def _positions(self) -> list[PrefixPosition]:
        width = self.vocabulary.width
        return [
            PrefixPosition.of(b"\0".join(node.lefts), node.ahead, node.beyond, width)
            for node in self._nodes
        ]

    def _nothing(self) -> PrefillError:
        """Return the error of a constraint without a text that begins so."""
        data = self.prefill.encode()
        heads = [(head, b"") for head, _ in self.inner.facts.frames]
        where = first_rejected_byte(
            self.inner.session_for_texts(), self.vocabulary, data, heads
        ).to_json(_SHOWN)
        allowed = ", ".join(map(repr, where["allowed"])) or "nothing but the end"
        more = where["allowed_count"] - len(where["allowed"])
        more_words = f" and {more:,} more" if more > 0 else ""
        return PrefillError(
            f"no text of the {self.inner.facts.kind} begins with the prefill "
            f"{_shown(self.prefill)}: at byte {where['byte']} "
            f"{_at(data, where['byte'])}, and allowed are {allowed}{more_words}",
            hint="correct the prefill, or leave it out",
            **where,
        )


def _at(data: bytes, byte: int) -> str:
    """Say what stands at a byte."""
    if byte >= len(data):
        return "it ends"
    # subtle: a refused byte may be the middle of a character.
    return f"stands {data[byte : byte + 8].decode('utf-8', 'replace')!r}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


def _first_part(inner: Constraint, prefill: str, tokens: SortedTokens, heal: bool) -> list[int]:
    """Return the tokens of ``prefill`` that go into the prompt: the tokenizer's, but for the last.

    As many as the constraint follows, and none where the tokenizer changes the text.
    """
    vocabulary = inner.vocabulary
    if vocabulary.tokenization is None:
        return []
    whole = inner.facts.frames[0][0].decode("utf-8", "surrogateescape") + prefill
    ids = vocabulary.encode([whole])[0]
    if vocabulary.decode(ids) != whole.encode("utf-8", "surrogateescape"):
        return []
    # The first of the tokens to cut is never cut: here that is none of ours.
    kept = tokens.cut([-1, *ids])[0][1:] if heal else ids
    session = inner.session("cpu")
    state = session.start(1)
    for place, token in enumerate(kept):
        state = session.advance(state, np.array([token], np.int64))
        if int(state[0]) == DEAD:
            return list(kept[:place])
    return list(kept)
