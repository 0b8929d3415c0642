"""What a constraint asks of finished texts, and when it stops asking."""

from __future__ import annotations

from cdec.core.validity.judge import JUDGE, Judge
from cdec.core.validity.language import Language

DEFAULT_SECONDS = 5.0
"""Processor time that one verdict may take, making the parser included."""
_MOST_LOST = 3
"""Texts without verdict after which a language is given up, if no more than these were judged."""


class TextChecker:
    """The independent check of one language's texts, in a process that can be killed.

    A language whose parser could not be made in time is not tried again. Nor is one most of whose
    texts, three at least, ran out of time or memory: what is left of a run does not wait for it.

    Args:
        language: Of the constraint.
        seconds: Limit of one verdict, of processor time.
        judge: Where verdicts come from.
    """

    def __init__(
        self, language: Language, *, seconds: float = DEFAULT_SECONDS, judge: Judge = JUDGE
    ) -> None:
        self._language = language
        self._seconds = seconds
        self._judge = judge
        self._given_up: str | None = None
        self._judged = 0
        self._lost = 0

    def __call__(self, text: bytes) -> bool | None:
        """Return whether a text is a member; None where that is not known.

        Cost: the first call builds the parser; what a text costs is said where its reader is.
        """
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return False
        if self._given_up is not None:
            self._judge.note(self._given_up)
            return None
        answer = self._judge.ask(self._language, text, self._seconds)
        if answer.lost is None:
            self._judged += 1
            verdict: bool | None = answer.verdict
            return verdict
        self._lost += 1
        message = f"whether a text is in its language {answer.lost}: `valid` is null"
        if not answer.is_built or self._lost >= max(_MOST_LOST, self._judged + 1):
            self._given_up = message
        self._judge.note(message)
        return None
