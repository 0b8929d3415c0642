"""Member texts within schemas and grammars: what these ask of a set, or of a document's pieces."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias

from cdec.core.constraint import Constraint, NarrowedSet, no_set
from cdec.core.errors import FieldError, SetMissingError, UsageError

PINNED_KEY = "cdec.set_digests"
"""Metadata: digests of the artifacts that sets within must be, by name; others may be any."""

Adder: TypeAlias = Callable[..., object]
"""Adds what the library holds to an engine."""


class SetMismatchError(UsageError, code="E_SET_MISMATCH"):
    """A constraint was compiled for a set of another digest than the one that is given."""


class MemberTexts(ABC):
    """Texts that strings of a schema, or a grammar's terminal, may be.

    Attributes:
        noun: What records call them: the key of their name.
    """

    noun: str

    @property
    def digest(self) -> str:
        """Digest of the artifact that they are of; empty for none."""
        return ""

    @abstractmethod
    def add(self, add_trie: Adder, add_document: Adder, *others: Adder) -> object:
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

    def leaves_out(self, text: bytes) -> bool:
        """Say whether a text is a member of what these are some members of, and none of them."""
        return False

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


_MOST_COUNTED = 1 << 12
"""Pieces that are counted: no text holds so many that differ."""
_MOST_TRIED = 1 << 22
"""Pieces that are looked at until that many differ."""


def count_texts(texts: Iterable[bytes]) -> int | None:
    """Return how many of some pieces differ; None for more than one text can hold.

    Raises:
        UsageError: They were not counted with 4,194,304 tries.
    """
    found = set[bytes]()
    for tried, text in enumerate(texts):
        found.add(text)
        if len(found) > _MOST_COUNTED:
            return None
        if tried > _MOST_TRIED:
            raise UsageError(
                "items must differ, and how many pieces of the document do was not counted "
                f"with {_MOST_TRIED:,} tries",
                hint="leave uniqueItems out, or give a shorter document",
            )
    return len(found)


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


def digests_of(sets: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return names and digests of sets: of artifacts by their paths, or opened ones.

    Raises:
        UsageError: One is no set, or was not read from an artifact.
        CdecError: A file is missing or damaged.
    """
    from cdec.core.artifacts.opened import read_artifact

    found = []
    for name, given in sets.items():
        opened = read_artifact(given) if isinstance(given, str | PathLike) else given
        kind = opened.facts.kind if isinstance(opened, Constraint) else opened.kind
        digest = str(opened.metadata.get("cdec.digest", "")) if kind in ("set", "spans") else ""
        if not digest:
            raise UsageError(
                f"the set {name!r} is to be known again by its digest, and what is given is no "
                "artifact of a set",
                hint="give the artifact that cdec compile-set or cdec compile-spans made",
                field="sets",
            )
        found.append((name, digest))
    return tuple(found)


def pinned_metadata(pinned: Sequence[tuple[str, str]], held: Collection[str]) -> dict[str, str]:
    """Return what an artifact records of the digests that its sets must have.

    Args:
        pinned: Names and digests; none for any.
        held: Names of the sets that it holds.

    Raises:
        UsageError: It holds no set of a name.
    """
    unknown = [name for name, _ in pinned if name not in held]
    if unknown:
        known = ", ".join(map(repr, held)) or "none"
        raise UsageError(
            f"the source holds no set {unknown[0]!r}; those that it holds: {known}",
            hint="give `sets` by these names",
            field="sets",
        )
    return {PINNED_KEY: json.dumps(dict(pinned))} if pinned else {}


def pinned_digests(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the digests that sets within an artifact must have, by name."""
    found: dict[str, str] = json.loads(metadata.get(PINNED_KEY, "{}"))
    return found


def require_pinned(metadata: Mapping[str, str], sets: Mapping[str, MemberTexts]) -> None:
    """See whether sets are those for which an artifact was compiled, where it says which.

    Raises:
        SetMismatchError: One is another file, or none; both digests are named.
    """
    for name, digest in pinned_digests(metadata).items():
        given = sets.get(name)
        if given is not None and given.digest != digest:
            raise SetMismatchError(
                f"the constraint was compiled for the set {name!r} of digest {digest}, and the "
                f"one that is given has {given.digest or 'none, as it is no artifact'}",
                hint="give the artifact that it was compiled with, or compile it again",
                set=name,
                expected=digest,
                found=given.digest,
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
