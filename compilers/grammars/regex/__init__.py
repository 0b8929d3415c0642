"""Regular expressions as grammars: one terminal, which is all of a text.

Read ``read``, then ``texts``. Both are imported by the compiler of grammars alone.
"""
