"""Artifacts: one Arrow file each, written whole, verified once, opened as a constraint.

Read ``write``, then ``frame`` (what is checked before Arrow sees a byte), ``read``, ``checks`` (of
columns, for all kinds) and ``opened`` (the base of constraints that open from files, and which kind
opens as which). Others import ``write_artifact``, ``read_artifact``, ``bind_artifact`` and
``open_artifact``, which is both.
"""
