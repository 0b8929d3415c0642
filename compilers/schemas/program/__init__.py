"""Sets of values -> the columns that texts are followed by: ``emit``, ``columns``, ``blanks``."""
