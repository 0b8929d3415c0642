"""CommonGen under lookahead: concept sets, who judges sentences, drafts, and the paper's grid.

Paper: Constrained Decoding with Speculative Lookaheads (Nakshatri et al. 2025), section 4 and
appendix C.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.core.models.language_model import LanguageModel
from cdec.integrations.findings.decoding import Prompts, concept_sets, pair
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.method_rows import Method, Task
from cdec.samplers.rewards import build_reward

LENGTH = 32
"""Most tokens of a sentence."""
GRID: dict[str, tuple[Any, ...]] = {
    "depth": (3, 5),
    "accept_threshold": (0.3, 0.6, 0.9),
    "reward_threshold": (0.3, 0.5, 0.6, 0.9),
    "target_tries": (0, 1, 2),
}
"""Table 2: what the paper tries on CommonGen."""
Row = Mapping[str, Any]


class ConceptJudge:
    """Says which concepts texts have: by a reward, and by CommonGen's own lists of forms.

    Args:
        spec: Of the reward. prompts: Theirs. records: Theirs, with ``inflections`` if there are.
        keeps: Whether the figures hold each text and its score as well.
    """

    def __init__(
        self, spec: str, prompts: Prompts, records: Sequence[Row], *, keeps: bool = False
    ) -> None:
        self.reward = build_reward(spec)
        self._inputs, self._records, self._keeps = list(prompts.inputs), records, keeps

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        """Return the shares of all concepts that texts have, and of texts that have all theirs."""
        scores = self.reward.scores(texts, self._inputs)
        listed = self.reward.scores(texts, self._records)
        figures: dict[str, Any] = {
            "soft": float(np.mean(scores)),
            "hard": float(np.mean(self.reward.is_satisfied(scores))),
            "hard, lists": float(np.mean(self.reward.is_satisfied(listed))),
        }
        return figures | ({"texts": texts, "each": scores} if self._keeps else {})


def concept_models(laboratory: Laboratory) -> Laboratory:
    """Return the laboratory with the task models for sentences of concepts, if both are there."""
    large, small = (laboratory.task_path(name) for name in ("concepts-large", "concepts-small"))
    if large is None or small is None:
        return laboratory
    return replace(laboratory, model=str(large), draft=str(small))


def test_task(laboratory: Laboratory, count: int) -> Task:
    """Return ``count`` concept sets of the dev part, all where the laboratory takes all data."""
    return _task(laboratory, "dev", None if laboratory.all_data else count)


def validation_task(laboratory: Laboratory, count: int) -> Task:
    """Return ``count`` concept sets of the training part; as many as the paper's for all data."""
    return _task(laboratory, "train", 200 if laboratory.all_data else count)


def _task(laboratory: Laboratory, part: str, count: int | None) -> Task:
    assert laboratory.data is not None
    prompts, records = concept_sets(laboratory.data / f"commongen/{part}.jsonl.xz", count)
    judge = ConceptJudge("coverage", prompts, records, keeps=True)
    return Task(prompts, judge.reward, judge, LENGTH)


def drafts(laboratory: Laboratory, *, half: bool = False) -> dict[str, LanguageModel]:
    """Return drafts by name, the cheapest first.

    They are the laboratory's draft, the target without its last layer, and the target itself;
    layers are only left out of a model in a folder.

    Args:
        laboratory: The models.
        half: Whether the target's first half is among them.
    """
    target, draft = pair(laboratory)
    found = {"draft": draft}
    layers = laboratory.layers
    if layers is not None:
        for kept in (layers // 2, layers - 1) if half else (layers - 1,):
            found[f"target, {kept} of {layers} layers"] = laboratory.first_layers(kept)
    return {**found, "target": target}


def combinations(grid: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Return every combination of the values of options."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def cdsl(label: str, draft: LanguageModel | None = None, **options: Any) -> Method:
    """Return a row of ``cdsl``; its draft is the laboratory's if None."""
    return Method(label, "cdsl", options, draft=draft)


def errors_above(scores: Any, others: Any) -> float:
    """Return by how many standard errors paired scores are above others on average."""
    difference: NDArray[np.float64] = np.asarray(scores) - np.asarray(others)
    error = float(difference.std(ddof=1) / np.sqrt(len(difference)))
    return float(difference.mean()) / max(error, 1e-12)


def shown_options(options: Mapping[str, Any]) -> str:
    """Return options as ``name=value`` pairs."""
    return ", ".join(f"{name}={value}" for name, value in options.items())
