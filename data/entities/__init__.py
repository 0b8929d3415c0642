"""Entity lists: one reader a format, and what picks the reader.

Read ``source``, ``request``, then one of ``text``, ``jsonl``, ``csv``, ``parquet``, ``arrow``.
Others import ``source``.
"""
