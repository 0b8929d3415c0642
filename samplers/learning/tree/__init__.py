"""Prefix trees: the prefixes a run visited, what they cost, and bounds on what follows each.

Read ``prefix_tree``, ``bracket`` (what the bounds say of P(S) and of a text) and ``kernels``. All
rooms of samplers may import from here; it imports nothing of samplers.
"""
