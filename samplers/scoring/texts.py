"""Texts and token ids, for scoring: the spelling of a text, and the text of token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cdec.core.constraint import carried
from cdec.core.errors import EncodingError, FieldError, UntokenizableError

if TYPE_CHECKING:
    from cdec.core.constraint import Constraint
    from cdec.core.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Reading:
    """Text of a token sequence.

    Attributes:
        text: Without what the artifact puts around members; as given where a text was given.
        valid: Verdict of a check independent of the walk; None if out of time, or without
            constraint.
        annotations: Fields of a valid text.
    """

    text: str
    valid: bool | None = None
    annotations: Mapping[str, object] = field(default_factory=dict)


def token_ids_of(
    vocabulary: Vocabulary,
    constraint: Constraint | None,
    text: str | None,
    token_ids: Sequence[int] | None,
) -> list[int]:
    """Return the token ids to score, without an end id.

    Given ids are taken as they are, but for one end id that closes them. A text is spelt as the
    set's own row spells it where it is a member of a set, and by the tokenizer otherwise, with what
    the constraint forces around it.

    Args:
        vocabulary: Of the model.
        constraint: What the text is held to.
        text, token_ids: One of them, or both where they agree.

    Raises:
        FieldError: Neither is given, they disagree, or an id lies outside the vocabulary.
        EncodingError: A lone surrogate.
        UntokenizableError: The tokenizer changes the text.
        UsageError: The vocabulary has no tokenizer.
    """
    if token_ids is None:
        if text is None:
            raise FieldError("there is neither a text nor token ids", hint="Give one of them.")
        return _spell(vocabulary, constraint, text)
    ids = _checked_ids(token_ids, vocabulary.width)
    if ids and ids[-1] in vocabulary.eos_token_ids:
        del ids[-1]
    if text is not None:
        _require_agreement(vocabulary, constraint, text, ids)
    return ids


def read(
    vocabulary: Vocabulary,
    constraint: Constraint | None,
    text: str | None,
    token_ids: Sequence[int],
    *,
    is_member: bool,
    is_spelt: bool,
) -> Reading:
    """Say what token ids are as a text, and whether the constraint accepts it.

    Args:
        vocabulary, constraint: As in ``token_ids_of``.
        text: As given; None shows the ids' text.
        token_ids: As ``token_ids_of`` returned them.
        is_member: Whether the walk under the constraint came to its end.
        is_spelt: Whether the ids were made from ``text``, which is then the member itself.
    """
    whole = vocabulary.decode(token_ids)
    if constraint is None:
        return Reading(whole.decode("utf-8", "replace") if text is None else text)
    if is_spelt and text is not None:
        member: bytes | None = constraint.text_of(text.encode())
    elif is_member:
        member = constraint.member_text(token_ids)
    elif vocabulary.is_ordinary[np.asarray(token_ids, np.int64)].all():
        member = constraint.content(whole)
    else:
        # subtle: special and padding ids have no bytes, so the text would not show them.
        member = None
    valid = False if member is None else constraint.accepts(member)
    shown = member if member is not None else whole
    return Reading(
        shown.decode("utf-8", "replace") if text is None else text,
        valid,
        carried(constraint, member or b"", is_member=bool(valid)),
    )


def utf8_of(text: str) -> bytes:
    """Return a text's bytes.

    Raises:
        EncodingError: It has a lone surrogate.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise EncodingError(
            f"the text has a lone surrogate at character {error.start}",
            hint="Write it as valid Unicode.",
        ) from error


def _spell(vocabulary: Vocabulary, constraint: Constraint | None, text: str) -> list[int]:
    data = utf8_of(text)
    if constraint is not None:
        data = constraint.text_of(data)
        own = constraint.token_ids_of(data)
        if own is not None:
            return own
        data = constraint.whole_texts(data, any_text=True)[0]
    ids = vocabulary.encode([data.decode("utf-8", "surrogateescape")])[0]
    if vocabulary.decode(ids) != data:
        raise UntokenizableError(
            "the tokenizer changes the text: its tokens spell another one",
            hint="Normalise the text as the tokenizer does, or give its token_ids.",
        )
    return ids


def _checked_ids(token_ids: Sequence[int], width: int) -> list[int]:
    for position, token in enumerate(token_ids):
        if isinstance(token, bool) or not isinstance(token, (int, np.integer)):
            raise _wrong_id(position, token, "is no integer")
        if not 0 <= token < width:
            raise _wrong_id(position, token, f"lies outside the vocabulary's 0..{width - 1}")
    return [int(token) for token in token_ids]


def _wrong_id(position: int, token: object, problem: str) -> FieldError:
    return FieldError(
        f"token id {position + 1} is {token!r}, which {problem}",
        hint="Give the ids as the model that drew them numbers them.",
        field="token_ids",
    )


def _require_agreement(
    vocabulary: Vocabulary, constraint: Constraint | None, text: str, ids: Sequence[int]
) -> None:
    """Refuse a text that the ids do not spell: one of the two belongs to something else.

    Raises:
        FieldError: They disagree.
    """
    whole = vocabulary.decode(ids).decode("utf-8", "replace")
    if constraint is None:
        # What a constraint forced around a member is not known here.
        agree = text in whole
    else:
        member = constraint.member_text(ids).decode("utf-8", "replace")
        agree = text in (whole, member)
    if not agree:
        raise FieldError(
            f"the token_ids spell {whole[:60]!r}, the text is {text[:60]!r}",
            hint="Leave one of the two out, or score with the model, artifact and `heal` that the "
            "sample was drawn with.",
            field="text",
        )
