"""The runs of ``sample``, ``mass``, ``score`` and ``check``: records in, records out, in order.

The way of a record: ``inputs`` reads it, ``artifacts`` and ``constraints`` have read what the run
names, before ``models`` opens the model; ``loop`` carries batches of records through a function,
turns a failure into an error object in its place, and counts in ``tally``. ``sample`` is planned by
``plan``, with ``method``, ``draft`` and ``output``; ``parts`` deals it out to workers. Commands
import from here, ``mass`` is the shortest of them; it imports ``options`` and ``frame``.
"""
