"""Probabilities of texts rather than of token sequences: sums over all spellings, with bounds.

A text's P is the sum of P over the token sequences that spell it, of which there are exponentially
many. Best-first search along the ways to spell it finds those that hold nearly all of the mass, and
what it leaves bounds the rest: P of each prefix that was not gone on from, times the mass of the
tokens there that still spell the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cdec.core.combine.sorted_tokens import SortedTokens
from cdec.core.errors import UntokenizableError
from cdec.core.options import Option
from cdec.samplers.options import DEFAULT_EVALUATIONS, DEFAULT_MAX_WALKS, DEFAULT_ROUND
from cdec.samplers.prefix_tree import Bracket
from cdec.samplers.request import Request
from cdec.samplers.scoring.ways import Ways, WaysConstraint, ways_to_spell, ways_within
from cdec.samplers.search.best_first import Search
from cdec.samplers.walks.batch import Batch

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.models.language_model import LanguageModel, Prompt
    from cdec.core.tokens.vocabulary import Vocabulary

_EVALUATIONS = Option(
    name="max_evaluations", type=int, default=DEFAULT_EVALUATIONS, unit="prefixes", at_least=1
)
_SLACK = 27.6
"""Nats: a prefix that holds less than 1e-12 of what was found is left to the upper bound."""


@dataclass(frozen=True, slots=True)
class SpellingSum:
    """Sum of P over the spellings of a text.

    Attributes:
        spellings: How many were found.
        bracket: Certified, of the sum; its texts are the spellings.
    """

    spellings: int
    bracket: Bracket

    def fields(self, mass: Bracket | None) -> dict[str, object]:
        """Return the fields of a score's record.

        Args:
            mass: Of P(S); None without constraint, where P of the text is its Q.
        """
        lower, upper = self.bracket.fields().values()
        known: dict[str, object] = {
            "spellings": self.spellings,
            "log_text_lower": lower,
            "log_text_upper": upper,
        }
        if mass is None:
            return known
        found = self.bracket.log_lower if self.spellings else None
        q = mass.probability_of(found, self.bracket.log_unseen)
        return known | {
            "text_probability_lower": q["probability_lower"],
            "text_probability_upper": q["probability_upper"],
        }


class SpellingSums:
    """Sums P over the spellings of texts.

    Args:
        vocabulary: Of the model.
        max_evaluations: Most prefixes looked at for a text, those that follow in the same pass not
            counted.

    Raises:
        UsageError: A number below its range.
    """

    def __init__(
        self, vocabulary: Vocabulary, *, max_evaluations: int = DEFAULT_EVALUATIONS
    ) -> None:
        self._vocabulary = vocabulary
        self._tokens = SortedTokens(vocabulary)
        self._most = _EVALUATIONS.check(max_evaluations)

    def ways(self, token_ids: Sequence[int], constraint: Constraint | None, *, end: bool) -> Ways:
        """Return the ways to spell the text of some tokens: none for the empty text.

        Args:
            token_ids: Of the text.
            constraint: That the spellings satisfy, which says where they end; None for none.
            end: Whether texts without constraint are followed by an end event.

        Raises:
            UntokenizableError: Special tokens are among them.
            LimitError: The constraint has too many states behind the same bytes.
        """
        if not self._vocabulary.is_ordinary[list(token_ids)].all():
            raise UntokenizableError(
                "special tokens are among the text's, and spellings are those of bytes",
                hint="Score it without the sums over spellings.",
            )
        text = self._vocabulary.decode(token_ids)
        if not text:
            return []
        if constraint is None:
            return ways_to_spell(text, self._tokens, ends_itself=not end)
        return ways_within(text, self._tokens, constraint.session())

    def run(
        self,
        model: LanguageModel,
        prompts: Sequence[Prompt],
        ways: Sequence[Ways],
        *,
        max_new_tokens: int | None = None,
    ) -> list[SpellingSum]:
        """Sum over spellings, those of all texts in lockstep.

        Args:
            model: Of the vocabulary; its warping belongs to every probability.
            prompts, ways: n of each; of each text at least one place.
            max_new_tokens: Spellings of more tokens do not count, nor those beyond the context.

        Returns:
            n sums. Cost: a forward pass for every 16 prefixes of a text, over all texts together.

        Raises:
            CdecError: A prompt that the model cannot take.
        """
        requests = [
            Request(
                prompt,
                WaysConstraint(found, self._vocabulary),
                [0],
                max_new_tokens=max_new_tokens,
            )
            for prompt, found in zip(prompts, ways, strict=True)
        ]
        with Batch(model, requests) as batch:
            search = Search(
                batch,
                np.ones(len(requests), np.int64),
                by_text=True,
                round=DEFAULT_ROUND,
                max_evaluations=self._most,
                max_walks=DEFAULT_MAX_WALKS,
            )
            for texts in search.found.values():
                texts.slack = _SLACK
            search.run()
            for error in batch.errors.values():
                raise error
            brackets = [batch.tree.bounds(r, int(batch.roots[r])) for r in range(len(requests))]
        best = [search.found[r].best(1) for r in range(len(requests))]
        found = [entries[0].tokenisations if entries else 0 for entries in best]
        return [SpellingSum(*pair) for pair in zip(found, brackets, strict=True)]
