"""The text of a schema -> its subschemas: ``source`` (JSON), ``document`` (places, references) and
``checking`` (what keywords take, ``drafts`` since when)."""
