"""The runs of ``sample``, ``mass``, ``score`` and ``check``: records in, records out, in order.

The way of a record: ``inputs`` reads it, ``artifacts`` has read what the run names, before
``models`` opens the model; ``requirements`` says what the record's texts must belong to; ``loop``
carries batches of records through a function, and turns a failure into an error object in its
place. What each command does with these is ``sample`` (planned by ``plan``, with ``method``,
``draft`` and ``reward``), ``mass``, ``score`` and ``check``; read ``mass`` first, it is the
shortest. ``tree`` is what keeping a record's tree asks of a run. Commands import from here; it
imports ``options`` and ``frame``.
"""
