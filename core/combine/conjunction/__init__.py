"""Conjunctions: the token sequences that two constraints both accept.

Read ``constraint`` (with a set, the result is a smaller set; else both are walked side by side),
``session`` (states are pairs of states) and ``dead_ends``. Others import ``constraint``.
"""
