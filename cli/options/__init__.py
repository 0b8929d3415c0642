"""The options of commands, each declared once: type, default, bounds, help, what it decides.

Read ``shared``, then ``model``, ``methods`` (which takes the options of methods from ``METHODS``),
and ``sampling``. Options that commands share are a group, a dataclass that each of them lists; one
that a single command has stands with it. ``runs`` and the commands import from here; what is here
imports the declarations of ``frame`` and of the library, and opens nothing.
"""
