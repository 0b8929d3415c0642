"""What lark says of a grammar's finished texts; read by the process of ``cdec.core.child``.

Others import ``parsers.stored_language``.
"""
