"""Errors of grammars, all of exit status 65; ``line`` and ``column`` count from 1."""

from __future__ import annotations

from cdec.core.errors import DataError


class GrammarError(DataError, code="E_GRAMMAR"):
    """A grammar that cannot be compiled."""


class GrammarSyntaxError(GrammarError, code="E_GRAMMAR_SYNTAX"):
    """Text that is no grammar."""


class GrammarStartError(GrammarError, code="E_GRAMMAR_NO_START"):
    """No start rule."""


class GrammarUndefinedError(GrammarError, code="E_GRAMMAR_UNDEFINED"):
    """A rule or terminal that is used and not defined."""


class GrammarDuplicateError(GrammarError, code="E_GRAMMAR_DUPLICATE"):
    """A rule or terminal that is defined twice."""


class GrammarImportError(GrammarError, code="E_GRAMMAR_IMPORT"):
    """An import of something that may not, or cannot, be read."""


class GrammarUnsupportedError(GrammarError, code="E_GRAMMAR_UNSUPPORTED"):
    """A construct that has no meaning for constrained decoding."""


class GrammarConflictError(GrammarError, code="E_GRAMMAR_CONFLICT"):
    """Not LALR(1), and a lexer was asked for that needs it."""


class TerminalRecursionError(GrammarError, code="E_GRAMMAR_TERMINAL_RECURSION"):
    """A terminal that is defined by itself."""


class EmptyTerminalError(GrammarError, code="E_GRAMMAR_EMPTY_TERMINAL"):
    """A terminal that matches the empty text."""


class EmptyLanguageError(GrammarError, code="E_EMPTY_LANGUAGE"):
    """A grammar that no text satisfies."""


class RegexSyntaxError(GrammarError, code="E_REGEX_SYNTAX"):
    """A pattern that is no regular expression."""


class RegexUnsupportedError(GrammarError, code="E_REGEX_UNSUPPORTED"):
    """A pattern that no automaton follows: a back-reference, look-around where it is not read."""
