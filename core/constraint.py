"""Constraint: a set of texts that samples must belong to, and what every kind of it can be asked.

Any constraint meets any sampler here. A kind overrides what it can do better than the defaults;
nothing else is asked of it, and nobody asks what kind it is. Its decoding runs are ``Session``s.

Laws, beside those of ``cdec.core.session`` (``tests/laws`` checks both for every kind):

1.  ``member_text`` of a member's tokens is a text that ``accepts`` does not refuse, and is among
    what ``content`` leaves of ``whole_texts`` of it; these hold the bytes of the member's tokens.
2.  ``token_ids_of`` a member's text is None or a member; its bytes are among ``whole_texts``.
3.  No member has more than ``max_tokens`` tokens, if that is given.
4.  Without ``facts.ends_itself``, no token but an end id leads to DONE.
5.  Where it is ``listed``, ``candidates`` of a member's text allows that member and no member with
    another text, and ``deny_texts`` of it allows these and not that.
6.  Where ``facts.has_terminals``, ``with_lookahead`` of ``facts.lookahead`` changes nothing; else
    it raises.
7.  ``text_verdicts`` and ``token_verdicts`` call members valid, and no row valid that is none.
8.  ``text_of`` a member's text is that text.
9.  The members of ``within_tokens`` are those of at most so many tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from cdec.core.errors import FieldError, LimitError, UsageError, needs_grammar
from cdec.core.session import DEAD, DONE, Session, States
from cdec.core.verdicts import TokenRefusal, first_refused_token, first_rejected_byte

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cdec.core.tokens.vocabulary import Vocabulary

__all__ = [
    "DEAD",
    "DONE",
    "Constraint",
    "Facts",
    "Listed",
    "NarrowedSet",
    "Session",
    "States",
    "all_accept",
]

EXACT, CONSERVATIVE = "exact", "conservative"
"""Whether texts held to a number of tokens are all that have so many, or perhaps fewer."""

CANONICAL, TEMPLATED = "canonical", "templated"
"""Spelling of texts by the tokenizer's own tokens alone; of their fixed parts apart."""

_ITEMS_A_SESSION = 100
"""Texts whose verdicts share a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts of a constraint that samplers and commands ask for before they use it.

    Attributes:
        kind: What messages call it. Nothing is decided by it.
        is_sound: Whether every allowed token is proved to have a completion. Shown by ``inspect``.
        ends_itself: Whether the last token of a member may give DONE without an end id. Scores
            count no end event there; denial refuses such constraints.
        has_terminals: Whether texts are read as terminals: ``with_lookahead`` answers.
        takes_bytes: Whether sessions can ``advance_bytes``: healing needs it, denial counts members
            by it.
        takes_pieces: Whether those that count tokens can do so with the rest of one, as one.
        has_speculation_keys: Whether sessions have ``speculation_keys``; drafts from counts leave
            others alone.
        reach: How well sessions know ``fewest_tokens``: EXACT, or CONSERVATIVE where they are
            bounds; None where they know nothing, and texts cannot be held to a number of tokens.
        lookahead: Terminals that may begin within a token after its first; None for any number.
            Samples carry a number, because it forbids tokens that the texts would allow.
        metadata: The artifact's; counts and trees are kept by its ``cdec.digest``.
        frames: (head, tail) pairs that may be forced around a member; verdicts try all.
        denied_unknown: How many of the texts that were denied are no members; a warning says it.
        unenforced: What its source demands and its masks leave open: ``path``, ``keyword``,
            ``reason``.
        reasons: Why parameters mean nothing here, by name, for messages.
        reader: What makes a value of a member's text; None where members are no more than texts.
        fit: Where texts were held to a number of tokens, whether those are all of at most so many
            (``exact``) or perhaps fewer (``conservative``); else None. Samples carry it.
        spelling: CANONICAL or TEMPLATED where members are spelled so alone; samples carry it.
        budgets: Where parts of texts have numbers of tokens of their own, whether all that have so
            few are left (``exact``) or perhaps fewer (``conservative``). Samples carry it.
        begun: What stands in the prompt already of the texts; tokens come after it.
        prefill: What all texts begin with because it was written before; samples carry it.
    """

    kind: str
    is_sound: bool = False
    ends_itself: bool = False
    has_terminals: bool = False
    takes_bytes: bool = False
    takes_pieces: bool = False
    has_speculation_keys: bool = False
    reach: str | None = None
    lookahead: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    frames: Sequence[tuple[bytes, bytes]] = ((b"", b""),)
    denied_unknown: int = 0
    unenforced: Sequence[Mapping[str, str]] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    reader: Callable[[str], Any] | None = None
    fit: str | None = None
    spelling: str | None = None
    budgets: str | None = None
    begun: bytes = b""
    prefill: str | None = None


class NarrowedSet(NamedTuple):
    """What a record leaves of a set within its constraint.

    Attributes:
        name: Of the set.
        texts: Members, texts or else entity ids; or texts that are left out.
        is_denied: Whether they are left out; if not, they alone are allowed.
    """

    name: str
    texts: tuple[str, ...]
    is_denied: bool = False


class Listed(ABC):
    """Capabilities of a constraint whose members are a list.

    Of two constraints, the texts and fields of the one that is listed are shown.
    """

    @abstractmethod
    def candidates(self, texts_or_ids: Sequence[str]) -> Constraint:
        """Return the constraint of these members alone.

        Args:
            texts_or_ids: Member texts, or entity ids where no member has such a text.

        Raises:
            FieldError: Some of these are not among the members.
        """

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

    def byte_session(self) -> Session | None:
        """Start a run over whole texts whose tokens are bytes; None where they are no list."""
        return None

    def member_rows(self) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
        """Return the tokens of all members, if they can be listed; read by classification.

        Returns:
            int32[T] flat tokens and int64[R + 1] offsets of distinct rows without end ids, sorted
            lexicographically, a prefix before its continuations. None where they are no list.
        """
        return None


class Constraint(ABC):
    """A set of texts: an opened artifact, or constraints combined.

    Constraints are compared and hashed by identity: those that are equal objects share sessions.

    Attributes:
        vocabulary: Of the model that draws; samplers and combinations refuse another.
    """

    vocabulary: Vocabulary

    @cached_property
    @abstractmethod
    def facts(self) -> Facts:
        """Its declared facts."""

    @cached_property
    def max_tokens(self) -> int | None:
        """Tokens of the longest member or more, end event not counted; None where unbounded.

        Samplers take it for the limit of new tokens.
        """
        return None

    @property
    def listed(self) -> Listed | None:
        """Further capabilities where its members are a list; None where they are none."""
        return None

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

    def text_of_token(self, token_id: int) -> bytes | None:
        """Return what a token adds to ``member_text`` wherever it stands; None if that differs."""
        return self.vocabulary.decode((token_id,))

    def content(self, text: bytes) -> bytes | None:
        """Return a whole text, as a model writes it, without forced prefix and suffix; else None.

        Whatever ``accepts`` says of its middle. A blank that the artifact puts first may lack.
        """
        return text

    def text_of(self, text: bytes) -> bytes:
        """Return the text that ``text`` stands for, however a door handed it out.

        The one rule for all texts that are given back (checked, scored, denied, chosen among): a
        member stands for itself; another text is taken as a model writes it, and what the artifact
        itself puts around members, such as a leading blank, is no part of it.
        """
        return text

    def whole_texts(self, text: bytes, *, any_text: bool = False) -> list[bytes]:
        """Return what a member's tokens spell, forced parts included; read by combinations.

        Args:
            text: As ``member_text`` gives it.
            any_text: Return the one text that a model would write for it, member or not; read by
                scores.

        Returns:
            One text for each way in which the parts may be forced; none for no member of a list.
        """
        return [text]

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the tokens of a member that has only one tokenisation; None: the tokenizer says.

        Read by scores.
        """
        return None

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return fields that samples of this text carry, such as ``entity_ids``."""
        return {}

    def deny_texts(self, texts: Sequence[bytes]) -> Constraint | None:
        """Return this constraint without the members of these texts, if it can drop them itself.

        ``cdec.core.combine.denial.deny`` refuses the texts of those that return None.

        Raises:
            EmptySetError: Nothing is left.
        """
        return None

    def within_tokens(self, most: int) -> Constraint | None:
        """Return this constraint's texts of at most ``most`` tokens, if it can drop the others.

        ``cdec.core.combine.fitting.fit`` holds those that return None to the number step by step.

        Raises:
            FitError: Every text has more tokens.
        """
        return None

    @property
    def set_names(self) -> Sequence[str]:
        """Names of the sets that it holds within it, which are given when it is opened."""
        return ()

    @property
    def span_fields(self) -> Mapping[str, Mapping[str, Any]]:
        """Those of ``set_names`` that are pieces of a record's document: ``field`` and options."""
        return {}

    def with_sets(self, sets: Mapping[str, Any]) -> Constraint:
        """Return this constraint with the sets that it holds within it.

        Args:
            sets: By name: a ``SetConstraint``, of whatever tokenizer, or the path of its artifact.

        Raises:
            UsageError: It holds no set of such a name.
            CdecError: A file is missing or damaged.
        """
        if not sets:
            return self
        raise no_set(self, next(iter(sets)))

    def narrowed(self, sets: Sequence[NarrowedSet]) -> Constraint:
        """Return this constraint with less of the sets that it holds within it.

        Raises:
            FieldError: It holds no such set, or candidates are no members of it.
            EmptySetError: Nothing is left of one.
        """
        if not sets:
            return self
        error = no_set(self, sets[0].name)
        raise FieldError(error.message, hint=error.hint, field="candidates")

    def with_lookahead(self, lookahead: int | None) -> Constraint:
        """Return this constraint with masks that look ``lookahead`` terminals further.

        Raises:
            UsageError: Texts are not read as terminals.
        """
        raise no_use(self, "lookahead")

    def _refusal(self, session: Session, text: bytes, shown: int) -> dict[str, Any] | None:
        """Return where a text is refused, JSON-ready; None for members."""
        is_accepted = self.accepts(text)
        if is_accepted:
            return None
        where = first_rejected_byte(session, self.vocabulary, text, self.facts.frames)
        if is_accepted is None and where.byte == len(text) and where.may_end:
            return None
        return where.to_json(shown)

    def _token_refusal(self, session: Session, refusal: TokenRefusal, shown: int) -> dict[str, Any]:
        """Return where a row of tokens is refused, JSON-ready."""
        return refusal.to_json(session, shown)


def candidates_of(constraint: Constraint, texts_or_ids: Sequence[str]) -> Constraint:
    """Return the constraint of some members alone, as ``Listed.candidates`` does.

    Raises:
        FieldError: The members are no list, or some of these are not among them.
    """
    if constraint.listed is None:
        raise FieldError(
            "candidates choose among the members of a set, the artifact is a "
            f"{constraint.facts.kind}",
            hint="compile the texts with cdec compile-set and name that artifact",
            field="candidates",
        )
    return constraint.listed.candidates(texts_or_ids)


def no_set(constraint: Constraint, name: str) -> UsageError:
    """Return the error of a set that a constraint does not hold."""
    known = ", ".join(map(repr, constraint.set_names))
    return UsageError(
        f"the {constraint.facts.kind} holds no set {name!r} within it; it holds {known or 'none'}",
        hint="give the sets that it names",
    )


def no_use(constraint: Constraint, parameter: str) -> UsageError:
    """Return the error of a parameter that a constraint has no use for."""
    facts = constraint.facts
    return needs_grammar(parameter, f"the record's constraint is a {facts.kind}", facts.reasons)


def carried(constraint: Constraint, text: bytes, *, is_member: bool) -> dict[str, object]:
    """Return the fields that records of a text carry: ``annotations`` of members alone."""
    said = dict(constraint.annotations(text)) if is_member else {}
    unenforced = constraint.facts.unenforced
    return said | ({"unenforced": list(unenforced)} if unenforced else {})


def said_of_held(constraint: Constraint | None) -> dict[str, object]:
    """Return the fields by which records say to what else their texts were held.

    These are ``fit``, to a number of tokens, ``spelling``, to the tokenizer's own tokens, and
    ``budgets``, of parts to numbers of tokens.
    """
    if constraint is None:
        return {}
    facts = constraint.facts
    said = {"fit": facts.fit, "spelling": facts.spelling, "budgets": facts.budgets}
    return {name: value for name, value in said.items() if value is not None}


def text_verdicts(
    constraint: Constraint, texts: Iterable[bytes], *, shown: int = 10
) -> Iterator[dict[str, Any]]:
    """Say of each text whether it is a member, and if not, where it ceases to be one.

    Args:
        constraint: Any.
        texts: As ``text_of`` takes them.
        shown: How many continuations a refusal lists.

    Yields:
        JSON-ready: ``text`` and ``valid``, with what is ``carried`` by a member; else ``byte`` (the
        first at which no member goes on, from 0), ``allowed`` (what could have stood there),
        ``allowed_count`` and ``may_end``. Kinds may add to it. Where a limit was passed, ``valid``
        is None, and ``error`` says which.
    """

    def judge(session: Session, text: bytes) -> dict[str, Any]:
        refusal = constraint._refusal(session, text, shown)
        said = carried(constraint, text, is_member=True) if refusal is None else refusal
        return {"valid": refusal is None, **said}

    for session, text in _with_sessions(constraint, map(constraint.text_of, texts)):
        yield {"text": text.decode("utf-8", "replace"), **_within_limits(judge, session, text)}


def token_verdicts(
    constraint: Constraint, rows: Iterable[Sequence[int]], *, shown: int = 10
) -> Iterator[dict[str, Any]]:
    """Say of each row of token ids, which end ids may close, whether it is a member.

    Yields:
        As ``text_verdicts``, with ``token_ids``; a member with its ``text``, a refusal with
        ``position`` (of the first token that is not allowed), ``byte`` and ``allowed_ids``.
    """

    def judge(session: Session, row: Sequence[int]) -> dict[str, Any]:
        refusal = first_refused_token(session, constraint.vocabulary, row)
        if refusal is not None:
            return {"valid": False, **constraint._token_refusal(session, refusal, shown)}
        text = constraint.member_text(row)
        said = carried(constraint, text, is_member=True)
        return {"valid": True, "text": text.decode("utf-8", "replace"), **said}

    for session, row in _with_sessions(constraint, rows):
        yield {"token_ids": list(row), **_within_limits(judge, session, row)}


def _with_sessions(constraint: Constraint, items: Iterable[Any]) -> Iterator[tuple[Session, Any]]:
    """Pair items with a session, renewed now and then: it remembers the states of its texts."""
    session = constraint.session("cpu")
    for number, item in enumerate(items, 1):
        yield session, item
        if number % _ITEMS_A_SESSION == 0:
            session = constraint.session("cpu")


def _within_limits(judge: Callable[..., dict[str, Any]], *asked: Any) -> dict[str, Any]:
    """Return a verdict, or the limit that was passed on the way to it."""
    try:
        return judge(*asked)
    except LimitError as error:
        return {"valid": None, "error": error.to_json()}


def all_accept(constraints: Sequence[Constraint], whole_texts: Iterable[bytes]) -> bool | None:
    """Say whether constraints accept one of some texts, each by a path independent of its session.

    Args:
        constraints: Are given the whole text, without their own forced parts.
        whole_texts: Ways in which one text may be written, forced parts included.

    Returns:
        None if no text is accepted by all, and for one of them only the time ran out.
    """
    best: bool | None = False
    for whole in whole_texts:
        verdict = _all_accept_whole(constraints, whole)
        if verdict:
            return True
        best = best if verdict is False else None
    return best


def _all_accept_whole(constraints: Sequence[Constraint], whole: bytes) -> bool | None:
    verdict: bool | None = True
    for constraint in constraints:
        content = constraint.content(whole)
        accepted = False if content is None else constraint.accepts(content)
        if accepted is False:
            return False
        if accepted is None:
            verdict = None
    return verdict
