"""Sampling by the name of a method, for one prompt or many, as ``cdec sample`` draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, overload

from cdec.core.constraint_source import Held, made_for
from cdec.core.errors import CdecError, DuplicateIdError, UsageError, wrong_type
from cdec.core.models.language_model import Chat
from cdec.core.models.tabular import checked_token_ids
from cdec.core.seeds import content_id
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS, SAMPLERS
from cdec.samplers.request import Request, text_limit

if TYPE_CHECKING:
    from cdec.core.combine.free_text import FreeText
    from cdec.core.constraint import Constraint
    from cdec.core.models.language_model import LanguageModel, Prompt
    from cdec.core.sample import Sample
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.samplers.base import Sampler

_NO_HOLD = "leave `{}` out, or give a constraint, no free text, and a method with masks"
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
    constraint: Held | Sequence[Held | None] | None,
    prompts: str,
    method: str = "disc",
    **options: Any,
) -> list[Sample]: ...


@overload
def sample(
    model: LanguageModel,
    constraint: Held | Sequence[Held | None] | None,
    prompts: Sequence[Prompt],
    method: str = "disc",
    **options: Any,
) -> list[list[Sample]]: ...


def sample(
    model: LanguageModel,
    constraint: Held | Sequence[Held | None] | None,
    prompts: str | Sequence[Prompt],
    method: str = "disc",
    *,
    n: int = 1,
    seed: int = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_new_tokens: int | None = None,
    fit: bool = False,
    canonical: bool = False,
    templated: bool = False,
    free: FreeText | None = None,
    batch_size: int = BATCH_SIZE,
    records: Sequence[Mapping[str, object]] | None = None,
    ids: Sequence[str | int] | None = None,
    **options: Any,
) -> list[Sample] | list[list[Sample]]:
    """Draw texts for one prompt or for many.

    The draws are those of ``cdec sample`` with the same model, prompts, seed and options: the seeds
    of a prompt derive from ``seed``, from the prompt's id and from the number of the draw, so they
    do not depend on the batch or on the other prompts. Without ``ids`` the id is a hash of the
    prompt's text, of the text that token ids spell where they are the tokenizer's own for it, and
    else of the ids or messages.

    Args:
        model: As ``load_model`` returns it; its vocabulary must be the constraint's.
        constraint: What all texts must satisfy, or its source (``choices``, ``regex``, ``grammar``,
            ``schema``), which is compiled for the model's vocabulary; or a list with one for each
            prompt. None draws from the model alone, with methods that can.
        prompts: A text, or a sequence of prompts: texts, token ids, lists of chat messages.
        method: A name in ``METHODS``.
        n: Draws a prompt.
        seed: Of every random draw.
        temperature: Above 0; weights refer to the warped model, for this and for the next two.
        top_k: Tokens kept at each step; None keeps all.
        top_p: Mass kept at each step; None keeps all.
        max_new_tokens: Most tokens of a text; None takes the constraint's longest member, or 256.
        fit: Let every text end within that number of tokens; needs a constraint, and no ``free``.
        canonical: Allow only the tokens that the tokenizer itself writes for a text; likewise.
        templated: Spell the fixed parts of texts apart, as templates do; likewise.
        free: What the model writes freely before the constraint begins, or around it; None for
            nothing.
        batch_size: Prompts decoded together; changes no result.
        records: Other fields of each prompt's record, which rewards read and samples bring back.
        ids: Names of the prompts, a text or an integer each, as a record's ``id``.
        options: Of the method, by the names of the command line: ``K=4``, ``top_m=50``, ... Where
            that takes the name of a model, a reward or a file, an object is given here.

    Returns:
        For a text a list of its ``n`` samples, for a sequence such a list a prompt.

    Raises:
        UsageError: An argument of another type, no such method, a value out of range, or not as
            many constraints, records or ids as prompts.
        DuplicateIdError: Two prompts have one of ``ids``.
        TypeError: The method has no such option.
        CdecError: What went wrong with the first prompt that failed.
    """
    _require_types(model, constraint, method)
    held = made_for(constraint, model.vocabulary)
    numbers = {"n": n, "seed": seed, "temperature": temperature, "batch_size": batch_size}
    _require_numbers(numbers | {"top_k": top_k, "top_p": top_p, "max_new_tokens": max_new_tokens})
    _require_prompts(prompts)
    named_method(method)
    sampler = SAMPLERS[method](**options)
    alone = isinstance(prompts, str)
    many: Sequence[Prompt] = [prompts] if isinstance(prompts, str) else prompts
    constraints = _one_each(held, len(many))
    if canonical:
        constraints = _canonical(_required("canonical", constraints, method, free))
    if templated:
        constraints = _templated(_required("templated", constraints, method, free))
    if fit:
        constraints = _fitted(_required("fit", constraints, method, free), max_new_tokens)
    names = _ids(many, model.vocabulary) if ids is None else _checked_ids(ids, len(many))
    view = model.with_warping(temperature, top_k, top_p)
    of_one = partial(Request.numbered, n=n, seed=seed, max_new_tokens=max_new_tokens, free=free)
    each = zip(many, constraints, names, _fields(records, len(many)), strict=True)
    requests = [of_one(prompt, own, id=name, input=said) for prompt, own, name, said in each]
    drawn = list(_drawn(sampler, view, requests, max(1, batch_size)))
    return drawn[0] if alone else drawn


def _drawn(
    sampler: Sampler, model: LanguageModel, requests: Sequence[Request], batch_size: int
) -> Iterator[list[Sample]]:
    """Yield the samples of each request.

    Raises:
        CdecError: Of the first that failed.
    """
    for start in range(0, len(requests), batch_size):
        for found in sampler.draw_batch(model, requests[start : start + batch_size]):
            if isinstance(found, CdecError):
                raise found
            yield found


def _require_types(model: object, constraint: object, method: object) -> None:
    """Refuse what is no model, no constraint or no name.

    Raises:
        UsageError: It names the argument.
    """
    from cdec.core.models.language_model import LanguageModel

    if not isinstance(model, LanguageModel):
        raise wrong_type("model", model, "a model", "give what load_model returns")
    for each in constraint if isinstance(constraint, list | tuple) else [constraint]:
        if not isinstance(each, Held | None):
            hint = "give what open_artifact, choices, regex, grammar or schema returns"
            raise wrong_type("constraint", each, "a constraint or None", hint)
    if not isinstance(method, str):
        raise wrong_type("method", method, "a name", f"one of {', '.join(METHODS)}")


def _require_numbers(given: Mapping[str, object]) -> None:
    """Refuse what is no number; None stands for no limit where there is that.

    Raises:
        UsageError: It names the argument.
    """
    for name, value in given.items():
        is_real = name in ("temperature", "top_p")
        if value is None and name in ("top_k", "top_p", "max_new_tokens"):
            continue
        if isinstance(value, bool) or not isinstance(value, Real if is_real else Integral):
            what = "a number" if is_real else "a whole number"
            raise wrong_type(name, value, what, "leave it out for the default")


def _require_prompts(prompts: Any) -> None:
    """Refuse what is neither a text nor a sequence of prompts.

    Raises:
        UsageError: It names the argument.
    """
    hint = "give a text, or a list of prompts: texts, lists of token ids, lists of chat messages"
    if not isinstance(prompts, str) and not _is_list(prompts):
        raise wrong_type("prompts", prompts, "a text or a list of prompts", hint)
    for prompt in () if isinstance(prompts, str) else prompts:
        if not (isinstance(prompt, str) or _is_list(prompt)):
            raise wrong_type("prompts", prompt, "a prompt in its list", hint)


def _is_list(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)


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


def _required(
    parameter: str,
    constraints: Sequence[Constraint | None],
    method: str,
    free: FreeText | None,
) -> Sequence[Constraint]:
    """Return constraints that texts are held to more closely by a parameter.

    Raises:
        UsageError: A prompt has none, there is free text before, or the method has no masks.
    """
    hint = _NO_HOLD.format(parameter)
    if not METHODS[method].masks:
        raise UsageError(f"`{parameter}` means nothing to {method}, which has no masks", hint=hint)
    if free is not None or None in constraints:
        found = "there is free text" if free is not None else "a prompt has no constraint"
        raise UsageError(
            f"`{parameter}` is about texts that begin with a constraint, and {found}", hint=hint
        )
    return [each for each in constraints if each is not None]


def _canonical(constraints: Sequence[Constraint]) -> Sequence[Constraint]:
    """Return the texts of constraints as the tokenizer spells them, of each one once."""
    from cdec.core.combine.canonical import CanonicalTexts, canonical

    texts = CanonicalTexts(constraints[0].vocabulary) if constraints else None
    narrow = {each: canonical(each, texts) for each in constraints}
    return [narrow[each] for each in constraints]


def _templated(constraints: Sequence[Constraint]) -> Sequence[Constraint]:
    """Return the texts of constraints with their fixed parts spelled apart, of each one once."""
    from cdec.core.combine.templated import templated

    narrow = {each: templated(each) for each in constraints}
    return [narrow[each] for each in constraints]


def _fitted(constraints: Sequence[Constraint], most: int | None) -> Sequence[Constraint]:
    """Return the texts of constraints that end within a number of tokens, of each one once."""
    from cdec.core.combine.fitting import fit

    fitted = {each: fit(each, text_limit(most, each)) for each in constraints}
    return [fitted[each] for each in constraints]


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


def _ids(prompts: Sequence[Prompt], vocabulary: Vocabulary) -> list[str]:
    """Return the ids of records that hold these prompts alone, ``-1``, ``-2`` added on repeats."""
    seen: Counter[str] = Counter()
    ids = []
    for prompt in prompts:
        base = content_id(_content(prompt, vocabulary))
        ids.append(f"{base}-{seen[base]}" if seen[base] else base)
        seen[base] += 1
    return ids


def _content(prompt: Prompt, vocabulary: Vocabulary) -> object:
    """Return what a prompt is known by: its text, where it has one; else messages or token ids."""
    if isinstance(prompt, str):
        return prompt
    if any(isinstance(part, Mapping) for part in prompt):
        told = {"arguments": dict(prompt.arguments)} if isinstance(prompt, Chat) else {}
        return {"messages": list(prompt), **told}
    token_ids = checked_token_ids(prompt, vocabulary.width)
    text = vocabulary.prompt_text(token_ids)
    return token_ids if text is None else text


def _checked_ids(ids: Sequence[str | int], prompts: int) -> Sequence[str | int]:
    """Return the ids that were given, each a good one and no two alike."""
    if isinstance(ids, str) or len(ids) != prompts:
        given = "one text" if isinstance(ids, str) else f"{len(ids)} ids"
        raise UsageError(
            f"there are {given} for {prompts} prompts", hint="give a list of one id for each prompt"
        )
    places: dict[str | int, int] = {}
    for place, each in enumerate(ids):
        if each == "" or isinstance(each, bool) or not isinstance(each, str | int):
            raise UsageError(
                f"prompt {place} has the id {each!r}; an id is a text or an integer",
                hint="leave `ids` out, and a prompt is named by a hash of its text",
            )
        if places.setdefault(each, place) != place:
            raise DuplicateIdError(
                f"prompts {places[each]} and {place} have the id {each!r}",
                hint="give each prompt an id of its own: its draws derive from it",
                id=each,
            )
    return ids
