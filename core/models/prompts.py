"""Prompts to token ids: texts, chat messages, ids; text that looks like a special token stays text.

A user's text must not be able to end a turn or a sequence, so special tokens come from the
tokenizer's own framing and from the chat template alone, unless ``allow_special`` is asked for.

A text goes into the chat template as a user's message if that is asked for. A tokenizer may also
say itself which texts do, in ``cdec_questions`` of its ``tokenizer_config.json``: a regular
expression that the whole text matches, for models that answer questions in one form only.

**Marks.** A special token of a rendered chat is the template's own if its text holds no mark. Two
kinds of marked messages are rendered beside the plain ones, since a template may look at what it
prints:

- *broken*: every letter with which a special token begins has a stand-in, so that none begins
  within a string of a message. Lengths, spaces at the ends and most words stay.
- *parted*: there is also a mark before the first letter of each string, so that none which the
  template begins goes on in a string: ``'<|' + role + '|>'``, as templates of some models write,
  would make ``<|end|>`` of the role ``end``.

Roles, types and names of fields that the template itself names stay as they are, for it compares
them; all others are marked like texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cdec.core.errors import (
    ChatTemplateMissingError,
    ContextLengthError,
    EmptyPromptError,
    EncodingError,
    FieldError,
    ModelError,
    UsageError,
)
from cdec.core.models.chat_templates import is_question, rendered_chat, require_arguments
from cdec.core.models.language_model import Chat
from cdec.core.models.tabular import checked_token_ids

if TYPE_CHECKING:
    from cdec.core.models.language_model import Prompt, PromptForm
    from cdec.core.tokens.vocabulary import Vocabulary

_QUESTIONS = "cdec_questions"


def template_of(tokenizer: Any) -> str:
    """Return the source of a tokenizer's chat templates; empty where there is none."""
    template = getattr(tokenizer, "chat_template", None) or ""
    return "\n".join(template.values()) if isinstance(template, Mapping) else str(template)


class PromptEncoder:
    """Encodes the prompts of one model.

    Args:
        tokenizer: A transformers tokenizer; None if there is none, and then texts are encoded by
            the vocabulary, or refused if it cannot.
        vocabulary: Of the model.
        context_length: Tokens of prompt and text together; None where unbounded.
        room: Tokens that a prompt must leave free; 0 where texts have a context of their own.
        allow_special: Let special tokens that are spelled out in a prompt be special.
        chat: Whether texts go into the chat template; None: those that the tokenizer says.

    Attributes:
        form: What becomes of texts.
        arguments: What the chat template is told beside messages, by name.

    Raises:
        ChatTemplateMissingError: ``chat``, and no template.
    """

    def __init__(
        self,
        tokenizer: Any,
        vocabulary: Vocabulary,
        *,
        context_length: int | None = None,
        room: int = 1,
        allow_special: bool = False,
        chat: bool | None = None,
    ) -> None:
        self._room = room
        self.arguments: Mapping[str, Any] = {}
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._context_length = context_length
        self._allow_special = allow_special
        self._special = _special_tokens(tokenizer)
        spelled = sorted(self._special, key=len, reverse=True)
        self._special_pattern = re.compile("|".join(map(re.escape, spelled)) or r"(?!)")
        if chat and not self.has_chat_template:
            raise ChatTemplateMissingError(
                "`chat` puts prompts into the chat template, and the tokenizer has none",
                hint="Leave `chat` out, or take a model that was trained for chat.",
            )
        self._questions = self._pattern_of_questions()
        asks = chat is None and self._questions is not None
        self.form: PromptForm = "chat" if chat else "questions" if asks else "text"

    @property
    def has_chat_template(self) -> bool:
        """True where chat messages can be encoded."""
        return getattr(self._tokenizer, "chat_template", None) is not None

    def tell(self, arguments: Mapping[str, Any]) -> None:
        """Tell the chat template something beside messages, where a ``Chat`` says nothing else.

        Args:
            arguments: By the names that the template reads them by.

        Raises:
            FieldError: A name that is reserved.
        """
        require_arguments(arguments, "template_args")
        self.arguments = dict(arguments)

    def encode(self, prompt: Prompt) -> list[int]:
        """Return a prompt's token ids.

        Args:
            prompt: A text, framed as the tokenizer frames texts (begin of sequence and the like) or
                put into the chat template, as ``form`` says;
                chat messages with ``role`` and ``content``; or token ids, taken as they are.

        Raises:
            EmptyPromptError: Empty, and no begin-of-sequence token to start from.
            ContextLengthError: No room for one more token; nothing is cut off.
            ChatTemplateMissingError: Messages, and no template.
            FieldError: Messages or ids that are malformed.
            EncodingError: A text with lone surrogates.
            UsageError: A text, and neither a tokenizer nor a vocabulary that encodes.
        """
        if isinstance(prompt, str) and self._is_message(prompt):
            token_ids = self._encode_messages([{"role": "user", "content": prompt}])
        elif isinstance(prompt, str):
            token_ids = self._encode_text(prompt)
        elif any(isinstance(part, Mapping) for part in prompt):
            told = prompt.arguments if isinstance(prompt, Chat) else {}
            token_ids = self._encode_messages(prompt, told)
        else:
            token_ids = checked_token_ids(prompt, self._vocabulary.width)
        if not token_ids:
            token_ids = self._first_tokens()
        limit = self._context_length
        if limit is not None and len(token_ids) + self._room > limit:
            raise ContextLengthError(
                f"the prompt has {len(token_ids)} tokens, the model's context {limit}: "
                f"no room for {'a text' if self._room else 'it'}",
                hint="Shorten the prompt; cdec never cuts it.",
                length=len(token_ids),
                limit=limit,
            )
        return token_ids

    def _pattern_of_questions(self) -> str | None:
        """Return what the tokenizer says of texts that go into its chat template, if it does.

        Raises:
            ModelError: It is no regular expression.
        """
        pattern = getattr(self._tokenizer, "init_kwargs", {}).get(_QUESTIONS)
        if pattern is None or not self.has_chat_template:
            return None
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ModelError(
                f"{_QUESTIONS} of tokenizer_config.json is no regular expression: {error}",
                hint="Leave it out of the file.",
            ) from error
        return str(pattern)

    def _is_message(self, text: str) -> bool:
        """Whether a text goes into the chat template."""
        if self.form == "questions" and self._questions is not None:
            return is_question(self._questions, text)
        return self.form == "chat"

    def _first_tokens(self) -> list[int]:
        bos = self._vocabulary.bos_token_id
        if bos is None:
            raise EmptyPromptError(
                "the prompt is empty and the model has no begin-of-sequence token",
                hint="Give at least one character to start from.",
            )
        return [bos]

    def _encode_text(self, text: str) -> list[int]:
        _require_unicode(text)
        if self._tokenizer is not None:
            return self._tokenize(text, framed=True, special=self._allow_special)
        if self._vocabulary.tokenization is None:
            raise UsageError(
                "the model has no tokenizer, so a text prompt cannot be encoded",
                hint="Give the prompt as token ids, or load the model with a tokenizer.",
            )
        return self._vocabulary.encode([text])[0]

    def _encode_messages(
        self, messages: Sequence[Any], told: Mapping[str, Any] = MappingProxyType({})
    ) -> list[int]:
        if not self.has_chat_template:
            raise ChatTemplateMissingError(
                "the prompt has chat messages and the tokenizer has no chat template",
                hint="Give a plain text prompt, or a model that was trained for chat.",
            )
        checked = [_checked_message(i, message) for i, message in enumerate(messages)]
        require_arguments(told, "chat_template_kwargs")
        arguments = {**self.arguments, **told}
        texts = [*strings_in(checked), *strings_in(arguments)]
        for text in texts:
            _require_unicode(text)
        rendered = rendered_chat(self._tokenizer, checked, arguments)
        if self._allow_special or not self._special:
            return self._tokenize(rendered, framed=False, special=True)
        marks = MessageMarks(self._special, self.template, [rendered, *texts])
        broken = self._render(checked, arguments, marks.broken)
        parted = self._render(checked, arguments, marks.parted)
        own = self._special_pattern.findall(parted)
        is_own = self._special_pattern.findall(broken) == own
        if is_own and self._special_pattern.findall(rendered) == own:
            token_ids = self._tokenize(rendered, framed=False, special=True)
            # subtle: a tokenizer may fold letters before it looks for special tokens.
            if not any(map(self._special_pattern.search, texts)) and self._holds(token_ids, own):
                return token_ids
        cut = self._render(checked, arguments, marks.but_compared) if is_own else broken
        if is_own and self._special_pattern.findall(cut) == own:
            return self._encode_marked(cut, marks)
        return self._encode_marked(broken if is_own else parted, marks)

    @property
    def template(self) -> str:
        """Source of the chat templates; empty where there is none."""
        return template_of(self._tokenizer)

    def _holds(self, token_ids: list[int], special: list[str]) -> bool:
        """Whether these special tokens, and no others, are among ids; unknown letters may be."""
        unknown = getattr(self._tokenizer, "unk_token_id", None)
        ids = {*self._special.values()} - {unknown}
        own = [self._special[token] for token in special]
        return [i for i in token_ids if i in ids] == [i for i in own if i in ids]

    def _encode_marked(self, marked: str, marks: MessageMarks) -> list[int]:
        """Encode a rendering whose true special tokens are the unmarked ones."""
        token_ids: list[int] = []
        position = 0
        for match in self._special_pattern.finditer(marked):
            token_ids += self._encode_plain(marks.undo(marked[position : match.start()]))
            token_ids.append(self._special[match.group()])
            position = match.end()
        return token_ids + self._encode_plain(marks.undo(marked[position:]))

    def _encode_plain(self, text: str) -> list[int]:
        return self._tokenize(text, framed=False, special=False) if text else []

    def _render(
        self, messages: list[Any], arguments: Mapping[str, Any], mark: Callable[[Any], Any]
    ) -> str:
        told = {name: mark(value) for name, value in arguments.items()}
        return rendered_chat(self._tokenizer, mark(messages), told)

    def _tokenize(self, text: str, *, framed: bool, special: bool) -> list[int]:
        try:
            encoded = self._tokenizer(
                text,
                add_special_tokens=framed,
                split_special_tokens=not special,
                truncation=False,
                padding=False,
                verbose=False,
            )
        except Exception as error:  # of a tokenizer_config.json that says nonsense
            raise ModelError(
                f"the tokenizer cannot encode the prompt: {type(error).__name__}: {error}",
                hint="Look at the files of the tokenizer.",
            ) from error
        return [int(token_id) for token_id in encoded["input_ids"]]


def _special_tokens(tokenizer: Any) -> dict[str, int]:
    """Return the special tokens' texts and ids."""
    if tokenizer is None:
        return {}
    special = {
        str(token): int(token_id)
        for token_id, token in tokenizer.added_tokens_decoder.items()
        if token.special
    }
    names = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
    return special | {str(token): int(token_id) for token, token_id in names if token}


def _checked_message(position: int, message: Any) -> dict[str, Any]:
    """Return a message that has a role and text content; nothing is ever fetched."""
    if not isinstance(message, Mapping):
        raise FieldError(f"message {position} is no object", field="messages")
    if not isinstance(message.get("role"), str):
        raise FieldError(f"message {position} has no role", field="messages")
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    for part in parts:
        if not (isinstance(part, Mapping) and isinstance(part.get("text"), str)):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise FieldError(
                f"message {position} has content of type {kind!r}; only text is supported",
                field="messages",
            )
    if not isinstance(content, (str, list)) and not (content is None and "tool_calls" in message):
        raise FieldError(f"message {position} has no text content", field="messages")
    return dict(message)


def _require_unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EncodingError(
            f"the prompt has a lone surrogate at character {error.start}",
            hint="Write it as valid Unicode.",
        ) from error
    return text


_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
_USUAL = frozenset({"system", "developer", "user", "assistant", "tool", "function", "text"})
"""Roles and types that templates print without naming each."""
_COMPARED = frozenset({"role", "type"})
"""Fields whose values templates compare."""
_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_VALUE = r"""(['"]){}\1"""
_FIELD = _VALUE + r"|\.{}\b"
"""How a template names a value that it compares, and a field that it reads."""
_START = re.compile(r"\S")


def _value(text: str) -> str:
    return _VALUE.replace("{}", re.escape(text))


class MessageMarks:
    """The marks for some messages.

    Args:
        special: Texts of the special tokens; not empty.
        template: Source of the chat template.
        texts: All that is rendered, and the strings of the messages: marks are characters that
            stand in none of them.

    Raises:
        EncodingError: They hold all characters for private use.
    """

    def __init__(self, special: Collection[str], template: str, texts: Iterable[str]) -> None:
        self._template = template
        self._special = special
        letters = sorted({token[0] for token in special})
        mark, *stand_ins = _unused_characters([template, *special, *texts], len(letters) + 1)
        self._mark = mark
        compared = [re.escape(t) for t in special if re.search(_value(t), template)]
        self._compared = re.compile("(" + ("|".join(compared) or "(?!)") + ")")
        self._stand_ins = str.maketrans(dict(zip(letters, stand_ins, strict=True)))
        self._undone = str.maketrans(dict(zip(stand_ins, letters, strict=True)) | {mark: None})

    def broken(self, value: Any) -> Any:
        """Return messages, or an argument of the template, in whose strings no special token
        begins."""
        return self._marked(value, self._broken)

    def parted(self, value: Any) -> Any:
        """Return the same, where none that began before a string goes on in it either.

        An argument that is a text which the template compares stays as it is.
        """
        if isinstance(value, str) and self._is_named(value, _VALUE):
            return value
        return self._marked(value, self._parted)

    def but_compared(self, value: Any) -> Any:
        """Return what is broken but for special tokens that the template looks for itself.

        So it cuts what was thought before ``</think>``, where this is a special token. If none of
        these is left then, nothing of the messages is special.
        """
        return self._marked(value, self._but_compared)

    def undo(self, rendered: str) -> str:
        """Return a rendering of marked messages without the marks."""
        return rendered.translate(self._undone)

    def _broken(self, text: str) -> str:
        return text.translate(self._stand_ins)

    def _but_compared(self, text: str) -> str:
        parts = self._compared.split(text)
        # Every second part is such a token.
        return "".join(part if i % 2 else self._broken(part) for i, part in enumerate(parts))

    def _parted(self, text: str) -> str:
        # After the spaces, which templates trim.
        return _START.sub(lambda first: self._mark + first[0], self._broken(text), count=1)

    def _marked(self, value: Any, mark: Callable[[str], str]) -> Any:
        if isinstance(value, str):
            return mark(value)
        if isinstance(value, Mapping):
            return {
                (
                    name
                    if not isinstance(name, str) or self._is_named(name, _FIELD)
                    else mark(name)
                ): (
                    part
                    if name in _COMPARED and self._is_named(part, _VALUE)
                    else self._marked(part, mark)
                )
                for name, part in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self._marked(part, mark) for part in value]
        return value

    def _is_named(self, word: Any, how: str) -> bool:
        """Whether a role, a type or the name of a field is the template's own."""
        if not isinstance(word, str) or word in self._special or not _WORD.fullmatch(word):
            return False
        return word in _USUAL or bool(re.search(how.replace("{}", re.escape(word)), self._template))


def strings_in(value: Any) -> Iterator[str]:
    """Yield every string inside a JSON value, names of fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from strings_in(name)
            yield from strings_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from strings_in(part)


def _unused_characters(texts: Iterable[str], count: int) -> list[str]:
    """Return characters for private use that stand in none of ``texts``.

    Raises:
        EncodingError: There are not as many.
    """
    used = set().union(*texts)
    unused = (chr(code) for code in chain(*_PRIVATE_USE) if chr(code) not in used)
    found = list(islice(unused, count))
    if len(found) < count:
        raise EncodingError(
            "the messages hold all characters for private use, which mark their texts",
            hint="Leave some of U+E000 to U+F8FF out.",
        )
    return found
