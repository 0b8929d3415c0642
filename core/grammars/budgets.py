"""Numbers of tokens that terminals may have: checked, and why a text is refused.

A token counts for a terminal where a byte of it stands in the terminal's text, or in what the lexer
reads as the terminal at first, where it reads ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cdec.core.errors import FitError
from cdec.core.grammars.columns import GrammarArrays
from cdec.core.grammars.explain import Names, describe_state
from cdec.core.grammars.session import DEFAULT_BUDGET, Engine, GrammarSession
from cdec.core.token_budgets import budgets_of, spelled_furthest
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.core.verdicts import follow, line_and_column


def require_budgets(
    arrays: GrammarArrays, metadata: Mapping[str, str], vocabulary: Vocabulary
) -> None:
    """Check that terminals can be written with as many tokens as they may have.

    Args:
        arrays: The compiled grammar.
        metadata: Of its artifact.
        vocabulary: As the scanner reads it.

    Raises:
        FitError: One needs more; it says which, and how many.
    """
    most = budgets_of(metadata, len(arrays.ignored))
    if most is None:
        return
    names = Names.from_metadata(arrays, metadata)
    engine = Engine(arrays, general=False, end_ids=(), budget=DEFAULT_BUDGET)
    engine.add_budgets(most, TokenTrie.of(vocabulary).arrays())
    for terminal in np.flatnonzero(most >= 0).tolist():
        shortest, number = engine.fewest_of_terminal(terminal), int(most[terminal])
        if number < shortest:
            name = names.terminal(terminal)
            raise FitError.of_part(f"terminal {name}", f"max_tokens of {name}", number, shortest)


def budget_refusal(
    session: GrammarSession,
    free: GrammarSession,
    names: Names,
    vocabulary: Vocabulary,
    text: bytes,
) -> dict[str, Any] | None:
    """Return where a text of the grammar has too many tokens, however it is spelled; None: nowhere.

    Args:
        session: Of the grammar. free: The same without numbers of tokens.
        names: Of its terminals.
        vocabulary: As the scanner reads it.
        text: A member but for these.
    """
    ids = {piece: token for token, piece in enumerate(vocabulary.token_bytes) if piece}
    byte, may_end = spelled_furthest(session, text, ids)
    if byte == len(text) and may_end:
        return None
    state = follow(free, int(free.start(1)[0]), text[:byte]).state
    under_way = describe_state(free, state, names).configurations[0].under_way
    most = {names.terminal(n): int(m) for n, m in enumerate(session.budgets) if m >= 0}
    held = {name: most[name] for name in under_way if name in most}
    what = ", ".join(f"{name} in {number} tokens" for name, number in held.items())
    line, column = line_and_column(text, byte)
    return {
        "byte": byte,
        "line": line,
        "column": column,
        **({"max_tokens": max(held.values())} if held else {}),
        "reason": f"no way to spell {what or 'its terminals in as few tokens'} leads further",
    }
