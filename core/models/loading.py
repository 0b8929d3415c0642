"""Language models of folders, hub names and torch modules: ``load_model``, ``wrap_module``.

What a repository may do is decided in ``repository``; nothing of it runs before that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from logging import ERROR
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.core.errors import CdecError, ExtraMissingError, ModelError, TrustError, UsageError
from cdec.core.models.base import Budget
from cdec.core.models.repository import Repository, open_repository
from cdec.core.tokens.locations import EMBEDDED, HubUnavailable, is_shipped, located, named

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.models.transformers.pooled import PooledModel
    from cdec.core.tokens.vocabulary import Vocabulary

_USUAL = Budget()
_DTYPES = ("auto", "float32", "float16", "bfloat16", "float64")


def load_model(
    name_or_path: str | Path = EMBEDDED,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    device_map: str | Mapping[str, Any] | None = None,
    attn_implementation: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    quantization: str | Mapping[str, Any] | None = None,
    tokenizer: str | Path | None = None,
    vocabulary: Vocabulary | None = None,
    allow_special: bool = False,
    chat: bool | None = None,
    template_args: Mapping[str, Any] | None = None,
    max_batch_rows: int = _USUAL.max_batch_rows,
    max_batch_tokens: int = _USUAL.max_batch_tokens,
    cache_bytes: int = _USUAL.cache_bytes,
    key_value_bytes: int = _USUAL.key_value_bytes,
    prefix_cache_bytes: int = _USUAL.prefix_cache_bytes,
    compile: bool = False,
) -> LanguageModel:
    """Load a causal or encoder-decoder model and its tokenizer.

    Args:
        name_or_path: A folder, a hub name ``owner/name``, or a model that ships with the package:
            ``embedded``, or ``embedded-draft``, a smaller one of the same vocabulary. These two are
            computed without transformers unless an option below is passed to it.
        device: ``cpu``, ``cuda``, ``cuda:1``, ... or ``auto`` (the first GPU, else the CPU).
        dtype: ``auto`` (as stored), ``float32``, ``float16``, ``bfloat16`` or ``float64``. None is
            ``auto`` on a GPU and ``float32`` on the CPU. Scores are float32 in any case.
        device_map: As in transformers; spreads the layers and replaces ``device``.
        attn_implementation: As in transformers: ``sdpa``, ``eager``, ``flash_attention_2``, ...
            None: its default, and decoders of Llama's family run in a module of cdec's own, which
            computes the same and does less between the products.
        revision: Branch, tag or commit of a hub name.
        trust_remote_code: Run the repository's own code: a local folder's, or a hub
            repository's at a commit that ``revision`` names in full.
        allow_pickle: Load ``.bin``/``.pt`` weights where there are no safetensors.
        quantization: ``8bit`` or ``4bit`` (bitsandbytes), or transformers' quantization config.
        tokenizer: Folder or hub name of another tokenizer.
        vocabulary: For a model without a tokenizer; prompts are then token ids, or texts if the
            vocabulary encodes.
        allow_special: Let special tokens that are spelled out in prompts be special.
        chat: Whether prompts that are texts go into the tokenizer's chat template; None: those that
            the tokenizer itself says (of the embedded models: bare questions), else none.
        template_args: What the chat template is told beside messages, by the names that it reads:
            ``{"enable_thinking": False}``. Prompts that are a ``Chat`` replace them.
        max_batch_rows: Sequences a forward pass.
        max_batch_tokens: New tokens a forward pass, padding included.
        cache_bytes: Bytes of next-token distributions kept.
        key_value_bytes: Bytes of keys and values kept, and a quarter more for the rows of the
            running batch; 0 computes every prefix whole.
        prefix_cache_bytes: Bytes of keys and values, beside these, of prompts that were released:
            what later prompts begin with alike is not computed again. Of causal models with a
            key-value cache.
        compile: Compile the plain decoding step by torch.compile, on a device into CUDA graphs: the
            same draws to rounding. Of decoders of Llama's family. It takes seconds, a minute on few
            cores, and pays in runs of tens of thousands of tokens.

    Returns:
        The model in evaluation mode, its vocabulary as wide as its logits.

    Raises:
        ModelError: Not found, not loadable, or tokenizer and model do not fit.
        TrustError: The repository wants to run code, or has pickled weights only.
        ExtraMissingError: A package that an option needs is not installed.
        ChatTemplateMissingError: ``chat``, and the tokenizer has no template.
        UsageError: An option that makes no sense.
    """
    if dtype is not None and dtype not in _DTYPES:
        raise UsageError(f"`dtype` {dtype!r} is none of {', '.join(_DTYPES)}")
    kept = (cache_bytes, key_value_bytes, prefix_cache_bytes)
    budget = Budget(max_batch_rows, max_batch_tokens, *kept)
    name, device = str(name_or_path), resolve_device(device)
    given_dtype = resolve_dtype(dtype, device, device_map)
    options: dict[str, Any] = {"allow_special": allow_special, "chat": chat, "budget": budget}
    options["arguments"] = template_args
    how = (device_map, attn_implementation, quantization, tokenizer)
    if is_shipped(named(located(name))) and all(option is None for option in how):
        model = _load_shipped(name, device, given_dtype, vocabulary, options)
        return _compiled(model) if compile else model
    with quiet():
        repository = open_repository(located(name), revision, trust_remote_code, allow_pickle)
        if vocabulary is None and not trust_remote_code:
            _require_tokenizer(Path(located(tokenizer or repository.name)).expanduser())
        placement = {
            "dtype": given_dtype,
            "device_map": device_map,
            "attn_implementation": attn_implementation,
            "quantization_config": _quantization(quantization),
        }
        module = _load_module(repository, {k: v for k, v in placement.items() if v is not None})
        if device_map is None and quantization is None:
            module.to(device)
            module = _lean(module) if attn_implementation is None else module
        loaded = None
        if vocabulary is None or tokenizer is not None:
            loaded = load_tokenizer(repository, tokenizer)
        model = _wrapped(name, module, loaded, vocabulary or loaded, options)
    return _compiled(model) if compile else model


def _compiled(model: LanguageModel) -> LanguageModel:
    """Return a model whose plain steps are compiled."""
    from cdec.core.models.transformers.pooled import PooledModel

    if not isinstance(model, PooledModel):
        raise UsageError(
            "`compile` needs a causal model with a key-value cache", hint="Leave out `compile`."
        )
    model.compile_steps()
    return model


def _load_shipped(
    name: str, device: str, dtype: Any, vocabulary: Vocabulary | None, options: Mapping[str, Any]
) -> LanguageModel:
    """Load a model that ships with the package, without transformers, whose import takes seconds.

    Args:
        name, vocabulary: As of ``load_model``.
        device, dtype: Resolved ones.
        options: As of ``wrap_module``.
    """
    from cdec.core.models.shipped import ShippedTokenizer, read_llama

    folder = Path(located(name))
    module = read_llama(folder, device, None if dtype == "auto" else dtype)
    loaded = ShippedTokenizer(folder) if vocabulary is None else None
    return _wrapped(name, module, loaded, vocabulary or folder, options)


def _wrapped(
    name: str, module: Any, tokenizer: Any, vocabulary: Any, options: Mapping[str, Any]
) -> LanguageModel:
    """Return the model that runs a module; ``vocabulary`` may be what it is read from."""
    from cdec.core.tokens.vocabulary import Vocabulary

    # subtle: a config that is only read now, and says nonsense, is the model's fault too.
    with model_errors("model", name, None):
        if not isinstance(vocabulary, Vocabulary):
            vocabulary = Vocabulary.from_tokenizer(vocabulary)
        return wrap_module(
            module, fitted_vocabulary(vocabulary, module, name), tokenizer, **options
        )


def _require_tokenizer(folder: Path) -> None:
    """Refuse a model's folder without a tokenizer before its weights are read.

    subtle: transformers makes an empty tokenizer of such a folder. Own code is not asked: it may
    make one of whatever files it likes.
    """
    from cdec.core.tokens.sources import vocabulary_files

    if folder.is_dir():
        vocabulary_files(folder)


def _load_module(repository: Repository, placement: dict[str, Any]) -> Any:
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    is_pair = bool(repository.config.get("is_encoder_decoder"))
    kind = AutoModelForSeq2SeqLM if is_pair else AutoModelForCausalLM
    with model_errors("model", repository.name, repository.unavailable):
        module = kind.from_pretrained(
            repository.name, **repository.arguments, **repository.weight_arguments(), **placement
        )
    module.eval()
    module.requires_grad_(False)
    return module


def _lean(module: Any) -> Any:
    """Return what computes the same with less between the products, if there is such."""
    from cdec.core.models.transformers.llama import lean_decoder

    found = lean_decoder(module)
    return module if found is None else found


def load_tokenizer(repository: Repository, other: str | Path | None) -> Any:
    """Return the tokenizer of a model's repository, or of another place that was named."""
    from transformers import AutoTokenizer

    name, arguments = repository.name, repository.arguments
    if other is not None:
        other_repository = open_repository(located(other), None, False, True, needs_weights=False)
        name, arguments = other_repository.name, other_repository.arguments
    with model_errors("tokenizer", name, repository.unavailable):
        return AutoTokenizer.from_pretrained(name, **arguments)


def chat_template_of(tokenizer: str | None) -> str:
    """Return the source of a tokenizer's chat templates; empty where it has none.

    Args:
        tokenizer: A folder or hub name, or a file, which has none; None for the embedded one.

    Raises:
        ModelError: It cannot be loaded.
        TrustError: It wants to run its own code.
    """
    from cdec.core.models.prompts import template_of
    from cdec.core.models.shipped import ShippedTokenizer

    name = named(located(EMBEDDED if tokenizer is None else tokenizer))
    if is_shipped(name):
        return template_of(ShippedTokenizer(Path(located(name))))
    if Path(name).expanduser().is_file():
        return ""
    repository = open_repository(name, None, False, True, needs_weights=False)
    with quiet():
        return template_of(load_tokenizer(repository, None))


def resolve_device(device: str) -> str:
    """Return the torch device that is meant; ``auto`` is the first GPU, or the CPU.

    Raises:
        UsageError: There is no such kind of device.
        ModelError: There is no GPU.
    """
    import torch

    if device == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise UsageError(
            f"{device!r} is no device", hint="Use cpu, cuda, cuda:0 or auto."
        ) from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            "no CUDA device is available to torch",
            hint="Use `device` cpu, or install a torch build for your GPU; see cdec doctor.",
        )
    return str(resolved)


def resolve_dtype(dtype: str | None, device: str, device_map: Any) -> Any:
    """Return what transformers takes: float16 arithmetic is slow and coarse on a CPU."""
    import torch

    if dtype is None:
        dtype = "float32" if device == "cpu" and device_map is None else "auto"
    return dtype if dtype == "auto" else getattr(torch, dtype)


def _quantization(quantization: str | Mapping[str, Any] | None) -> Any:
    if quantization is None or not isinstance(quantization, str):
        return None if quantization is None else dict(quantization)
    if quantization not in ("8bit", "4bit"):
        raise UsageError(f"`quantization` {quantization!r} is neither 8bit nor 4bit")
    from importlib.util import find_spec

    if find_spec("bitsandbytes") is None:
        raise ExtraMissingError(
            f"quantization {quantization} needs the bitsandbytes package",
            hint="pip install bitsandbytes",
        )
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(**{f"load_in_{quantization}": True})


@contextlib.contextmanager
def model_errors(what: str, name: str, unavailable: HubUnavailable | None) -> Iterator[None]:
    """Turn whatever the libraries raise into a ModelError of one sentence."""
    try:
        yield
    except CdecError:
        raise
    except Exception as error:  # OSError, ValueError, KeyError, SafetensorError, RuntimeError, ...
        first = str(error).strip().partition("\n")[0]
        if "trust_remote_code" in str(error):
            raise TrustError(
                f"the {what} {name} brings its own code, which is not run unless you trust it",
                hint="Read its code, then give `trust_remote_code` and `revision` COMMIT.",
                name=name,
            ) from error
        missing = isinstance(error, ImportError)
        without = "" if unavailable is None else f" ({unavailable.reason})"
        kind = ExtraMissingError if missing else ModelError
        raise kind(
            f"the {what} {name} cannot be loaded: {first or type(error).__name__}{without}",
            hint="Check the name, or name a local folder."
            if unavailable is None
            else unavailable.hint,
            name=name,
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' bars and warnings off the terminal while a model is loaded."""
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    levels = logging.get_verbosity(), hub_logging.get_verbosity()
    had_bar = logging.is_progress_bar_enabled()
    logging.set_verbosity(ERROR)
    hub_logging.set_verbosity(ERROR)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(levels[0])
        hub_logging.set_verbosity(levels[1])
        if had_bar:
            logging.enable_progress_bar()


_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")


def wrap_module(
    module: Any,
    vocabulary: Vocabulary,
    tokenizer: Any = None,
    *,
    allow_special: bool = False,
    chat: bool | None = None,
    arguments: Mapping[str, Any] | None = None,
    first_tokens: Sequence[int] | None = None,
    budget: Budget = _USUAL,
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
        allow_special, chat: As in ``load_model``.
        arguments: Of the chat template, as ``template_args`` there.
        budget: What it may compute at once, and keep.
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
    prompts.tell(arguments or {})
    options: dict[str, Any] = {"context_length": length, "budget": budget}
    if is_pair:
        from cdec.core.models.transformers.architectures import EncoderDecoderModel

        return EncoderDecoderModel(
            module, vocabulary, prompts, first_tokens=first_tokens, **options
        )
    pooled = _pooled(module) if budget.key_value_bytes else None
    if pooled is None:
        from cdec.core.models.transformers.base import FullForwardModel, RecurrentModel

        keeps = budget.key_value_bytes and module.config.model_type == "rwkv"
        kind = RecurrentModel if keeps else FullForwardModel
        return kind(module, vocabulary, prompts, **options)
    return pooled(module, vocabulary, prompts, **options)


def _pooled(module: Any) -> type[PooledModel] | None:
    """Return the model that pools a causal module's keys and values; None if none can."""
    from cdec.core.models.transformers.llama import Llama
    from cdec.core.models.transformers.pooled import PooledModel

    if isinstance(module, Llama):
        return PooledModel
    from cdec.core.models.transformers.architectures import CausalModel, can_pool

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
