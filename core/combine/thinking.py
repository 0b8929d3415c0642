"""Thinking before an answer: how models write it, whether they do, and how long."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from cdec.core.combine.free_text import FreeText
from cdec.core.combine.markers import as_symbols, ids_of, symbols_of
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.tokens.vocabulary import Vocabulary

Amount = int | Literal["off", "on"]
"""Most tokens of thinking; or none, or any number."""


@dataclass(frozen=True)
class ThinkingTags:
    """Texts around what models of a family think.

    Attributes:
        begin: Before it.
        ends: At which it has ended; the first is what a model is forced into.
        answer: What begins an answer without any thinking.
        turn: What stands between the end of the thinking and whatever the model writes then; the
            thinking alone ends at ``over``. None where that follows ``ends``.
        over: Ends the thinking where ``turn`` is given.
    """

    begin: str
    ends: tuple[str, ...]
    answer: str
    turn: str | None = None
    over: str = ""


_FINAL = "<|channel|>final<|message|>"
TAGS: Mapping[str, ThinkingTags] = {
    "think": ThinkingTags("<think>", ("</think>",), "<think>\n\n</think>"),
    "mistral": ThinkingTags("[THINK]", ("[/THINK]",), "[THINK][/THINK]"),
    "seed": ThinkingTags("<seed:think>", ("</seed:think>",), "<seed:think></seed:think>"),
    "harmony": ThinkingTags(
        "<|channel|>analysis<|message|>",
        (f"<|end|><|start|>assistant{_FINAL}", _FINAL),
        _FINAL,
        turn="<|start|>assistant",
        over="<|end|>",
    ),
}
"""Families: whoever's template or tokens have these words writes its thinking so."""
SWITCHES = ("enable_thinking", "thinking")
"""Variables of chat templates that say whether a model is to think."""
_BLOCK = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
_STRING = re.compile(r"'[^']*'|\"[^\"]*\"")
_LINES = r"((?:\\n|\n)*)"
"""Line breaks of a template, as they are or in its strings."""


@dataclass(frozen=True)
class Thinking:
    """What is asked of a model's thinking.

    Attributes:
        amount: Most tokens, after which the model is forced to end it; ``on`` for any number,
            ``off`` for none at all.
        tags: What begins and what ends it; None where the model's template or tokens tell.

    Raises:
        UsageError: An empty tag, or a number below 0.
    """

    amount: Amount
    tags: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if self.amount not in ("on", "off") and (
            not isinstance(self.amount, int) or isinstance(self.amount, bool) or self.amount < 0
        ):
            raise UsageError(
                f"`thinking` is {self.amount!r}, expected off, on or a number of tokens",
                hint="leave it out for what the model does by itself",
            )
        if self.tags is not None and (len(self.tags) != 2 or not all(self.tags)):
            raise UsageError(
                "`thinking_tags` are two texts that are not empty",
                hint="give what begins the thinking and what ends it",
            )

    def of(self, model: LanguageModel) -> ModelThinking:
        """Return how a model is made to think, or not to.

        Raises:
            UsageError: Nothing says how it writes its thinking, or its texts begin anew.
        """
        if not model.continues_prompt:
            raise UsageError(
                "`thinking` begins at the end of a prompt, and this model's texts begin anew",
                hint="leave `thinking` out, or take a causal model",
            )
        template, vocabulary = model.chat_template, model.vocabulary
        inside = _STRING.sub("", "".join(_BLOCK.findall(template)))
        switches = [name for name in SWITCHES if re.search(rf"(?<![.\w]){name}\b", inside)]
        tags = self._tags(template, vocabulary)
        if tags is None and not (switches and self.amount == "off"):
            raise UsageError(
                "neither the chat template nor the special tokens of this model say how it writes "
                "its thinking",
                hint="give `thinking_tags`, or leave `thinking` out if it does not think",
            )
        return ModelThinking(self.amount, tags, switches[:1], template, vocabulary)

    def _tags(self, template: str, vocabulary: Vocabulary) -> ThinkingTags | None:
        if self.tags is not None:
            begin, end = self.tags
            return ThinkingTags(begin, (end,), begin + end)
        words = {*vocabulary.special_tokens}

        def is_told(tags: ThinkingTags) -> bool:
            last = tags.ends[-1]
            if last in template or last.encode() in vocabulary.token_bytes:
                return True
            return set(re.findall(r"<[^<>]*>", last) or [last]) <= words

        return next(filter(is_told, TAGS.values()), None)


@dataclass(frozen=True)
class ModelThinking:
    """How a model is made to think, or not to.

    Attributes:
        amount: As of ``Thinking``.
        tags: How it writes it; None where a switch of its template is all.
        switches: The variable of its chat template, if that has one.
        template: Its chat template.
        vocabulary: Of the model.
    """

    amount: Amount
    tags: ThinkingTags | None
    switches: Sequence[str]
    template: str
    vocabulary: Vocabulary

    @property
    def arguments(self) -> dict[str, Any]:
        """What its chat template is told, by name."""
        return dict.fromkeys(self.switches, self.amount != "off")

    def applies(self, told: Mapping[str, Any]) -> bool:
        """Say whether a chat thinks whose template is told this: it may be switched off there."""
        return self.amount != "off" and all(told.get(name, True) for name in self.switches)

    def prompt(self, token_ids: Sequence[int], *, is_chat: bool) -> list[int]:
        """Return a prompt at whose end the thinking has begun, or has been left out.

        Args:
            token_ids: Of the prompt.
            is_chat: Whether it is a rendered chat; a text that is to be continued without any
                thinking stays as it is.
        """
        if self.tags is None:
            return list(token_ids)
        said = "".join(map(self._symbol, token_ids)).rstrip()
        begins = said.endswith(symbols_of(self.tags.begin, self.vocabulary))
        if self.amount != "off":
            more = "" if begins else self.tags.begin + self._lines(self.tags.begin, min)
        elif begins:
            more = self.ends_of_answer[0]
        elif is_chat and not self.switches:
            more = self.tags.answer + self._lines(self.tags.ends[0], max)
        else:
            more = ""
        return [*token_ids, *ids_of(symbols_of(more, self.vocabulary), self.vocabulary)]

    def free_text(self, then: FreeText | None) -> FreeText:
        """Return what a model writes freely that thinks, and then writes as ``then`` says.

        Where the constraint follows at once, line breaks that the template has behind the end of
        the thinking are part of it.
        """
        assert self.tags is not None and self.amount != "off"  # it thinks
        budget = None if self.amount == "on" else self.amount
        if then is None:
            return FreeText(self.ends_of_answer, budget=budget)
        turn = self.tags.turn
        if turn is None:
            return replace(then, thinking=FreeText(self.tags.ends, budget=budget))
        after = tuple(turn + marker for marker in then.after)
        between = then.between and (turn + then.between[0], then.between[1])
        thinking = FreeText((self.tags.over,), budget=budget)
        return replace(then, after=after, between=between, thinking=thinking)

    @property
    def ends_of_answer(self) -> tuple[str, ...]:
        """The texts between the thinking and an answer that follows at once."""
        assert self.tags is not None  # it has tags
        return tuple(end + self._lines(end, max) for end in self.tags.ends)

    def _lines(self, tag: str, which: Callable[..., int]) -> str:
        """Return the line breaks that the template has behind a tag."""
        found = re.findall(re.escape(tag) + _LINES, self.template)
        runs = [len(run.replace("\\n", "\n")) for run in found]
        return "\n" * which(runs, default=0)

    def _symbol(self, token: int) -> str:
        if token in self.vocabulary.special_token_ids:
            return chr(256 + token)
        return as_symbols(self.vocabulary.decode((token,)))
