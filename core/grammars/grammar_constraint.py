"""GrammarConstraint: a compiled grammar as a constraint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from cdec.core.artifacts.opened import StoredConstraint
from cdec.core.artifacts.read import ArtifactFile, ArtifactKind
from cdec.core.constraint import CONSERVATIVE, EXACT, Facts, NarrowedSet, no_set
from cdec.core.device_session import on_device
from cdec.core.errors import UsageError
from cdec.core.grammars.artifact import check_grammar, check_grammar_shape, sets_of
from cdec.core.grammars.budgets import (
    BUDGET_KEYS,
    GrammarBudgets,
    budget_refusal,
    require_budgets,
    with_attributes,
)
from cdec.core.grammars.columns import COLUMNS, GrammarArrays, arrays_from
from cdec.core.grammars.explain import (
    Names,
    TreeView,
    describe_subterminal_tree,
    explain,
    text_refusal,
    token_refusal,
)
from cdec.core.grammars.members import (
    Member,
    Reading,
    has_stand_in,
    member_records,
    reading_of,
    refused_member_at,
    with_stand_ins,
)
from cdec.core.grammars.regular_reach import RegularReach, is_measured
from cdec.core.grammars.session import DEFAULT_BUDGET, MASK_WORK, Engine, GrammarSession, Work
from cdec.core.grammars.special import SpecialTokens, is_stand_in
from cdec.core.native import library
from cdec.core.session import Session
from cdec.core.sets.spelled import spelled
from cdec.core.sets.within import MemberTexts, given_sets, narrowed_sets, require_pinned
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.core.verdicts import TokenRefusal, line_and_column

__all__ = ["GrammarConstraint"]

_MOST_SHARED = 1 << 17
"""States of a session that is shared."""
_FOR_MACHINES = ("names", "characters")
"""Metadata as long as a grammar that say nothing its source does not."""


class GrammarConstraint(StoredConstraint):
    """The texts of a grammar.

    Args:
        arrays: The compiled grammar.
        vocabulary: Of the model that draws; its end ids end members.
        metadata: Of the artifact: ``cdec.options`` (``lexer``), ``cdec.names``, ``cdec.sound``,
            ``cdec.grammar`` and what ``accepts`` needs.
        lookahead: Terminals that may begin within a token after the first; None for any number
            (minimally invasive), 0 for one terminal at a time (DOMINO's naive masks).
        memo_bytes: Most bytes of masks, memos and working space that the sessions together keep
            from call to call, beyond what they begin with (small tables, the artifact's automaton
            and its index). Not counted: the parser's stacks, of which a new session begins anew
            where they fill a quarter of it and 256 KiB; and what a session has for itself, in which
            remembered steps take a quarter of it (1 KiB at least, 4 MiB at most).
        mask_work: Steps of the parsers for one mask, or for one token that is followed; sessions
            raise ``LimitError`` where it takes more, and stay usable. Some ten seconds.

    Attributes:
        sets: Those whose members are texts of terminals, as far as they are given.

    Raises:
        UsageError: The vocabulary has no end-of-sequence id, or a number is out of bounds.
    """

    of_kind = Facts(kind="grammar", has_terminals=True, takes_bytes=True, has_speculation_keys=True)
    artifact = ArtifactKind(COLUMNS, check_grammar_shape, check_grammar, 3)
    tree_parameters = frozenset({"state", "width"})

    def __init__(
        self,
        arrays: GrammarArrays,
        vocabulary: Vocabulary,
        metadata: Mapping[str, str],
        *,
        lookahead: int | None = None,
        memo_bytes: int = DEFAULT_BUDGET,
        mask_work: int = MASK_WORK,
    ) -> None:
        if not vocabulary.eos_token_ids:
            raise UsageError(
                "texts of a grammar end with an end-of-sequence id, the vocabulary has none",
                hint="Name one with Vocabulary.with_eos.",
            )
        if lookahead is not None and lookahead < 0:
            raise UsageError(
                f"the lookahead is {lookahead}, expected at least 0",
                hint="Leave it out for exact masks.",
            )
        if mask_work < 1:
            raise UsageError(f"`mask_work` is {mask_work}, expected at least 1")
        self.arrays = arrays
        self.vocabulary = vocabulary
        self.metadata = metadata
        self._special = SpecialTokens.recorded(metadata)
        self._lookahead = lookahead
        self.memo_bytes = memo_bytes
        self.mask_work = mask_work
        self.sets: dict[str, MemberTexts] = {}
        self.lexer = str(json.loads(metadata.get("cdec.options", "{}")).get("lexer", "contextual"))
        self._engine: Engine | None = None
        self._without_sets: Engine | None = None
        self._counting: GrammarSession | None = None

    @classmethod
    def from_file(cls, file: ArtifactFile, vocabulary: Vocabulary) -> GrammarConstraint:
        """Open a verified grammar artifact.

        Raises:
            TokenizerMismatchError: The special tokens that it names are other ones, or end texts.
        """
        SpecialTokens.recorded(file.metadata).require(vocabulary, str(file.path))
        opened = cls(arrays_from(file.arrays), vocabulary, file.metadata)
        require_budgets(opened.arrays, file.metadata, opened._image)
        return opened

    @classmethod
    def own_tokens(
        cls, token_bytes: list[bytes], metadata: Mapping[str, str]
    ) -> tuple[list[bytes], Mapping[str, int]]:
        """Return the bytes of the vocabulary, and its special tokens that the grammar names."""
        special = SpecialTokens.recorded(metadata)
        return (special.restored(token_bytes), special.ids) if special else (token_bytes, {})

    @classmethod
    def looks_ahead(cls, metadata: Mapping[str, str]) -> bool:
        """Say whether texts have further terminals: a regular expression is one terminal."""
        return bool(json.loads(metadata.get("cdec.options", "{}")).get("dialect") != "regex")

    @cached_property
    def facts(self) -> Facts:
        """Facts of grammars, and of this one.

        A lookahead, or sets, keep it sound only where the text can go on byte by byte.
        """
        is_sound = self.metadata.get("cdec.sound") == "1"
        if is_sound and (self._lookahead is not None or self.set_names):
            is_sound = (
                len({token for token in self.vocabulary.token_bytes if len(token) == 1}) == 256
            )
        is_held = self._budgets is not None
        return replace(
            self.of_kind,
            # subtle: of a terminal's texts only long ones may be those that the lexer reads as it.
            is_sound=self._budgets.is_followed if self._budgets else is_sound,
            takes_bytes=not is_held,
            takes_pieces=is_held,
            budgets=(EXACT if self._budgets.are_exact else CONSERVATIVE) if self._budgets else None,
            lookahead=self._lookahead,
            reach=self._reach_is,
            metadata=self.metadata,
        )

    @cached_property
    def _image(self) -> Vocabulary:
        """The vocabulary as the scanner reads it."""
        return self._special.image(self.vocabulary) if self._special else self.vocabulary

    @cached_property
    def _shown(self) -> Vocabulary:
        """The vocabulary as people read it."""
        return self._special.shown(self.vocabulary) if self._special else self.vocabulary

    @cached_property
    def _reach_is(self) -> str | None:
        """How well ends are known: of one terminal exactly, of others by a way to one."""
        if self._lookahead is not None or self.set_names:
            return None
        is_plain = self.lexer != "dynamic" and is_measured(self.arrays, self._image)
        is_plain = is_plain and self._budgets is None
        return EXACT if is_plain else CONSERVATIVE

    @cached_property
    def _reach(self) -> RegularReach:
        return RegularReach.of(self.arrays, self._image)

    @cached_property
    def _trie(self) -> Any:
        return library.hold_token_trie(TokenTrie.of(self._image).arrays())

    @cached_property
    def names(self) -> Names:
        """Names of terminals and rules, for messages."""
        return Names.from_metadata(self.arrays, self.metadata)

    @property
    def terminal_patterns(self) -> Mapping[str, str]:
        """Regular expressions of the terminals that are no literals, by name."""
        return self.names.patterns

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run.

        A session with states of its own, but where tokens count: there runs share one, which knows
        what leads on. Masks and memos are shared with the constraint's other sessions. When these
        have filled the memory budget, new sessions begin with new ones, and the old ones go with
        the last session that uses them.
        """
        return on_device(self._on_host(), device)

    def _on_host(self) -> GrammarSession:
        given = given_sets(self.set_names, self.sets)
        if self._engine is None or self._engine.should_be_replaced:
            self._engine, self._counting = self._new_engine(), None
            if given:
                members, tokens = [one.add for one in given], TokenTrie.of(self._image).arrays()
                self._engine.add_sets([*self._set_terminals.values()], members, tokens)
            if self._budgets is not None:
                self._budgets.add_to(self._engine, self._image)
        if self._counting and self._counting.statistics()["states"] <= _MOST_SHARED:
            return self._counting
        reach = (lambda: self._reach) if self._reach_is == EXACT else None
        trie = (lambda: self._trie) if self._reach_is else None
        made = GrammarSession(self._engine, self.vocabulary.width, reach, trie)
        self._counting = made if self._budgets is not None else None
        return made

    def _new_engine(self) -> Engine:
        return Engine(
            self.arrays,
            general=self.lexer == "dynamic",
            end_ids=self.vocabulary.eos_token_ids,
            budget=self.memo_bytes,
            lookahead=self._lookahead,
            work=Work(self.mask_work),
        )

    @cached_property
    def _budgets(self) -> GrammarBudgets | None:
        return GrammarBudgets.of(self.arrays, self.metadata)

    @property
    def _without_budgets(self) -> GrammarConstraint:
        """The same texts whatever tokens spell them: it takes bytes."""
        metadata = {name: said for name, said in self.metadata.items() if name not in BUDGET_KEYS}
        return self._with(self.sets, metadata=metadata)

    @cached_property
    def _set_terminals(self) -> Mapping[str, int]:
        return sets_of(self.metadata, len(self.arrays.ignored))

    @property
    def set_names(self) -> Sequence[str]:
        """Names of the sets whose members are texts of terminals."""
        return list(self._set_terminals)

    def with_sets(self, sets: Mapping[str, Any]) -> GrammarConstraint:
        """Return this constraint with the sets whose members are texts of terminals."""
        for name in sets:
            if name not in self.set_names:
                raise no_set(self, name)
        given = {name: spelled(one) for name, one in sets.items()}
        require_pinned(self.metadata, given)
        return self._with(self.sets | given)

    def narrowed(self, sets: Sequence[NarrowedSet]) -> GrammarConstraint:
        """Return this constraint with less of the sets whose members are texts of terminals."""
        return self._with(narrowed_sets(self, self.sets, sets))

    def _with(self, sets: dict[str, MemberTexts], **changed: Any) -> GrammarConstraint:
        kept: dict[str, Any] = {"memo_bytes": self.memo_bytes, "mask_work": self.mask_work}
        own = {"lookahead": self._lookahead, "metadata": self.metadata}
        made = GrammarConstraint(self.arrays, self.vocabulary, **(kept | own | changed))
        made.sets = sets
        return made

    def with_lookahead(self, lookahead: int | None) -> GrammarConstraint:
        """Return this constraint with masks that look ``lookahead`` terminals further."""
        return self._with(self.sets, lookahead=lookahead)

    @cached_property
    def _checker(self) -> Callable[[bytes], bool | None]:
        from cdec.core.child.judge import TextChecker
        from cdec.core.grammars.validity import stored_language

        return TextChecker(stored_language(self.metadata))

    def accepts(self, text: bytes) -> bool | None:
        """Check a finished text by lark's own parser on the stored source, in a process of its own.

        Members of sets are found by ``reading_of``; to lark a character stands for each of them.

        Returns:
            None where that took too long, lark cannot read what is stored, or the text has
            characters that stand for something else there.
        """
        if self._special and any(map(is_stand_in, text.decode("utf-8", "replace"))):
            return None
        if has_stand_in(text, len(self.set_names)):
            return None
        image = self._in_image(text)
        if self.set_names:
            reading = self._read(image)
            if reading.members is None:
                return None if reading.is_cut else False
            image = with_stand_ins(image, reading.members)
        return self._checker(self._special.as_source(image))

    def _in_image(self, text: bytes) -> bytes:
        """Return a text as the scanner reads it."""
        return self._special.in_image(text) if self._special else text

    def _read(self, text: bytes) -> Reading:
        """Read a text by the grammar without its sets, and by their indices."""
        if self._without_sets is None or self._without_sets.should_be_replaced:
            self._without_sets = self._new_engine()
        session = GrammarSession(self._without_sets, self.vocabulary.width)
        return reading_of(session, text, given_sets(self.set_names, self.sets))

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return ``members``, where terminals are members of sets; nothing else."""
        if not self.set_names:
            return {}
        image, sets = self._in_image(text), given_sets(self.set_names, self.sets)
        members = [
            Member(number, *(len(self._special.in_text(image[:at])) for at in places))
            for number, *places in self._read(image).members or []
        ]
        return {"members": member_records(text, members, self.set_names, sets)}

    def member_text(self, token_ids: Sequence[int]) -> bytes:
        """Return the text, with the words of the special tokens that the grammar names."""
        if not self._special:
            return self.vocabulary.decode(token_ids)
        return self._special.in_text(self._image.decode(token_ids))

    def text_of_token(self, token_id: int) -> bytes:
        """Return the token's bytes, or the words of a special token that the grammar names."""
        return self.member_text((token_id,))

    def token_ids_of(self, text: bytes) -> list[int] | None:
        """Return the tokens of a text with words of special tokens; of another None."""
        parts = self._special.parts(text) if self._special else [text]
        if len(parts) == 1 or self.vocabulary.tokenization is None:
            return None
        spelt = iter(self.vocabulary.encode([part.decode() for part in parts[::2]]))
        words = iter(parts[1::2])
        ids = list(next(spelt))
        for word in words:
            ids += [self._special.ids[word.decode()], *next(spelt)]
        return ids

    def explain(self, token_ids: Sequence[int], *, shown: int = 10) -> Iterator[dict[str, Any]]:
        """Step through the tokens of a text, as ``cdec.core.grammars.explain.explain``."""
        return explain(self._on_host(), self._shown, self.names, token_ids, shown)

    def _refusal(self, session: Any, text: bytes, shown: int) -> dict[str, Any] | None:
        """Return where a text is refused, by following its bytes, as ``text_refusal``."""
        image = self._in_image(text)
        budgets = self._budgets
        free = session if budgets is None else self._without_budgets._on_host()
        refusal = text_refusal(free, self._shown, self.names, image, shown)
        if refusal is None and budgets is not None:
            refusal = budget_refusal(session, free, self.names, budgets, self._image, image)
        if refusal is None:
            return None
        if self.set_names:
            sets = given_sets(self.set_names, self.sets)
            at = refusal["byte"]
            refusal |= refused_member_at(self._read(image), image, at, self.set_names, sets)
        if self._special:
            byte = len(self._special.in_text(image[: refusal["byte"]]))
            line, column = line_and_column(text, byte)
            refusal |= {"byte": byte, "line": line, "column": column}
        return refusal

    def _token_refusal(self, session: Any, refusal: TokenRefusal, shown: int) -> dict[str, Any]:
        return token_refusal(session, self._shown, self.names, refusal, shown)

    def summary(self) -> dict[str, Any]:
        """Return what the artifact's metadata say, the source as it was written."""
        said = super().summary()
        for name in _FOR_MACHINES:
            said.pop(name, None)
        stored = self._special.as_written(self.metadata["cdec.grammar"])
        written = with_attributes(stored, self.metadata)
        return said | {"sound": self.facts.is_sound, "grammar": written}

    def tree(self, **parameters: int) -> TreeView:
        """Return one subterminal tree, as ``describe_subterminal_tree``: ``state``, ``width``."""
        return describe_subterminal_tree(self.arrays, self._shown, self.names, **parameters)

    def statistics(self) -> dict[str, int | float]:
        """Return sizes of scanner, parser and trees."""
        arrays = self.arrays
        groups = np.diff(arrays.tree_groups)
        return {
            "terminals": len(arrays.ignored),
            "scanner_states": len(arrays.live_row),
            "byte_classes": len(arrays.delta) // len(arrays.live_row),
            "contexts": len(arrays.context_start),
            "lr_states": len(arrays.action_offsets) - 1,
            "rules": len(arrays.rule_lhs),
            "trees": len(groups),
            "tree_paths": len(arrays.path_parent),
            "groups": len(arrays.group_dense),
            "largest_tree_groups": int(groups.max(initial=0)),
            "branches": len(arrays.branch_path),
            "listed_tokens": len(arrays.tokens),
            "verified_tokens": len(arrays.verify_tokens),
            "automaton_states": len(np.unique(arrays.automaton_after)),
            "automaton_steps": len(arrays.automaton_after),
            "dense_masks": len(arrays.dense_masks) // max((self.vocabulary.size + 31) // 32, 1),
            **self._bytes(),
        }

    def _bytes(self) -> dict[str, int]:
        trees = ("tree_", "path_", "group_", "branch_", "tokens", "verify_")
        sizes = {name: int(array.nbytes) for name, array in self.arrays._asdict().items()}
        return {
            "tree_bytes": sum(size for name, size in sizes.items() if name.startswith(trees)),
            "mask_bytes": sizes["dense_masks"],
            "total_bytes": sum(sizes.values()),
        }
