"""The tokenizer that options name, loaded without its model, and names of models in messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdec.core.errors import ModelError, UsageError
from cdec.core.tokens.locations import EMBEDDED

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary


def named_model(name: str | None) -> str:
    """Return the model that is meant, as messages and manifests call it."""
    return EMBEDDED if name is None else name


def loading(name: str | None) -> str:
    """Return what progress says while a model, or its tokenizer, is loaded."""
    return "loading the embedded model" if named_model(name) == EMBEDDED else f"loading {name}"


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
        vocabulary = Vocabulary.from_tokenizer(named_model(name), revision=revision)
    # As it was typed, and not as the place on this machine where it was found.
    vocabulary.name = named_model(name)
    return vocabulary, vocabulary.name


@contextmanager
def named_by(flag: str, name: str | None) -> Iterator[None]:
    """Let a ``ModelError`` raised inside begin with the option that named the model.

    Args:
        flag: The option.
        name: The model as typed; None where nobody named it.
    """
    try:
        yield
    except ModelError as error:
        if name is not None:
            error.message = f"{flag}: {error.message}"
            error.args = (error.message,)
        raise
