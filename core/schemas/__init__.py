"""JSON Schemas: the program that a schema becomes, and what follows texts by it.

Read ``program`` (the columns); ``program_checks`` holds an artifact's to what it says, ``errors``
are those of schemas that cannot be compiled.
"""
