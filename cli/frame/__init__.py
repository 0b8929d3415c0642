"""The frame of every command: parsing, configuration, streams, signals, progress, tables.

Read ``registry`` (the list of commands), ``declaration`` (what is said of an option), ``command``
(from options to Typer), ``config``, ``help``, ``console`` (what is printed, parameters of the
library as they are typed), ``process`` (limits, standard streams, signals) with ``interruption``,
and ``progress``; ``tables`` and ``summaries`` are what people read. Every other room of cli imports
from here.
"""
