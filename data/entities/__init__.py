"""Entity lists: one file a format, and the table that picks it.

Read ``source``, ``request``, then one of ``text``, ``jsonl``, ``csv``, ``parquet``. Others import
``source``.
"""
