"""The command line: arguments, progress, printing and wiring; one file a command.

Read ``app`` (the entry), ``frame/`` (what every command stands in), ``options/`` (what commands
share), ``runs/`` (the one loop over records), then a command such as ``sample``. Nothing imports
from here.
"""
