"""The run of ``sample`` on many machines: records are dealt out to workers, reports come back.

``parts`` is the run; what workers do is ``cdec.integrations.ray``. ``cdec.cli.sample`` imports it.
"""
