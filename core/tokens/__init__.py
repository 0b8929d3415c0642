"""Tokens: the bytes of every token id, and how a text becomes token ids.

Read ``vocabulary`` first; ``sources`` finds what names a tokenizer, ``files`` tells formats apart,
one file a format reads it into ``parts``; ``tokenization`` turns texts into ids; ``shipped`` knows
the names of the models in the package, ``hub`` whether others can be fetched; ``token_trie`` is the
vocabulary as a trie of bytes. Imports nothing but errors, files and the library. Others import
``vocabulary``, ``tokenization``, ``shipped``, ``hub`` and ``token_trie``.
"""
