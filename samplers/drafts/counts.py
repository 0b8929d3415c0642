"""Drafts that need no model: counts of a grammar's states, and repetitions of the prompt.

A *speculation key* stands for where a grammar's reading is: scanner state and parser substate
(DOMINO, arXiv 2403.06988 section 3.6). Deviation: it is joined with the last tokens of the text as
well, and with fewer of them where that tells nothing, since what a string holds its state does not
tell. Keys are stable across processes, so that counts of next events by key are too: learnt while
decoding, bounded, saved and loaded. Constraints that have no
``speculation_keys`` are left alone: sets, whose forced runs are evaluated ahead anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from cdec.samplers.drafts.proposals import Drafting, Foreseen, Guess
from cdec.samplers.walks.frontier import NONE

if TYPE_CHECKING:
    from cdec.samplers.walks.batch import Batch
    from cdec.samplers.walks.events import SampledEvents
    from cdec.samplers.walks.frontier import Frontier, Step

MAX_KEYS = 1 << 17
"""Keys that one table keeps, some 16 MB."""
MAX_ALL_KEYS = 1 << 19
"""Of all tables together: some 64 MB, and less in a file than ``MAX_FILE_BYTES``."""
MAX_TABLES = 1024
"""Tables kept, full or empty: records may bring any number of grammars."""
MAX_EVENTS = 4
"""Different events that are told apart after one key: none of more than a fourth of all that
followed is lost, and rarer ones are not guessed."""
MAX_FILE_BYTES = 64 << 20
_KIND, _VERSION = "cdec counts", 1
DEFAULT_THRESHOLD = 0.4
"""Estimated probability above which a token is guessed. Below a half, so that what was seen once is
tried: on JSON of a fixed shape twice as many tokens a pass as with 0.5 at first, no more later;
lower still, and the guesses that fail cost what the others save (measured)."""
CONTEXT = 2
"""Last tokens of a text that a key is joined with: on JSON of one schema, greedy, with none of them
0.3 of all tokens are guessed, with one 0.7, with two 0.8, with more no more (measured)."""
END = -1
"""The end of the text, among the events."""
_LEAST = 64
_TOGETHER = 32
"""Steps whose events are counted together."""


class _Columns(NamedTuple):
    """Arrays of a table of C places, as the compiled library takes them.

    Attributes:
        keys: int64[C]. events: int32[C, E] those that followed, often ones first.
        times: int64[C, E] how often, 0 where there are fewer.
    """

    keys: NDArray[np.int64]
    events: NDArray[np.int32]
    times: NDArray[np.int64]

    @classmethod
    def free(cls, places: int) -> _Columns:
        """Return a table without keys."""
        shape = places, MAX_EVENTS
        events, times = np.zeros(shape, np.int32), np.zeros(shape, np.int64)
        return cls(np.zeros(places, np.int64), events, times)

    @property
    def used(self) -> NDArray[np.int64]:
        """The places that hold a key, int64[n]."""
        return np.flatnonzero(self.times[:, 0])


class CountTable:
    """How often each event followed each key under one constraint."""

    def __init__(self) -> None:
        self._columns = _Columns.free(_LEAST)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, key: int, event: int, times: int = 1) -> None:
        """Count an event, a token id or END, after a key (int64)."""
        self._make_room(1)
        self._count += library.counts_add(self._columns, key, event, times)

    def learn(
        self, keys: NDArray[np.int64], events: NDArray[np.int64], threshold: float
    ) -> tuple[int, int]:
        """Count an event, int64[n], after each key of its row, int64[n, m]; NONE is passed over.

        Returns:
            How many events there are, and how many of them ``guess`` would have told.
        """
        self._make_room(keys.size)
        foreseen = np.zeros(1, np.int64)
        self._count += library.counts_learn(self._columns, keys, threshold, events, foreseen)
        return int(np.count_nonzero(events != NONE)), int(foreseen[0])

    def guess(self, keys: NDArray[np.int64], threshold: float) -> NDArray[np.int64]:
        """Return the likeliest event of the first key of each row that is sure enough; else NONE.

        Args:
            keys: int64[n, m]. threshold: Estimated probability that it has to be above.
        """
        events = np.empty(len(keys), np.int64)
        library.counts_guess(self._columns, keys, threshold, events)
        return events

    def likeliest(self, key: int) -> tuple[int, float]:
        """Return the most frequent event after ``key`` and its estimated probability.

        The estimate is count / (total + 1): something new is always possible. END and 0 where the
        key is unknown.
        """
        place = library.counts_find(self._columns, key)
        if place < 0:
            return END, 0.0
        _, events, times = self._columns
        return int(events[place, 0]), float(times[place, 0] / (times[place].sum() + 1))

    def to_json(self) -> dict[str, dict[str, int]]:
        """Return the counts by key and event, JSON-ready."""
        rows = self._columns.used
        columns = zip(*(column[rows].tolist() for column in self._columns), strict=True)
        return {
            str(key): {str(e): t for e, t in zip(events, times, strict=True) if t}
            for key, events, times in columns
        }

    def _make_room(self, more: int) -> None:
        """Make room for new keys, half of all places stay free; of too many the rare ones go."""
        if self._count + more > MAX_KEYS:
            kept = max(0, min(MAX_KEYS // 2, MAX_KEYS - more))
            rows = self._columns.used
            order = np.argsort(-self._columns.times[rows].sum(axis=1), kind="stable")
            self._move(rows[order[:kept]], len(self._columns.keys))
        places = len(self._columns.keys)
        if 2 * (self._count + more) > places:
            size = 1 << (2 * (self._count + more) - 1).bit_length()
            self._move(self._columns.used, size)

    def _move(self, rows: NDArray[np.int64], places: int) -> None:
        """Keep these places alone, in a table of another size."""
        columns = _Columns.free(places)
        self._count = library.counts_move(self._columns, rows, columns)
        self._columns = columns


class Counts:
    """Count tables by the fingerprint (digest) of the artifact they belong to.

    Beyond ``MAX_TABLES`` and ``MAX_ALL_KEYS`` those go that were not asked for for longest.

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
        self._make_room(MAX_TABLES - 1, MAX_ALL_KEYS - len(table))
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
        self._make_room(MAX_TABLES, MAX_ALL_KEYS)
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

    def _make_room(self, tables: int, keys: int) -> None:
        """Forget tables until no more than these are left."""
        total = sum(map(len, self._tables.values()))
        while self._tables and (len(self._tables) > tables or total > keys):
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
            if sum(events.values()) >= 1 << 62:
                raise ValueError(f"too many events after key {key}")
            # Often ones first: a rare one that comes late would take over more than it has.
            for event, count in sorted(events.items(), key=lambda item: -item[1]):
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
        threshold: In the place of that of the counts, if given.
        learns: Whether anything is added.

    Raises:
        TokenizerMismatchError: The counts were learnt with another vocabulary.
    """

    def __init__(
        self,
        batch: Batch,
        counts: Counts,
        threshold: float | None = None,
        *,
        learns: bool = True,
    ) -> None:
        counts.require_vocabulary(batch.model.vocabulary.vocabulary_hash)
        self._batch = batch
        self._threshold = counts.threshold if threshold is None else threshold
        self._learns = learns
        self._tables: dict[int, CountTable] = {}
        self._heard: list[tuple[Frontier, NDArray[np.int64], NDArray[np.int64]]] = []
        for request, number in zip(batch.requests, batch.session_of.tolist(), strict=True):
            constraint = request.constraint
            if number >= 0 and constraint is not None and constraint.facts.has_speculation_keys:
                self._tables[number] = counts.table(
                    constraint.facts.metadata.get("cdec.digest", "")
                )

    def __exit__(self, *_: object) -> None:
        self._count()

    def guess(self, walks: Frontier, uniforms: NDArray[np.float64] | None) -> Guess:
        """Propose the likeliest token of each walk's state, if it is likely enough."""
        self._count()
        tokens = np.full(len(walks.request), NONE, np.int64)
        for table, rows, keys in self._keys(walks.request, walks.state, walks.context):
            tokens[rows] = table.guess(keys, self._threshold)
        # Counts may have been read from a file.
        tokens[(tokens < 0) | (tokens >= self._batch.model.vocabulary.width)] = NONE
        return Guess.of(tokens)

    def learn(self, step: Step, chosen: SampledEvents) -> Foreseen | None:
        """Count the events of a step, one a walk, in the order of the walks; as ``Drafting``.

        They are counted when there are many, or when something is to be guessed.
        """
        if not self._tables or not self._learns:
            return None
        self._heard.append((step.nodes, step.walk_node, chosen.tokens))
        return self._count() if len(self._heard) >= _TOGETHER else None

    def _count(self) -> Foreseen | None:
        """Count what was heard."""
        heard, self._heard = self._heard, []
        if not heard:
            return None
        batch = self._batch
        request, context, state = (
            np.concatenate([part[walk_node] for part, walk_node in parts])
            for parts in (
                [(nodes.request, walk_node) for nodes, walk_node, _ in heard],
                [(nodes.context, walk_node) for nodes, walk_node, _ in heard],
                [(batch.to_host(nodes.state), walk_node) for nodes, walk_node, _ in heard],
            )
        )
        events = np.concatenate([tokens for *_, tokens in heard])
        looked = told = 0
        for table, rows, keys in self._keys(request, batch.index(state), context):
            more = table.learn(keys, events[rows], self._threshold)
            looked, told = looked + more[0], told + more[1]
        return Foreseen(len(heard), looked, told)

    def _keys(
        self, request: NDArray[np.int64], states: Any, context: NDArray[np.int64]
    ) -> Iterator[tuple[CountTable, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield for each session that has keys its table, the rows it holds and their keys.

        Keys are int64[n, 1 + CONTEXT], those joined with most tokens first.
        """
        batch, tree = self._batch, self._batch.model.tree
        used = batch.session_of[request]
        for number in np.unique(used).tolist():
            if number not in self._tables:
                continue
            rows = np.flatnonzero(used == number)
            own = batch.to_host(batch.sessions[number].speculation_keys(states[batch.index(rows)]))
            keys = np.empty((rows.size, 1 + CONTEXT), np.int64)
            library.counts_keys(context[rows], own, tree.parent, tree.token, tree.depth, keys)
            yield self._tables[number], rows, keys


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
