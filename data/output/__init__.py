"""Records that go out: the writer, the manifest beside the file, and resuming what was interrupted.

Read ``writer``, which opens them, ``forms``, which says what a name means, then ``lines`` and
``staged`` with ``parquet``, ``csv_table`` and ``compress``, and ``manifest``; ``terminal`` is for
what people look at.
"""
