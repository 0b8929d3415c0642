"""Sets: a compiled list of token sequences, walked as a trie.

Read ``trie`` (the arrays), ``members`` (texts and ids), ``rows`` (those that may be emitted) and
``filter`` (how rows are left out); ``view`` (what the compiled walks read),
``session`` and ``torch_session`` (decoding runs); then ``set_constraint``. ``accepted_rows`` holds
a set to another constraint, ``report`` shows it, ``artifact`` says what a file must satisfy. Others
import ``set_constraint``, and the compiler ``trie`` and ``artifact``.
"""
