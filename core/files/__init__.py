"""Files as cdec writes all of its own: whole and synced under their names, or not there at all.

Read ``whole``, then ``cache`` (small files in the user's cache that nobody else can have written),
``remote`` (URLs) and ``fetched`` (files of URLs that must lie on this machine).
Artifacts, trees, counts, manifests and caches are written by these two.
"""
