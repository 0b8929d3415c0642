"""Free text, then a constraint: the model writes as it likes until a marker, where members begin.

Read ``free_text`` (what is asked for), ``markers`` (where a marker ends, whatever tokens spell it),
``table`` (which tokens free text may have, and those that finish a marker), ``constraint`` (free
text as a constraint that ends itself at the marker), ``started`` (a constraint of which a token
has begun a member) and ``tagged`` with ``tagged_session`` (members that end at a second marker).
Samplers draw the parts in turn; they import ``constraint``, ``started`` and ``tagged``.

The law of free text: each event is drawn from the model's own law among all tokens, and the end of
the text, but for those struck out: tokens in which a marker ends and that go on in a way in which
no member begins (for a constraint that is walked by tokens, in any way), and padding. What remains
is renormalised at each step. Tokens are struck out where they stand, not by what they lead to: no
other step is changed. Forced into a marker, the model's law is that among the tokens that spell
what is left of it, those included that go on as a member begins, renormalised likewise.
"""
