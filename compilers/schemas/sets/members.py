"""Strings that are members of sets: what schemas ask of them besides, told where the sets are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from cdec.compilers.regular.strings import Strings
from cdec.compilers.schemas.sets.regexes import REGEXES, Regexes
from cdec.core.schemas.errors import SchemaUnsupportedError
from cdec.core.schemas.own_keywords import SET, SPAN
from cdec.core.sets.quotes import SpanField

Named: TypeAlias = str | SpanField | Regexes
"""Name of a set, a field of records whose pieces are meant, or regular expressions."""


class Members(NamedTuple):
    """Strings of a language that are members of some sets, and of none of others.

    Attributes:
        sets: All that hold them; a field of documents and regular expressions stand alone. None of
            them: all strings.
        without: Names of sets that hold none of them.
        strings: The language.
    """

    sets: frozenset[Named]
    without: frozenset[str] = frozenset()
    strings: Strings = Strings.ANY

    @property
    def order(self) -> tuple[list[str], list[str]]:
        """What they are sorted by."""
        return sorted(map(str, self.sets)), sorted(self.without)


def of_set(name: Named) -> tuple[Members]:
    """Return the members of a set."""
    return (Members(frozenset({name})),)


def not_of_set(name: str) -> tuple[Members]:
    """Return the strings that are no members of a set."""
    return (Members(frozenset(), frozenset({name})),)


def joined_members(members: Iterable[Members]) -> tuple[Members, ...]:
    """Return a union; what is part of others is left out."""
    found: dict[tuple[frozenset[Named], frozenset[str]], Strings] = {}
    for sets, without, strings in members:
        known = found.get((sets, without), Strings.NONE)
        is_any = Strings.ANY in (known, strings)
        found[sets, without] = Strings.ANY if is_any else known | strings
    all_of = [Members(*key, strings) for key, strings in found.items()]
    return tuple(one for one in all_of if not any(_is_part(one, other) for other in all_of))


def _is_part(one: Members, other: Members) -> bool:
    return (
        one != other
        and other.sets <= one.sets
        and other.without <= one.without
        and other.strings in (Strings.ANY, one.strings)
    )


def both_members(
    a: Sequence[Members], b: Sequence[Members], a_strings: Strings, b_strings: Strings
) -> tuple[Members, ...]:
    """Return the strings of both of two unions that are members of sets.

    Args:
        a, b: What each holds of members.
        a_strings, b_strings: What each holds of other strings.

    Raises:
        SchemaUnsupportedError: Of some pieces of documents that cannot be told.
    """
    common = [one for one in a if one in b]
    found: list[Members | None] = [*common]
    for own, other, strings in ((a, b, b_strings), (b, a, a_strings)):
        for one in own:
            if one not in common:
                found.append(_met(one, Members(frozenset(), frozenset(), strings)))
                found += [_met(one, another) for another in other]
    return joined_members(one for one in found if one is not None)


def without_listed(members: Sequence[Members]) -> tuple[tuple[Members, ...], Strings]:
    """Return a union without regular expressions that are a list, and these as strings."""
    listed = {one for one in members if REGEXES in one.sets and REGEXES.are_listed(one.strings)}
    found = Strings.NONE
    for one in listed:
        found = found | one.strings
    return tuple(one for one in members if one not in listed), found


def _met(one: Members, other: Members) -> Members | None:
    """Return what both hold; None where that is empty for sure."""
    if other.strings is Strings.NONE or other.strings.is_empty:
        return None
    is_any = not other.sets and not other.without and other.strings.is_everything
    if is_any or one == other:
        return one
    sets, without = one.sets | other.sets, one.without | other.without
    is_regex = REGEXES in sets
    for alone in sets:
        if isinstance(alone, SpanField) or (alone is REGEXES and (len(sets) > 1 or without)):
            raise undecided(alone)
    if one.strings is Strings.ANY or other.strings is Strings.ANY:
        strings = other.strings if one.strings is Strings.ANY else one.strings
    else:
        strings = one.strings & other.strings
    if is_regex:
        strings = REGEXES.among(strings)
    if sets & without or strings.is_empty:
        return None
    return Members(sets, without, Strings.ANY if strings.is_everything else strings)


def undecided(name: Named) -> SchemaUnsupportedError:
    """Return the error of members that must satisfy what no filter of a list decides."""
    keyword = {str: SET, Regexes: "format"}.get(type(name), SPAN)
    return SchemaUnsupportedError(
        f"strings of {keyword} {str(name)!r} must satisfy something else as well, and "
        "which of them do is not known when a schema is compiled",
        hint=f"let {keyword} stand alone, or beside `type` and alternatives without "
        "strings; leave members out of the set itself",
        keyword=keyword,
    )
