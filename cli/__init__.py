"""The command line: arguments, progress, printing and wiring; one file a command.

Read ``app`` (the entry), ``frame/`` (what every command stands in), ``options/`` (what commands
share), ``runs/`` (the one loop over records), then a command such as ``sample``. ``in_place`` makes
artifacts of sources that commands are given in the place of one. Nothing imports from here.
"""
