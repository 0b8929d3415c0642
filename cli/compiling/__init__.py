"""The way of a source to its artifact: read, known again where it is up to date, compiled.

Read ``jobs``, which takes one source or many from the command line to their artifacts, then
``sources``; ``kept`` keeps artifacts that nobody named in the user's cache. The compile commands
import from here; it imports ``runs``, ``options`` and ``frame``.
"""
