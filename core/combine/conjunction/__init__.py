"""Conjunctions: the token sequences that two constraints both accept.

Read ``constraint`` and ``session`` (states are pairs of states), ``dead_ends`` (what is pruned),
then ``sets`` and ``rows``: with a set, the result is a smaller set. Others import ``constraint``.
"""
