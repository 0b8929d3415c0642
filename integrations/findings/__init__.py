"""The papers' findings: each a table, figure or theorem, computed anew and held to what it says.

``table`` has the list, ``FINDINGS``, a line each; ``reproduce`` computes them into a folder and
goes on where it stopped. Read ``finding`` (a finding, its checks, tables and plots) and
``laboratory`` (models and data), then a file of findings: ``disc``, ``asap`` (with ``aligned``,
``curves``, ``sygus``, ``trees``), or ``disambiguation``, ``retrieval``, ``top_m``, which ask real
records (``mentions``) by the record sampler (``answers``) and hold the draws to ``laws`` over all
members. ``worlds`` are small enough to enumerate, which ``enumeration`` and ``adaptive`` do in
plain dictionaries that share no code with the samplers; tests hold the samplers to them, too.
Others import ``table`` and ``reproduce``, and worlds and enumerations as they need them.
"""
