"""Entity lists: what is asked of an input's rows, and the entities that they hold.

Read ``request`` and ``source``; ``table_cells`` takes entities from whole columns. Others import
``source``.
"""
