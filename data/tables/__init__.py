"""Tables in columns: Parquet, Arrow files and streams, saved datasets; their rows as JSON values.

Read ``arrow``, ``parquet`` and ``dataset``; ``messages`` and ``footer`` measure Arrow data before
pyarrow reads it, ``column_sizes`` (with ``compact``) Parquet's pages, ``cell_sizes`` rows before
their cells are made, which ``cells`` turns into values. Others import the first three, ``cells``
and ``cell_sizes``.
"""
