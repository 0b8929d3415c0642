"""From a terminal's pattern to the smallest deterministic automaton over bytes.

Read ``terminal``, which calls ``regex``, ``threads``, ``utf8`` and ``minimise``. Patterns that look
around (``anchors``, ``look_distance``) go through ``looking`` and ``surroundings`` instead of
``threads``. Others import ``terminal``, ``surroundings``, ``charsets`` and ``row_store``.
"""
