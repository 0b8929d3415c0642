"""Model repositories: found, and checked before anything of them is loaded.

Read ``trust`` (its config, its own code), then ``weights`` (which files weights are read from).
"""
