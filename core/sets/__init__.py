"""Sets: a compiled list of token sequences, walked as a trie.

Read ``trie`` (the arrays) and ``view`` (what kernels read of them), ``kernels`` and ``primitives``
(the walks), ``session`` and ``torch_session`` (decoding runs), ``constraint``; ``members`` holds
texts and ids, ``filter`` leaves rows out, ``artifact`` says what a file must satisfy. Others
import ``constraint``, and the compiler ``trie``, ``build_kernels`` and ``artifact``.
"""
