"""Methods of cdec behind transformers' ``model.generate``, and what they return there."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation import GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput

from cdec.core.combine.free_text import FreeText
from cdec.core.constraint_source import ConstraintSource, Held
from cdec.core.errors import UsageError
from cdec.core.models.warping import Warping
from cdec.core.sample import FINISH_COMPLETE, FINISH_DEAD_END, FINISH_NO_MARKER, Sample
from cdec.core.seeds import SEED_BITS
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.transformers.call import Call, read_call
from cdec.integrations.transformers.modules import called_vocabulary, draft_model, language_model
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS
from cdec.samplers.sampling import named_method, sample


@dataclass
class ConstrainedOutput(GenerateDecoderOnlyOutput):
    """Output of ``generate`` of a causal model where it is no tensor.

    Attributes:
        samples: One a row of ``sequences``.
    """

    samples: list[Sample] | None = None


@dataclass
class ConstrainedPairOutput(GenerateEncoderDecoderOutput):
    """Output of ``generate`` of an encoder-decoder model where it is no tensor.

    Attributes:
        samples: One a row of ``sequences``.
    """

    samples: list[Sample] | None = None


def sequences_of(
    begins: Tensor, samples: Sequence[Sequence[Sample]], *, end_id: int, pad_id: int, most: int
) -> Tensor:
    """Return rows as ``generate`` returns them, and as its attribute ``samples`` what they are of.

    A row is what its text begins after, the text's tokens, an end if the text has one and
    there is room for it, and padding.

    Args:
        begins: int64[prompts, tokens], what the rows of each prompt begin with.
        samples: n of each prompt.
        end_id: Stands for the end event.
        pad_id: Fills rows up on the right.
        most: Tokens after ``begins``.

    Returns:
        int64[prompts * n, tokens], the rows of a prompt adjacent, on the device of ``begins``.
    """
    flat = [each for of_prompt in samples for each in of_prompt]
    texts = []
    for each in flat:
        has_end = each.finish_reason in (FINISH_COMPLETE, FINISH_NO_MARKER)
        is_ended = has_end and len(each.token_ids) < most
        texts.append([*each.token_ids, *([end_id] if is_ended else [])])
    width = max(map(len, texts), default=0)
    padded = [text + [pad_id] * (width - len(text)) for text in texts]
    block = torch.tensor(padded, dtype=begins.dtype, device=begins.device).reshape(
        len(texts), width
    )
    counts = torch.tensor([len(of_prompt) for of_prompt in samples], device=begins.device)
    sequences: Any = torch.cat([begins.repeat_interleave(counts, dim=0), block], dim=1)
    sequences.samples = flat
    found: Tensor = sequences
    return found


def tell_of_dead_ends(
    samples: Sequence[Sequence[Sample]], warping: Warping, *, allowed: bool
) -> None:
    """Warn of rows whose texts came to a dead end, which look like others and are no members.

    Args:
        samples: Of each prompt.
        warping: Of the scores.
        allowed: Whether a warping may leave a prompt nothing.

    Raises:
        UsageError: It left all texts of a prompt nothing that the constraint allows.
    """
    stuck = [[sample.finish_reason == FINISH_DEAD_END for sample in own] for own in samples]
    is_cut = warping.top_k is not None or warping.top_p is not None
    lost = [
        number
        for number, own in enumerate(samples)
        if all(stuck[number]) and not any(sample.token_ids for sample in own)
    ]
    if is_cut and lost and not allowed:
        raise UsageError(
            f"top_k={warping.top_k} and top_p={warping.top_p} leave prompt {lost[0]} no token that "
            "the constraint allows; `do_sample` alone has a top_k of 50",
            hint="Give `top_k` 0 and `top_p` 1, or `allow_dead_ends` to get such rows.",
            option="top_k",
        )
    rows = [row for row, is_stuck in enumerate(chain.from_iterable(stuck)) if is_stuck]
    if rows:
        warnings.warn(
            f"{len(rows)} of {sum(map(len, stuck))} rows came to a dead end and are no members of "
            f"the constraint: {rows[:10]}; their samples have the finish_reason dead_end",
            stacklevel=3,
        )


def output_of(sequences: Any, is_pair: bool) -> ConstrainedOutput | ConstrainedPairOutput:
    """Return rows and their samples as an output object."""
    kind = ConstrainedPairOutput if is_pair else ConstrainedOutput
    return kind(sequences=sequences, samples=sequences.samples)


def generate(
    model: Any,
    input_ids: Tensor,
    logits_processor: Sequence[Any] = (),
    stopping_criteria: Sequence[Any] = (),
    generation_config: GenerationConfig | None = None,
    *,
    method: str = "disc",
    constraint: Held | Sequence[Held | None] | None = None,
    vocabulary: Vocabulary | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    num_return_sequences: int | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    free: FreeText | None = None,
    records: Sequence[Mapping[str, object]] | None = None,
    ids: Sequence[str | int] | None = None,
    allow_dead_ends: bool = False,
    inputs_tensor: Tensor | None = None,
    **options: Any,
) -> Tensor | ConstrainedOutput | ConstrainedPairOutput:
    """Draw texts by one of cdec's methods, as a ``custom_generate`` of ``model.generate``.

    The texts are those of ``cdec.samplers.sample`` for the same model, prompts, seed and options.
    What ``model.generate`` was given is honoured or refused by name: padding, limits, ends, forced
    first tokens, ``num_beams`` of methods that have beams, and the warping: with ``do_sample`` that
    of the generation config (where ``top_k`` is 50 unless it says otherwise), without it none,
    but for what the call itself names. ``assistant_model`` is the draft of methods that have one.

    Args:
        model: Used as it is, no weight is copied; in evaluation mode.
        input_ids, logits_processor, stopping_criteria, generation_config, inputs_tensor: Given by
            ``model.generate``.
        method: A name in ``METHODS``.
        constraint: What all texts must satisfy, or its source (``choices``, ``schema``, ...), or a
            list with one for each prompt of the batch; None draws from the model alone, with
            methods that can.
        vocabulary: Of the model, as ``model_vocabulary`` returns it, with which constraints are
            compared; None reads that of the tokenizer in the place the model was loaded from.
        seed: Of every random draw; None draws one from ``generator``.
        generator: None is torch's own, which ``torch.manual_seed`` sets.
        num_return_sequences: Texts of each prompt.
        temperature, top_k, top_p: Of the model, with ``do_sample`` or without.
        free: What the model writes freely before the constraint begins, or around it.
        records: Other fields of each prompt's record, which rewards read.
        ids: Names of the prompts, from which their seeds derive; None as in ``sample``.
        allow_dead_ends: Whether the warping may leave all texts of a prompt nothing that the
            constraint allows. Rows that got stuck are told of by a warning in any case, since a
            pipeline drops the samples.
        options: Of the method, as ``cdec.samplers.sample`` takes them; ``draft`` may be a module.

    Returns:
        int64[prompts * n, tokens] on the device of ``input_ids``, padded on the right, with the
        samples of its rows as its attribute ``samples``; or, with ``return_dict_in_generate``, an
        output object with ``sequences`` and ``samples``.

    Raises:
        UsageError: Something that was asked for cannot be honoured, or the warping leaves a prompt
            nothing.
        TokenizerMismatchError: A constraint was made for another tokenizer; nothing is drawn.
        TypeError: The method has no such option.
        CdecError: What went wrong with the first prompt that failed.

    Example:
        >>> constraint = set_constraint(["yes", "no"], model_vocabulary(model, tokenizer))
        >>> model.generate(**inputs, custom_generate=generate, constraint=constraint, seed=0)
    """
    declared = named_method(method)
    config = GenerationConfig() if generation_config is None else generation_config
    call = read_call(
        input_ids,
        logits_processor,
        stopping_criteria,
        config,
        {name: value for name, value in options.items() if name not in _OPTIONS},
        encoder_ids=inputs_tensor if model.config.is_encoder_decoder else None,
        warping={"temperature": temperature, "top_k": top_k, "top_p": top_p},
        n=num_return_sequences,
    )
    chosen = _method_options(declared, options, call)
    constraints = constraint if isinstance(constraint, Sequence) else [constraint]
    made = [each for each in constraints if not isinstance(each, ConstraintSource)]
    own = called_vocabulary(model, vocabulary, call.end_ids, made)
    if "draft" in chosen:
        chosen["draft"] = draft_model(chosen["draft"], own)
    samples = sample(
        language_model(model, own, first_tokens=call.first_tokens, uses_cache=call.uses_cache),
        constraint,
        call.prompts,
        method,
        n=call.n,
        seed=_seed(seed, generator),
        **asdict(call.warping),
        max_new_tokens=call.max_new_tokens,
        free=free,
        batch_size=len(call.prompts),
        records=records,
        ids=ids,
        **chosen,
    )
    tell_of_dead_ends(samples, call.warping, allowed=bool(allow_dead_ends))
    ends = {"end_id": call.end_ids[0], "pad_id": call.pad_id}
    rows = sequences_of(call.begins, samples, **ends, most=call.max_new_tokens)
    return output_of(rows, call.first_tokens is not None) if call.returns_dict else rows


def _method_options(method: Method, given: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """Return the options of a method, those included that ``generate`` has names of its own for.

    Raises:
        UsageError: One cannot be had, or is said twice.
    """
    options = {name: value for name, value in given.items() if name in _OPTIONS}
    return _with_beams(method, options, call) | _assistant(method, options)


def _with_beams(method: Method, options: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """Return a method's options, with what ``generate`` says of beams.

    Raises:
        UsageError: The method has no such option, or it is said twice.
    """
    found = dict(options)
    if call.beams > 1:
        if method.option("beams") is None or found.get("beams", call.beams) != call.beams:
            raise UsageError(
                f"`num_beams` is {call.beams}, which method {method.name} cannot honour",
                hint="Give `num_beams` 1, or `beams` alone to a method that has it.",
                option="num_beams",
            )
        found["beams"] = call.beams
    if method.option("length_penalty") is not None:
        found.setdefault("length_penalty", call.length_penalty)
    elif call.beams > 1 and call.length_penalty != 1:
        raise UsageError(
            f"`length_penalty` is {call.length_penalty}, and method {method.name} has none",
            hint="Give `length_penalty` 1.",
            option="length_penalty",
        )
    return found


def _assistant(method: Method, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the draft that ``generate`` was given as ``assistant_model``, if it was.

    Raises:
        UsageError: The method has no draft, or there are two; or something else was given that
            ``generate`` keeps to itself and that cannot be honoured.
    """
    kept = _kept_by_generate()
    for name in ("streamer", "synced_gpus"):
        if kept.get(name):
            raise UsageError(
                f"`{name}` cannot be honoured by cdec's methods", hint="Leave it out.", option=name
            )
    assistant = kept.get("assistant_model")
    if assistant is None:
        return {}
    if method.option("draft") is None or options.get("draft") is not None:
        raise UsageError(
            f"`assistant_model` is given, and method {method.name} has "
            + ("no draft" if method.option("draft") is None else "a `draft` already"),
            hint="Leave it out.",
            option="assistant_model",
        )
    return {"draft": assistant}


def _kept_by_generate() -> Mapping[str, Any]:
    """Return the arguments of the running ``model.generate``, empty where none is running.

    subtle: it hands a callable none of its parameters ``assistant_model``, ``streamer`` and
    ``synced_gpus``, and says nothing where they are given. So that none is ignored, they are read
    where they stand.
    """
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") != "transformers.generation.utils":
        frame = frame.f_back
    return {} if frame is None else dict(frame.f_locals)


def _seed(seed: int | None, generator: torch.Generator | None) -> int:
    """Return the seed of a call.

    Raises:
        UsageError: There are two.
    """
    if seed is None:
        device = "cpu" if generator is None else generator.device
        drawn = torch.randint(1 << SEED_BITS, (), generator=generator, device=device)
        return int(drawn)
    if generator is not None:
        raise UsageError("`seed` and `generator` are both given", hint="Give one of them.")
    return seed


_OPTIONS = frozenset(
    name
    for each in METHODS.values()
    for option in each.options
    for name in (option.name, option.also)
    if name
)
"""The keywords of all methods."""


def _signature() -> inspect.Signature:
    """Return the signature of ``generate`` with the options of all methods.

    ``model.generate`` hands a callable those arguments alone that its signature names.
    """
    plain = inspect.signature(generate)
    own = [each for each in plain.parameters.values() if each.kind is not each.VAR_KEYWORD]
    rest = [each for each in plain.parameters.values() if each.kind is each.VAR_KEYWORD]
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(name, kind, default=None) for name in sorted(_OPTIONS)]
    return plain.replace(parameters=[*own, *more, *rest])


generate.__signature__ = _signature()  # type: ignore[attr-defined]
