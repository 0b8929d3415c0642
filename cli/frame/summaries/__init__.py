"""What people read of artifacts: reports of compilers, what ``inspect`` and ``check`` say.

``sets`` and ``grammars`` show what was compiled, ``overview`` what an artifact holds, ``explained``
a text's way through a grammar. Commands import from here; it imports ``tables`` and ``console``.
"""
