"""What the jsonschema package says of finished texts; read by the process of ``core.validity``.

Read ``reader`` (a schema as its artifact stores it), ``instances`` (JSON texts as exact values) and
``formats`` (what strings a format has, by the standard library). Others import
``reader.stored_language``.
"""
