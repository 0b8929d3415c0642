"""prove: a grammar of which every allowed token has a completion, or why that is not known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cdec.compilers.grammars.definition import Lexer
from cdec.compilers.grammars.soundness.coverage import check_coverage
from cdec.compilers.grammars.soundness.decide import decide
from cdec.compilers.grammars.soundness.example import find_example
from cdec.compilers.grammars.soundness.parts import Parts
from cdec.compilers.grammars.soundness.prune import prune
from cdec.compilers.grammars.states.copies import UncountableError, lacks_some
from cdec.core.errors import LimitError
from cdec.core.grammars.errors import EmptyLanguageError

if TYPE_CHECKING:
    from cdec.compilers.grammars.options import GrammarReport
    from cdec.core.tokens.vocabulary import Vocabulary


def prove(made: Parts, lexer: Lexer, vocabulary: Vocabulary, report: GrammarReport) -> Parts:
    """Note in the report whether after every allowed token the text has a completion.

    Returns:
        The parts without what nothing completes, where the lexer lets texts begin so and what is
        left can be told within limits; else the same.

    Raises:
        EmptyLanguageError: No text is in the language.
        UncountableError: Something is to be left out of a scanner that lacks copies.
    """
    found = decide(
        made.grammar,
        made.scanner,
        made.tables,
        lexer=lexer,
        contexts=made.contexts.terminals,
        lr_context=made.contexts.of_state,
    )
    if found.empty:
        raise EmptyLanguageError(
            f"no text satisfies the grammar under `lexer` {lexer}: {found.reason}",
            hint="take `lexer` dynamic, or change the terminals that swallow each other",
            lexer=lexer,
        )
    lexing = lexer != "dynamic"
    is_sound, reason = found.is_sound, found.reason
    if found.readings is not None:
        if lacks_some(made.scanner.copies):
            raise UncountableError  # readings are told apart by more than counts
        try:
            pruned = prune(made, found.readings)
        except LimitError as limit:
            reason = f"{found.reason} (not left out: {limit.message})"
        else:
            is_sound, reason = True, _left_out(find_example(made, pruned), found.reason)
            # Readings stand for themselves there, as under ``dynamic``.
            made, lexing = pruned, False
    coverage = check_coverage(made.grammar, made.scanner, vocabulary, lexing=lexing)
    report.is_sound = is_sound and coverage.is_whole
    report.sound_reason = (coverage.reason if is_sound else "") or reason
    report.notices += coverage.notices
    return made


def _left_out(example: bytes | None, why: str) -> str:
    """Say what was pruned, by an example where there is one."""
    if example is None:
        return f"what nothing completes is left out ({why})"
    text = json.dumps(example.decode("utf-8", "backslashreplace"), ensure_ascii=False)
    text = text.replace("\\\\x", "\\x")  # half a character
    return f"what nothing completes is left out, such as texts that begin {text}"
