"""From a grammar's text to an artifact: definition, automata, parse tables, subterminal trees.

Read ``definition`` (what a grammar is), then ``compile``, the pipeline, which calls ``source``
(``lark/`` or ``ebnf/``), ``analysis``, ``parser/``, ``scanner/`` (with ``automata/``),
``soundness/``, ``trees/`` and ``assemble``; ``child/`` does all of it in a process that can be
killed. Others import ``compile``, ``options``, ``report`` and ``child.compiler``.
"""
