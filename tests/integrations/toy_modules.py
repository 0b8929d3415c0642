"""Toys with known laws as modules of transformers, for what calls ``generate``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig, GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from cdec.integrations.findings.worlds import Probabilities
from tests.laws.worlds import Row, Toy


class ToyModule(PreTrainedModel, GenerationMixin):
    """Gives a toy's probabilities after the tokens that follow a prompt.

    A prompt is made of one token past the toy's vocabulary, so it is told from its text. The last
    token of the toy's own ends texts.
    """

    config_class = PreTrainedConfig
    main_input_name = "input_ids"

    def __init__(self, config: Any, probabilities: Probabilities, prompt_id: int) -> None:
        super().__init__(config)
        self.embedding = torch.nn.Embedding(prompt_id + 1, 1)
        self._probabilities = probabilities
        self._prompt_id = prompt_id
        self.passes = 0
        self.generation_config = GenerationConfig(
            bos_token_id=prompt_id, pad_token_id=prompt_id - 1, eos_token_id=prompt_id - 1
        )

    def get_input_embeddings(self) -> Any:
        return self.embedding

    def get_output_embeddings(self) -> Any:
        return self.embedding

    def forward(self, input_ids: Any, attention_mask: Any = None, **_: Any) -> CausalLMOutput:
        """Return log probabilities, float64[rows, tokens, width]."""
        self.passes += 1
        rows, length = input_ids.shape
        logits = np.full((rows, length, self._prompt_id + 1), -np.inf)
        for i, row in enumerate(input_ids.tolist()):
            for at in range(length):
                prefix = tuple(token for token in row[: at + 1] if token != self._prompt_id)
                with np.errstate(divide="ignore"):
                    logits[i, at] = np.log(self._probabilities(prefix))
        return CausalLMOutput(logits=torch.from_numpy(logits))

    def prepare_inputs_for_generation(self, input_ids: Any, **kwargs: Any) -> dict[str, Any]:
        """Return what ``forward`` is called with."""
        return {"input_ids": input_ids}

    def _prepare_cache_for_generation(self, *_: Any, **__: Any) -> None:
        """There is nothing to cache."""


def widened(toy: Toy) -> Toy:
    """Return a toy with one id more, which never follows: its prompts are made of it."""

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        return np.append(toy.probabilities(prefix), 0.0)

    return Toy(toy.vocabulary.with_width(toy.vocabulary.width + 1), probabilities, toy.members)


def toy_module(toy: Toy, *, flat: float = 0.0) -> Any:
    """Return the module of a widened toy.

    Args:
        toy: As ``widened`` returns it.
        flat: Share of a law that is the same for all tokens, in the toy's place.
    """
    prompt_id = toy.vocabulary.width - 1
    even = np.append(np.full(prompt_id, 1 / prompt_id), 0.0)
    config = PreTrainedConfig(vocab_size=prompt_id + 1, is_encoder_decoder=False)
    config.num_hidden_layers = 1
    module = ToyModule(
        config, lambda prefix: (1 - flat) * toy.probabilities(prefix) + flat * even, prompt_id
    )
    return module.eval()


def length_of_field(texts: list[str], records: list[Any]) -> list[float]:
    """A reward: the length of each record's word, whatever the text."""
    return [float(len(record["word"])) for record in records]
