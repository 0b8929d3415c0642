"""Indentation: line breaks as terminals that are told apart by the columns behind them.

Read ``columns`` (the scanner counts), then ``lay_out``, which others import: it takes the parts of
a grammar with an indenter to those that the engine reads (``native/grammars/indents.h``).
"""
