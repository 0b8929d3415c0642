"""JSON Schemas: the program that a schema becomes, and what follows texts by it.

Read ``program`` (the columns), then ``schema_constraint`` and ``session`` (with the engine; what it
calls is in ``native/schemas/``); ``json_tokens`` is what tokens are within JSON, ``program_checks``
holds an artifact's columns to what they say, ``levels`` says where a text is refused,
``other_forms`` which number, white space or escape is only spelled otherwise, ``validity`` decides
finished texts by the jsonschema package alone, ``formats`` by plain expressions; ``regexes`` reads
those of ECMA-262, as which strings ``regex_strings`` gives them to engines; ``references`` are the
documents that a schema may refer to, ``budgets`` how many tokens strings may have, ``errors`` are
those of schemas that cannot be compiled. Others import ``schema_constraint``, ``program``,
``own_keywords`` and ``errors``.
"""
