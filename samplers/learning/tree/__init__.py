"""Prefix trees: the prefixes a run visited, bounds on what follows each, and tree files.

Read ``prefix_tree``, ``kernels`` and ``vectors``; then ``file``, ``columns`` and ``key``, which
keep a tree on disk. ``walks`` and ``learning`` import from here.
"""
