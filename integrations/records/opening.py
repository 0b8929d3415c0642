"""What options of methods name, opened: draft models, rewards, files of counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.core.errors import UsageError
from cdec.core.models.loading import load_model
from cdec.core.tokens.locations import EMBEDDED, EMBEDDED_DRAFT
from cdec.samplers.options import COUNTS, LOOKUP

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel
    from cdec.integrations.records.settings import Execution
    from cdec.samplers.method import Method


def opened_options(
    method: Method,
    given: Mapping[str, Any],
    model: LanguageModel,
    name: str | None,
    execution: Execution,
) -> dict[str, Any]:
    """Return the options of a method with objects in the place of the names of models and files.

    Args:
        method: The options are its own.
        given: By name; objects stay as they are.
        model: What draws.
        name: By which the model was loaded; the embedded one brings its draft.
        execution: How the run is carried out.

    Raises:
        UsageError: A tree, which is of one record, where there are many.
        CdecError: What is named cannot be had, or does not fit the model.
    """
    values = dict(given)
    if values.get("tree") is not None and not execution.has_one_record:
        raise UsageError(
            "`tree` keeps the draws of one record, and records are many",
            hint="leave it out, or draw with the sampler itself",
        )
    if method.needs_draft and name == EMBEDDED:
        values.setdefault("draft", EMBEDDED_DRAFT)
    draft, reward, counts = (values.get(option) for option in ("draft", "reward", "counts"))
    if isinstance(draft, str) and draft not in (COUNTS, LOOKUP):
        values["draft"] = _draft(draft, model, execution.draft_load)
    if isinstance(reward, str):
        from cdec.samplers.rewards import build_reward

        values["reward"] = build_reward(reward)
    if isinstance(counts, str | Path):
        from cdec.samplers.drafts.counts import Counts

        values["counts"] = Counts.load(Path(counts))
        values["counts"].require_vocabulary(model.vocabulary.vocabulary_hash)
    return values


def _draft(name: str, model: LanguageModel, load: Mapping[str, Any]) -> LanguageModel:
    from cdec.samplers.drafts.models import require_draft

    draft = load_model(name, device=str(model.device), **load)
    require_draft(model, draft)
    return draft
