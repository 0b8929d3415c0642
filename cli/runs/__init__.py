"""One run: records are read, worked on in batches, and written; errors become records.

Commands import from here; it imports ``options`` and ``frame``.
"""
