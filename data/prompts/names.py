"""Names of record fields: which are slips for a name that is read, and which nothing reads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

_SHORTEST = 5
"""Shorter names (id, n, seed) are too near to too many words."""
_TWO_SLIPS = 10
"""In a name of one word and this length, two letters may be wrong."""
_WORDS = frozenset({"scheme", "constrained", "temperate"})
"""Words in their own right, though a slip away from a name that is read."""
_LONGEST = 40
_MOST_UNREAD = 12

CONSTRAINT_FIELDS = frozenset(
    {
        "guided_choice",
        "guided_grammar",
        "guided_json",
        "guided_regex",
        "json_schema",
        "response_format",
        "structured_outputs",
    }
)
"""Names that other programs give to a constraint that a request brings."""
_SCHEMA_KEYS = frozenset({"$schema", "$ref", "type", "properties", "items", "enum", "anyOf"})


@dataclass
class OtherFields:
    """Treatment of the fields of records that cdec does not read itself.

    Attributes:
        read: Names that a reward reads; None where code of somebody's own may read any. Those of
            a template are added where it is known.
        passed_on: Whether results carry them, for whoever reads those.
        keeps_all: Whether they carry a record's own fields as well, all but the id.
        strict_fields: Whether a field that nothing reads is refused.
        unread: Names that were met and that nothing reads, the first of them; filled on the way.
    """

    read: frozenset[str] | None = frozenset()
    passed_on: bool = True
    keeps_all: bool = False
    strict_fields: bool = False
    unread: dict[str, None] = field(default_factory=dict)

    def note(self, name: str) -> None:
        """Note a name that nothing reads."""
        if not self.passed_on and len(self.unread) <= _MOST_UNREAD:
            self.unread[name] = None

    @property
    def warning(self) -> str | None:
        """Warning at the end of a run of the fields that nothing read; None for nothing."""
        if not self.unread:
            return None
        names = [repr(name) for name in self.unread]
        more = " and more" if len(names) > _MOST_UNREAD else ""
        listed = ", ".join(names[:_MOST_UNREAD])
        return (
            f"nothing reads the field{'s' if len(names) > 1 else ''} {listed}{more} of the "
            "records: no template, no reward, no output; `strict_fields` refuses such records"
        )


def near_name(name: str, known: Collection[str]) -> str | None:
    """Return the name that was meant, where ``name`` is a slip for one; None where it is not.

    A slip is another case or separator (``maxTokens``), a missing plural (``candidate``), or a
    wrong, missing, superfluous or swapped letter, two in long names. Plurals of singular names
    (``grammars``), names with a digit more (``prompt2``) or a leading underscore, and words in
    their own right (``scheme``) are none.

    Args:
        name: A name that is not read.
        known: The names that are.
    """
    if name.startswith("_") or not name.isascii() or len(name) > _LONGEST:
        return None
    return _near(name, tuple(sorted(known)))


@lru_cache(maxsize=4096)
def _near(name: str, known: tuple[str, ...]) -> str | None:
    lower, plain = name.lower(), _plain(name)
    for meant in known:
        if len(meant) >= _SHORTEST and plain == _plain(meant):
            return meant
    if lower in _WORDS or any(character.isdigit() for character in lower):
        return None
    return next((meant for meant in known if _is_slip(lower, meant)), None)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def _is_slip(name: str, meant: str) -> bool:
    if len(meant) < _SHORTEST or name == meant + "s":
        return False
    slips = 2 if len(meant) >= _TWO_SLIPS and "_" not in meant else 1
    forms = [(meant, slips)]
    if meant.endswith("s"):
        forms.append((meant.removesuffix("s"), slips - 1))
    return any(abs(len(name) - len(form)) <= 1 and _distance(name, form) <= n for form, n in forms)


def _distance(one: str, other: str) -> int:
    """Return how many letters are wrong, missing, superfluous or swapped with the next.

    The optimal string alignment distance; cost: the product of the lengths.
    """
    before, row = [0] * (len(other) + 1), list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, its in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != its))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == its:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def is_constraint_of_others(name: str, value: object) -> bool:
    """Say whether a field is how another program is told what an answer must be."""
    if name == "json":
        # A record may well carry an object of that name; what looks like a schema was meant so.
        return value is True or (isinstance(value, dict) and not _SCHEMA_KEYS.isdisjoint(value))
    return name in CONSTRAINT_FIELDS
