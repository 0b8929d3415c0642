"""Task models: their names, and the prompts that they were trained to read.

``python -m tools.training.tasks`` trains them into a folder, one a name; none ships with cdec.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

TASKS = (
    "gloss-lemma",
    "mention-title",
    "concepts-large",
    "concepts-small",
    "arithmetic",
    "ner",
    "query-title",
    "constituency",
)
_AROUND = 160
"""Characters of the document that are read on each side of a mention."""


def gloss_prompt(definition: str) -> str:
    """Return the text that asks for the lemma of a definition."""
    return f"Definition: {definition}\nWord:"


def mention_prompt(text: str, offset: int, length: int) -> str:
    """Return the text that asks for the title of a mention, which stands in brackets.

    Args:
        text: The document; what is far from the mention is left out.
        offset: Where the mention begins, in characters. length: of it.
    """
    left = text[max(0, offset - _AROUND) : offset]
    right = text[offset + length : offset + length + _AROUND]
    # A word that is cut says nothing.
    left = left.partition(" ")[2] if offset > _AROUND else left
    right = right.rpartition(" ")[0] if len(text) > offset + length + _AROUND else right
    marked = f"{left}[{text[offset : offset + length]}]{right}"
    return f"Text: {' '.join(marked.split())}\nTitle:"


def concepts_prompt(concepts: Iterable[str]) -> str:
    """Return the text that asks for a sentence of some concepts."""
    return f"Concepts: {', '.join(concepts)}\nSentence:"


def problem_prompt(question: str) -> str:
    """Return the text that asks for the steps and the answer of a problem as JSON."""
    return f"Problem: {' '.join(question.split())}\nJSON:\n"


def entities_prompt(tokens: Iterable[str]) -> str:
    """Return the text that asks for the entities of a sentence as JSON."""
    return f"Text: {' '.join(tokens)}\nJSON:\n"


def query_prompt(query: str) -> str:
    """Return the text that asks for the title of an article on a query or a claim."""
    return f"Query: {' '.join(query.split())}\nTitle:"


def tree_prompt(words: Iterable[str]) -> str:
    """Return the text that asks for the constituency tree of a sentence."""
    return f"Text: {' '.join(words)}\nTree:"


def is_held_out(name: str, one_in: int) -> bool:
    """Say whether a row of this name is measured on, one in ``one_in`` by hash."""
    return int(sha256(name.encode()).hexdigest(), 16) % one_in == 0


def mention_is_held_out(document: str) -> bool:
    """Say whether a document's mentions were kept from the training of ``mention-title``.

    KORE50 is, and half of the other documents by the hashes of their names.
    """
    return "KORE50" in document or is_held_out(document, 2)


def query_is_held_out(name: str) -> bool:
    """Say whether a query was kept from the training of ``query-title``: a third of them."""
    return is_held_out(name, 3)


def claim_is_held_out(name: str) -> bool:
    """Say whether a claim was kept from the training of ``query-title``: a fifth of them."""
    return is_held_out(name, 5)


def tree_is_held_out(document: str) -> bool:
    """Say whether a document's trees were kept from the training of ``constituency``: a fifth."""
    return is_held_out(document, 5)
