"""One deterministic scanner over bytes, made of all terminals.

Read ``contexts`` (which terminals compete where) and ``build``; ``keywords`` and ``ignoring``
change the terminals beforehand. Others import ``build``, ``contexts`` and ``live_rows``.
"""
