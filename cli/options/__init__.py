"""The options of commands, each declared once: type, default, bounds, help, what it decides.

Read ``decoding``, then ``methods``, which takes the options of methods from ``METHODS``, then
``sampling``. An option that commands share is a field of the dataclass that they share; one that a
single command has may stand with it here. ``runs`` and the commands import from here; what is here
imports the declarations of ``frame`` and of the library, and opens nothing.
"""
