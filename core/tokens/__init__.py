"""Tokens: the bytes of every token id, and how a text becomes token ids.

Read ``vocabulary`` first. ``sources`` makes one of whatever names a tokenizer: ``files`` tells the
formats of files apart, ``spec`` is what all become, with its encoder; ``locations`` knows the
models in the package, and whether the hub answers. ``token_trie`` is the vocabulary as a trie of
bytes. Imports nothing but errors, files, masks and the library. Others import ``vocabulary``,
``token_trie`` and ``locations``, and ``Vocabulary.from_tokenizer`` what reads tokenizers.
"""

from __future__ import annotations

from cdec.core.lazy import exports

__getattr__ = exports(__name__, {"read_tokenizer": "sources"})
