"""Drafts: cheap proposals of the next tokens, and the one pass of the target that verifies them.

Read ``base`` (a draft as the samplers see it), ``proposals`` and its kinds (``models``,
``counts``), ``verify`` (which proposals are accepted), ``chains`` (guesses compared at once),
``speculate`` (the loop, and what records say of it), ``lengths`` and ``pace`` (how many are
proposed, and what pays), ``ledger`` (who pays for which call) and ``named`` (drafts as options name
them). Methods without a draft of their own and ``learning`` import ``base`` alone;
``samplers.wrappers`` says where drafts are opened. The room imports ``walks`` and ``mentored``.
"""
