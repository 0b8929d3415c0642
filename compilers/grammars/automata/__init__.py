"""From a terminal's pattern to the smallest deterministic automaton over bytes.

Read ``terminal``, which calls ``regex``, ``threads``, ``utf8`` and ``minimise``. Others import
``terminal``, ``charsets`` and ``row_store``.
"""
