"""Text of a grammar's bytes, of every dialect alike: UTF-8, line ends, limits."""

from __future__ import annotations

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.core.errors import EncodingError, LimitError
from cdec.core.grammars.errors import GrammarSyntaxError


def decode_source(text: bytes | str, limits: GrammarLimits) -> str:
    """Return a grammar's text without byte order mark, its line ends as line feeds.

    Returns:
        The text.

    Raises:
        GrammarSyntaxError: A NUL byte.
        EncodingError, LimitError: As ``decode_text``.
    """
    source = decode_text(text, limits).removeprefix("\ufeff").replace("\r\n", "\n")
    zero = source.find("\0")
    if zero >= 0:
        line = source.count("\n", 0, zero) + 1
        column = zero - source.rfind("\n", 0, zero)
        raise GrammarSyntaxError(
            f"line {line}, column {column}: a NUL byte",
            hint="write it as \\x00 inside a literal",
            line=line,
            column=column,
        )
    return source


def decode_text(text: bytes | str, limits: GrammarLimits) -> str:
    """Return a text as it is.

    Returns:
        The text.

    Raises:
        EncodingError: Bytes that are no UTF-8, a lone surrogate in a string.
        LimitError: More bytes than ``max_grammar_bytes``.
    """
    if len(text) > limits.max_grammar_bytes:
        raise _too_long(len(text), limits)
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    if len(data) > limits.max_grammar_bytes:
        raise _too_long(len(data), limits)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EncodingError(
            f"line {line}: byte {error.start + 1} of the grammar is not valid UTF-8",
            hint="save the grammar as UTF-8",
            line=line,
            byte_offset=error.start + 1,
        ) from None


def _too_long(size: int, limits: GrammarLimits) -> LimitError:
    return LimitError(
        f"the grammar has {size:,} bytes, the limit is {limits.max_grammar_bytes:,}",
        hint="raise `max_grammar_bytes`",
        limit="max_grammar_bytes",
    )
