"""Prefix trees: the prefixes a run visited, what they cost, and bounds on what follows each.

Read ``prefix_tree`` and ``kernels``. ``walks`` and ``learning`` import from here; it imports
nothing of samplers.
"""
