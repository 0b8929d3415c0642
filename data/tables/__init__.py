"""Tables in columns: Parquet, Arrow files and streams, saved datasets; their rows as JSON values.

Read ``arrow``, ``parquet`` and ``dataset``; ``messages`` and ``footer`` measure Arrow data before
pyarrow reads it, ``column_sizes`` Parquet's, ``cells`` turns cells into values. Others import the
first three and ``cells``.
"""
