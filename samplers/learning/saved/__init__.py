"""Trees on disk: one record's prefix tree in an Arrow file, and what it is a tree of.

Read ``file``, then ``columns`` (the tree as flat arrays) and ``key`` (what must agree with the run
that goes on with it). ``rounds`` loads and saves; nothing else of samplers imports from here but
for the type.
"""
