"""Options of compiling a set, checked; its limits, and the report of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from cdec.core.errors import EncodingError, Notice, UsageError, wrong_type
from cdec.core.options import check_limits, limit

if TYPE_CHECKING:
    from cdec.core.tokens.vocabulary import Vocabulary

Normalization: TypeAlias = Literal["none", "nfc", "nfkc"]
LeadingSpace: TypeAlias = Literal["auto", "always", "never", "both"]
BadLines: TypeAlias = Literal["error", "skip"]


@dataclass(frozen=True, slots=True)
class SetLimits:
    """Limits of a set compilation; passing one is a ``LimitError`` that names it.

    Duplicates count as entities; the tokens of an entity include prefix and suffix.

    Raises:
        UsageError: One is out of bounds.
    """

    max_entities: int = limit(2**31 - 1, "Most entities.")
    max_entry_tokens: int = limit(4096, "Most tokens of one entity.", unit="tokens")

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(slots=True)
class SetReport:
    """Report of a set compilation.

    Attributes:
        path: The artifact.
        entities: Distinct members.
        duplicates: Further occurrences of members, all of them kept as sources.
        skipped: Entities left out because they are bad (``bad_lines="skip"``).
        blank: Blank entities left out.
        denied: Entities left out because they are on the deny-list.
        rows: Token rows; more than entities where members have two forms.
        tokens: Tokens of all rows.
        longest: Tokens of the longest row.
        nodes: Nodes of the trie.
        bytes: Size of the artifact.
        seconds: Seconds by phase. ``tokenize`` is the tokenizer's own time, which runs beside
            ``read`` (reading and checking); ``total`` is wall time.
        options: The options as recorded in the artifact.
        notices: Warnings.
    """

    path: Path
    entities: int = 0
    duplicates: int = 0
    skipped: int = 0
    blank: int = 0
    denied: int = 0
    rows: int = 0
    tokens: int = 0
    longest: int = 0
    nodes: int = 0
    bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers recorded in the artifact."""
        names = ["entities", "duplicates", "skipped", "blank", "denied"]
        names += ["rows", "tokens", "longest", "nodes"]
        return {name: int(getattr(self, name)) for name in names}

    def to_json(self) -> dict[str, Any]:
        """Return the report as one JSON-ready object; the counts are entries of it."""
        return {
            "path": str(self.path),
            **self.counts,
            "bytes": self.bytes,
            "seconds": {phase: round(value, 3) for phase, value in self.seconds.items()},
            "options": dict(self.options),
            "notices": [
                {"code": notice.code, "message": notice.message, **notice.details}
                for notice in self.notices
            ],
        }


@dataclass(frozen=True, slots=True)
class SetOptions:
    """Options of a set compilation: the way from a member to token rows.

    Attributes:
        prefix: Text before every member, tokenised together with it.
        suffix: Text after every member; a member ends with it.
        leading_space: As asked for; once resolved, ``always``, ``never`` or ``both``.
        normalize: Normal form given to the texts, ``none`` by default.
        bad_lines: ``error`` stops at the first bad entity, ``skip`` counts it.
        keep_empty: Whether blank entities are members.
        requested_space: Once resolved, as asked for, ``auto`` included.
    """

    prefix: str = ""
    suffix: str = ""
    leading_space: LeadingSpace = "auto"
    normalize: Normalization = "none"
    bad_lines: BadLines = "error"
    keep_empty: bool = False
    requested_space: LeadingSpace = "auto"

    @property
    def heads(self) -> list[str]:
        """Texts that precede a member in its rows, one entry a row."""
        with_space, without = self.prefix + " ", self.prefix
        return {"always": [with_space], "never": [without]}.get(
            self.leading_space, [without, with_space]
        )

    def to_json(self) -> dict[str, object]:
        """Return the options as an artifact records them."""
        return {
            "prefix": self.prefix,
            "suffix": self.suffix,
            "leading_space": self.leading_space,
            "leading_space_requested": self.requested_space,
            "normalize": self.normalize,
            "keep_empty": self.keep_empty,
            "prefix_bytes": self.prefix.encode().hex(),
            "suffix_bytes": self.suffix.encode().hex(),
            "heads": [head.encode().hex() for head in self.heads],
        }

    def resolved(self, vocabulary: Vocabulary) -> SetOptions:
        """Return the options, checked, with ``auto`` decided.

        Raises:
            UsageError: A value that is none of the choices.
            EncodingError: A prefix or suffix that is no valid text.
        """
        _check_choice("leading_space", self.leading_space, get_args(LeadingSpace))
        _check_choice("normalize", self.normalize, get_args(Normalization))
        _check_choice("bad_lines", self.bad_lines, get_args(BadLines))
        for name, text in (("prefix", self.prefix), ("suffix", self.suffix)):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise EncodingError(
                    f"`{name}` {text!r} has a lone surrogate, which no text can hold",
                    hint=f"give `{name}` valid Unicode text",
                    field=name,
                ) from None
        space = self.leading_space
        if space == "auto":
            wanted = _takes_space(self.prefix) and vocabulary.has_space_tokens
            space = "always" if wanted else "never"
        return replace(self, leading_space=space, requested_space=self.leading_space)


def require_texts(argument: str, texts: object, vocabulary: object) -> None:
    """Refuse one text where several are meant, whose letters would be members, and other types.

    Args:
        argument: How the texts are called.
        texts: To become members.
        vocabulary: They are tokenised for.

    Raises:
        UsageError: It names the argument.
    """
    require_list(argument, texts)
    # Loads numpy, which nobody needs who asks for help on these options.
    from cdec.core.tokens.vocabulary import Vocabulary

    if not isinstance(vocabulary, Vocabulary):
        hint = "give `model.vocabulary`, or what Vocabulary.from_tokenizer returns"
        raise wrong_type("vocabulary", vocabulary, "a Vocabulary", hint)


def require_list(argument: str, texts: object) -> None:
    """Refuse one text where several are meant, and what is no list.

    Raises:
        UsageError: It names the argument.
    """
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        hint = 'give a list of texts: ["red", "green"]'
        raise wrong_type(argument, texts, "a list of texts", hint)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"`{name}` is {value!r}, expected one of {', '.join(choices)}", field=name)


def _takes_space(prefix: str) -> bool:
    """Say whether a word after this prefix has a space before it: not after bracket or quote."""
    if not prefix:
        return True
    last = prefix[-1]
    return not (
        last.isspace() or last in "\"'`<" or unicodedata.category(last) in ("Ps", "Pi", "Cc")
    )
