"""Inputs as rows: lines, JSON, CSV, Parquet, Arrow, saved datasets; each row with its place.

Read ``row`` and ``formats``, the table of formats, then one of their readers: ``text``, ``csv``,
``tables`` (with ``dataset``; ``table_process`` and ``table_server`` open tables in a process that
can be killed, ``cells`` makes values of their cells). ``count`` says how many rows a file has.
Those who read rows import ``formats``, ``row`` and ``table_process``: entities, prompts.
"""
