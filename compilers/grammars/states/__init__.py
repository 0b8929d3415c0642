"""What all constructions of automata share: states that are lists of integers, equal ones once.

Read ``construction``, ``minimise`` and ``copies`` (states that differ by a count alone); their
loops are compiled (``native/automata``). Nothing of the compiler is imported here; others import
these three.
"""
