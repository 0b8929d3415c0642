"""Automata of terminals: from a pattern to the smallest deterministic automaton over bytes.

Read ``terminal``, then what it calls: ``program`` (a pattern as ordered threads; ``pattern_checks``
refuses what is none), ``determinise`` (threads to an automaton over classes of characters; those
that look around move in ``looking``) and ``characters`` (classes to bytes of UTF-8). Others import
any of these.
"""
