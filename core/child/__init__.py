"""Work in a process that can be killed: compiling, verdicts on finished texts, chat templates.

Read ``process`` (the parent's side: a server that is started, spoken to, ended) and ``serving``
(the child's side: messages, limits on itself, its end with its parent). ``judge`` asks for verdicts
of independent readers, which ``readers`` builds in the child; the readers stand with their kinds:
``grammars.validity`` (lark), ``schemas.validity`` (jsonschema), ``models.template_reader``. The
compilers' server is ``cdec.compilers.child``.
"""
