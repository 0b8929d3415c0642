"""Searches for the best texts: beams, and best first with certified bounds.

Read ``beam_search``; then ``best_first``, its ``queue`` and ``listings``, and what is said of
the ``members`` found.
``beam``, ``disc`` and ``topn`` import from here.
"""
