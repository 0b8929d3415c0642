"""Whether a constraint is of the tokenizer that another library decodes with."""

from __future__ import annotations

from cdec.core.constraint import Constraint
from cdec.core.errors import TokenizerMismatchError
from cdec.core.tokens.vocabulary import Vocabulary


def require_same_tokens(constraint: Constraint, *vocabularies: Vocabulary, hint: str) -> None:
    """Refuse a constraint that was made with the tokens of none of some vocabularies.

    Args:
        constraint: Of some texts.
        vocabularies: Of one tokenizer. subtle: an id that ends texts is no ordinary token, so
            with other ends the tokens are others, too.
        hint: How to make it with the right ones.

    Raises:
        TokenizerMismatchError: It was made with others.
    """
    theirs, ours = constraint.vocabulary, vocabularies[0]
    if theirs.vocabulary_hash not in {each.vocabulary_hash for each in vocabularies}:
        raise TokenizerMismatchError(
            f"the constraint was made for another tokenizer ({theirs.size} tokens, "
            f"{theirs.vocabulary_hash[:12]}) than the model's ({ours.size} tokens, "
            f"{ours.vocabulary_hash[:12]})",
            hint=hint,
        )
