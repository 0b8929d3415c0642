"""JSON Schemas: the program that a schema becomes, and what follows texts by it.

Read ``program`` (the columns), then ``schema_constraint``, ``session`` and ``engine`` (what it
calls is in ``native/schemas/``); ``program_checks`` holds an artifact's columns to what they say,
``places`` says where a text is refused, ``spellings`` which number is only spelled otherwise,
``written_forms`` (in the words of ``forms``) which white space and escapes are only others,
``errors`` are those of schemas that cannot be compiled. Others import ``schema_constraint``,
``program`` and ``errors``.
"""
