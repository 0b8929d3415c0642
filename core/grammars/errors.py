"""Errors of grammars, all of exit status 65; ``line`` and ``column`` count from 1.

GrammarError                   E_GRAMMAR
├── GrammarSyntaxError         E_GRAMMAR_SYNTAX
├── GrammarStartError          E_GRAMMAR_NO_START
├── GrammarUndefinedError      E_GRAMMAR_UNDEFINED
├── GrammarDuplicateError      E_GRAMMAR_DUPLICATE
├── GrammarImportError         E_GRAMMAR_IMPORT
├── GrammarUnsupportedError    E_GRAMMAR_UNSUPPORTED
├── GrammarConflictError       E_GRAMMAR_CONFLICT
├── TerminalRecursionError     E_GRAMMAR_TERMINAL_RECURSION
├── EmptyTerminalError         E_GRAMMAR_EMPTY_TERMINAL
├── EmptyLanguageError         E_EMPTY_LANGUAGE
├── RegexSyntaxError           E_REGEX_SYNTAX
└── RegexUnsupportedError      E_REGEX_UNSUPPORTED
"""

from __future__ import annotations

from cdec.core.errors import DataError


class GrammarError(DataError):
    """A grammar that cannot be compiled."""

    code = "E_GRAMMAR"


class GrammarSyntaxError(GrammarError):
    """Text that is no grammar."""

    code = "E_GRAMMAR_SYNTAX"


class GrammarStartError(GrammarError):
    """No start rule."""

    code = "E_GRAMMAR_NO_START"


class GrammarUndefinedError(GrammarError):
    """A rule or terminal that is used and not defined."""

    code = "E_GRAMMAR_UNDEFINED"


class GrammarDuplicateError(GrammarError):
    """A rule or terminal that is defined twice."""

    code = "E_GRAMMAR_DUPLICATE"


class GrammarImportError(GrammarError):
    """An import of something that may not, or cannot, be read."""

    code = "E_GRAMMAR_IMPORT"


class GrammarUnsupportedError(GrammarError):
    """A construct that has no meaning for constrained decoding."""

    code = "E_GRAMMAR_UNSUPPORTED"


class GrammarConflictError(GrammarError):
    """Not LALR(1), and a lexer was asked for that needs it."""

    code = "E_GRAMMAR_CONFLICT"


class TerminalRecursionError(GrammarError):
    """A terminal that is defined by itself."""

    code = "E_GRAMMAR_TERMINAL_RECURSION"


class EmptyTerminalError(GrammarError):
    """A terminal that matches the empty text."""

    code = "E_GRAMMAR_EMPTY_TERMINAL"


class EmptyLanguageError(GrammarError):
    """A grammar that no text satisfies."""

    code = "E_EMPTY_LANGUAGE"


class RegexSyntaxError(GrammarError):
    """A pattern that is no regular expression."""

    code = "E_REGEX_SYNTAX"


class RegexUnsupportedError(GrammarError):
    """A pattern that no automaton follows: a back-reference, look-around where it is not read."""

    code = "E_REGEX_UNSUPPORTED"
