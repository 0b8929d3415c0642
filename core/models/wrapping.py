"""wrap_module: a torch module that is in memory, as a LanguageModel; no weight is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cdec.core.errors import ModelError
from cdec.core.models.base import DEFAULT_CACHE_BYTES

if TYPE_CHECKING:
    from cdec.core.models.base import LanguageModel
    from cdec.core.models.transformers.pooled import PooledModel
    from cdec.core.tokens.vocabulary import Vocabulary

_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")


def wrap_module(
    module: Any,
    vocabulary: Vocabulary,
    tokenizer: Any = None,
    *,
    allow_special: bool = False,
    chat: bool | None = None,
    first_tokens: Sequence[int] | None = None,
    max_batch_rows: int = 256,
    max_batch_tokens: int = 16384,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    key_value_bytes: int = 1 << 30,
) -> LanguageModel:
    """Return the model that runs a module: causal or encoder-decoder, with a cache if it has one.

    The module is used as it is, on its devices and in its dtype. What was computed is kept by
    prefix, so the module must be in evaluation mode and its weights must not change while the
    model is used.

    Args:
        module: As ``AutoModelForCausalLM`` or ``AutoModelForSeq2SeqLM`` loads it, or a ``Llama``.
        vocabulary: Of the logits' width, as ``fitted_vocabulary`` returns it.
        tokenizer: Of prompts that are texts or messages; None: prompts are token ids, or texts if
            the vocabulary encodes.
        allow_special, chat, max_batch_rows, max_batch_tokens, cache_bytes, key_value_bytes: As in
            ``load_model``.
        first_tokens: What the texts of an encoder-decoder model begin after; None: the start token
            and the forced first one that its generation config names.

    Raises:
        ModelError: An encoder-decoder model that names no start token.
        ChatTemplateMissingError: ``chat``, and the tokenizer has no template.
    """
    from cdec.core.models.prompts import PromptEncoder

    length = context_length_of(module.config)
    is_pair = bool(module.config.is_encoder_decoder)
    prompts = PromptEncoder(
        tokenizer,
        vocabulary,
        context_length=length,
        room=0 if is_pair else 1,
        allow_special=allow_special,
        chat=chat,
    )
    options: dict[str, Any] = {
        "context_length": length,
        "max_batch_rows": max_batch_rows,
        "cache_bytes": cache_bytes,
    }
    pool = {"max_batch_tokens": max_batch_tokens, "key_value_bytes": key_value_bytes}
    if is_pair:
        from cdec.core.models.transformers.encoder_decoder import EncoderDecoderModel

        return EncoderDecoderModel(
            module, vocabulary, prompts, first_tokens=first_tokens, **options, **pool
        )
    pooled = _pooled(module) if key_value_bytes else None
    if pooled is None:
        from cdec.core.models.transformers.full_forward import FullForwardModel

        return FullForwardModel(module, vocabulary, prompts, **options)
    return pooled(module, vocabulary, prompts, **options, **pool)


def _pooled(module: Any) -> type[PooledModel] | None:
    """Return the model that pools a causal module's keys and values; None if none can."""
    from cdec.core.models.shipped.llama import Llama
    from cdec.core.models.transformers.pooled import PooledModel

    if isinstance(module, Llama):
        return PooledModel
    from cdec.core.models.transformers.causal import CausalModel, can_pool

    return CausalModel if can_pool(module) else None


def fitted_vocabulary(vocabulary: Vocabulary, module: Any, name: str) -> Vocabulary:
    """Return a vocabulary in the logits' width of a module, with the module's end ids, too.

    Args:
        vocabulary: Of the module's tokenizer.
        module: Its generation config may name ends of sequence.
        name: Of the module, for messages.

    Raises:
        ModelError: The tokenizer has more tokens than the module outputs.
    """
    width = output_width(module)
    if vocabulary.size > width:
        raise ModelError(
            f"{name}: the tokenizer has {vocabulary.size} tokens, the model {width} outputs",
            hint="Use the tokenizer that the model was trained with.",
        )
    generation = getattr(module, "generation_config", None)
    given = getattr(generation, "eos_token_id", None)
    ends = {given} if isinstance(given, int) else set(given or ())
    ends = {end for end in ends if 0 <= end < vocabulary.size} | {*vocabulary.eos_token_ids}
    return vocabulary.with_eos(sorted(ends)).with_width(width)


def output_width(module: Any) -> int:
    """Return how many scores a module gives at each position."""
    head = module.get_output_embeddings()
    return int(head.weight.shape[0] if head is not None else module.config.vocab_size)


def context_length_of(config: Any) -> int | None:
    """Return the number of positions the model was made for, None if it has no such bound."""
    text = config.get_text_config(decoder=True)
    if text.model_type in ("t5", "mt5", "umt5", "longt5", "bloom", "rwkv", "mamba", "mamba2"):
        return None  # relative positions or a recurrent state
    for name in _LENGTHS:
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None
