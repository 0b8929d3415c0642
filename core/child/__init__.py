"""Work in a process that can be killed: what the compiler of grammars and the judge of texts share.

Read ``process`` (the parent's side: started, spoken to, ended), ``protocol`` (what both sides say)
and ``limits`` (the child's side: memory, time, its end with its parent). Who uses it brings a
module with a ``main`` that serves.
"""
