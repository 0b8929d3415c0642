"""What lark says of a grammar's finished texts; read by the process of ``cdec.core.validity``.

Others import ``parsers.stored_language``.
"""
