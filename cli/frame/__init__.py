"""What every command shares: parsing, configuration, streams, signals, progress, tables.

Read ``registry`` (the list of commands), ``declaration`` (what is said of an option), ``command``
(from options to Typer), ``config``, ``console``, ``typed`` (the library's parameters as they are
typed), ``signals``, and ``progress`` with ``frames``. Every other room of cli imports from here.
"""
