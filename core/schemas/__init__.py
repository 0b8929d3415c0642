"""JSON Schemas: the program that a schema becomes, and what follows texts by it.

Read ``program`` (the columns), then ``constraint`` and ``session``.
"""
