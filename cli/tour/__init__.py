"""What ``cdec demo`` shows: the shipped data compiled and drawn from, and five answers compared.

Read ``demonstration``, then ``answers``, which the picture of the README is drawn from as well.
"""
