"""Streams of bytes: opened, decompressed within limits, cut into lines; strict JSON.

Read ``source``, ``decompress``, ``lines``, ``json_text`` and ``arrivals``. The other rooms of data
import from here.
"""
