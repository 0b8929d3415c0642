"""Constraint: a set of texts that samples must belong to, and what every kind of it can be asked.

Any constraint meets any sampler here. A kind overrides what it can do better than the defaults;
nothing else is asked of it, and nobody asks what kind it is. Its decoding runs are ``Session``s.

Laws, beside those of ``cdec.core.session`` (``tests/laws`` checks both for every kind):

1.  ``member_text`` of a member's tokens is a text that ``accepts`` does not refuse, and is among
    what ``content`` leaves of ``whole_texts`` of it; these hold the bytes of the member's tokens.
2.  ``token_ids_of`` a member's text is None or a member; its bytes are among ``whole_texts``.
3.  No member has more than ``max_tokens`` tokens, if that is given.
4.  Without ``ends_itself``, no token but an end id leads to DONE.
5.  Where ``lists_members``, ``candidates`` of a member's text allows that member and no member with
    another text, and ``deny_texts`` of it allows these and not that; else ``candidates`` raises.
6.  Where ``has_terminals``, ``with_lookahead`` of its own ``lookahead`` changes nothing; else it
    raises, and so does ``explain``.
7.  ``verdicts`` and ``token_verdicts`` call members valid, and no row valid that is none.
8.  ``text_of`` a member's text is that text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdec.core.constraint_facts import ConstraintFacts
from cdec.core.errors import FieldError, LimitError, UsageError, needs_grammar
from cdec.core.session import DEAD, DONE, Session, States
from cdec.core.verdicts import TokenRefusal, first_refused_token, first_rejected_byte

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


__all__ = ["DEAD", "DONE", "Constraint", "Session", "States"]

_ITEMS_A_SESSION = 100
"""Texts whose verdicts share a session."""


class Constraint(ConstraintFacts, ABC):
    """A set of texts: an opened artifact, or constraints combined.

    Constraints are compared and hashed by identity: those that are equal objects share sessions.
    """

    @abstractmethod
    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run on ``cpu`` or a torch device."""

    def session_for_texts(self) -> Session:
        """Start a run on the host that follows texts known beforehand.

        It may promise more than there is (law 2 of sessions), where finding dead ends costs time.
        """
        return self.session("cpu")

    @abstractmethod
    def accepts(self, text: bytes) -> bool | None:
        """Check a finished member by a path independent of the session; None if that is cut off."""

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the member alone: the tokens' bytes without forced prefix and suffix."""
        return self.vocabulary.decode(token_ids)

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text, as a model writes it, without forced prefix and suffix.

        None where it lacks them: then it is no member, whatever ``accepts`` says of its middle. A
        leading blank that the artifact itself puts there is no part of texts: it may be missing.
        """
        return text

    def text_of(self, text: bytes) -> bytes:
        """Return the text that ``text`` stands for, however a door handed it out.

        The one rule for all texts that are given back (checked, scored, denied, chosen among): a
        member stands for itself; another text is taken as a model writes it, and what the artifact
        itself puts around members, such as a leading blank, is no part of it.
        """
        return text

    def whole_texts(self, text: bytes) -> list[bytes]:
        """Return what a member's tokens spell, forced parts included; read by combinations.

        Args:
            text: As ``member_text`` gives it.

        Returns:
            One text for each way in which the parts may be forced; none for no member of a list.
        """
        return [text]

    def whole_text(self, text: bytes) -> bytes:
        """Return what a model would write for a text, member or not; read by scores."""
        return next(iter(self.whole_texts(text)), text)

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the tokens of a member that has only one tokenisation; None: the tokenizer says.

        Read by scores.
        """
        return None

    def member_rows(self) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
        """Return the tokens of all members, if they can be listed; read by classification.

        Returns:
            int32[T] flat tokens and int64[R + 1] offsets of distinct rows without end ids, sorted
            lexicographically, a prefix before its continuations. None where they are no list.
        """
        return None

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return fields that samples of this text carry, such as ``entity_ids``."""
        return {}

    @property
    def reader(self) -> Callable[[str], Any] | None:
        """What makes a value of a member's text; None where members are no more than texts."""
        return None

    def carried(self, text: bytes, *, is_member: bool) -> dict[str, object]:
        """Return the fields that records of a text carry: ``annotations`` of members alone."""
        said = dict(self.annotations(text)) if is_member else {}
        return said | ({"unenforced": list(self.unenforced)} if self.unenforced else {})

    def candidates(self, texts_or_ids: Sequence[str]) -> Constraint:
        """Return the constraint of these members alone.

        Args:
            texts_or_ids: Member texts, or entity ids where no member has such a text.

        Raises:
            FieldError: The members are no list, or some of these are not among them.
        """
        raise FieldError(
            f"candidates choose among the members of a set, the artifact is a {self.kind}",
            hint="compile the texts with cdec compile-set and name that artifact",
            field="candidates",
        )

    def deny_texts(self, texts: Sequence[bytes]) -> Constraint | None:
        """Return this constraint without the members of these texts, if it can drop them itself.

        ``cdec.core.combine.denial.deny`` refuses the texts of those that return None.

        Raises:
            EmptySetError: Nothing is left.
        """
        return None

    def restricted_to(
        self, other: Constraint, *, max_steps: int, max_states: int
    ) -> Constraint | None:
        """Return the members that another constraint accepts, if they can be listed.

        Read by ``conjoin``, which walks both side by side where neither side returns any.

        Args:
            other: Opened for the same vocabulary.
            max_steps: Most tokens to follow.
            max_states: Most states that the other's session may come to hold.

        Raises:
            EmptySetError: It accepts none.
        """
        return None

    def with_lookahead(self, lookahead: int | None) -> Constraint:
        """Return this constraint with masks that look ``lookahead`` terminals further.

        Raises:
            UsageError: Texts are not read as terminals.
        """
        raise self.needs_grammar("lookahead")

    def verdicts(self, texts: Iterable[bytes], *, shown: int = 10) -> Iterator[dict[str, Any]]:
        """Say of each text whether it is a member, and if not, where it ceases to be one.

        Args:
            texts: As ``text_of`` takes them.
            shown: How many continuations a refusal lists.

        Yields:
            JSON-ready: ``text`` and ``valid``, with what is ``carried`` by a member; else ``byte``
            (the first at which no member goes on, from 0), ``allowed`` (what could have stood
            there), ``allowed_count`` and ``may_end``. Kinds may add to it. Where a limit was
            passed, ``valid`` is None, and ``error`` says which.
        """
        for session, text in self._with_sessions(map(self.text_of, texts)):
            said = _within_limits(self._text_verdict, session, text, shown)
            yield {"text": text.decode("utf-8", "replace"), **said}

    def _text_verdict(self, session: Session, text: bytes, shown: int) -> dict[str, Any]:
        refusal = self._refusal(session, text, shown)
        said = self.carried(text, is_member=True) if refusal is None else refusal
        return {"valid": refusal is None, **said}

    def token_verdicts(
        self, rows: Iterable[Sequence[int]], *, shown: int = 10
    ) -> Iterator[dict[str, Any]]:
        """Say of each row of token ids, which end ids may close, whether it is a member.

        Yields:
            As ``verdicts``, with ``token_ids``; a member with its ``text``, a refusal with
            ``position`` (of the first token that is not allowed), ``byte`` and ``allowed_ids``.
        """
        for session, row in self._with_sessions(rows):
            said = _within_limits(self._row_verdict, session, row, shown)
            yield {"token_ids": list(row), **said}

    def _row_verdict(self, session: Session, row: Sequence[int], shown: int) -> dict[str, Any]:
        refusal = first_refused_token(session, self.vocabulary, row)
        if refusal is not None:
            return {"valid": False, **self._token_refusal(session, refusal, shown)}
        text = self.member_text(row)
        said = self.carried(text, is_member=True)
        return {"valid": True, "text": text.decode("utf-8", "replace"), **said}

    @property
    def terminal_patterns(self) -> Mapping[str, str]:
        """Regular expressions of the terminals that ``explain`` names, by name."""
        return {}

    def explain(self, token_ids: Sequence[int], *, shown: int = 10) -> Iterator[dict[str, Any]]:
        """Step through the tokens of a text: what each was read as, and what it left open.

        Raises:
            UsageError: Texts are not read as terminals.
        """
        raise UsageError(f"`explain` means nothing to a {self.kind} artifact", hint="leave it out")

    def _refusal(self, session: Session, text: bytes, shown: int) -> dict[str, Any] | None:
        """Return where a text is refused, JSON-ready; None for members."""
        is_accepted = self.accepts(text)
        if is_accepted:
            return None
        where = first_rejected_byte(session, self.vocabulary, text, self.frames)
        if is_accepted is None and where.byte == len(text) and where.may_end:
            return None
        return where.to_json(shown)

    def _token_refusal(self, session: Session, refusal: TokenRefusal, shown: int) -> dict[str, Any]:
        """Return where a row of tokens is refused, JSON-ready."""
        return refusal.to_json(session, shown)

    def _with_sessions(self, items: Iterable[Any]) -> Iterator[tuple[Session, Any]]:
        """Pair items with a session, renewed now and then: it remembers the states of its texts."""
        session = self.session("cpu")
        for number, item in enumerate(items, 1):
            yield session, item
            if number % _ITEMS_A_SESSION == 0:
                session = self.session("cpu")

    def needs_grammar(self, parameter: str) -> UsageError:
        """Return the error of a parameter that this constraint has no use for."""
        return needs_grammar(parameter, f"the record's constraint is a {self.kind}", self.reasons)


def _within_limits(judge: Callable[..., dict[str, Any]], *asked: Any) -> dict[str, Any]:
    """Return a verdict, or the limit that was passed on the way to it."""
    try:
        return judge(*asked)
    except LimitError as error:
        return {"valid": None, "error": error.to_json()}
