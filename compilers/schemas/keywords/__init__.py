"""Keywords: what they accept and what they refuse, a file for each group of them.

Every file has ``HANDLERS``: by keyword, a function for either. A new keyword is a line there, and
one in ``document``.
"""
