"""Compiling where it can be killed: a preloaded server process that forks once a source.

Read ``compiler`` (the parent's side), then ``server`` (the child's side), which stand on
``core.child``. What a kind of source brings stands in ``compilers.kinds``; no compiler is imported
here but through its table.
"""
