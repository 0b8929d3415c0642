"""Drafts: cheap proposals of the next tokens, and the one pass of the target that verifies them.

Read ``run`` (a draft opened for a batch, and what records say of it), ``proposals`` and its kinds
(``model_draft`` with ``view``, ``guesses`` with ``counts``), ``speculate`` (the loop), ``levels``
and ``verify`` (which proposals are accepted), and ``ledger`` (who pays for which call).
``samplers.base`` opens drafts, and samplers decode with ``speculate``; ``learning`` and
``lookahead`` import from here. It imports ``walks`` and the solver of ``mentored``.
"""
