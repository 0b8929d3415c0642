"""The jsonschema package's verdicts on finished texts, in the process of ``core.child.readers``.

Read ``reader`` (a schema as its artifact stores it), ``instances`` (JSON texts as exact values) and
``formats`` (what strings a format has, by the standard library). Others import
``reader.stored_language``.
"""
