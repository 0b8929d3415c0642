"""Regular expressions as grammars: one terminal, which is all of a text.

Read ``read``, then ``texts``; ``ecma`` writes what other engines read in the syntax of ``re``, for
``compilers.regular`` as well.
"""
