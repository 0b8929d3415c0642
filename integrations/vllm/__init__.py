"""vLLM under cdec's constraints: processors of its servers, and cdec's methods over its engine.

``v1`` and ``v2`` are logits processors for its two model runners: the engine's
``logits_processors`` name ``cdec.integrations.vllm.v1:ConstraintProcessor``, no entry point does.
``requests`` is what both ask of a request, ``reasoning`` what a model writes before its text;
``middleware`` has the constraint compiled before, off the server's event loop. ``engine`` makes an
engine in this process whose logits are kept, ``model`` is the ``LanguageModel`` over it, and
``worker`` makes both in workers of Ray's. What is asked, allowed and masked is decided by
``cdec.integrations.serving``.
"""
