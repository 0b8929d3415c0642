"""Compiler of sets: from a list of entities to a set artifact.

Read ``compile``, then ``job``, which calls ``encode`` and ``rows``; ``token_rows`` checks members
that are given as token ids. ``options`` says what goes in and comes out, ``kind`` how an artifact
is verified. ``corpus`` compiles documents whose pieces are members. Others import ``compile``,
``corpus`` and ``options``.
"""
