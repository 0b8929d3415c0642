"""What is said at the end of a run: its summary, warnings about all of it, what a signal leaves.

``tally`` counts, ``estimates`` warns of masses not to rely on, ``kept`` says how to go on. Commands
and ``runs`` import from here; it imports ``frame``.
"""
