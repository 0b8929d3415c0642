"""A begun answer: the texts of a constraint that begin with what is written already.

    begun = begin(open_artifact("json.arrow"), '{"acti')
    request = Request(model.encode_prompt(prompt) + begun.read, begun, seeds)

Of what is written, a first part goes into the prompt, in the tokenizer's own tokens or those that
all members begin with; the rest is forced as in token healing, whatever tokens spell it, so that
no member's own tokens are lost. The law is that of the constraint's texts which begin with what is
written; probabilities, weights and masses are given the prompt with that first part in it, and
count the tokens that spell the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cdec.core.combine.healed_session import HealedSession, PrefixPosition, at_position
from cdec.core.combine.healing import SortedTokens
from cdec.core.combine.prefix_places import Place, after_tokens, find_places
from cdec.core.combine.wrapped import WrappedConstraint
from cdec.core.constraint import Constraint
from cdec.core.device_session import on_device
from cdec.core.errors import PrefillError
from cdec.core.mask import pack_mask
from cdec.core.session import DEAD, Session
from cdec.core.verdicts import first_rejected_byte

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
    if into_prompt and (not heal or not inner.lists_members):
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

    takes_bytes = False

    def __init__(
        self, inner: Constraint, prefill: str, tokens: SortedTokens, read: Sequence[int]
    ) -> None:
        super().__init__(inner)
        self.prefill: str = prefill
        self.read = list(read)
        self.begun = self.vocabulary.decode(self.read)
        self._tokens = tokens
        wholes = [head + prefill.encode() for head, _ in inner.frames]
        lefts = {whole[len(self.begun) :] for whole in wholes if whole.startswith(self.begun)}
        # subtle: where nothing is left under one head, every text goes on as it likes.
        self._lefts = () if b"" in lefts else tuple(sorted(lefts))
        self._places: list[Place] = []
        if self._lefts:
            session = inner.session("cpu")
            state = after_tokens(session, self.read)
            self._places = find_places(session, state, self._lefts, tokens)
            if not self._places:
                raise self._nothing()

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens that no member exceeds, those read not counted; None where unbounded."""
        most = self.inner.max_tokens
        return None if most is None else most - len(self.read)

    def with_forced_read(self) -> BegunConstraint:
        """Return this constraint with all tokens read that are the only ones allowed, in turn."""
        read, place = list(self.read), self._places[0] if self._places else None
        while place is not None and len(place.ahead) == 1 and not place.beyond:
            ((token, number),) = place.ahead.items()
            read.append(token)
            place = self._places[number]
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
        for place in self._places[1:]:
            number, token = place.came or (0, 0)
            states.append(int(inner.advance(np.array([states[number]]), np.array([token]))[0]))

        def enter(number: int, token: int) -> int:
            return int(inner.advance(np.array([states[number]]), np.array([token]))[0])

        first = at_position(0) if self._places else states[0]
        return on_device(HealedSession(inner, self._positions, enter, first), device)

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

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return what is drawn of a member."""
        wholes = self.inner.whole_texts(text)
        return [whole[len(self.begun) :] for whole in wholes if whole.startswith(self.begun)]

    def whole_text(self, text: bytes) -> bytes:
        """Return what a model would write for a text, behind what is read."""
        return self.inner.whole_text(text).removeprefix(self.begun)

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the tokens of a member that has only one tokenisation, those read left out."""
        ids = self.inner.token_ids_of(text)
        read = len(self.read)
        return ids[read:] if ids is not None and ids[:read] == self.read else None

    @cached_property
    def _positions(self) -> list[PrefixPosition]:
        return [self._position(place) for place in self._places]

    def _position(self, place: Place) -> PrefixPosition:
        ids = np.array(sorted({*place.ahead, *place.beyond}), np.int32)
        allowed = np.zeros(self.vocabulary.width, np.bool_)
        allowed[ids] = True
        digest = hashlib.blake2b(b"\0".join(place.lefts), digest_size=8).digest()
        key = int.from_bytes(digest, "little", signed=True)
        mask = pack_mask(allowed[None])[0]
        return PrefixPosition(ids, allowed, mask, place.ahead, place.beyond, key)

    def _nothing(self) -> PrefillError:
        """Return the error of a constraint without a text that begins so."""
        data = self.prefill.encode()
        heads = [(head, b"") for head, _ in self.inner.frames]
        where = first_rejected_byte(
            self.inner.session_for_texts(), self.vocabulary, data, heads
        ).to_json(_SHOWN)
        allowed = ", ".join(map(repr, where["allowed"])) or "nothing but the end"
        more = where["allowed_count"] - len(where["allowed"])
        more_words = f" and {more:,} more" if more > 0 else ""
        return PrefillError(
            f"no text of the {self.inner.kind} begins with the prefill {_shown(self.prefill)}: at "
            f"byte {where['byte']} {_at(data, where['byte'])}, and allowed are "
            f"{allowed}{more_words}",
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
    whole = inner.frames[0][0].decode("utf-8", "surrogateescape") + prefill
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
