"""Searches for the best texts: beams, and best first with certified bounds.

Read ``beam_search``; then ``best_first``, its ``queue``, what it ``found`` and what that says of
``members``. ``beam``, ``disc`` and ``topn`` import from here.
"""
