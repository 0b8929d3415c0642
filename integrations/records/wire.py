"""Calls of tools in formats that are no JSON: how the JSON of calls is written and read in them.

Each format is a transducer of ``cdec.core.combine.rewritten``; what texts are held to stays the
JSON Schema of calls, ``{"name": ..., "arguments": {...}}``. Its blanks are those of json.dumps, or
none.
"""

from __future__ import annotations

import keyword
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cdec.core.combine.markers import Found, Markers, symbols_of
from cdec.core.combine.rewritten import Mode, Writing
from cdec.core.errors import UsageError
from cdec.core.tokens.vocabulary import Vocabulary

Can: TypeAlias = Callable[[bytes], bool]
Steps: TypeAlias = Iterable[tuple[Mode, bytes]]

_NO_NAME = frozenset('"\\<>\n\r\t ')
"""What names and keys have none of."""
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_DIGITS = frozenset("0123456789")
_BARE = _LETTERS | _DIGITS | frozenset("+-.")
"""Of numbers and words."""
_SHORT = {'"': b'\\"', "\\": b"\\\\", "\n": b"\\n", "\r": b"\\r", "\t": b"\\t"}
_WORDS = {"T": ("rue", b"true"), "F": ("alse", b"false"), "N": ("one", b"null")}
_LETTER = frozenset(range(0x20, 0x100)) - frozenset(b"\"'\\<")
"""Bytes that strings of every format write as they are."""
_PLAIN = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "description", "title"),
        *("default", "examples", "enum", "const", "minLength", "maxLength", "$schema", "strict"),
    }
)
"""Keywords under which whatever a member can go on with can be written."""


@dataclass(frozen=True)
class Blanks:
    """White space of the JSON that is written: behind colons and behind commas."""

    colon: bytes
    comma: bytes


_SPACED, _NONE = Blanks(b": ", b", "), Blanks(b":", b",")


@dataclass(frozen=True)
class Ended(Mode):
    """All is read."""

    @property
    def may_end(self) -> bool:
        return True

    def step(self, symbol: str, can: Can) -> Steps:
        return ()


@dataclass(frozen=True)
class Literal(Mode):
    """A text that has to come, symbol by symbol, and what is read behind it."""

    text: str
    then: Mode

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol == self.text[0]:
            yield literal(self.text[1:], self.then), b""


def literal(text: str, then: Mode) -> Mode:
    """Return the mode before a text, which may be empty."""
    return Literal(text, then) if text else then


class Owner(Mode):
    """What a value stands in."""

    @abstractmethod
    def behind(self, symbol: str, can: Can) -> Steps:
        """Yield what is read with the first symbol behind a value."""

    def closed(self, value: Value) -> tuple[Mode, bytes]:
        """Return what is read once the bracket of an outermost list or object is closed."""
        return value, b""


@dataclass(frozen=True)
class Value(Mode):
    """A value as JSON writes it.

    Attributes:
        owner: What it stands in.
        depth: Brackets that are open.
        at: ``start``; ``bare``, within a number or a word; ``inside`` brackets; ``ended``.
    """

    owner: Owner
    depth: int = 0
    at: str = "start"

    def step(self, symbol: str, can: Can) -> Steps:
        if self.depth == 0 and (self.at == "ended" or (self.at == "bare" and symbol not in _BARE)):
            return self.owner.behind(symbol, can)
        if symbol in "[{":
            return [(replace(self, depth=self.depth + 1, at="inside"), symbol.encode())]
        if symbol in "]}":
            return self._closed(symbol)
        if self.depth == 0 and symbol not in _BARE and symbol not in "'\"":
            return ()
        return self.inner(symbol, can)

    def inner(self, symbol: str, can: Can) -> Steps:
        """Yield what is read with a symbol that is no bracket."""
        after: Mode = String(self) if symbol == '"' else self.within()
        return [(after, symbol.encode("latin-1"))] if symbol <= "\xff" else ()

    def within(self) -> Value:
        """Return what goes on: a number, a word, or what stands between brackets."""
        return replace(self, at="inside" if self.depth else "bare")

    def behind_string(self) -> Value:
        """Return what is read behind a string or a word."""
        return replace(self, at="inside" if self.depth else "ended")

    def _closed(self, symbol: str) -> Steps:
        if not self.depth:
            return ()
        if self.depth > 1:
            return [(replace(self, depth=self.depth - 1), symbol.encode())]
        mode, more = self.owner.closed(replace(self, depth=0, at="ended"))
        return [(mode, symbol.encode() + more)]


@dataclass(frozen=True)
class String(Mode):
    """A string of JSON; ``is_escape`` behind a backslash."""

    value: Value
    is_escape: bool = False

    @property
    def passed(self) -> frozenset[int]:
        return frozenset() if self.is_escape else _LETTER

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol > "\xff":
            return
        if symbol == '"' and not self.is_escape:
            yield self.value.behind_string(), b'"'
        else:
            is_escape = symbol == "\\" and not self.is_escape
            yield replace(self, is_escape=is_escape), symbol.encode("latin-1")


@dataclass(frozen=True)
class Function:
    """A function as far as formats ask.

    Attributes:
        raw: Parameters whose values are written as they are: the tool says that they are strings.
    """

    name: str
    raw: frozenset[str]


# --- Harmony: a name, special tokens, and the arguments as JSON.


@dataclass(frozen=True)
class HarmonyName(Owner):
    """The name of a function, up to the blank behind it."""

    blanks: Blanks
    header: str

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol == " ":
            yield (
                literal(self.header, HarmonyBegin(self)),
                b'"' + self.blanks.comma + (b'"arguments"' + self.blanks.colon),
            )
        elif symbol <= "\xff" and symbol not in _NO_NAME:
            yield self, symbol.encode("latin-1")

    def behind(self, symbol: str, can: Can) -> Steps:
        return ()

    def closed(self, value: Value) -> tuple[Mode, bytes]:
        return Ended(), b"}"


@dataclass(frozen=True)
class HarmonyBegin(Mode):
    """Before the object of arguments."""

    owner: Owner

    def step(self, symbol: str, can: Can) -> Steps:
        return Value(self.owner).step(symbol, can) if symbol == "{" else ()


class Harmony(Writing):
    """``NAME <|constrain|>json<|message|>{...}``.

    Args:
        functions: That may be called.
        vocabulary: Of the model; words of special tokens stand for these.
    """

    header = "<|constrain|>json<|message|>"

    def __init__(self, functions: Sequence[Function], vocabulary: Vocabulary) -> None:
        self._symbols = symbols_of(self.header, vocabulary)
        self.special = frozenset(ord(s) - 256 for s in self._symbols if s > "\xff")

    def starts(self) -> Sequence[tuple[Mode, bytes]]:
        return [
            (HarmonyName(blanks, self._symbols), b'{"name"' + blanks.colon + b'"')
            for blanks in (_NONE, _SPACED)
        ]

    def in_texts(self) -> Harmony:
        made = object.__new__(Harmony)
        made._symbols = "".join(symbol for symbol in self._symbols if symbol <= "\xff")
        return made


# --- Qwen's XML: parameters between tags, strings as they are.

_TAGS = ("</parameter>", "<parameter=", "</function>", "<tool_call>", "</tool_call>")
"""What no string that is written as it is may hold."""
_TAG_STATES = Markers([tag.encode() for tag in _TAGS])


@dataclass(frozen=True)
class XmlForm:
    """What all of a text's modes know: white space, and by function the raw parameters."""

    blanks: Blanks
    raw: tuple[tuple[str, frozenset[str]], ...]

    @property
    def first(self) -> bytes:
        return b'{"name"' + self.blanks.colon + b'"'


@dataclass(frozen=True)
class XmlName(Mode):
    """The name of a function, up to ``>``."""

    form: XmlForm
    name: str = ""

    def step(self, symbol: str, can: Can) -> Steps:
        blanks = self.form.blanks
        if symbol == ">":
            begun = b'"' + blanks.comma + b'"arguments"' + blanks.colon + b"{"
            raw = dict(self.form.raw).get(self.name.encode("latin-1").decode(), frozenset())
            yield literal("\n", XmlNext(blanks, raw, is_first=True)), begun
        elif symbol <= "\xff" and symbol not in _NO_NAME:
            yield replace(self, name=self.name + symbol), symbol.encode("latin-1")


@dataclass(frozen=True)
class XmlNext(Owner):
    """Before the next parameter, or the end; ``is_begun`` behind its ``<``."""

    blanks: Blanks
    raw: frozenset[str]
    is_first: bool = False
    is_begun: bool = False

    def step(self, symbol: str, can: Can) -> Steps:
        further = b'"' if self.is_first else self.blanks.comma + b'"'
        if not self.is_begun:
            if symbol == "<" and (can(further) or can(b"}}")):
                yield replace(self, is_begun=True), b""
        elif symbol == "p":
            yield (
                literal("arameter=", XmlKey(replace(self, is_first=False, is_begun=False))),
                further,
            )
        elif symbol == "/":
            yield literal("function>", Ended()), b"}}"

    def behind(self, symbol: str, can: Can) -> Steps:
        """Yield the line break behind a value; a number may not be one yet."""
        if symbol == "\n" and (can(b",") or can(b"}")):
            yield literal("</parameter>\n", self), b""


@dataclass(frozen=True)
class XmlKey(Mode):
    """The name of a parameter; ``key`` is None once it begins no raw one."""

    owner: XmlNext
    key: str | None = ""

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol == ">":
            is_raw = self.key is not None and self.key in map(_as_read, self.owner.raw)
            then: Mode = Value(self.owner)
            colon = b'"' + self.owner.blanks.colon
            yield (
                (literal("\n", Raw(self.owner)), colon + b'"')
                if is_raw
                else (literal("\n", then), colon)
            )
        elif symbol <= "\xff" and symbol not in _NO_NAME:
            key = None if self.key is None else self.key + symbol
            if key is not None and not any(_as_read(r).startswith(key) for r in self.owner.raw):
                key = None
            yield replace(self, key=key), symbol.encode("latin-1")


def _as_read(text: str) -> str:
    """Return a text as symbols."""
    return text.encode().decode("latin-1")


@dataclass(frozen=True)
class Raw(Mode):
    """A string as it is, up to the line break before its end; ``tags`` is how far one stands."""

    owner: XmlNext
    tags: int = 0

    @property
    def passed(self) -> frozenset[int]:
        return frozenset() if self.tags else _LETTER

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol > "\xff":
            return
        byte = symbol.encode("latin-1")
        if symbol == "\n":
            yield literal("</parameter>\n", self.owner), b'"'
        after = _TAG_STATES.follow(self.tags, byte)
        if not isinstance(after, Found):
            control = b"\\u%04x" % byte[0] if symbol < " " else byte
            yield replace(self, tags=after), _SHORT.get(symbol, control)


class QwenXml(Writing):
    """``<function=NAME>``, ``<parameter=KEY>``, a value, ``</parameter>``, ..., ``</function>``.

    Every tag and value stands on lines of its own.

    Args:
        functions: That may be called.
        vocabulary: Of the model; tags within calls are no special tokens.
    """

    def __init__(self, functions: Sequence[Function], vocabulary: Vocabulary) -> None:
        self._raw = tuple((function.name, function.raw) for function in functions)

    def starts(self) -> Sequence[tuple[Mode, bytes]]:
        forms = (XmlForm(blanks, self._raw) for blanks in (_NONE, _SPACED))
        return [(literal("<function=", XmlName(form)), form.first) for form in forms]

    def in_texts(self) -> QwenXml:
        return self


# --- Pythonic: a list of calls with keywords, values as Python writes them.


@dataclass(frozen=True)
class PythonName(Mode):
    """The name of a function, up to its parenthesis."""

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol == "(":
            yield Arguments(), b'", "arguments": {'
        elif symbol in _LETTERS or symbol in _DIGITS or symbol == ".":
            yield self, symbol.encode()


@dataclass(frozen=True)
class Arguments(Owner):
    """Before an argument, or before the end where none has come."""

    is_first: bool = True

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol == ")" and self.is_first:
            yield BehindCall(), b"}}"
        elif symbol in _LETTERS:
            yield Keyword(symbol), b'"' + symbol.encode()

    def behind(self, symbol: str, can: Can) -> Steps:
        if symbol == ",":
            yield literal(" ", replace(self, is_first=False)), b", "
        elif symbol == ")":
            yield BehindCall(), b"}}"


@dataclass(frozen=True)
class BehindCall(Mode):
    """Behind the parenthesis of a call."""

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol == ",":
            yield literal(" ", PythonName()), b', {"name": "'
        elif symbol == "]":
            yield Ended(), b"]"


@dataclass(frozen=True)
class Keyword(Mode):
    """The name of an argument; ``word`` is None once it begins no word of the language."""

    word: str | None

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol == "=" and self.word not in keyword.kwlist:
            yield PythonValue(Arguments()), b'": '
        elif symbol in _LETTERS or symbol in _DIGITS:
            word = None if self.word is None else self.word + symbol
            if word is not None and not any(known.startswith(word) for known in keyword.kwlist):
                word = None
            yield Keyword(word), symbol.encode()


@dataclass(frozen=True)
class PythonValue(Value):
    """A value as Python writes it."""

    def inner(self, symbol: str, can: Can) -> Steps:
        if symbol in "'\"":
            return [(PythonString(self, symbol), b'"')]
        if symbol in _WORDS and self.at != "bare":
            rest, written = _WORDS[symbol]
            return [(literal(rest, self.behind_string()), written)]
        # What else there is of words is JSON's; numbers have no other letter.
        if symbol in _LETTERS and symbol not in "eE":
            return ()
        return [(self.within(), symbol.encode("latin-1"))] if symbol <= "\xff" else ()


_FIRST = "0123456789abcefABCEF"
"""First digits of characters that are spelled by one number, but for D."""


@dataclass(frozen=True)
class PythonString(Mode):
    """A string of Python between quotes of either kind, with the escapes that JSON has, too."""

    value: Value
    quote: str

    @property
    def passed(self) -> frozenset[int]:
        return _LETTER

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol == self.quote:
            yield self.value.behind_string(), b'"'
        elif symbol == "\\":
            if any(map(can, self._escapes())):
                yield PythonEscape(self), b""
        elif " " <= symbol <= "\xff":
            yield self, b'\\"' if symbol == '"' else symbol.encode("latin-1")

    def _escapes(self) -> Iterable[bytes]:
        yield from (b"\\\\", b"\\n", b"\\r", b"\\t", b"\\b", b"\\f")
        yield b'\\"' if self.quote == '"' else b"'"
        yield from (b"\\u" + digit.encode() for digit in _FIRST)
        yield from (b"\\ud" + digit for digit in (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7"))


@dataclass(frozen=True)
class PythonEscape(Mode):
    """Behind a backslash."""

    string: PythonString

    def step(self, symbol: str, can: Can) -> Steps:
        if symbol == self.string.quote:
            yield self.string, b'\\"' if symbol == '"' else b"'"
        elif symbol in "\\nrtbf":
            yield self.string, b"\\" + symbol.encode()
        elif symbol == "u":
            yield PythonUnit(self.string), b"\\u"


@dataclass(frozen=True)
class PythonUnit(Mode):
    """Digits of a character's number, which is none of the halves of a pair.

    Python's readers take these for characters of their own.
    """

    string: PythonString
    digits: int = 0
    is_high: bool = False

    def step(self, symbol: str, can: Can) -> Steps:
        is_d = self.digits == 0 and symbol in "dD"
        if is_d and not any(can(symbol.encode() + b"%d" % digit) for digit in range(8)):
            return
        if symbol not in "0123456789abcdefABCDEF" or (self.is_high and symbol not in "01234567"):
            return
        after: Mode = PythonUnit(self.string, self.digits + 1, is_d)
        yield self.string if self.digits == 3 else after, symbol.encode()


class Pythonic(Writing):
    """``[NAME(KEY=VALUE, ...), ...]`` with the literals of Python.

    Args:
        functions: That may be called.
        vocabulary: Of the model; calls have no special tokens.
    """

    def __init__(self, functions: Sequence[Function], vocabulary: Vocabulary) -> None:
        pass

    def starts(self) -> Sequence[tuple[Mode, bytes]]:
        return [(literal("[", PythonName()), b'[{"name": "')]

    def in_texts(self) -> Pythonic:
        return self


# --- What is asked of functions.


@dataclass(frozen=True)
class Wire:
    """A format: how it is written, and what names it can write.

    Attributes:
        writing: Of the calls of some functions.
        names, keys: Patterns of the names of functions and of their parameters.
        has_raw: Whether it writes strings as they are.
    """

    writing: Callable[[Sequence[Function], Vocabulary], Writing]
    names: str = r'[^"\\<>\s]+'
    keys: str = r'[^"\\<>\s]+'
    has_raw: bool = False

    def of(self, tools: Sequence[Mapping[str, Any]], vocabulary: Vocabulary) -> Writing:
        """Return how calls of tools are written.

        Args:
            tools: As chat models are given them; ``schema_of_tools`` took them.
            vocabulary: Of the model.

        Raises:
            UsageError: The format cannot write a name, or calls without named arguments.
        """
        functions, is_sound = [], True
        for tool in tools:
            defined = tool.get("function", tool)
            name, parameters = defined["name"], defined.get("parameters")
            said = parameters if isinstance(parameters, Mapping) else {}
            properties = said.get("properties")
            properties = properties if isinstance(properties, Mapping) else {}
            self._require(name, said, properties)
            raw = frozenset(key for key in properties if self.has_raw and is_raw(properties[key]))
            functions.append(Function(name, raw))
            is_sound &= said.keys() <= _PLAIN and all(_is_free(properties[key]) for key in raw)
        writing = self.writing(functions, vocabulary)
        writing.is_sound = is_sound
        return writing

    def _require(self, name: str, said: Mapping[str, Any], keys: Iterable[str]) -> None:
        hint = "rename it, or give another `tool_style`"
        if not re.fullmatch(self.names, name):
            raise UsageError(
                f"calls of a function {name!r} cannot be written in this style", hint=hint
            )
        for key in keys:
            if not re.fullmatch(self.keys, key) or (
                self.keys == _IDENTIFIER and keyword.iskeyword(key)
            ):
                raise UsageError(
                    f"the parameter {key!r} of the function {name!r} cannot be written in this "
                    "style",
                    hint=hint,
                )
        if said.get("type", "object") != "object":
            raise UsageError(
                f"the parameters of the function {name!r} are no object",
                hint='write {"type": "object", ...}, or give another `tool_style`',
            )


def is_raw(schema: Any) -> bool:
    """Say whether a parameter's schema says outright that its values are strings."""
    if not isinstance(schema, Mapping):
        return False
    if "type" in schema:
        return bool(schema["type"] == "string")
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return bool(values) and all(isinstance(value, str) for value in values)


def _is_free(schema: Mapping[str, Any]) -> bool:
    """Say whether no string that a parameter needs holds a tag."""
    texts = [*schema.get("enum", ()), schema.get("const", "")]
    is_tagged = any(tag in text for text in texts if isinstance(text, str) for tag in _TAGS)
    return schema.keys() <= _PLAIN and not is_tagged


_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
QWEN = Wire(QwenXml, has_raw=True)
HARMONY = Wire(Harmony)
PYTHONIC = Wire(Pythonic, rf"{_IDENTIFIER}(\.{_IDENTIFIER})*", _IDENTIFIER)
