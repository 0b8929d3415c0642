"""Pages for browsers: one self-contained file each, readable without scripts and network.

Read ``page``, the frame that all pages share, then ``plots`` (matplotlib, in black and white) and
``evaluation``, the page of an evaluation; ``lines`` and ``findings``, the page of findings. Others
import ``evaluation`` and ``findings``, and ``page`` for pages of their own.
"""
