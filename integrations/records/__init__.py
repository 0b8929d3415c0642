"""Records in, records out: prompt records as dicts become the samples that ``cdec sample`` draws.

``RecordSampler`` and ``sample_records`` of ``sampling`` are the way in. Read ``tasks`` (a record on
its way; a failure becomes an error object in its place), ``settings`` (what is drawn, what texts
are held to, how it runs), ``sources`` (how the grammars that records bring are compiled),
``tools`` (calls of functions, in the formats of model families; ``wire`` those that are no JSON),
``resolver`` (what one record's texts must belong to), ``drawing`` (records to draws). The
command line runs on these; other libraries' integrations, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.lazy import exports

if TYPE_CHECKING:
    from cdec.integrations.records.sampling import RecordSampler as RecordSampler
    from cdec.integrations.records.sampling import sample_records as sample_records

__all__ = ["RecordSampler", "sample_records"]

__getattr__ = exports(__name__, {"RecordSampler": "sampling", "sample_records": "sampling"})
