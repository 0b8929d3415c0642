"""Records that go out: the writer, the manifest beside the file, and resuming what was interrupted.

Read ``writer``, which opens them, ``forms``, which says what a name means, then ``lines`` and
``staged`` with ``parquet``, ``csv_table`` (its rows: ``rows``) and ``compress``, ``manifest`` and
``resume``; ``table`` has the columns of samples, ``lock`` keeps second writers out, ``terminal``
is for what people look at. Others import ``writer``, ``forms``, ``rows`` and ``terminal``.
"""
