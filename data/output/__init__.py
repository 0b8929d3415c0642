"""Records that go out: the writer, the manifest beside the file, and resuming what was interrupted.

Read ``writer``, which opens them, then ``lines`` and ``parquet``, ``manifest`` and ``resume``;
``table`` has the columns of samples, ``lock`` keeps second writers out, ``terminal`` is for what
people look at. Others import ``writer``, ``table`` and ``terminal``.
"""
