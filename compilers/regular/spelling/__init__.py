"""Sets of rational numbers, and the texts that JSON spells them with.

Read ``sets``, then ``texts``, which lays a set out (``tables``) and reads all spellings symbol by
symbol (``steps``). Others import ``sets`` and ``texts``.
"""
