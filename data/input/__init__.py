"""Streams of bytes: opened, decompressed within limits, cut into lines; strict JSON.

Read ``source``, ``decompress``, ``lines`` and ``json_text``. The other rooms of data import from
here.
"""
