"""Grammar backend for SGLang, by its registry: ``register`` makes ``cdec`` one of them.

A request's ``json_schema`` is a schema, or asks as requests of other servers do:
``{"cdec": {"artifact": NAME, "candidates": [...], "deny": [...]}}``. ``regex`` and ``ebnf`` are
texts that the request brings, and refused unless the operator's settings allow them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson
import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    InvalidGrammarObject,
    register_grammar_backend,
)

from cdec.core.constraint import DEAD, DONE
from cdec.core.errors import CdecError, TokenizerMismatchError
from cdec.core.mask import apply_mask, mask_words
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.cursors import MatcherCursor
from cdec.integrations.serving.constraints import ServedConstraints
from cdec.integrations.serving.matcher import BatchMatcher
from cdec.integrations.serving.settings import FIELD, ServingSettings

if TYPE_CHECKING:
    from torch import Tensor

NAME = "cdec"
"""Name of the backend in SGLang's ``grammar_backend``."""
_ANY_JSON = "$$ANY$$"
"""What SGLang writes for a request that asks for any JSON object."""


def register() -> None:
    """Make the backend known to SGLang; call it before the server's arguments are read."""
    from sglang.srt.arg_groups.choices import add_grammar_backend_choices

    register_grammar_backend(NAME, backend_of)
    add_grammar_backend_choices([NAME])


def backend_of(
    server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any = None
) -> ConstraintBackend:
    """Return the backend of a server, as SGLang's registry asks for it.

    Raises:
        TokenizerMismatchError: An artifact is another tokenizer's, or its texts end where the
            server does not stop.
        CdecError: The settings, or an artifact, cannot be read.
    """
    settings = ServingSettings.from_environment()
    source = settings.tokenizer or server_args.tokenizer_path or server_args.model_path
    vocabulary = Vocabulary.from_tokenizer(source)
    given = [eos_token_ids] if isinstance(eos_token_ids, int) else eos_token_ids or ()
    stops = {*given, getattr(tokenizer, "eos_token_id", None)}
    if not set(vocabulary.eos_token_ids) <= stops or vocabulary.size > vocab_size:
        raise TokenizerMismatchError(
            f"{vocabulary.size} tokens, of which {list(vocabulary.eos_token_ids)} end texts, are "
            f"served by a model of {vocab_size} that stops at {sorted(stops - {None})}",
            hint="name the served model's tokenizer",
        )
    return ConstraintBackend(ServedConstraints(settings, vocabulary))


class ConstraintBackend(BaseGrammarBackend):
    """Answers requests with the constraints that the operator serves.

    Args:
        served: They; their vocabulary is the model's.
    """

    def __init__(self, served: ServedConstraints) -> None:
        super().__init__()
        if served.vocabulary is None:
            raise TokenizerMismatchError("no tokenizer is served", hint="name it in the settings")
        self._served = served
        self._rows = BatchMatcher(torch.device("cpu"), served.vocabulary.eos_token_ids[0])

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        """Return the object of a schema, or of what stands under ``cdec``."""
        if key_string == _ANY_JSON:
            return self._object({"schema": '{"type":"object"}'})
        try:
            value = orjson.loads(key_string)
        except ValueError:
            value = None
        if isinstance(value, dict) and list(value) == [FIELD]:
            return self._object(value[FIELD])
        return self._object({"schema": key_string})

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        """Return the object of a regular expression."""
        return self._object({"regex": key_string})

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        """Return the object of a grammar."""
        return self._object({"grammar": key_string})

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        """Refuse: texts that are free in parts are no constraint of their own here."""
        return InvalidGrammarObject("E_FIELD: cdec's backend knows no structural tags")

    def set_cache(self, key: tuple[str, str], value: BaseGrammarObject) -> None:
        """Keep what a request asked for, as many as the settings say."""
        super().set_cache(key, value)
        while len(self.cache) > self._served.settings.limits.max_kept:
            self.cache.pop(next(iter(self.cache)))

    def _object(self, asked: object) -> BaseGrammarObject:
        try:
            constraint = self._served.read(asked)
        except CdecError as error:
            told = f"{error.code}: {error.message}. {error.hint or ''}"
            return InvalidGrammarObject(told.rstrip())
        return ConstraintObject(self._rows, self._rows.opened(constraint))


class ConstraintObject(BaseGrammarObject):
    """One request's text: the states behind its tokens.

    Args:
        rows: Advances and masks.
        cursor: The session of its constraint.
    """

    def __init__(self, rows: BatchMatcher, cursor: MatcherCursor) -> None:
        super().__init__()
        self.rows = rows
        self.cursor = cursor
        self._states: list[int] = [cursor.start]

    @property
    def state(self) -> int:
        """The state behind all tokens."""
        return self._states[-1]

    def accept_token(self, token: int) -> None:
        """Follow a token; nothing behind the end.

        Raises:
            ValueError: The constraint does not allow it.
        """
        if self.is_terminated():
            return
        states = self.rows.states([self.state])
        after = int(self.rows.after([self.cursor], states, torch.tensor([token]))[0])
        if after == DEAD:
            raise ValueError(f"Token not accepted: {token} behind {len(self._states) - 1} tokens")
        self.current_token = token
        self._states.append(after)

    def rollback(self, k: int) -> None:
        """Take the last ``k`` tokens back."""
        if k:
            del self._states[max(len(self._states) - k, 1) :]

    def is_terminated(self) -> bool:
        """Say whether the text has ended."""
        return self.state == DONE

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> Tensor:
        """Return a mask that allows everything, int32[batch_size, words], on the host."""
        return torch.full((batch_size, mask_words(vocab_size)), -1, dtype=torch.int32)

    def fill_vocab_mask(self, vocab_mask: Tensor, idx: int) -> None:
        """Write this text's mask into a row."""
        _fill([(idx, self)], vocab_mask)

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[Any], vocab_mask: Tensor) -> None:
        """Write the masks of several texts, each session's together; other rows stay."""
        own = [(e.row, e.grammar) for e in entries if isinstance(e.grammar, ConstraintObject)]
        _fill(own, vocab_mask)
        for entry in entries:
            if not isinstance(entry.grammar, ConstraintObject):
                entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    @staticmethod
    def reset_vocab_mask(vocab_mask: Tensor) -> None:
        """Allow everything again."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: Tensor, device: Any) -> Tensor:
        """Return the mask on the logits' device."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: Tensor, vocab_mask: Tensor) -> None:
        """Set to -inf what is not allowed, in place."""
        apply_mask(logits, vocab_mask.numpy() if vocab_mask.device.type == "cpu" else vocab_mask)

    def copy(self) -> ConstraintObject:
        """Return the object of another text of the same constraint, at its beginning."""
        return ConstraintObject(self.rows, self.rows.opened(self.cursor.constraint))

    def try_jump_forward(self, tokenizer: Any) -> None:
        """Jump nowhere: forced tokens would be spelled anew, and a set knows its own spelling."""
        return


def _fill(entries: Sequence[tuple[int, ConstraintObject]], vocab_mask: Tensor) -> None:
    """Write the masks of texts of one backend into rows of a mask on the host."""
    if not entries:
        return
    rows = entries[0][1].rows
    texts = [text.cursor for _, text in entries]
    states = rows.states([text.state for _, text in entries])
    found = rows.masks(vocab_mask.shape[1] * 32, texts, states)
    vocab_mask[torch.tensor([row for row, _ in entries])] = found
