"""What ``--lookahead`` and ``--heal`` make of a record's constraint and prompt."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.core.errors import Notice, UsageError

if TYPE_CHECKING:
    from cdec.cli.options.sampling import SampleOptions as Options
    from cdec.cli.runs.constraints import Constraints
    from cdec.core.combine.healing import SortedTokens
    from cdec.core.constraint import Constraint
    from cdec.core.models.base import LanguageModel, Prompt
    from cdec.data.prompts.record import PromptRecord

_KEPT = 64
"""Adapted constraints kept: records that share one decode with one session."""
_REASONS = {
    "--lookahead": "a set's members have one tokenisation each, so there is nothing to look ahead",
    "--heal": "a set's members have one tokenisation each, which begins at a token boundary",
    "--speculate": "a set has no scanner states to count by, and its forced tokens are evaluated "
    "ahead anyway",
}
_REASONS["--draft counts"] = _REASONS["--speculate"]


def require_grammars(
    options: Options, paths: Mapping[str, Path], *, guessing: str | None = None
) -> None:
    """Refuse options that need a grammar where the run has none, before a model loads.

    Args:
        options: All options.
        paths: Artifacts of the run, by name.
        guessing: The option by which tokens are guessed from counts, if they are.

    Raises:
        UsageError: An artifact is a set; there is none, and no record can bring one; or a lookahead
            for a method without masks.
    """
    from cdec.core.artifacts.kinds import read_artifact

    asked = {
        "--lookahead": options.lookahead is not None,
        "--heal": options.heal,
    }
    flags = [flag for flag, is_asked in asked.items() if is_asked]
    flags += [] if guessing is None else [guessing]
    if not flags:
        return
    if options.lookahead is not None and options.method == "unconstrained":
        raise UsageError(
            "--lookahead means nothing to --method unconstrained, which has no masks",
            hint="leave it out",
        )
    if options.prompt and not paths:
        raise _needs_grammar(flags[0], "there is no artifact")
    for path in paths.values():
        if read_artifact(path).metadata["cdec.kind"] == "set":
            raise _needs_grammar(flags[0], f"{path} is a set")


def nothing_guessed(guessing: str | None, kinds: Set[str | None]) -> list[Notice]:
    """Return a warning if tokens were to be guessed from counts, and no record had a grammar.

    Args:
        guessing: The option by which tokens are guessed; None where they are not.
        kinds: Of the records' constraints, None for no constraint; empty if nothing was drawn.
    """
    if guessing is None or not kinds or "grammar" in kinds:
        return []
    message = f"{guessing} guessed nothing: no record has a grammar, whose states are counted"
    return [Notice("W_NOTHING_GUESSED", message)]


class Adaptation:
    """Adapts prompts and constraints; equal ones stay equal objects, so that they share sessions.

    Args:
        model: Encodes prompts.
        lookahead: Terminals beyond the first; None for any number.
        heal: Whether to cut prompts back to a token boundary.

    Raises:
        UsageError: Healing, and a model whose prompt is not what its text continues.
    """

    def __init__(self, model: LanguageModel, *, lookahead: int | None, heal: bool) -> None:
        self._model = model
        self._lookahead = lookahead
        self._heal = heal
        self._tokens: SortedTokens | None = None
        # The original is kept with what was made of it: its id stays its own.
        self._kept: OrderedDict[tuple[int, bytes], tuple[Any, Constraint]] = OrderedDict()
        # subtle: asked by name, because importing the class imports torch.
        bases = [base.__name__ for base in type(model).__mro__]
        if heal and "EncoderDecoderModel" in bases:
            raise UsageError(
                "--heal continues the prompt's last word, and this model's texts begin anew",
                hint="leave --heal out, or take a causal model",
            )

    def of(self, prompt: Prompt, constraint: Constraint | None) -> tuple[Prompt, Constraint | None]:
        """Return what to prompt with and what to hold to.

        Raises:
            UsageError: An option needs a grammar, and the constraint is none.
            CdecError: The prompt cannot be encoded.
        """
        if self._lookahead is not None:
            chosen = self._grammar(constraint, "--lookahead")
            look = self._lookahead
            constraint = self._once(chosen, b"", lambda: chosen.with_lookahead(look))
        if not self._heal:
            return prompt, constraint
        from cdec.core.combine.healing import HealedConstraint, SortedTokens

        chosen = self._grammar(constraint, "--heal")
        if self._tokens is None:
            self._tokens = SortedTokens(self._model.vocabulary)
        tokens = self._tokens
        kept, prefix = tokens.cut(self._model.encode_prompt(prompt))
        if not prefix:
            return prompt, chosen
        return kept, self._once(chosen, prefix, lambda: HealedConstraint(chosen, prefix, tokens))

    def of_record(
        self, record: PromptRecord, constraints: Constraints, *, required: bool
    ) -> tuple[Prompt, Constraint | None]:
        """Return what to prompt with for a record, and what to hold it to.

        Args:
            record: A prompt, and perhaps a constraint of its own.
            constraints: Those of the run.
            required: Whether there must be one.

        Raises:
            UsageError: An option needs a grammar, and the constraint is none.
            CdecError: The constraint cannot be had, or the prompt cannot be encoded.
        """
        prompt: Prompt = list(record.messages or ()) if record.prompt is None else record.prompt
        return self.of(prompt, constraints.of(record, required=required))

    def _grammar(self, constraint: Any, flag: str) -> Any:
        if constraint is None:
            raise _needs_grammar(flag, "there is no constraint")
        if constraint.kind != "grammar":
            raise _needs_grammar(flag, f"the record's constraint is a {constraint.kind}")
        return constraint

    def _once(self, constraint: Any, prefix: bytes, make: Any) -> Constraint:
        key = (id(constraint), prefix)
        if key not in self._kept:
            self._kept[key] = (constraint, make())
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key][1]


def _needs_grammar(flag: str, found: str) -> UsageError:
    reason = f": {_REASONS[flag]}" if found.endswith("set") else ""
    return UsageError(
        f"{flag} needs a grammar, and {found}{reason}",
        hint=f"leave {flag} out, or compile a grammar with cdec compile-grammar FILE",
    )
