"""Keywords of cdec's own, which schemas that are made of Python types hold beside the standard's.

A type's reader takes fewer texts than the standard can say. What has no keyword there has one here;
for other readers of the schema they are comments, as all unknown keywords are.
"""

from __future__ import annotations

NUMBERS = "x-cdec-numbers"
"""Notation of a number, in a way that says what is read: one of ``NUMBER_READERS``."""
UNENFORCED = "x-cdec-unenforced"
"""Demands of the type that masks do not see to: a list of reasons, such as names of validators."""
NOTE = "x-cdec-note"
"""A note to whoever compiles, such as the day that past and future are told by."""

SET = "x-cdec-set"
"""Name of a set whose members strings are; the set is given where the artifact is opened."""

NUMBER_READERS = ("integers", "doubles")
"""``integers``: digits alone, as readers of integers take them. ``doubles``: whatever a double is
neither infinite for nor, but for 0 itself, 0."""
