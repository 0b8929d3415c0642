"""Verdicts on finished texts from independent readers, in a process that can be killed.

Read ``language`` (what is asked about), ``checker`` (what a constraint asks), ``judge`` (the
parent's side of the process, one for all constraints) and ``server`` (the child's side). The
readers stand with their kinds: ``grammars.validity`` (lark), ``schemas.validity`` (jsonschema).
Others import ``language``, ``checker``, and ``judge`` for its warnings.
"""
