"""The options that commands share, each declared once.

The command's own file adds what it alone takes. ``runs`` and the commands import from here.
"""
