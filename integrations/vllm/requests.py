"""Checks of vLLM's requests and engines that both processors make before any token.

Compiled kernels are imported where they are used: vLLM's start on a CPU fails once they are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vllm.exceptions import VLLMValidationError

from cdec.core.errors import CdecError, FieldError, TokenizerMismatchError
from cdec.integrations.serving.settings import FIELD, ConstraintRequest, ServingSettings
from cdec.integrations.vllm.middleware import asked_fit, check

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.integrations.serving.constraints import ServedConstraints
    from cdec.integrations.vllm.reasoning import Reasoning

_LOG = logging.getLogger(__name__)
_REFUSED = {
    "ignore_eos": "texts end where they are members",
    "min_tokens": "a member may be shorter",
    "stop": "it may cut a member",
    "stop_token_ids": "they may cut a member",
    "bad_words": "nothing may be left of the constraint",
    "allowed_token_ids": "nothing may be left of the constraint",
    "structured_outputs": "a text has one constraint",
    "logit_bias": "it may forbid all that the constraint allows",
    "thinking_token_budget": "what it forces is no part of a member",
}
"""Parameters that a request under a constraint may not set, and why."""


def asked_of(params: Any) -> object | None:
    """Return what a request's parameters say of its constraint, unread; None for nothing."""
    return (params.extra_args or {}).get(FIELD)


def validate(params: Any) -> None:
    """Refuse a request that cannot be served, before it reaches the engine.

    Args:
        params: vLLM's ``SamplingParams``.

    Raises:
        VLLMValidationError: What the request asks is refused, with cdec's code and hint.
    """
    value = asked_of(params)
    if value is None:
        return
    try:
        for name, why in _REFUSED.items():
            if getattr(params, name, None):
                raise FieldError(
                    f"the request has {FIELD!r} and {name!r}: {why}",
                    hint=f"leave {name!r} out",
                    field=name,
                )
        check(value)
        most = asked_fit(value)
        if most is not None and params.max_tokens is not None and params.max_tokens <= most:
            raise FieldError(
                f"the request's {FIELD!r} has 'fit' {most}, and 'max_tokens' {params.max_tokens} "
                "leaves no token for the end",
                hint=f"ask for 'max_tokens' {most + 1} or more",
                field="max_tokens",
            )
    except CdecError as error:
        raise VLLMValidationError(
            f"{error.code}: {error.message}. {error.hint or ''}".rstrip(), parameter=FIELD
        ) from error


def served_by(config: Any) -> ServedConstraints:
    """Open what an engine serves, for its own tokenizer.

    Args:
        config: vLLM's ``VllmConfig``.

    Raises:
        TokenizerMismatchError: An artifact is another tokenizer's, or its texts end where the
            engine does not stop.
        CdecError: The settings, or an artifact, cannot be read.
    """
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.integrations.serving.constraints import ServedConstraints

    settings = ServingSettings.from_environment()
    model = config.model_config
    vocabulary = Vocabulary.from_tokenizer(settings.tokenizer or model.tokenizer)
    if vocabulary.size > model.get_vocab_size():
        raise TokenizerMismatchError(
            f"the tokenizer has {vocabulary.size} tokens, and the model {model.get_vocab_size()}",
            hint="name the served model's tokenizer",
        )
    stops = _stops(model)
    if not set(vocabulary.eos_token_ids) <= stops:
        raise TokenizerMismatchError(
            f"texts end with {list(vocabulary.eos_token_ids)}, and the engine stops at "
            f"{sorted(stops)}",
            hint="serve with the model's generation config (generation_config='auto')",
        )
    return ServedConstraints(settings, vocabulary)


def _stops(model: Any) -> set[int]:
    """Return the ids at which vLLM ends every text: the tokenizer's and the generation config's."""
    from vllm.tokenizers import cached_tokenizer_from_config

    given = model.try_get_generation_config().get("eos_token_id")
    ends = {given} if isinstance(given, int) else set(given or ())
    own = cached_tokenizer_from_config(model).eos_token_id
    return ends if own is None else ends | {own}


def constraint_of(
    params: Any,
    served: ServedConstraints,
    reasoning: Reasoning | None = None,
    prompt: Sequence[int] | None = None,
) -> Constraint | None:
    """Return the constraint of a request that was validated; None where its text is given up.

    An error here is no reason to stop the engine for everybody: the text ends at once.

    Args:
        params: vLLM's ``SamplingParams``.
        served: What is registered, and what was made of requests.
        reasoning: Of the served model; None where its texts begin with the constraint.
        prompt: Token ids; None where it is none of tokens.
    """
    try:
        asked = ConstraintRequest.of(asked_of(params), served.settings)
        if reasoning is not None:
            asked = reasoning.before(asked, prompt or (), params.max_tokens)
        return served.of(asked)
    except CdecError as error:
        _LOG.error("a request that was let in cannot be served: %s", error)
        return None
