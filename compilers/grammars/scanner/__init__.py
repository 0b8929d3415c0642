"""One deterministic scanner over bytes, made of all terminals.

Read ``contexts`` (which terminals compete where) and ``build``, which calls ``kernels`` and
``live_rows``; ``keywords`` and ``ignoring`` change the terminals beforehand. Others import
``build``, ``contexts``, ``ignoring`` and ``reach``.
"""
