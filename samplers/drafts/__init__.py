"""Drafts: cheap proposals of the next tokens, and the one pass of the target that verifies them.

Read ``base`` (a draft as the samplers see it), ``opening`` (which draft options name) and ``run``
(what records say of it), ``proposals`` and its kinds (``model_draft`` with ``view``, ``guesses``
with ``counts``), ``speculate`` (the loop), ``levels`` and ``verify`` (which proposals are
accepted), and ``ledger`` (who pays for which call). Methods without a draft of their own and
``learning`` import ``base`` alone; ``samplers.base`` opens drafts through it. The room imports
``walks`` and the solver of ``mentored``.
"""
