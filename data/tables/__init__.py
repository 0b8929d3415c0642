"""Tables in columns: Parquet, Arrow files and streams, saved datasets; their rows as JSON values.

Read ``arrow``, ``parquet`` and ``dataset``; ``messages`` measures Arrow data before pyarrow reads
it, ``cells`` turns cells into values. Others import all but ``messages``.
"""
