"""Member texts within schemas and grammars: what these ask of a set, or of a document's pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from cdec.core.constraint import Constraint, NarrowedSet, no_set
from cdec.core.errors import FieldError, SetMissingError

Adder: TypeAlias = Callable[[Any], object]
"""Adds what the library holds to an engine."""


class MemberTexts(ABC):
    """Texts that strings of a schema, or a grammar's terminal, may be.

    Attributes:
        noun: What records call them: the key of their name.
    """

    noun: str

    @abstractmethod
    def add(self, add_trie: Adder, add_document: Adder) -> object:
        """Add them to an engine by one of its functions; return what must live as long as it."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Bytes of the longest text, or more."""

    @property
    @abstractmethod
    def n_texts(self) -> int | None:
        """Number of texts; None for more than one text can hold.

        Raises:
            UsageError: They were not counted.
        """

    @abstractmethod
    def holds(self, text: bytes) -> bool | None:
        """Say whether a text is a member, by another path than walks take; None if cut off."""

    @abstractmethod
    def begins(self, text: bytes) -> bool:
        """Say whether a member begins with a text."""

    @abstractmethod
    def record(self, text: str) -> dict[str, Any] | None:
        """Return what records say of a member, ``text`` included; None for another text."""

    @abstractmethod
    def refusal(self, name: str, text: str, ends: bool) -> str:
        """Return why a text is no member, as a clause.

        Args:
            name: What they are called in the constraint.
            text: As far as it was read, with the character that no member goes on with.
            ends: Whether that is its end, and no such character.
        """

    def candidates(self, texts_or_ids: Sequence[str]) -> MemberTexts:
        """Return some members alone.

        Raises:
            FieldError: Some are no members, or members are no list.
        """
        raise _no_list()

    def without(self, texts: Sequence[str]) -> MemberTexts:
        """Return the members but for those of some texts; others are ignored.

        Raises:
            EmptySetError: Nothing is left.
            FieldError: Members are no list.
        """
        raise _no_list()


def _no_list() -> FieldError:
    return FieldError(
        "candidates choose among the members of a set, and quotes are of a document",
        hint="give the record another document",
        field="candidates",
    )


def quoted(text: str, ends: bool) -> str:
    """Return what a text was found to be, for a refusal."""
    return f"is {text!r}" if ends else f"begins with {text!r}"


def character_end(text: bytes, byte: int) -> int:
    """Return where the character ends that begins at or stands over a byte."""
    end = min(byte + 1, len(text))
    while end < len(text) and text[end] & 0xC0 == 0x80:
        end += 1
    return end


def given_sets(names: Sequence[str], sets: Mapping[str, MemberTexts]) -> list[MemberTexts]:
    """Return the member texts of some names, in their order.

    Raises:
        SetMissingError: One is not given.
    """
    lacking = [name for name in names if name not in sets]
    if not lacking:
        return [sets[name] for name in names]
    given = f"the sets given are {', '.join(map(repr, sets))}" if sets else "no set is given"
    raise SetMissingError(
        f"the constraint holds the set {lacking[0]!r}, and {given}",
        hint="give its artifact with `sets`",
        sets=lacking,
    )


def holding(
    constraint: Constraint, sets: Mapping[str, MemberTexts], later: Collection[str] = ()
) -> Constraint:
    """Return a constraint with those of some sets that it holds within it.

    Args:
        constraint: Any.
        sets: By name.
        later: Names of those that are given later.

    Raises:
        SetMissingError: Another one that it holds.
    """
    names = [name for name in constraint.set_names if name not in later]
    given_sets(names, sets)
    return constraint.with_sets({name: sets[name] for name in names})


def narrowed_sets(
    holder: Constraint, sets: Mapping[str, MemberTexts], narrowed: Sequence[NarrowedSet]
) -> dict[str, MemberTexts]:
    """Return the sets within a constraint, with what records leave of them.

    Raises:
        FieldError: The constraint holds no such set, or candidates are no members of it.
        EmptySetError: Nothing is left of one.
        SetMissingError: A set is not given.
    """
    left = dict(sets)
    for name, texts, is_denied in narrowed:
        if name not in holder.set_names:
            error = no_set(holder, name)
            raise FieldError(error.message, hint=error.hint, field="candidates")
        (one,) = given_sets([name], left)
        left[name] = one.without(texts) if is_denied else one.candidates(texts)
    return left
