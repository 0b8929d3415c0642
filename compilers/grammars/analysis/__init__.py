"""What the rules of a grammar say before there are tables: which matter, and how they recurse.

Read ``analyse``; ``graphs`` and ``nullable`` are what it and others count with.
"""
