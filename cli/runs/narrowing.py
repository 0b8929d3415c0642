"""What ``--and`` and ``--deny`` make of a record's constraint."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.core.errors import Notice, UsageError

if TYPE_CHECKING:
    from cdec.core.combine.denial_trie import DeniedTexts
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary


def conjoined_paths(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the artifacts of ``--and`` by the words that name them.

    Raises:
        UsageError: One is given twice.
    """
    named = {f"--and {path}": path for path in paths}
    if len(named) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"--and names {twice} twice", hint="leave one of them out")
    return named


class Narrowing:
    """Conjoins constraints with the artifacts of ``--and``, then leaves denied texts out.

    Equal constraints stay equal objects, so that their records share sessions.

    Args:
        conjoined: The artifacts of ``--and``, by the words that name them.
        vocabulary: The model's.
        denied: Texts never to emit.
        kept: Narrowed constraints kept: records that share one decode with one session.

    Raises:
        CdecError: An artifact cannot be opened.
    """

    def __init__(
        self,
        conjoined: Mapping[str, Path],
        vocabulary: Vocabulary,
        denied: Sequence[str],
        kept: int,
    ) -> None:
        from cdec.core.artifacts.kinds import open_artifact

        self._others = [open_artifact(p, vocabulary=vocabulary) for p in conjoined.values()]
        self._names = ", ".join(conjoined)
        self._denied = list(dict.fromkeys(text.encode() for text in denied))
        self._trie: DeniedTexts | None = None
        self._most = kept
        # The original is kept with what was made of it: its id stays its own.
        self._kept: OrderedDict[int, tuple[Constraint | None, Constraint]] = OrderedDict()
        self._noted: dict[str, Notice] = {}
        self._counts: Counter[str] = Counter()

    def of(self, constraint: Constraint | None, name: str) -> Constraint | None:
        """Return what is left of a constraint; of the model alone, what ``--and`` asks for.

        Args:
            constraint: As its artifact or its record gives it; None for the model alone.
            name: What messages call it.

        Raises:
            EmptySetError: Nothing is left.
            UsageError: Denied texts, and no constraint to leave them out of.
        """
        if not (self._others or self._denied):
            return constraint
        key = id(constraint)
        if key not in self._kept:
            self._kept[key] = (constraint, self.once(constraint, name))
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key][1]

    def once(self, constraint: Constraint | None, name: str, *, warn: bool = True) -> Constraint:
        """Return what is left of a constraint that no other record has, as ``of``."""
        from cdec.core.combine.conjunction.constraint import ConjunctionConstraint, conjoin
        from cdec.core.combine.denial import deny
        from cdec.core.combine.denial_trie import DeniedTexts

        chosen: Any = constraint
        for other in self._others:
            chosen = other if chosen is None else conjoin(chosen, other)
        if chosen is None:
            raise UsageError(
                "--deny leaves texts of a constraint out, and the record has none",
                hint="leave --deny out, or name the artifact with -a ARTIFACT",
            )
        if warn and isinstance(chosen, ConjunctionConstraint):
            self._note("W_DEAD_ENDS", f"{name} and {self._names}: {_DEAD_ENDS}", {})
        if not self._denied:
            return chosen  # type: ignore[no-any-return]
        if chosen.kind != "set" and self._trie is None:
            self._trie = DeniedTexts(self._denied, chosen.vocabulary)
        left: Any = deny(chosen, self._denied, denied=self._trie)
        unknown = left.denied_unknown if warn else 0
        if unknown:
            message = f"{name}: {unknown} of {len(self._denied)} denied texts are no members"
            self._note("W_DENY_UNKNOWN", message, {"unknown": unknown})
        narrowed: Constraint = left
        return narrowed

    def _note(self, code: str, message: str, details: dict[str, object]) -> None:
        self._noted.setdefault(code, Notice(code, message, details))
        self._counts[code] += 1

    def take_notices(self) -> list[Notice]:
        """Return the warnings since the last call: the first of each code, with their number."""
        taken = []
        for code, first in self._noted.items():
            more = self._counts[code] - 1
            message = f"{first.message} (and {more} more constraints)" if more else first.message
            taken.append(replace(first, message=message))
        self._noted.clear()
        self._counts.clear()
        return taken


_DEAD_ENDS = (
    "whether every beginning that both allow has an end that both allow is not known; "
    "a text that gets stuck has finish_reason dead_end"
)
