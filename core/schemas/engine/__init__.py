"""Compiled kernels that follow JSON texts by a schema's program, and fill token masks.

Read ``fields`` (frames, states and what they hold), ``lists``, then ``objects`` and ``arrays``
(what may follow, by counts), ``strings``, ``ends``, ``steps`` (a byte), ``masks``, ``kernels``
(what sessions call) and ``engine`` (its memory). Knows the program's columns and the headers of
``cdec.core.grammars.engine.pointers``. Others import ``engine`` and ``kernels``.
"""
