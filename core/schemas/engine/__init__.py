"""Compiled kernels that follow JSON texts by a schema's program, and fill token masks.

Read ``fields`` (frames, states and what they hold), ``lists``, then ``objects`` and ``arrays``
(what may follow, by counts), ``texts`` (what may not come again), ``strings``, ``ends``,
``members``, ``layout``, ``steps`` (a byte), ``stepping``, the room ``masks``, ``kernels`` (what
sessions call) and ``engine`` (its memory). Knows the program's columns and the headers of
``cdec.core.grammars.engine.pointers``. Others import ``engine`` and ``kernels``.
"""
