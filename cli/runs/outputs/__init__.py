"""What a run writes, before a model is loaded: whether it may be, and whether it is there already.

``checks`` refuses outputs, ``complete`` knows finished runs. The other modules of ``runs`` import
from here.
"""
