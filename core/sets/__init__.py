"""Sets: a compiled list of token sequences, walked as a trie.

Read ``trie`` (the arrays), ``members`` (texts and ids) and ``rows`` (those that may be emitted);
``session`` (what the compiled walks read, and a decoding run) and ``torch_session``; then
``set_constraint``. ``accepted_rows`` holds a set to another constraint, ``report`` shows it,
``byte_trie`` walks texts byte by byte, ``spans`` are the pieces of one document, ``corpus`` those
of many as an artifact. ``chosen`` are the members that satisfy what a schema asks besides, by the
answers of ``known_rows``. ``artifact`` says what a file must satisfy, ``entities`` are what readers
of lists give. Others import ``set_constraint`` and ``entities``, and the compiler ``trie``,
``members`` and ``artifact``.
"""
