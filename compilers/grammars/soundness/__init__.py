"""Proofs about a grammar: every text that is begun can be completed, and in tokens.

Read ``prove``, then ``decide`` over ``lookahead`` (longer matches that a lexer waits for) and
``completions`` (how stacks end). What is not proved is made so: ``split`` for the parse tables,
``prove`` for the scanner. ``coverage`` says what tokens cannot spell. Others import ``prove`` and
``coverage``.

Words: a *letter* is an input letter of the pushdown system, a terminal with the longer matches
that are *pending* when it ends; a *boundary* is an LR state after a shift with pending matches; its
*ways* are the kernel items by which it can leave the stack, and before which letters.
"""
