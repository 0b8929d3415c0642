"""Drafts: cheap proposals of the next tokens, and the one pass of the target that verifies them."""
