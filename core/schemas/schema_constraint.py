"""SchemaConstraint: a compiled JSON Schema as a constraint."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.artifacts.opened import StoredConstraint
from cdec.core.artifacts.read import ArtifactFile, ArtifactKind
from cdec.core.constraint import CONSERVATIVE, Facts, NarrowedSet, no_set
from cdec.core.device_session import on_device
from cdec.core.errors import UsageError
from cdec.core.schemas.budgets import budget_refusal, how_exact, require_budgets
from cdec.core.schemas.json_tokens import json_tokens
from cdec.core.schemas.levels import text_refusal
from cdec.core.schemas.members import (
    members_of,
    refused_string,
    require_values,
    strings_of,
    with_capacities,
    without_missing,
)
from cdec.core.schemas.other_forms import form_refusal, range_reason, spelling_refusal
from cdec.core.schemas.program import (
    COLUMNS,
    OWN_STYLE,
    USUAL_ESCAPES,
    SchemaArrays,
    arrays_from,
)
from cdec.core.schemas.program_checks import (
    check_schema,
    check_schema_shape,
    held_members,
    held_sets,
)
from cdec.core.schemas.references import from_json
from cdec.core.schemas.regex_strings import RegexTexts
from cdec.core.schemas.session import DEFAULT_BUDGET, Engine, SchemaSession
from cdec.core.session import Session
from cdec.core.sets.known_rows import Automata, Edges
from cdec.core.sets.quotes import SpanField
from cdec.core.sets.spelled import spelled
from cdec.core.sets.within import MemberTexts, given_sets, narrowed_sets, require_pinned
from cdec.core.token_budgets import BUDGETS_KEY, budgets_of
from cdec.core.tokens.vocabulary import Vocabulary

__all__ = ["SchemaConstraint"]

_TAB = 0x09
_SPELLED = frozenset([0x0A, *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF5)])
"""Bytes with which every text can go on: JSON's ASCII and UTF-8's."""


def unspelt(vocabulary: Vocabulary, layout: int) -> bytes:
    """Return the bytes of JSON texts that are no tokens of their own.

    Args:
        vocabulary: The tokens.
        layout: ``indent`` of the program.
    """
    lengths, offsets = vocabulary.byte_lengths, vocabulary.byte_offsets
    alone = vocabulary.flat_bytes[offsets[np.flatnonzero(lengths == 1)]]
    # A text whose first line a token indents by a tab needs further ones.
    is_tabbed = layout & OWN_STYLE and _TAB in vocabulary.flat_bytes
    spelled = _SPELLED | {_TAB} if is_tabbed else _SPELLED
    return bytes(sorted(spelled.difference(alone.tolist())))


class SchemaConstraint(StoredConstraint):
    """The JSON texts that a schema allows.

    Args:
        arrays: The compiled schema.
        vocabulary: Of the model that draws; its end ids end members.
        metadata: Of the artifact: ``cdec.schema``, ``cdec.options``, ``cdec.unenforced`` and
            ``cdec.sound``.
        memo_bytes: Most bytes of masks that the sessions together keep from call to call. Not
            counted: states, of which a new session begins anew where they fill a quarter of it and
            1 MiB, with the steps between them that are remembered, a quarter of it (4 KiB at least,
            4 MiB at most).
        reader: What makes a value of a member; JSON is read as it is.
        sets: Those that its strings may be members of, as far as they are given.

    Raises:
        UsageError: The vocabulary has no end-of-sequence id.
    """

    of_kind = Facts(kind="schema", takes_bytes=True, has_speculation_keys=True, reach=CONSERVATIVE)
    artifact = ArtifactKind(COLUMNS, check_schema_shape, check_schema, 1)

    def __init__(
        self,
        arrays: SchemaArrays,
        vocabulary: Vocabulary,
        metadata: Mapping[str, str],
        *,
        memo_bytes: int = DEFAULT_BUDGET,
        reader: Callable[[str], Any] = json.loads,
        sets: Mapping[str, MemberTexts] | None = None,
    ) -> None:
        if not vocabulary.eos_token_ids:
            raise UsageError(
                "texts of a schema end with an end-of-sequence id, the vocabulary has none",
                hint="Name one with Vocabulary.with_eos.",
            )
        self.arrays = arrays
        self.vocabulary = vocabulary
        self.metadata = metadata
        self.memo_bytes = memo_bytes
        self.sets = dict(sets or {})
        self._choices = held_members(metadata)
        self._reader = reader
        self._engine: Engine | None = None

    def read_by(self, reader: Callable[[str], Any]) -> SchemaConstraint:
        """Return this constraint with another reader."""
        return self._with(reader=reader)

    def _with(self, **changed: Any) -> SchemaConstraint:
        kept: dict[str, Any] = {"memo_bytes": self.memo_bytes, "reader": self._reader}
        given = kept | {"sets": self.sets, "metadata": self.metadata} | changed
        return SchemaConstraint(self.arrays, self.vocabulary, **given)

    @property
    def set_names(self) -> Sequence[str]:
        """Names of the sets that its strings may be members of."""
        return list(self._held)

    @property
    def span_fields(self) -> Mapping[str, Mapping[str, Any]]:
        """Those of them that are pieces of documents, and of what, by name."""
        return {name: of.to_json() for name, of in self._held.items() if of is not None}

    @cached_property
    def _held(self) -> dict[str, SpanField | None]:
        return held_sets(self.metadata)

    def with_sets(self, sets: Mapping[str, Any]) -> SchemaConstraint:
        """Return this constraint with the sets that its strings may be members of."""
        for name in sets:
            if name not in self.set_names:
                raise no_set(self, name)
        given = {name: spelled(one) for name, one in sets.items()}
        require_pinned(self.metadata, given)
        made = self._with(sets=self.sets | given)
        if made.sets.keys() >= set(made.set_names):
            # Members that there are none of are refused where sets are given, not where one draws.
            _ = made._held_by_number
        return made

    def narrowed(self, sets: Sequence[NarrowedSet]) -> SchemaConstraint:
        """Return this constraint with less of the sets that its strings may be members of."""
        return self._with(sets=narrowed_sets(self, self.sets, sets))

    def annotations(self, text: bytes) -> Mapping[str, object]:
        """Return ``members``, where strings may be members of sets; nothing else."""
        if not self.set_names:
            return {}
        session = self._without_budgets._on_host()
        return {
            "members": members_of(session, text, self._choices, self._held_by_number, self.sets)
        }

    @classmethod
    def from_file(cls, file: ArtifactFile, vocabulary: Vocabulary) -> SchemaConstraint:
        """Open a verified schema artifact.

        subtle: the memory of verified files may be forged; numbers are looked at again, as the
        engine follows them.
        """
        check_schema(file.arrays, file.metadata)
        require_budgets(arrays_from(file.arrays), file.metadata, vocabulary)
        return cls(arrays_from(file.arrays), vocabulary, file.metadata)

    @cached_property
    def facts(self) -> Facts:
        """Facts of schemas, and of this one; sound only where any text is spelled."""
        missing = unspelt(self.vocabulary, int(self.arrays.indent[0]))
        is_limited = self._budgets is not None
        return replace(
            self.of_kind,
            takes_bytes=not is_limited,
            takes_pieces=is_limited,
            budgets=how_exact(self.vocabulary) if is_limited else None,
            is_sound=self.metadata.get("cdec.sound") == "1" and not missing,
            metadata=self.metadata,
            unenforced=json.loads(self.metadata.get("cdec.unenforced", "[]")),
            reader=self._reader,
        )

    def session(self, device: str = "cpu") -> Session:
        """Start a decoding run.

        A session; states and masks are shared with the constraint's other sessions. When they have
        filled the memory budget, new sessions begin with new ones, and the old ones go with the
        last session that uses them.
        """
        return on_device(self._on_host(), device)

    @cached_property
    def _held_by_number(self) -> list[MemberTexts | RegexTexts | None]:
        """The members that strings are, by their numbers; None where there are none.

        Raises:
            SetMissingError: A set is not given.
            EmptySetError: Nothing is left of a value.
            UsageError: A corpus is to satisfy something else.
        """
        given_sets(self.set_names, self.sets)
        automata = Automata(
            Edges(*(getattr(self.arrays, name) for name in Edges._fields)), self.arrays.state_label
        )
        found = [choice.of(self.sets, automata) for choice in self._choices]
        require_values(self.arrays, self._choices, found)
        return found

    def _on_host(self) -> SchemaSession:
        ends = self.vocabulary.eos_token_ids
        held = self._held_by_number
        if self._engine is None or self._engine.should_be_replaced:
            few = bool(self.arrays.indent[0] & USUAL_ESCAPES)
            tokens = json_tokens(self.vocabulary, few_escapes=few)
            arrays, budgets = without_missing(self.arrays, self._budgets, held)
            arrays = with_capacities(arrays, held) if held else arrays
            members = [
                (self.sets[choice.names[0]] if one is None else one).add
                for one, choice in zip(held, self._choices, strict=True)
            ]
            self._engine = Engine(arrays, tokens, ends, self.memo_bytes, members, budgets)
        return SchemaSession(self._engine, ends, self.vocabulary.width)

    @cached_property
    def _budgets(self) -> NDArray[np.int32] | None:
        return budgets_of(self.metadata, len(self.arrays.string_start))

    @cached_property
    def _without_budgets(self) -> SchemaConstraint:
        """The same texts whatever tokens spell them: it takes bytes."""
        if self._budgets is None:
            return self
        metadata = {name: said for name, said in self.metadata.items() if name != BUDGETS_KEY}
        return self._with(metadata=metadata)

    @cached_property
    def _checker(self) -> Callable[[bytes], bool | None]:
        from cdec.core.child.judge import TextChecker
        from cdec.core.schemas.validity import stored_language

        return TextChecker(stored_language(self.metadata, self.set_names))

    def accepts(self, text: bytes) -> bool | None:
        """Check a finished text by the jsonschema package, in a process of its own.

        Returns:
            None where that took too long, or it cannot read what is stored. What ``reader`` cannot
            read is refused.
        """
        said = self._said_of_sets(text)
        if said is None:
            return None
        verdict = self._checker(said + text)
        return False if verdict is not False and not self._is_read(text) else verdict

    def _said_of_sets(self, text: bytes) -> bytes | None:
        """Return which strings of a text are members of which set, as ``validity`` reads it.

        By the sets' own indices of texts: nothing of the tries that masks walk. None where a search
        was cut off.
        """
        if not self.set_names:
            return b""
        sets = dict(zip(self.set_names, given_sets(self.set_names, self.sets), strict=True))
        strings = {json.loads(text[first:end]) for _, first, end in strings_of(text)}
        encoded = {string: string.encode("utf-8", "surrogatepass") for string in strings}
        held: dict[str, list[str]] = {name: [] for name in sets}
        for (name, of), (string, data) in itertools.product(sets.items(), encoded.items()):
            is_held = of.holds(data)
            if is_held is None:
                return None
            held[name] += [string] if is_held else []
        return json.dumps(held).encode() + b"\n"

    def _is_read(self, text: bytes) -> bool:
        try:
            self._reader(text.decode())
        except Exception:  # a type's validators are programs: they may raise anything
            return False
        return True

    def _refusal(self, session: Any, text: bytes, shown: int) -> dict[str, Any] | None:
        """Return where a text is refused, by following its bytes, as ``text_refusal``.

        A text that masks would write with other spellings of its numbers, in the usual white space
        or with the usual escapes is valid, and ``written`` false says so, with a ``reason``. A
        string may have too many tokens, however it is spelled.
        """
        if self._budgets is not None:
            free = self._without_budgets
            found = free._refusal(free._on_host(), text, shown)
            if found is not None:
                return found
            return budget_refusal(session, free._on_host(), self.vocabulary, text)
        refusal = self._schema_refusal(session, text, shown)
        if refusal is None or refusal.get("valid"):
            return refusal

        def refused(other: bytes) -> dict[str, Any] | None:
            return self._schema_refusal(session, other, shown)

        return form_refusal(session, text, refusal, self._options, refused)

    def _schema_refusal(self, session: Any, text: bytes, shown: int) -> dict[str, Any] | None:
        """Return a text's refusal; the form of its numbers is looked at, no other."""
        refusal = text_refusal(session, self.vocabulary, text, shown)
        if refusal is None:
            return None
        if self._choices:
            refusal |= refused_string(
                session, text, refusal["byte"], self._choices, self._held_by_number
            )
        found = spelling_refusal(session, self.vocabulary, text, refusal, shown)
        if found.get("written") is not False:
            is_finite = self._options.get("numbers") == "finite"
            return found | (range_reason(session, text, found["byte"]) if is_finite else {})
        # A draft may tell spellings apart that stand for one number.
        accepted = self.accepts(text) is not False
        return found | {"valid": True} if accepted else refusal

    @cached_property
    def _options(self) -> dict[str, Any]:
        """What the schema was compiled with."""
        options: dict[str, Any] = json.loads(self.metadata.get("cdec.options", "{}"))
        return options

    def statistics(self) -> dict[str, int | float]:
        """Return sizes of the program."""
        arrays = self.arrays
        return {
            "values": len(arrays.raw_start),
            "states": len(arrays.state_label),
            "edges": len(arrays.edge_low),
            "strings": len(arrays.string_start),
            "arrays": len(arrays.array_min),
            "objects": len(arrays.object_min),
            "slots": len(arrays.slot_single),
            "choices": len(arrays.choice_value),
            "total_bytes": sum(int(array.nbytes) for array in arrays),
        }

    def summary(self) -> dict[str, Any]:
        """Return what the artifact's metadata say, the source as it was written."""
        references = from_json(self.metadata.get("cdec.references", "[]"))
        return super().summary() | {
            "sound": self.facts.is_sound,
            "schema": self.metadata["cdec.schema"],
            "references": [one._asdict() | {"digest": one.digest} for one in references],
        }
