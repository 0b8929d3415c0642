"""What every command shares: parsing, configuration, streams, signals, progress, tables.

Read ``registry`` (the list of commands), ``command`` (from declared options to Typer), ``config``,
``console`` and ``signals``. Every other room of cli imports from here.
"""
