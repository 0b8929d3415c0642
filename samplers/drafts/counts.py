"""Drafts that need no model: counts of a grammar's states, and repetitions of the prompt.

A *speculation key* stands for where a grammar's reading is: scanner state and parser substate
(DOMINO, arXiv 2403.06988 section 3.6). Keys are stable across processes, so that counts of next
events by key are too: learnt while decoding, bounded, saved and loaded. Constraints that have no
``speculation_keys`` are left alone: sets, whose forced runs are evaluated ahead anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import (
    DataError,
    InputMissingError,
    JsonError,
    LimitError,
    OutputError,
    TokenizerMismatchError,
)
from cdec.core.files.whole import whole_file
from cdec.core.native import library
from cdec.samplers.drafts.proposals import Drafting, Guess
from cdec.samplers.walks.frontier import NONE

if TYPE_CHECKING:
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.events import SampledEvents
    from cdec.samplers.walks.frontier import Frontier, Step

MAX_ENTRIES = 1 << 18
"""Pairs of key and event that one table keeps, some 25 MB."""
MAX_ALL_ENTRIES = 1 << 20
"""Of all tables together: some 100 MB, and less in a file than ``MAX_FILE_BYTES``."""
MAX_TABLES = 1024
"""Tables kept, full or empty: records may bring any number of grammars."""
MAX_EVENTS = 64
"""Different events that are told apart after one key."""
MAX_FILE_BYTES = 64 << 20
_KIND, _VERSION = "cdec counts", 1
DEFAULT_THRESHOLD = 0.4
"""Estimated probability above which a token is guessed. Below a half, so that what was seen once is
tried: on JSON of a fixed shape twice as many tokens a pass as with 0.5 at first, no more later;
lower still, and the guesses that fail cost what the others save (measured)."""
END = -1
"""The end of the text, among the events."""


class _Row:
    """The events that followed one key; ``total`` counts those that were dropped as well."""

    __slots__ = ("best", "best_count", "counts", "total")

    def __init__(self) -> None:
        self.total = 0
        self.best = END
        self.best_count = 0
        self.counts: dict[int, int] = {}


class CountTable:
    """How often each event followed each key under one constraint."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._entries = 0

    def __len__(self) -> int:
        return self._entries

    def add(self, key: int, event: int, times: int = 1) -> None:
        """Count an event, a token id or END, after a key (int64)."""
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row()
        row.total += times
        before = row.counts.get(event, 0)
        row.counts[event] = before + times
        if before + times > row.best_count:
            row.best, row.best_count = event, before + times
        if not before:
            self._entries += 1
            if len(row.counts) > MAX_EVENTS:
                self._age(row)
            if self._entries > MAX_ENTRIES:
                self._evict()

    def likeliest(self, key: int) -> tuple[int, float]:
        """Return the most frequent event after ``key`` and its estimated probability.

        The estimate is count / (total + 1): something new is always possible. END and 0 where the
        key is unknown.
        """
        row = self._rows.get(key)
        if row is None:
            return END, 0.0
        return row.best, row.best_count / (row.total + 1)

    def to_json(self) -> dict[str, dict[str, int]]:
        """Return the counts by key and event, JSON-ready."""
        return {
            str(key): {str(event): count for event, count in row.counts.items()}
            for key, row in self._rows.items()
        }

    def _age(self, row: _Row) -> None:
        """Halve the counts, and forget those that fall to 0."""
        kept = {event: count // 2 for event, count in row.counts.items() if count > 1}
        if len(kept) > MAX_EVENTS // 2:
            likeliest = sorted(kept, key=lambda event: (-kept[event], event))[: MAX_EVENTS // 2]
            kept = {event: kept[event] for event in likeliest}
        self._entries += len(kept) - len(row.counts)
        row.counts = kept
        row.total //= 2
        row.best = min(kept, key=lambda event: (-kept[event], event), default=END)
        row.best_count = kept.get(row.best, 0)

    def _evict(self) -> None:
        """Keep the keys that were met most often, up to half of the room."""
        kept: dict[int, _Row] = {}
        self._entries = 0
        for key in sorted(self._rows, key=lambda key: -self._rows[key].total):
            row = self._rows[key]
            if self._entries + len(row.counts) > MAX_ENTRIES // 2:
                break
            kept[key] = row
            self._entries += len(row.counts)
        self._rows = kept


class Counts:
    """Count tables by the fingerprint (digest) of the artifact they belong to.

    Beyond ``MAX_TABLES`` and ``MAX_ALL_ENTRIES`` those go that were not asked for for longest.

    Attributes:
        vocabulary_hash: Of the token ids that are counted; None until it is known.
        threshold: A token is guessed while its estimated probability is above this.
    """

    def __init__(
        self, vocabulary_hash: str | None = None, threshold: float = DEFAULT_THRESHOLD
    ) -> None:
        self.vocabulary_hash = vocabulary_hash
        self.threshold = threshold
        self._tables: dict[str, CountTable] = {}

    def table(self, fingerprint: str) -> CountTable:
        """Return the table of an artifact, an empty one where it is new."""
        table = self._tables.pop(fingerprint, None)
        if table is None:
            table = CountTable()
        self._make_room(MAX_TABLES - 1, MAX_ALL_ENTRIES - len(table))
        # At the end of the order: what stands first was not asked for for longest.
        self._tables[fingerprint] = table
        return table

    def require_vocabulary(self, vocabulary_hash: str) -> None:
        """Bind to a vocabulary, or check that it is the one the counts were learnt with.

        Raises:
            TokenizerMismatchError: It is another one: token ids mean something else.
        """
        if self.vocabulary_hash is None:
            self.vocabulary_hash = vocabulary_hash
        if self.vocabulary_hash != vocabulary_hash:
            raise TokenizerMismatchError(
                f"the counts belong to vocabulary {self.vocabulary_hash[:16]}, the model has "
                f"{vocabulary_hash[:16]}",
                hint="Learn counts with this model: leave out `counts` and give `save_counts`.",
                found=self.vocabulary_hash,
                expected=vocabulary_hash,
            )

    def require_artifacts(self, fingerprints: Iterable[str]) -> None:
        """Check that the counts know one of a run's artifacts, if the run has any.

        Raises:
            DataError: They were learnt with others, so they would never be used.
        """
        expected = list(fingerprints)
        if expected and not any(fingerprint in self._tables for fingerprint in expected):
            raise DataError(
                f"the counts belong to the artifacts {_shown(self._tables)}, the run has "
                f"{_shown(expected)}",
                hint="Learn counts with this artifact: leave out `counts`, give `save_counts`.",
                found=sorted(self._tables),
                expected=expected,
            )

    def save(self, path: Path) -> None:
        """Write all tables as one JSON object, whole or not at all.

        Raises:
            OutputError: It cannot be written.
        """
        self._make_room(MAX_TABLES, MAX_ALL_ENTRIES)
        body = {
            "kind": _KIND,
            "version": _VERSION,
            "vocabulary_hash": self.vocabulary_hash,
            "tables": {name: table.to_json() for name, table in self._tables.items()},
        }
        try:
            with whole_file(path, force=True) as file:
                file.write(json.dumps(body, separators=(",", ":")).encode() + b"\n")
        except OutputError as error:
            error.hint = "Make room, or name another file with `save_counts`."
            raise

    def _make_room(self, tables: int, entries: int) -> None:
        """Forget tables until no more than these are left."""
        total = sum(map(len, self._tables.values()))
        while self._tables and (len(self._tables) > tables or total > entries):
            total -= len(self._tables.pop(next(iter(self._tables))))

    @classmethod
    def load(cls, path: Path) -> Counts:
        """Read what ``save`` wrote; every value is checked.

        Raises:
            InputMissingError: The file cannot be read.
            LimitError: It is larger than counts are.
            JsonError: It is not JSON.
            DataError: It is JSON and no counts of this version.
        """
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise LimitError(
                    f"{path} has more than {MAX_FILE_BYTES >> 20} MiB: counts are smaller",
                    hint="Give a file that `save_counts` wrote.",
                    limit="max_file_bytes",
                )
            body = json.loads(path.read_bytes())
        except OSError as error:
            raise InputMissingError(
                f"cannot read the counts {path}: {error.strerror}",
                hint="Give a file that `save_counts` wrote.",
                path=str(path),
            ) from error
        except (ValueError, RecursionError) as error:
            raise JsonError(
                f"{path} is no JSON: {error}", hint="Give a file that `save_counts` wrote."
            ) from error
        return cls._from_json(body, path)

    @classmethod
    def _from_json(cls, body: Any, path: Path) -> Counts:
        head = (body.get("kind"), body.get("version")) if isinstance(body, dict) else None
        if head != (_KIND, _VERSION) or not isinstance(body.get("tables"), dict):
            raise _malformed(path, f"expected an object of kind {_KIND!r}, version {_VERSION}")
        name = body.get("vocabulary_hash")
        if not isinstance(name, str):
            raise _malformed(path, "it names no vocabulary")
        counts = cls(name)
        for fingerprint, rows in body["tables"].items():
            _fill(counts.table(fingerprint), rows, path)
        return counts


def _fill(table: CountTable, rows: Any, path: Path) -> None:
    try:
        for key, events in rows.items():
            number = int(key)
            for event, count in events.items():
                if type(count) is not int or not 0 < count < 1 << 53:
                    raise ValueError(f"a count of {count!r}")
                if not (-(1 << 63) <= number < 1 << 63 and END <= int(event) < 1 << 31):
                    raise ValueError(f"a number out of range at key {key}")
                table.add(number, int(event), count)
    except (ValueError, TypeError, AttributeError) as error:
        raise _malformed(path, str(error)) from error


def _malformed(path: Path, what: str) -> DataError:
    return DataError(
        f"{path} holds no counts: {what}",
        hint="Give a file that `save_counts` wrote.",
        path=str(path),
    )


def _shown(fingerprints: Iterable[str]) -> str:
    return ", ".join(sorted(name[:16] for name in fingerprints)) or "of no run"


class CountsDrafting(Drafting):
    """Guesses what a grammar's states were followed by before: counts at work on a batch.

    Args:
        batch: The open requests.
        counts: Used and added to.

    Raises:
        TokenizerMismatchError: The counts were learnt with another vocabulary.
    """

    def __init__(self, batch: Batch, counts: Counts) -> None:
        counts.require_vocabulary(batch.model.vocabulary.vocabulary_hash)
        self._batch = batch
        self._threshold = counts.threshold
        self._tables: dict[int, CountTable] = {}
        for request, number in zip(batch.requests, batch.session_of.tolist(), strict=True):
            constraint = request.constraint
            if number >= 0 and constraint is not None and constraint.facts.has_speculation_keys:
                self._tables[number] = counts.table(
                    constraint.facts.metadata.get("cdec.digest", "")
                )

    def guess(self, walks: Frontier, uniforms: NDArray[np.float64] | None) -> Guess:
        """Propose the likeliest token of each walk's state, if it is likely enough."""
        tokens = np.full(len(walks.request), NONE, np.int64)
        for table, which, keys in self._keys(walks.request, walks.state):
            for row, key in zip(which, keys, strict=True):
                token, probability = table.likeliest(key)
                if probability > self._threshold and token >= 0:
                    tokens[row] = token
        return Guess.of(tokens)

    def learn(self, step: Step, chosen: SampledEvents) -> int | None:
        """Count the events of a step, one a walk, in the order of the walks; as ``Drafting``."""
        nodes = step.nodes
        which_key: dict[int, tuple[CountTable, int]] = {}
        for table, rows, keys in self._keys(nodes.request, nodes.state):
            which_key.update((row, (table, key)) for row, key in zip(rows, keys, strict=True))
        foreseen = 0
        for node, event in zip(step.walk_node.tolist(), chosen.tokens.tolist(), strict=True):
            known = which_key.get(node)
            if known is not None and event != NONE:
                table, key = known
                guess, probability = table.likeliest(key)
                foreseen += guess == event >= 0 and probability > self._threshold
                table.add(key, event)
        return foreseen

    def _keys(
        self, request: NDArray[np.int64], states: Any
    ) -> list[tuple[CountTable, list[int], list[int]]]:
        """Return for each session that has keys its table, the rows it holds and their keys."""
        batch = self._batch
        used = batch.session_of[request]
        found = []
        for number in np.unique(used).tolist():
            if number in self._tables:
                rows = np.flatnonzero(used == number)
                keys = batch.sessions[number].speculation_keys(states[batch.index(rows)])
                found.append((self._tables[number], rows.tolist(), batch.to_host(keys).tolist()))
        return found


LONGEST_MATCH = 4
"""Most tokens of a repetition that are compared; of equally long ones the latest counts."""


class LookupDrafting(Drafting):
    """Guesses that what followed the last tokens before will follow them again.

    Prompt lookup: the longest run of up to ``LONGEST_MATCH`` last tokens that stands earlier in the
    prompt or the text, and the token after it. An end token is never guessed.
    """

    def __init__(self, batch: Batch) -> None:
        self._model = batch.model
        model = batch.model
        prompts = [
            np.array([*model.prompt_tokens(root), *model.begun_tokens(root)], np.int32)
            if root >= 0
            else np.zeros(0, np.int32)
            for root in batch.roots.tolist()
        ]
        lengths = [len(prompt) for prompt in prompts]
        self._starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self._prompts = np.concatenate([*prompts, np.zeros(0, np.int32)])
        self._is_end = batch.is_end

    def guess(self, walks: Frontier, uniforms: NDArray[np.float64] | None) -> Guess:
        """Propose the token after the latest longest repetition.

        Cost: one compiled search a walk, some nanoseconds for each token of its prompt and text:
        10 microseconds for 4,000. Nothing is kept between calls.
        """
        tree = self._model.tree
        events = np.empty(len(walks.request), np.int64)
        library.contexts_repeated(
            *(walks.context, walks.request, tree.parent, tree.token, tree.depth),
            *(self._starts, self._prompts, LONGEST_MATCH, events),
        )
        events[(events >= 0) & self._is_end[events]] = NONE
        return Guess.of(events)
