"""Draws that learn from each other through the prefix tree of their record.

Read ``descent`` (walks down the visited part), ``rounds`` and ``bookkeeping``; ``saved`` keeps a
tree on disk, and ``filling`` enters what searches looked at. ``asap``, ``exact``, ``topn``,
``beam`` and the scoring of masses import from here.
"""
