"""Subterminal trees against a plain definition of what a token may mean at a scanner state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.compilers.grammars import trees as build
from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.trees import build_trees
from cdec.core.errors import LimitError
from cdec.core.mask import unpack_mask
from cdec.core.tokens.token_trie import TokenTrie
from cdec.core.tokens.vocabulary import Vocabulary

LETTERS = b"abcd"
Path = tuple[tuple[int, ...], ...]
Branch = tuple[Path, int, int]


@dataclass
class PlainScanner:
    """A scanner made by hand or by chance."""

    byte_class: NDArray[np.int32]
    delta: NDArray[np.int32]
    match_offsets: NDArray[np.int32]
    match_terminals: NDArray[np.int32]
    live_row: NDArray[np.int32]
    live_offsets: NDArray[np.int32]
    live_terminals: NDArray[np.int32]
    context_start: NDArray[np.int32]

    def matches(self, state: int) -> list[int]:
        return self.match_terminals[
            self.match_offsets[state] : self.match_offsets[state + 1]
        ].tolist()

    def is_live(self, state: int) -> bool:
        row = self.live_row[state]
        return bool(self.live_offsets[row + 1] > self.live_offsets[row])


def make_scanner(
    delta: NDArray[np.int32], matches: list[list[int]], starts: list[int]
) -> PlainScanner:
    """Return a scanner over LETTERS (other bytes are class 0, which is dead) and trim it."""
    states = range(len(delta))
    live: list[set[int]] = [set() for _ in states]
    changed = True
    while changed:
        changed = False
        for state in states:
            reached = {t for s in delta[state] if s >= 0 for t in {*matches[s], *live[s]}}
            changed |= reached != live[state]
            live[state] = reached
    useless = np.array([not live[s] and not matches[s] for s in states] + [True])
    delta = np.where(useless[delta], -1, delta).astype(np.int32)
    rows: dict[tuple[int, ...], int] = {}
    live_row = [rows.setdefault(tuple(sorted(found)), len(rows)) for found in live]
    byte_class = np.zeros(256, np.int32)
    byte_class[list(LETTERS)] = range(1, len(LETTERS) + 1)
    return PlainScanner(
        byte_class,
        delta,
        np.cumsum([0, *map(len, matches)]).astype(np.int32),
        np.array([t for found in matches for t in sorted(found)], np.int32),
        np.array(live_row, np.int32),
        np.cumsum([0, *map(len, rows)]).astype(np.int32),
        np.array([t for row in rows for t in row], np.int32),
        np.array(starts, np.int32),
    )


def random_scanner(
    rng: np.random.Generator, *, lexing: bool, states: int = 12
) -> tuple[PlainScanner, list[list[int]]]:
    """Return a scanner with random transitions and the contexts after each terminal."""
    terminals, contexts = 4, 4
    delta = rng.integers(0, states, (states, len(LETTERS) + 1))
    delta[rng.random(delta.shape) < 0.35] = -1
    delta[:, 0] = -1
    most = 2 if lexing else 3
    matches = [
        rng.choice(terminals, rng.integers(0, most), replace=False).tolist() for _ in range(states)
    ]
    scanner = make_scanner(delta, matches, rng.integers(0, states, contexts).tolist())
    sizes = rng.integers(1, contexts + 1, terminals) if lexing else [1] * terminals
    after = [rng.choice(contexts, size, replace=False).tolist() for size in sizes]
    return scanner, after


def small_vocabulary(rng: np.random.Generator, longest: int = 6) -> Vocabulary:
    """Return tokens over LETTERS and a letter no scanner knows; some ids are alike or special."""
    tokens = [b"", b"a", b"b", b"c", b"d", b"ab", b"ab", b"e", b"de"]
    for _ in range(120):
        tokens.append(bytes(rng.choice(list(LETTERS), rng.integers(1, longest + 1)).tolist()))
    return Vocabulary(tokens, [0], [3])


def asked_contexts(
    scanner: PlainScanner, contexts: list[int], k: int
) -> dict[int, tuple[int, ...]]:
    """Return the states that class k leads to, and from which of the contexts' starts."""
    found: dict[int, tuple[int, ...]] = {}
    for context in contexts:
        entered = int(scanner.delta[scanner.context_start[context], k])
        if entered >= 0:
            found[entered] = (*found.get(entered, ()), context)
    return found


class Reference:
    """Readings of a token, straight from the definition."""

    def __init__(
        self,
        scanner: PlainScanner,
        after: list[list[int]],
        *,
        lexing: bool,
        ignored: frozenset[int] = frozenset(),
    ) -> None:
        self.scanner, self.after, self.lexing, self.ignored = scanner, after, lexing, ignored

    def steps(self, state: int, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield the number of bytes read and the state, until it dies."""
        for i, byte in enumerate(text):
            state = int(self.scanner.delta[state, self.scanner.byte_class[byte]])
            if state < 0:
                return
            yield i + 1, state

    def readings(self, path: Path, state: int, begun: int, text: bytes) -> Iterator[Any]:
        """Yield (path, state or None, terminals begun, context) of every reading left."""
        ends = []
        last = None
        for read, reached in self.steps(state, text):
            ends += [(read, t) for t in self.scanner.matches(reached)]
            last = reached if read == len(text) else None
        if last is not None and self.scanner.is_live(last):
            yield path, last, begun, -1
        # Under lexing only the last end counts: the terminal takes as much as it can.
        for read, terminal in ends[-1:] if self.lexing else ends:
            inner = path if terminal in self.ignored else (*path, (terminal,))
            contexts = self.after[terminal]
            if read == len(text):
                yield inner, None, begun, contexts[0]
                continue
            asked = asked_contexts(self.scanner, contexts, self.scanner.byte_class[text[read]])
            for entered, where in asked.items():
                enter = (*inner, (entered, *where)) if self.lexing else inner
                start = int(self.scanner.context_start[where[0]])
                yield from self.readings(enter, start, begun + 1, text[read:])

    def listed(self, root: int, token: bytes) -> int:
        """Return how many branches the walk's list needs for the token."""
        found = self.readings((), root, 1, token)
        return len({(path, state, context) for path, state, _, context in found})

    def outcome(self, root: int, token: bytes) -> frozenset[Branch]:
        """Return the branches (path, live row, depth) that say all about the token."""
        best: dict[tuple[Path, int], int] = {}
        for path, state, begun, _ in self.readings((), root, 1, token):
            live = -1 if state is None else int(self.scanner.live_row[state])
            best[path, live] = min(best.get((path, live), 99), begun - 1)
        return frozenset(
            (path, live, depth)
            for (path, live), depth in best.items()
            if live < 0 or best.get((path, -1), 99) > depth
        )

    def is_taken(self, root: int, token: bytes) -> bool:
        """Say whether the terminal under way completes within the token."""
        return any(self.scanner.matches(state) for _, state in self.steps(root, token))


class Trees:
    """The columns, read back; an ENTER node becomes its state and the contexts that it lets by."""

    def __init__(
        self,
        columns: dict[str, NDArray[Any]],
        size: int,
        scanner: PlainScanner,
        after: list[list[int]],
    ) -> None:
        self.columns, self.size = columns, size
        self.scanner, self.after = scanner, after
        words = -(-size // 32)
        self.masks = unpack_mask(columns["dense_masks"].reshape(-1, words), size)

    def of(self, state: int) -> tuple[dict[int, frozenset[Branch]], set[int], set[int]]:
        """Return the outcome of every token of a group, tokens to verify, tokens taken."""
        c = self.columns
        tree = c["tree_of_state"][state]
        first = c["tree_paths"][tree]
        paths: list[Path] = []
        for node in range(first, c["tree_paths"][tree + 1]):
            parent = c["path_parent"][node]
            assert -1 <= parent < node - first
            inner = paths[parent] if parent >= 0 else ()
            shift = c["path_terminal"][node]
            step = (int(shift),)
            if shift < 0:
                entered, contexts = int(c["path_next"][node]), self.after[inner[-1][0]]
                asked = asked_contexts(self.scanner, contexts, c["path_byte"][node])
                step = (entered, *asked[entered])
            paths.append((*inner, step))
        assert len(set(paths)) == len(paths)
        outcomes: dict[int, frozenset[Branch]] = {}
        used = set()
        for group in range(c["tree_groups"][tree], c["tree_groups"][tree + 1]):
            rows = range(c["group_branches"][group], c["group_branches"][group + 1])
            nodes = [int(c["branch_path"][row]) for row in rows]
            used |= set(nodes)
            branches = frozenset(
                (
                    paths[node] if node >= 0 else (),
                    int(c["branch_live"][row]),
                    int(c["branch_depth"][row]),
                )
                for node, row in zip(nodes, rows, strict=True)
            )
            assert len(branches) == len(rows) > 0
            tokens = self.tokens(group)
            assert tokens == sorted(set(tokens)) and tokens and not outcomes.keys() & set(tokens)
            assert branches not in outcomes.values()
            outcomes |= dict.fromkeys(tokens, branches)
        wanted = {
            path[:n]
            for node in used
            if node >= 0
            for path in [paths[node]]
            for n in range(1, len(path) + 1)
        }
        assert set(paths) == wanted
        verify = c["verify_tokens"][c["tree_verify"][tree] : c["tree_verify"][tree + 1]].tolist()
        assert verify == sorted(set(verify))
        row = c["tree_taken"][tree]
        taken = set(np.flatnonzero(self.masks[row]).tolist()) if row >= 0 else set()
        return outcomes, set(verify), taken

    def tokens(self, group: int) -> list[int]:
        dense = self.columns["group_dense"][group]
        listed = slice(*self.columns["group_tokens"][group : group + 2])
        if dense >= 0:
            assert not len(self.columns["tokens"][listed])
            return np.flatnonzero(self.masks[dense]).tolist()
        return self.columns["tokens"][listed].tolist()


def ordinary(vocabulary: Vocabulary) -> list[int]:
    return [i for i, token in enumerate(vocabulary.token_bytes) if token]


@pytest.mark.share(8)
@pytest.mark.parametrize("lexing", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_every_token_has_the_branches_of_the_definition(seed: int, lexing: bool) -> None:
    rng = np.random.default_rng(seed)
    scanner, after = random_scanner(rng, lexing=lexing)
    vocabulary = small_vocabulary(rng)
    columns = build_trees(
        scanner,
        after,
        TokenTrie.build(vocabulary),
        vocabulary.size,
        lexing=lexing,
        max_branches=10_000,
    )
    trees, reference = (
        Trees(columns, vocabulary.size, scanner, after),
        Reference(scanner, after, lexing=lexing),
    )
    for state in range(len(scanner.delta)):
        outcomes, verify, taken = trees.of(state)
        assert not verify
        for token in ordinary(vocabulary):
            expected = reference.outcome(state, vocabulary.token_bytes[token])
            assert outcomes.pop(token, frozenset()) == expected
            known = lexing and reference.is_taken(state, vocabulary.token_bytes[token])
            assert (token in taken) == known
        assert not outcomes


@pytest.mark.share(13)
@pytest.mark.parametrize("lexing", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_tokens_with_too_many_branches_are_verified_and_no_others(seed: int, lexing: bool) -> None:
    rng = np.random.default_rng(100 + seed)
    scanner, after = random_scanner(rng, lexing=lexing)
    vocabulary, most = small_vocabulary(rng, 9), 1
    trie = TokenTrie.build(vocabulary)
    columns = build_trees(scanner, after, trie, vocabulary.size, lexing=lexing, max_branches=most)
    trees, reference = (
        Trees(columns, vocabulary.size, scanner, after),
        Reference(scanner, after, lexing=lexing),
    )
    for state in range(len(scanner.delta)):
        outcomes, verify, taken = trees.of(state)
        assert not verify & outcomes.keys()
        for token in ordinary(vocabulary):
            text = vocabulary.token_bytes[token]
            expected = reference.outcome(state, text)
            if token in verify:
                prefixes = [text[:n] for n in range(1, len(text) + 1)]
                listed = max(reference.listed(state, prefix) for prefix in prefixes)
                assert len(expected) > most or listed > 4 * most
            else:
                assert len(expected) <= most
                assert outcomes.get(token, frozenset()) == expected
            assert (token in taken) == (lexing and reference.is_taken(state, text))


def test_random_scanners_need_verification_at_all() -> None:
    verified = 0
    for lexing in (True, False):
        rng = np.random.default_rng(100)
        scanner, after = random_scanner(rng, lexing=lexing)
        vocabulary = small_vocabulary(rng, 9)
        columns = build_trees(
            scanner,
            after,
            TokenTrie.build(vocabulary),
            vocabulary.size,
            lexing=lexing,
            max_branches=1,
        )
        verified += len(columns["verify_tokens"]) > 0
    assert verified == 2


@pytest.mark.parametrize("seed", range(4))
def test_ignored_terminals_need_no_node_where_every_segmentation_counts(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    scanner, after = random_scanner(rng, lexing=False)
    vocabulary = small_vocabulary(rng)
    columns = build_trees(
        scanner,
        after,
        TokenTrie.build(vocabulary),
        vocabulary.size,
        lexing=False,
        max_branches=10_000,
        ignored=np.array([True, False, False, True]),
    )
    reference = Reference(scanner, after, lexing=False, ignored=frozenset({0, 3}))
    trees = Trees(columns, vocabulary.size, scanner, after)
    assert not {0, 3} & set(columns["path_terminal"].tolist())
    for state in range(len(scanner.delta)):
        outcomes, _, _ = trees.of(state)
        for token in ordinary(vocabulary):
            expected = reference.outcome(state, vocabulary.token_bytes[token])
            assert outcomes.get(token, frozenset()) == expected


def contents(trees: Trees) -> list[Any]:
    """Return all that the columns say about any state."""
    return [trees.of(state) for state in range(len(trees.scanner.delta))]


@pytest.mark.share(3)
@pytest.mark.parametrize("lexing", [True, False])
@pytest.mark.parametrize(
    "options",
    [{"share": False}, {"dense_from": 1}, {"dense_from": 10**9}, {"dense_from": 3, "workers": 3}],
)
def test_how_trees_are_made_and_stored_does_not_change_them(
    options: dict[str, Any], lexing: bool
) -> None:
    rng = np.random.default_rng(7)
    scanner, after = random_scanner(rng, lexing=lexing, states=70)
    vocabulary = small_vocabulary(rng, 5)
    trie = TokenTrie.build(vocabulary)
    plain = build_trees(scanner, after, trie, vocabulary.size, lexing=lexing)
    other = build_trees(scanner, after, trie, vocabulary.size, lexing=lexing, **options)
    one, two = (Trees(found, vocabulary.size, scanner, after) for found in (plain, other))
    assert contents(one) == contents(two)


@pytest.mark.parametrize("lexing", [True, False])
def test_columns_are_the_same_for_any_number_of_workers(lexing: bool) -> None:
    rng = np.random.default_rng(8)
    scanner, after = random_scanner(rng, lexing=lexing, states=100)
    vocabulary = small_vocabulary(rng)
    trie = TokenTrie.build(vocabulary)
    one, three = (
        build_trees(
            scanner, after, trie, vocabulary.size, lexing=lexing, dense_from=9, workers=workers
        )
        for workers in (1, 3)
    )
    for name, column in one.items():
        assert np.array_equal(column, three[name]), name
        assert column.dtype == three[name].dtype


@pytest.mark.parametrize("lexing", [True, False])
def test_columns_are_the_same_however_few_steps_are_made_at_a_time(
    lexing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(9)
    scanner, after = random_scanner(rng, lexing=lexing, states=40)
    vocabulary = small_vocabulary(rng)
    trie = TokenTrie.build(vocabulary)
    whole = build_trees(scanner, after, trie, vocabulary.size, lexing=lexing)
    monkeypatch.setattr(build, "_STEPS", 7)
    sliced = build_trees(scanner, after, trie, vocabulary.size, lexing=lexing, workers=2)
    for name, column in whole.items():
        assert np.array_equal(column, sliced[name]), name


def counted_text(most: int) -> PlainScanner:
    """Return a scanner of one terminal: 1 to ``most`` letters."""
    delta = np.full((most + 1, len(LETTERS) + 1), -1)
    for state in range(most):
        delta[state, 1:] = state + 1
    return make_scanner(delta, [[]] + [[0]] * most, [0])


def test_states_far_from_the_end_of_a_counted_repetition_share_a_tree() -> None:
    scanner = counted_text(200)
    vocabulary = small_vocabulary(np.random.default_rng(1), 6)
    trie = TokenTrie.build(vocabulary)
    columns = build_trees(scanner, [[0]], trie, vocabulary.size, lexing=True)
    # The last 7 states differ in which tokens are too long, or end the terminal for good.
    assert len(columns["tree_paths"]) - 1 == trie.max_depth + 2
    apart = build_trees(scanner, [[0]], trie, vocabulary.size, lexing=True, share=False)
    for name, column in columns.items():
        assert np.array_equal(column, apart[name]), name


def test_equal_masks_are_stored_once() -> None:
    scanner = counted_text(50)
    vocabulary = small_vocabulary(np.random.default_rng(1), 3)
    columns = build_trees(
        scanner, [[0]], TokenTrie.build(vocabulary), vocabulary.size, lexing=True, dense_from=1
    )
    words = -(-vocabulary.size // 32)
    masks = columns["dense_masks"].reshape(-1, words)
    assert len(np.unique(masks, axis=0)) == len(masks)
    used = {*columns["group_dense"].tolist(), *columns["tree_taken"].tolist()} - {-1}
    assert used == set(range(len(masks)))


def test_taken_tokens_are_kept_for_states_with_a_fallback_only() -> None:
    scanner = counted_text(4)
    vocabulary = small_vocabulary(np.random.default_rng(1), 3)
    trie = TokenTrie.build(vocabulary)
    wanted = np.array([False, False, False, True, False])
    columns = build_trees(
        scanner, [[0]], trie, vocabulary.size, lexing=True, fallback_states=wanted
    )
    everything = build_trees(scanner, [[0]], trie, vocabulary.size, lexing=True)
    assert (everything["tree_taken"][everything["tree_of_state"]] >= 0).tolist() == [True] * 4 + [
        False
    ]
    assert (columns["tree_taken"][columns["tree_of_state"]] >= 0).tolist() == [
        *[False] * 3,
        True,
        False,
    ]


def test_a_deep_token_of_one_byte_terminals_is_no_deep_recursion() -> None:
    scanner = make_scanner(np.array([[-1, 1, 1, 1, 1], [-1] * 5]), [[], [0]], [0])
    vocabulary = Vocabulary([b"", b"a" * 5000, b"a" * 4999, b"b" * 5000], [0])
    columns = build_trees(scanner, [[0]], TokenTrie.build(vocabulary), vocabulary.size, lexing=True)
    assert columns["branch_depth"].max() == 4999
    # A SHIFT node a byte and an ENTER node between two; a and b ask the same.
    assert len(columns["path_parent"]) == 2 * 5000 - 1


def test_too_many_nodes_are_refused_by_name() -> None:
    scanner = make_scanner(np.array([[-1, 1, 1, 1, 1], [-1] * 5]), [[], [0]], [0])
    vocabulary = Vocabulary([b"", b"a" * 300], [0])
    with pytest.raises(LimitError) as caught:
        build_trees(
            scanner,
            [[0]],
            TokenTrie.build(vocabulary),
            vocabulary.size,
            lexing=True,
            limits=GrammarLimits(max_tree_nodes=500),
        )
    assert caught.value.details["limit"] == "max_tree_nodes"


def test_a_vocabulary_without_ordinary_tokens_gives_empty_trees() -> None:
    scanner = counted_text(2)
    vocabulary = Vocabulary([b"", b""], [0])
    columns = build_trees(scanner, [[0]], TokenTrie.build(vocabulary), vocabulary.size, lexing=True)
    assert columns["tree_of_state"].tolist() == [0, 0, 0]
    assert not len(columns["group_dense"])
