"""Lexing where terminals look at what stands before and behind them.

Read ``refine``, which calls ``rows`` (one scanner for every context and *boundary*: what the text
before a place still asks of the text behind it) and ``tables`` (LR states apart by boundary).
Others import ``refine``.
"""
