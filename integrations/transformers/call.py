"""Requests of ``generate``: what a call asks for, read from what it hands on; what cannot be had.

What shapes the scores arrives as logits processors and what ends texts as stopping criteria,
whoever asked for them, so both lists are read whole: of what is not known here, an error names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import (
    ForcedBOSTokenLogitsProcessor,
    GenerationConfig,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.generation import EosTokenCriteria, MaxLengthCriteria

from cdec.core.errors import UsageError
from cdec.core.models.warping import Warping

_LENGTHS = ("max_length", "max_new_tokens", "num_return_sequences", "return_dict_in_generate")
_SCORES = ("do_sample", "temperature", "top_k", "top_p", "num_beams", "length_penalty")
_TOKENS = ("eos_token_id", "pad_token_id", "bos_token_id", "decoder_start_token_id")
_COSTS = ("use_cache", "max_cache_len", "cache_config", "compile_config", "disable_compile")
_READ = {*_LENGTHS, *_SCORES, *_TOKENS, "forced_bos_token_id", *_COSTS, "transformers_version"}
"""Fields of generation configs that are read here, or that change no text."""
_MADE = {"use_cache", "logits_to_keep", "encoder_outputs", "cache_position"}
"""Arguments of the module that ``generate`` makes itself."""
_ORDER = (TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of a call of ``generate``.

    Attributes:
        prompts: Token ids of each prompt, without padding.
        begins: int64[prompts, tokens], what returned rows begin with.
        n: Texts of each prompt.
        warping: Of the scores.
        max_new_tokens: Most tokens of a text.
        end_ids: Ids that end a text, the one that is written first.
        pad_id: Fills rows up.
        first_tokens: What the texts of an encoder-decoder model begin after; None for others.
        beams: Width that was asked for; 1 for none.
        length_penalty: As ``generate`` has it, 1 unless something else is said.
        uses_cache: Whether keys and values may be kept.
        returns_dict: Whether an output object is returned instead of a tensor.
    """

    prompts: list[list[int]]
    begins: Tensor
    n: int
    warping: Warping
    max_new_tokens: int
    end_ids: list[int]
    pad_id: int
    first_tokens: list[int] | None
    beams: int
    length_penalty: float
    uses_cache: bool
    returns_dict: bool


def read_call(
    input_ids: Tensor,
    processors: Iterable[Any],
    criteria: Iterable[Any],
    config: GenerationConfig,
    arguments: Mapping[str, Any],
    *,
    encoder_ids: Tensor | None,
    warping: Mapping[str, Any],
    n: int | None,
) -> Call:
    """Read what ``generate`` hands to a ``custom_generate``.

    Args:
        input_ids: int64[rows, tokens], each prompt repeated as often as the config says.
        processors: All that ``generate`` would apply to scores.
        criteria: All that it would ask whether to stop.
        config: As it was prepared for the call.
        arguments: Of the module.
        encoder_ids: int64[prompts, tokens] of an encoder-decoder model; None for others.
        warping: What the call itself says of temperature, top_k and top_p; else processors do.
        n: Texts of each prompt, if the call itself says so; else the config does.

    Raises:
        UsageError: Something cannot be honoured; all that was found is named.
    """
    _refuse(_fields_not_had(config))
    _refuse(_arguments_not_had(arguments))
    repeats = max(config.num_beams, config.num_return_sequences)
    begins = input_ids[::repeats]
    cut, first = _limit(criteria, config.max_length) - input_ids.shape[1], None
    shaped = _Shaped.by(processors)
    if encoder_ids is None:
        if shaped.forced_first is not None:
            _refuse([("forced_bos_token_id", shaped.forced_first, None)])
        mask = arguments.get("attention_mask")
        prompts = left_padded(begins, None if mask is None else mask[::repeats])
        require_usual_positions(arguments.get("position_ids"), begins, mask, repeats)
    else:
        prompts = right_padded(encoder_ids, arguments.get("attention_mask"), repeats)
        begins, first = first_tokens_of(begins, shaped.forced_first)
        cut += input_ids.shape[1] - begins.shape[1]
    return Call(
        prompts=prompts,
        begins=begins,
        n=config.num_return_sequences if n is None else n,
        warping=shaped.warping(warping),
        max_new_tokens=cut,
        end_ids=_ids(config.eos_token_id),
        pad_id=_ids(config._pad_token_tensor)[0],
        first_tokens=first,
        beams=config.num_beams,
        length_penalty=config.length_penalty,
        uses_cache=bool(config.use_cache),
        returns_dict=bool(config.return_dict_in_generate),
    )


@dataclass(slots=True)
class _Shaped:
    """What processors do to scores.

    Attributes:
        found: temperature, top_k and top_p, where they are said.
        forced_first: The first token of texts, where one is forced.
    """

    found: dict[str, Any]
    forced_first: int | None = None

    @classmethod
    def by(cls, processors: Iterable[Any]) -> _Shaped:
        """Read processors.

        Raises:
            UsageError: One does something else, or in another order.
        """
        shaped = cls({})
        unknown, last = [], -1
        for each in processors:
            if type(each) is ForcedBOSTokenLogitsProcessor:
                shaped.forced_first = int(each.bos_token_id)
            elif type(each) in _ORDER and _ORDER.index(type(each)) > last:
                last = _ORDER.index(type(each))
                unknown += shaped._add(each)
            else:
                unknown.append(type(each).__name__)
        if unknown:
            raise UsageError(
                f"these logits processors cannot be honoured: {', '.join(unknown)}",
                hint="Leave them out, and what asks for them; a constraint is given as "
                "`constraint`, and temperature, top_k and top_p once each, in this order.",
            )
        return shaped

    def _add(self, each: Any) -> list[str]:
        """Note a warper; return its name if it is not as cdec has it."""
        if type(each) is TemperatureLogitsWarper:
            self.found["temperature"] = float(each.temperature)
            return []
        is_usual = each.filter_value == -torch.inf
        if type(each) is TopKLogitsWarper:
            self.found["top_k"] = int(each.top_k)
        else:
            self.found["top_p"] = float(each.top_p)
            is_usual &= each.min_tokens_to_keep == 1
        return [] if is_usual else [type(each).__name__]

    def warping(self, said: Mapping[str, Any]) -> Warping:
        """Return the warping, of which the call itself may say otherwise."""
        chosen = self.found | {name: value for name, value in said.items() if value is not None}
        # As generate has it, 0 keeps all.
        return Warping(
            chosen.get("temperature", 1.0), chosen.get("top_k") or None, chosen.get("top_p")
        )


def _fields_not_had(config: GenerationConfig) -> list[tuple[str, Any, Any]]:
    """Return the fields that change texts in ways that no method has: name, value, neutral."""
    usual = config._get_default_generation_params()
    found = []
    for name in vars(GenerationConfig()):
        value, neutral = getattr(config, name, None), usual.get(name)
        if name.startswith("_") or name in _READ or value is None or value is False:
            continue
        if value != neutral:
            found.append((name, value, neutral))
    return found


def _arguments_not_had(arguments: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the arguments of the module that no method hands on: name, value, neutral."""
    read = ("attention_mask", "position_ids", "past_key_values", "decoder_attention_mask")
    found = [
        (name, "...", None)
        for name, value in arguments.items()
        if name not in _MADE and name not in read and value is not None
    ]
    cache = arguments.get("past_key_values")
    if cache is not None and cache.get_seq_length() > 0:
        found.append(("past_key_values", "...", None))
    mask = arguments.get("decoder_attention_mask")
    if mask is not None and not bool((mask == 1).all()):
        found.append(("decoder_attention_mask", "...", None))
    return found


def _refuse(fields: Sequence[tuple[str, Any, Any]]) -> None:
    if not fields:
        return
    given = ", ".join(f"{name}={value}" for name, value, _ in fields)
    neutral = ", ".join(f"{name}={neutral!r}" for name, _, neutral in fields)
    raise UsageError(
        f"this cannot be honoured by cdec's methods: {given}",
        hint=f"Leave it out, or where the model's generation config says it, give {neutral}.",
        option=fields[0][0],
    )


def _limit(criteria: Iterable[Any], most: int) -> int:
    """Return the tokens that a row may have.

    Raises:
        UsageError: A criterion stops for other reasons.
    """
    unknown = []
    for each in criteria:
        if type(each) is MaxLengthCriteria:
            most = min(most, int(each.max_length))
        elif type(each) is not EosTokenCriteria:
            unknown.append(type(each).__name__)
    if unknown:
        raise UsageError(
            f"these stopping criteria cannot be honoured: {', '.join(unknown)}",
            hint="Leave them out, and what asks for them; texts end where the constraint says.",
        )
    return most


def _ids(value: Any) -> list[int]:
    """Return token ids that stand in a config as a number, a list, a tensor or not at all.

    Raises:
        UsageError: There is none.
    """
    found = value.reshape(-1).tolist() if isinstance(value, Tensor) else value
    ids = [found] if isinstance(found, int) else [int(each) for each in found or ()]
    if not ids:
        raise UsageError(
            "no id is known that ends a text",
            hint="Give `eos_token_id`.",
            option="eos_token_id",
        )
    return ids


def left_padded(rows: Tensor, mask: Tensor | None) -> list[list[int]]:
    """Return the tokens of rows that are padded on the left.

    Raises:
        UsageError: They are padded elsewhere.
    """
    if mask is None:
        return [[int(token) for token in row] for row in rows.tolist()]
    seen = mask.to(torch.int64)
    if bool((seen[:, 1:] < seen[:, :-1]).any()) or bool((seen[:, -1] == 0).any()):
        raise UsageError(
            "`attention_mask` hides tokens that are not on the left",
            hint="Pad prompts on the left: padding_side='left'.",
            option="attention_mask",
        )
    counts = seen.sum(1).tolist()
    return [row[len(row) - count :] for row, count in zip(rows.tolist(), counts, strict=True)]


def right_padded(rows: Tensor, mask: Tensor | None, repeats: int) -> list[list[int]]:
    """Return the tokens of an encoder's rows, which are padded on the right.

    Raises:
        UsageError: They are padded elsewhere, or are no tokens.
    """
    if rows.dim() != 2 or rows.is_floating_point() or bool((rows < 0).any()):
        raise UsageError(
            "the encoder's input is no token ids",
            hint="Give `input_ids`, and no `encoder_outputs` or embeddings.",
        )
    if mask is None:
        return [[int(token) for token in row] for row in rows.tolist()]
    seen = mask[::repeats].to(torch.int64)
    if bool((seen[:, 1:] > seen[:, :-1]).any()) or bool((seen[:, 0] == 0).any()):
        raise UsageError(
            "`attention_mask` hides tokens of the encoder that are not on the right",
            hint="Pad the encoder's inputs on the right: padding_side='right'.",
            option="attention_mask",
        )
    counts = seen.sum(1).tolist()
    return [row[:count] for row, count in zip(rows.tolist(), counts, strict=True)]


def first_tokens_of(begins: Tensor, forced: int | None) -> tuple[Tensor, list[int]]:
    """Return what an encoder-decoder model's rows begin with, and the same as one list.

    Raises:
        UsageError: Rows begin with different tokens.
    """
    if bool((begins != begins[:1]).any()):
        raise UsageError(
            "`decoder_input_ids` differ from row to row",
            hint="Call generate once for each beginning.",
            option="decoder_input_ids",
        )
    if forced is not None and begins.shape[1] == 1:
        begins = torch.cat([begins, begins.new_full((len(begins), 1), forced)], dim=1)
    return begins, [int(token) for token in begins[0].tolist()]


def require_usual_positions(
    positions: Tensor | None, rows: Tensor, mask: Tensor | None, repeats: int
) -> None:
    """Refuse positions that do not count each prompt's tokens from 0.

    Raises:
        UsageError: They do not.
    """
    if positions is None:
        return
    seen = torch.ones_like(rows) if mask is None else mask[::repeats].to(torch.int64)
    usual = seen.cumsum(1) - 1
    found = positions[::repeats]
    if found.shape != usual.shape or bool(((found != usual) & (seen > 0)).any()):
        raise UsageError(
            "`position_ids` do not count the prompt's tokens from 0",
            hint="Leave them out.",
            option="position_ids",
        )
