"""How the name of a parameter is typed: the one table of what is not the name with dashes."""

from __future__ import annotations

SPELLINGS: dict[str, tuple[str, ...]] = {
    "K": ("--K", "-K"),
    "artifact": ("--artifact", "-a"),
    "conjoined": ("--and",),
    "input": ("--input", "-i"),
    "model": ("--model", "-m"),
    "n": ("-n", "--n"),
    "output": ("--output", "-o"),
    "path": ("-o",),
    "quiet": ("--quiet", "-q"),
}
"""Parameter → the words that stand for it, where they are not ``--`` and the name with dashes."""


def words_of(name: str) -> tuple[str, ...]:
    """Return the words by which a parameter is typed: ``top_k`` gives ``--top-k``."""
    return SPELLINGS.get(name, ("--" + name.replace("_", "-"),))


def flag_of(name: str) -> str:
    """Return the word that messages use for a parameter: ``K`` gives ``--K``."""
    words = words_of(name)
    return next((word for word in words if word.startswith("--")), words[0])
