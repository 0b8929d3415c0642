"""Which vocabulary a command works with: a tokenizer, a model's, or the embedded one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.cli.options.names import named_by
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

EMBEDDED = "embedded"
"""The name that stands for the model shipped with the package."""


def resolve_model(name: str | None) -> str:
    """Return what to load: the given name, or the folder of the embedded model."""
    from cdec.data.assets import embedded_model_path

    return str(embedded_model_path()) if name in (None, EMBEDDED) else str(name)


def shown_model(name: str | None) -> str:
    """Return how messages and manifests call the model."""
    return EMBEDDED if name in (None, EMBEDDED) else str(name)


def load_vocabulary(
    tokenizer: str | None, model: str | None, revision: str | None
) -> tuple[Vocabulary, str]:
    """Load the vocabulary that a compile command writes for.

    Args:
        tokenizer: ``--tokenizer``: a file, folder or hub name.
        model: ``--model``: the model whose tokenizer to take.
        revision: Commit, tag or branch on the hub.

    Returns:
        The vocabulary and the name to show.

    Raises:
        UsageError: Both were given and differ.
        ModelError: It cannot be loaded.
    """
    from cdec.core.tokens.vocabulary import Vocabulary

    if tokenizer is not None and model is not None and tokenizer != model:
        raise UsageError(
            "--tokenizer and --model were given", hint="give one: a model brings its tokenizer"
        )
    name = tokenizer if tokenizer is not None else model
    with named_by("--model" if tokenizer is None else "--tokenizer", name):
        vocabulary = Vocabulary.from_tokenizer(resolve_model(name), revision=revision)
    # The name is recorded in the artifact: the embedded model's place on this machine is not.
    vocabulary.name = shown_model(name)
    return vocabulary, vocabulary.name
