"""sample: draw texts by the name of a method, for one prompt or many, as ``cdec sample`` draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, overload

from cdec.core.errors import CdecError, UsageError
from cdec.core.seeds import content_id
from cdec.samplers.facts.method import Method
from cdec.samplers.registry import METHODS, SAMPLERS
from cdec.samplers.request import Request

if TYPE_CHECKING:
    from cdec.core.combine.free.free_text import FreeText
    from cdec.core.constraint import Constraint
    from cdec.core.models.base import LanguageModel, Prompt
    from cdec.core.sample import Sample

BATCH_SIZE = 16
"""Prompts that are decoded together."""


def named_method(name: str) -> Method:
    """Return what is declared of a method.

    Raises:
        UsageError: There is none of this name; the hint has the nearest.
    """
    method = METHODS.get(name)
    if method is None:
        close = get_close_matches(name, METHODS, n=1)
        raise UsageError(
            f"no method {name!r}",
            hint=f"did you mean {close[0]!r}?" if close else f"methods: {', '.join(METHODS)}",
        )
    return method


@overload
def sample(
    model: LanguageModel,
    constraint: Constraint | Sequence[Constraint | None] | None,
    prompts: str,
    method: str = "disc",
    *,
    n: int = 1,
    seed: int = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_new_tokens: int | None = None,
    free: FreeText | None = None,
    batch_size: int = BATCH_SIZE,
    records: Sequence[Mapping[str, object]] | None = None,
    **options: Any,
) -> list[Sample]: ...


@overload
def sample(
    model: LanguageModel,
    constraint: Constraint | Sequence[Constraint | None] | None,
    prompts: Sequence[Prompt],
    method: str = "disc",
    *,
    n: int = 1,
    seed: int = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_new_tokens: int | None = None,
    free: FreeText | None = None,
    batch_size: int = BATCH_SIZE,
    records: Sequence[Mapping[str, object]] | None = None,
    **options: Any,
) -> list[list[Sample]]: ...


def sample(
    model: LanguageModel,
    constraint: Constraint | Sequence[Constraint | None] | None,
    prompts: str | Sequence[Prompt],
    method: str = "disc",
    *,
    n: int = 1,
    seed: int = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_new_tokens: int | None = None,
    free: FreeText | None = None,
    batch_size: int = BATCH_SIZE,
    records: Sequence[Mapping[str, object]] | None = None,
    **options: Any,
) -> list[Sample] | list[list[Sample]]:
    """Draw texts for one prompt or for many.

    The draws are those of ``cdec sample`` with the same model, prompts, seed and options: the seeds
    of a prompt derive from ``seed``, from the prompt and from the number of the draw, so they do
    not depend on the batch or on the other prompts.

    Args:
        model: As ``load_model`` returns it; its vocabulary must be the constraint's.
        constraint: What all texts must satisfy, or a list with one for each prompt; None draws from
            the model alone, with methods that can.
        prompts: A text, or a sequence of prompts: texts, token ids, lists of chat messages.
        method: A name in ``METHODS``.
        n: Draws a prompt.
        seed: Of every random draw.
        temperature: Above 0; weights refer to the warped model, for this and for the next two.
        top_k: Tokens kept at each step; None keeps all.
        top_p: Mass kept at each step; None keeps all.
        max_new_tokens: Most tokens of a text; None takes the constraint's longest member, or 256.
        free: What the model writes freely before the constraint begins, or around it; None for
            nothing.
        batch_size: Prompts decoded together; changes no result.
        records: Other fields of each prompt's record, which rewards read and samples bring back.
        options: Of the method, by the names of the command line: ``K=4``, ``top_m=50``, ... Where
            that takes the name of a model, a reward or a file, an object is given here.

    Returns:
        For a text a list of its ``n`` samples, for a sequence such a list a prompt.

    Raises:
        UsageError: No such method, a value out of range, or not as many constraints or records as
            prompts.
        TypeError: The method has no such option.
        CdecError: What went wrong with the first prompt that failed.
    """
    named_method(method)
    sampler = SAMPLERS[method](**options)
    alone = isinstance(prompts, str)
    many: Sequence[Prompt] = [prompts] if isinstance(prompts, str) else prompts
    constraints = _one_each(constraint, len(many))
    view = model.with_warping(temperature, top_k, top_p)
    requests = [
        Request.numbered(
            prompt,
            own,
            id=name,
            n=n,
            seed=seed,
            max_new_tokens=max_new_tokens,
            input=fields,
            free=free,
        )
        for prompt, own, name, fields in zip(
            many, constraints, _ids(many), _fields(records, len(many)), strict=True
        )
    ]
    drawn: list[list[Sample]] = []
    for start in range(0, len(requests), max(1, batch_size)):
        for found in sampler.draw_batch(view, requests[start : start + max(1, batch_size)]):
            if isinstance(found, CdecError):
                raise found
            drawn.append(found)
    return drawn[0] if alone else drawn


def _one_each(
    constraint: Constraint | Sequence[Constraint | None] | None, prompts: int
) -> Sequence[Constraint | None]:
    """Return a constraint for each prompt."""
    if constraint is None or not isinstance(constraint, Sequence):
        return [constraint] * prompts
    if len(constraint) != prompts:
        raise UsageError(
            f"there are {len(constraint)} constraints for {prompts} prompts",
            hint="give one constraint, or as many as there are prompts",
        )
    return constraint


def _fields(
    records: Sequence[Mapping[str, object]] | None, prompts: int
) -> Sequence[Mapping[str, object] | None]:
    """Return the other fields of each prompt's record."""
    if records is None:
        return [None] * prompts
    if len(records) != prompts:
        raise UsageError(
            f"there are {len(records)} records for {prompts} prompts",
            hint="give as many as there are prompts",
        )
    return records


def _ids(prompts: Sequence[Prompt]) -> list[str]:
    """Return the ids of records that hold these prompts alone, ``-1``, ``-2`` added on repeats."""
    seen: Counter[str] = Counter()
    ids = []
    for prompt in prompts:
        is_chat = not isinstance(prompt, str) and any(isinstance(part, Mapping) for part in prompt)
        base = content_id({"messages": list(prompt)} if is_chat else prompt)
        ids.append(f"{base}-{seen[base]}" if seen[base] else base)
        seen[base] += 1
    return ids
