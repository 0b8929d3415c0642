"""From a terminal's pattern to the smallest deterministic automaton over bytes.

Read ``terminal``, which calls ``regex``, ``threads`` and ``utf8``; ``counting`` says how much of a
counted repetition is written out, ``halves`` cuts patterns that are too large. Patterns that look
around (``anchors``, ``look_distance``) go through ``looking`` and ``surroundings`` instead of
``threads``. Others import ``terminal``, ``surroundings``, ``charsets``, ``counting`` and
``halves``.
"""
