"""Texts that loop: white space that goes on, or a piece of up to 256 bytes again and again.

Read ``kernels`` (one counter a period), then ``finder`` (loops of whole texts) and ``watch`` (of
walks, token by token). It imports nothing of samplers.
"""
