"""Rewards by a regular expression: 1 where it is found in the text, else 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import RewardError, UsageError
from cdec.samplers.rewards.base import GivenPrompt, Record, Reward


class PatternReward(Reward):
    """Occurrence of a pattern anywhere in the text, as ``re.search`` finds it.

    The ``regex`` package matches, in the dialect of Python's ``re`` and with its own additions,
    because it can give up: a pattern that backtracks for longer than ``seconds`` on one text is
    that record's error.

    Args:
        argument: The pattern; ``(?i)`` and the like set flags.
        seconds: Wall-clock time a text may take, in seconds.
        hard_threshold: A text satisfies the reward from this score on.

    Raises:
        UsageError: An empty pattern, or a syntax error in it.
    """

    name = "regex"

    def __init__(
        self, argument: str = "", *, seconds: float = 1.0, hard_threshold: float = 1.0
    ) -> None:
        import regex

        super().__init__(argument, hard_threshold=hard_threshold)
        if not argument:
            raise UsageError("the reward regex has no pattern", hint="Give regex:PATTERN.")
        if not seconds > 0:
            raise UsageError(
                f"seconds is {seconds!r}, expected a number above 0",
                hint="Give the time that a text may take, such as 1.0, or leave it out.",
                option="seconds",
            )
        self._seconds = seconds
        try:
            self._pattern = regex.compile(argument)
        except regex.error as error:
            where = "" if error.pos is None else f", column {error.pos + 1}"
            raise UsageError(
                f"the reward's pattern {argument!r}{where}: {error.msg}",
                hint="Correct the pattern; special characters are escaped with a backslash.",
            ) from error

    def scores(
        self,
        texts: Sequence[str],
        records: Sequence[Record],
        prompts: Sequence[GivenPrompt] | None = None,
    ) -> NDArray[np.float64]:
        """Return float64[n]: 1 where the pattern is found, else 0.

        Raises:
            RewardError: A text took too long.
        """
        found = np.zeros(len(texts), np.float64)
        for row, text in enumerate(texts):
            try:
                found[row] = self._pattern.search(text, timeout=self._seconds) is not None
            except TimeoutError as error:
                raise RewardError(
                    f"the pattern took more than {self._seconds:g} seconds on one text",
                    hint="Write the pattern without nested repetition such as (a+)+.",
                ) from error
        return found
