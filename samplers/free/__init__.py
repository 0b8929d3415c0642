"""Free text, then the constraint: the parts of a text drawn in turn, by whatever method.

Read ``draws`` (the stages of a text, and what its parts are held to), ``writing`` (how free text is
drawn) and ``records`` (what becomes of the parts). ``cdec.core.combine`` has the constraints that
the parts are drawn under; ``samplers.wrappers`` puts ``draws`` around samplers.

The law of a draw is P(free part) * Q(constrained part | free part), in turn where there are
several, as far as the method's law is Q. Free text is drawn from the model's own law, but for what
``core.combine.free_part`` says; methods that take the most probable text take the most probable
event of free text. A constrained part is drawn by the method as any text is, its prompt being what
stands before it: its weight, its masses and their bounds are given the free part. So weights
compare draws that share their free part. Over draws of different free parts, averages with
exp(log_weight) are averages over the model's law given that the whole text satisfies the
constraint, which is P(free part) * P(constrained part | free part), normalised.

Every part has a stream of random numbers of its own, from the draw's seed and the part's number;
the first constrained part has the draw's. Draws of one record that have written the same tokens
share their next part's request, and with it what a method learns from draw to draw.
"""
