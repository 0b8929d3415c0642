"""Models that ship with the package, and their tokenizer, without transformers.

Importing that takes seconds. Imports torch: import it lazily.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import torch

from cdec.core.models.transformers.llama import Llama
from cdec.core.tokens.files import special_roles


class Settings(SimpleNamespace):
    """What a ``config.json`` or ``generation_config.json`` says, read as transformers' are."""

    is_encoder_decoder = False

    @classmethod
    def read(cls, file: Path) -> Settings:
        """Read a file of the package's own."""
        return cls(**orjson.loads(file.read_bytes()))

    def get_text_config(self, decoder: bool = True) -> Settings:
        """Return the whole: these models know nothing but text."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name."""
        return vars(self)


def read_llama(folder: Path, device: str, dtype: torch.dtype | None) -> Llama:
    """Read a model's folder; ``dtype`` None keeps the weights as they are stored."""
    from safetensors.torch import load_file

    stored = load_file(folder / "model.safetensors")
    weights = {name: tensor.to(device, dtype) for name, tensor in stored.items()}
    config, generation = folder / "config.json", folder / "generation_config.json"
    module = Llama(Settings.read(config), Settings.read(generation), weights)
    return module.requires_grad_(False).eval()


class ShippedTokenizer:
    """What prompts ask of a tokenizer of transformers, from the files of a shipped model.

    Args:
        folder: Of the model.

    Attributes:
        chat_template: Source of the template.
        init_kwargs: What ``tokenizer_config.json`` says.
        special_tokens_map: Token by role, ``bos_token`` say.
        unk_token_id: None: every text can be spelled.
    """

    unk_token_id = None

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.init_kwargs: dict[str, Any] = orjson.loads(
            (folder / "tokenizer_config.json").read_bytes()
        )
        self.chat_template = str(self.init_kwargs["chat_template"])
        roles = special_roles(self.init_kwargs)
        self.special_tokens_map = {role: tokens[0] for role, tokens in roles.items() if tokens}

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]:
        """Added tokens by id."""
        found: Mapping[int, Any] = self._backend.get_added_tokens_decoder()
        return found

    @property
    def all_special_tokens(self) -> list[str]:
        """Texts of the tokens that have a role."""
        return list(self.special_tokens_map.values())

    @property
    def all_special_ids(self) -> list[int]:
        """Ids of the tokens that have a role."""
        ids = {str(token): token_id for token_id, token in self.added_tokens_decoder.items()}
        return [ids[token] for token in self.all_special_tokens]

    def get_chat_template(self, tools: Any = None) -> str:
        """Return the source of the template, one for conversations with and without tools."""
        return self.chat_template

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]],
        tokenize: bool,
        add_generation_prompt: bool,
        **arguments: Any,
    ) -> str:
        """Return the text of a conversation; ``tokenize`` as transformers has it, False."""
        said = {"messages": conversation, "add_generation_prompt": add_generation_prompt}
        return str(self._template.render({**self.special_tokens_map, **arguments, **said}))

    @cached_property
    def _template(self) -> Any:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(self.chat_template)

    def __call__(
        self, text: str, *, add_special_tokens: bool, split_special_tokens: bool, **_: object
    ) -> dict[str, list[int]]:
        """Return ``input_ids`` of a text; what else transformers takes has no effect here."""
        self._backend.encode_special_tokens = split_special_tokens
        found = self._backend.encode(text, add_special_tokens=add_special_tokens)
        return {"input_ids": found.ids}
