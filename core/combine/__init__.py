"""Constraints made of constraints: both of two, all but some texts, a prompt's cut end healed.

Read ``wrapped`` (what all of them forward), ``conjunction``, ``denial``, ``healing``, ``prefill``,
texts that begin with a given one, ``fitting``, texts that end within a number of tokens, and
``canonical``, texts as their tokenizer spells them (of grammars and schemas in the library,
``native/canonical``), and ``templated``, texts whose fixed parts are spelled apart.
``free_text`` says what a model writes freely until a marker, where members begin: ``markers``
finds markers whatever tokens spell them,
``free_part`` is free text as a constraint that ends itself there, ``tagged`` has the members behind
a marker, ``free_parts`` all parts of a text, and them as one constraint, ``framed`` members between
two forced texts, ``thinking`` how models think. ``rewritten`` has texts of a constraint that are
written otherwise than its members.
``restriction`` applies conjunction and denial to many constraints alike; ``sorted_tokens`` looks
tokens up by their bytes. Samplers draw the parts of free text in turn.
"""
