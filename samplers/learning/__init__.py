"""Draws that learn from each other through the prefix tree of their record.

Read ``tree/`` (what was visited, with bounds), ``descent`` (walks down the visited part),
``rounds`` and ``bookkeeping``. ``asap``, ``exact`` and the scoring of masses import from here.
"""
