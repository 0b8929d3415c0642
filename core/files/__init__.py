"""Files of cdec's own: whole and synced under their names, or not there at all.

Read ``whole`` (and temporary folders), then ``cache`` (small files in the user's cache that nobody
else can have written), ``remote`` (URLs) and ``fetched`` (files of URLs that must lie on this
machine). Artifacts, trees, counts, manifests and caches are written by the first two.
"""
