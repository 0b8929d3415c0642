"""Reasoning of a served model: where it ends, as vLLM's own parser of the model says.

vLLM's structured outputs let a model reason freely, and mask from the token on that follows the
end of reasoning; so do these constraints. Compiled kernels are imported where they are used:
vLLM's start on a CPU fails once they are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cdec.core.errors import CdecError, ConfigError

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.integrations.serving.settings import ConstraintRequest, ServingSettings

_LOG = logging.getLogger(__name__)
_ENDS = {"openai_gptoss": "<|channel|>final<|message|>"}
"""Texts at which reasoning ends, by parsers that tell them by nothing but their code."""
_NAMES = ("reasoning_end_str", "end_token")
"""Attributes of vLLM's parsers that are this text, the newer first."""
_THINKS = {"enable_thinking": True, "thinking": True}
"""What parsers are told of a request's template: of a model that reasons, the prompt says the
rest."""


@dataclass(frozen=True)
class Reasoning:
    """The end of a served model's reasoning.

    Attributes:
        parser: vLLM's, which reads prompts.
        end: The text that ends reasoning.
        most: Most tokens that spell it.
    """

    parser: Any
    end: str
    most: int

    def before(
        self, asked: ConstraintRequest, prompt: Sequence[int], max_tokens: int | None
    ) -> ConstraintRequest:
        """Return what a request asks, with the reasoning that comes before.

        Free text of its own stands in its place, and a prompt in which reasoning is over has none.
        Where a text is to fit, what it has left begins behind the reasoning, so that the model is
        forced to end this in time.

        Args:
            asked: What the request says.
            prompt: Its token ids.
            max_tokens: Of the request; None for any number.
        """
        from cdec.core.combine.free_text import FreeText

        if asked.free is not None or not asked.reasoning:
            return asked
        if self.parser.is_reasoning_end(list(prompt)):
            return asked
        budget = None
        if asked.fit is not None and max_tokens is not None:
            budget = max_tokens - asked.fit - 1 - self.most
            if budget < 0:
                _LOG.warning(
                    "a request's 'fit' of %d leaves no room for the end of reasoning in its "
                    "'max_tokens' of %d, so its text may be cut",
                    asked.fit,
                    max_tokens,
                )
        return replace(asked, free=FreeText((self.end,), budget=budget and max(0, budget)))


def reasoning_of(
    config: Any, settings: ServingSettings, vocabulary: Vocabulary
) -> Reasoning | None:
    """Return what an engine's reasoning parser says; None where there is none, or none is asked.

    Args:
        config: vLLM's ``VllmConfig``.
        settings: The operator's.
        vocabulary: Of the model.

    Raises:
        ConfigError: The parser does not tell the text that ends reasoning, or no token spells it.
    """
    from cdec.core.combine.free_text import FreeText
    from cdec.core.combine.markers import require_spelt, symbols_of

    asked = config.structured_outputs_config
    if not asked.reasoning_parser or asked.enable_in_reasoning or not settings.reasoning:
        return None
    parser = _parser(config)
    told = (getattr(parser, name, None) for name in _NAMES)
    known = (settings.reasoning_end, *told, _ENDS.get(asked.reasoning_parser))
    end = next((text for text in known if isinstance(text, str) and text), None)
    if end is None:
        raise ConfigError(
            f"vLLM's reasoning parser {asked.reasoning_parser!r} does not tell the text that ends "
            "reasoning",
            hint="put `reasoning_end` into the settings, or `reasoning = false`: constraints hold "
            "from the first token then",
        )
    try:
        require_spelt(FreeText((end,)), vocabulary)
    except CdecError as error:
        raise ConfigError(
            f"the text that ends reasoning: {error.message}",
            hint="put `reasoning_end` into the settings",
        ) from error
    return Reasoning(parser, end, len(symbols_of(end, vocabulary)))


def _parser(config: Any) -> Any:
    """Return vLLM's parser of the model, as its structured outputs have it."""
    from vllm.reasoning import ReasoningParserManager
    from vllm.tokenizers import cached_tokenizer_from_config

    asked = config.structured_outputs_config
    if asked.reasoning_parser_plugin:
        ReasoningParserManager.import_reasoning_parser(asked.reasoning_parser_plugin)
    made = ReasoningParserManager.get_reasoning_parser(asked.reasoning_parser)
    tokenizer = cached_tokenizer_from_config(config.model_config)
    return made(tokenizer, chat_template_kwargs=_THINKS)
