"""Numbers of tokens that terminals and rules may have: checked, and why a text is refused.

A token counts for a terminal where a byte of it stands in the terminal's text, or in what the lexer
reads as the terminal at first, where it reads ahead. For a rule all tokens count from that of its
first byte to that of its last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.checks import require
from cdec.core.errors import FitError, LimitError
from cdec.core.grammars.columns import GrammarArrays
from cdec.core.grammars.explain import Names, describe_state
from cdec.core.grammars.session import DEFAULT_BUDGET, Engine, GrammarSession
from cdec.core.native import library
from cdec.core.token_budgets import BUDGETS_KEY, budgets_of, spelled_furthest
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.core.verdicts import follow, line_and_column

RULES_KEY, STATES_KEY = "cdec.rule_budgets", "cdec.state_budgets"
"""Metadata: pairs as ``BUDGETS_KEY`` has them, of rules and of LR states."""
FOLLOWED_KEY = "cdec.budgets_followed"
"""Metadata: "1" where the states are few, so that it is known of each whether it leads on."""
ATTRIBUTES_KEY = "cdec.attributes"
"""Metadata: what is left blank in the source, as pairs of a place and a text."""
BUDGET_KEYS = (BUDGETS_KEY, RULES_KEY, STATES_KEY, FOLLOWED_KEY)
_MOST_NODES = 1 << 20
"""Nodes of the vocabulary's trie that are visited to follow all states: a tenth of a second."""
_MOST_TOKENS = 1 << 20
"""Of a rule, beyond which its shortest text is not looked for."""


@dataclass(frozen=True, eq=False)
class GrammarBudgets:
    """How many tokens the parts of a grammar's texts may have.

    Attributes:
        terminals: int32[terminals], -1 for any; None: all may have any.
        rules: int32[rules]; the same.
        states: int32[LR states] the least number of a rule that what a state stands for may begin,
            -1 for none.
        is_followed: The states are few, so that each was followed.
    """

    terminals: NDArray[np.int32] | None
    rules: NDArray[np.int32] | None
    states: NDArray[np.int32]
    is_followed: bool

    @classmethod
    def of(cls, arrays: GrammarArrays, metadata: Mapping[str, str]) -> GrammarBudgets | None:
        """Read what an artifact records; None: all may have any number.

        Raises:
            ArtifactInvalidError: What is stored are no such numbers.
        """
        lr_states = len(arrays.action_offsets) - 1
        terminals = budgets_of(metadata, len(arrays.ignored))
        rules = budgets_of(metadata, len(arrays.rule_lhs), RULES_KEY)
        states = budgets_of(metadata, lr_states, STATES_KEY)
        if terminals is None and rules is None:
            return None
        none = np.full(lr_states, -1, np.int32)
        is_followed = rules is not None and metadata.get(FOLLOWED_KEY) == "1"
        return cls(terminals, rules, none if states is None else states, is_followed)

    @property
    def are_exact(self) -> bool:
        """Whether no text is missing whose parts have at most so many tokens."""
        return self.rules is None or self.is_followed

    def add_to(self, engine: Engine, vocabulary: Vocabulary) -> None:
        """Hold an engine to them, before the first session.

        Args:
            engine: Of the grammar.
            vocabulary: As the scanner reads it.

        Raises:
            LimitError: A number too large for so many LR states.
        """
        trie = TokenTrie.of(vocabulary).arrays()
        if self.terminals is not None:
            engine.add_budgets(self.terminals, trie)
        if self.rules is not None:
            self._add_rules(engine, self.rules, engine.counting(trie))

    def _add_rules(self, engine: Engine, most: NDArray[np.int32], trie: Any) -> None:
        given = (engine.handle, most, self.states, self.is_followed, trie)
        if library.grammar_engine_add_rule_budgets(*given) < 0:
            raise LimitError(
                f"a rule has {int(most.max()):,} tokens, too many to count for a grammar of "
                f"{len(self.states):,} parser states",
                hint="give it fewer, or none",
                limit="max_tokens",
            )

    def session(
        self, arrays: GrammarArrays, general: bool, vocabulary: Vocabulary
    ) -> GrammarSession:
        """Return a session of its own."""
        engine = Engine(arrays, general=general, end_ids=(), budget=DEFAULT_BUDGET)
        self.add_to(engine, vocabulary)
        trie = library.hold_token_trie(TokenTrie.of(vocabulary).arrays())
        return GrammarSession(engine, vocabulary.width, None, lambda: trie)


def with_attributes(source: str, metadata: Mapping[str, str]) -> str:
    """Return a grammar's source with what is left blank in it, where numbers of tokens stood.

    Raises:
        ArtifactInvalidError: What is stored are no such pairs.
    """
    try:
        pairs = [
            (int(at), str(said)) for at, said in json.loads(metadata.get(ATTRIBUTES_KEY, "[]"))
        ]
    except (ValueError, TypeError, OverflowError, RecursionError):
        pairs = [(-1, "")]
    require(all(at >= 0 for at, _ in pairs), ATTRIBUTES_KEY, "pairs of a place and a text")
    for at, said in pairs:
        source = source[:at] + said + source[at + len(said) :]
    return source


def are_followed(
    arrays: GrammarArrays, metadata: Mapping[str, str], vocabulary: Vocabulary
) -> bool:
    """Say whether a grammar whose rules have numbers has so few states that each is followed."""
    budgets = GrammarBudgets.of(arrays, metadata)
    if budgets is None or budgets.rules is None:
        return False
    session = budgets.session(arrays, _is_general(metadata), vocabulary)
    count = np.empty(1, np.int64)
    session._finish(0, 1, library.grammar_follow_all, _MOST_NODES, count)
    return bool(count[0] >= 0)


def require_budgets(
    arrays: GrammarArrays, metadata: Mapping[str, str], vocabulary: Vocabulary
) -> None:
    """Check that parts can be written with as many tokens as they may have.

    Args:
        arrays: The compiled grammar.
        metadata: Of its artifact.
        vocabulary: As the scanner reads it.

    Raises:
        FitError: One needs more; it says which, and how many.
    """
    budgets = GrammarBudgets.of(arrays, metadata)
    if budgets is None:
        return
    names = Names.from_metadata(arrays, metadata)
    if budgets.terminals is not None:
        _require_terminals(arrays, budgets.terminals, names, vocabulary)
    if budgets.rules is not None and not _has_text(budgets, arrays, metadata, vocabulary):
        raise _too_few(budgets, arrays, metadata, vocabulary)


def _require_terminals(
    arrays: GrammarArrays, most: NDArray[np.int32], names: Names, vocabulary: Vocabulary
) -> None:
    engine = Engine(arrays, general=False, end_ids=(), budget=DEFAULT_BUDGET)
    engine.add_budgets(most, TokenTrie.of(vocabulary).arrays())
    for terminal in np.flatnonzero(most >= 0).tolist():
        shortest, number = engine.fewest_of_terminal(terminal), int(most[terminal])
        if number < shortest:
            name = names.terminal(terminal)
            raise FitError.of_part(f"terminal {name}", f"max_tokens of {name}", number, shortest)


def _is_general(metadata: Mapping[str, str]) -> bool:
    return bool(json.loads(metadata.get("cdec.options", "{}")).get("lexer") == "dynamic")


def _has_text(
    budgets: GrammarBudgets,
    arrays: GrammarArrays,
    metadata: Mapping[str, str],
    vocabulary: Vocabulary,
) -> bool:
    session = budgets.session(arrays, _is_general(metadata), vocabulary)
    return int(session.fewest_tokens(session.start(1))[0]) < np.iinfo(np.int64).max


def _too_few(
    budgets: GrammarBudgets,
    arrays: GrammarArrays,
    metadata: Mapping[str, str],
    vocabulary: Vocabulary,
) -> FitError:
    """Return the error of rules that no text keeps: of one, with the number that it needs."""
    names, rules = Names.from_metadata(arrays, metadata), budgets.rules
    assert rules is not None
    for number in np.unique(rules[rules >= 0]).tolist():
        for lhs in np.unique(arrays.rule_lhs[rules == number]).tolist():
            own = arrays.rule_lhs == lhs

            def alone(most: int, own: NDArray[np.bool_] = own) -> bool:
                changed = np.where(own, most, -1).astype(np.int32)
                states = np.where(budgets.states >= 0, most, -1).astype(np.int32)
                one = GrammarBudgets(budgets.terminals, changed, states, False)
                return _has_text(one, arrays, metadata, vocabulary)

            if alone(number):
                continue
            low, high = number, 2 * number
            while high < _MOST_TOKENS and not alone(high):
                low, high = high, 2 * high
            if high >= _MOST_TOKENS:
                continue
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if alone(middle) else (middle, high)
            name = names.nonterminal(lhs)
            return FitError.of_part(f"rule {name}", f"max_tokens of {name}", number, high)
    return FitError(
        "no text was found whose rules have at most so many tokens each",
        hint="raise max_tokens of the rules",
    )


def budget_refusal(
    session: GrammarSession,
    free: GrammarSession,
    names: Names,
    budgets: GrammarBudgets,
    vocabulary: Vocabulary,
    text: bytes,
) -> dict[str, Any] | None:
    """Return where a text of the grammar has too many tokens, however it is spelled; None: nowhere.

    Args:
        session: Of the grammar. free: The same without numbers of tokens.
        names: Of its terminals.
        budgets: Of its parts.
        vocabulary: As the scanner reads it.
        text: A member but for these.
    """
    ids = {piece: token for token, piece in enumerate(vocabulary.token_bytes) if piece}
    byte, may_end = spelled_furthest(session, text, ids)
    if byte == len(text) and may_end:
        return None
    state = follow(free, int(free.start(1)[0]), text[:byte]).state
    under_way = describe_state(free, state, names).configurations[0].under_way
    terminals = [] if budgets.terminals is None else budgets.terminals.tolist()
    most = {names.terminal(n): m for n, m in enumerate(terminals) if m >= 0}
    held = {name: most[name] for name in under_way if name in most}
    if not held and budgets.rules is not None:
        owners = names.arrays.rule_lhs.tolist()
        of_rules = zip(owners, budgets.rules.tolist(), strict=True)
        held = {names.nonterminal(lhs): number for lhs, number in of_rules if number >= 0}
    what = ", ".join(f"{name} in {number} tokens" for name, number in held.items())
    line, column = line_and_column(text, byte)
    return {
        "byte": byte,
        "line": line,
        "column": column,
        **({"max_tokens": max(held.values())} if held else {}),
        "reason": f"no way to spell {what or 'its terminals in as few tokens'} leads further",
    }
