"""Errors that cdec raises: what was found, where, what to do next, a stable code, an exit status.

A message or hint names a parameter in backquotes, as it is called in Python ("raise `max_rules`"):
whoever shows it may put there how the parameter is given. Only ``cli/app.py`` catches errors at the
top; the error of one record becomes an error object in the record's place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


class CdecError(Exception):
    """Base of every error cdec raises on purpose.

    Args:
        message: What was found and what was expected, one sentence; parameters in backquotes.
        hint: What to do next, one sentence; parameters in backquotes.
        details: Machine-readable facts: ``line`` and ``byte_offset`` (both count from 1, in the
            decompressed input), ``field``, ``limit``, ``path`` and the like.
    """

    code: ClassVar[str] = "E_INTERNAL"
    exit_status: ClassVar[int] = 70

    def __init_subclass__(cls, code: str | None = None, exit_status: int | None = None) -> None:
        cls.code = cls.code if code is None else code
        cls.exit_status = cls.exit_status if exit_status is None else exit_status

    def __init__(self, message: str, *, hint: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def again(self) -> CdecError:
        """Return an equal error that was never raised: what is kept of one holds no frame alive."""
        return type(self)(self.message, hint=self.hint, **self.details)

    def to_json(self) -> dict[str, object]:
        """Return the error as one JSON-ready object: code, message, hint and details."""
        body: dict[str, object] = {"code": self.code, "message": self.message}
        if self.hint is not None:
            body["hint"] = self.hint
        return body | self.details


class UsageError(CdecError, code="E_USAGE", exit_status=2):
    """The command line, or a call of the Python surface, makes no sense."""


class ChatTemplateMissingError(UsageError, code="E_NO_CHAT_TEMPLATE"):
    """A record has ``messages`` and the tokenizer has no chat template."""


class SetMissingError(UsageError, code="E_SET_MISSING"):
    """A constraint holds a set within it, and the set is not given; ``sets`` names those."""


class DataError(CdecError, code="E_DATA", exit_status=65):
    """The input data is not what its format promises."""


class EmptySetError(DataError, code="E_EMPTY_SET"):
    """A set without members: nothing could ever be emitted."""


class EncodingError(DataError, code="E_ENCODING"):
    """Bytes that are not valid UTF-8."""


class LineTooLongError(DataError, code="E_LINE_TOO_LONG"):
    """A line longer than the limit on input lines."""


class JsonError(DataError, code="E_JSON"):
    """A line that is not valid JSON."""


class FieldError(DataError, code="E_FIELD"):
    """A field that is missing, of the wrong type, out of range or not allowed."""


class DuplicateIdError(DataError, code="E_DUPLICATE_ID"):
    """Two records with one id, which a resumed run could not tell apart."""


class EmptyPromptError(DataError, code="E_EMPTY_PROMPT"):
    """An empty prompt for a model that has no begin-of-sequence token to start from."""


class ContextLengthError(DataError, code="E_CONTEXT_LENGTH"):
    """A prompt that leaves no room in the model's context."""


class PrefillError(DataError, code="E_PREFILL"):
    """A begun answer that no text of the constraint goes on."""


class FitError(DataError, code="E_FIT"):
    """A number of tokens within which no text ends, or for which the context has no room."""

    @classmethod
    def of(cls, kind: str, most: int, shortest: int) -> FitError:
        """Return the error of a constraint whose shortest text has more than ``most`` tokens."""
        return cls(
            f"no text of the {kind} ends within {most} tokens: the shortest has {shortest}",
            hint=f"raise `max_new_tokens` to {shortest} or more",
            limit=most,
            shortest=shortest,
        )

    @classmethod
    def of_part(cls, part: str, parameter: str, most: int, shortest: int) -> FitError:
        """Return the error of a part of texts whose shortest text has more than ``most`` tokens.

        Args:
            part: What is too long, with its place.
            parameter: What bounds it, as it is written.
        """
        return cls(
            f"no text of {part} has at most {most} tokens: the shortest has {shortest}",
            hint=f"raise {parameter} to {shortest} or more",
            limit=most,
            shortest=shortest,
        )


class CanonicalError(DataError, code="E_CANONICAL"):
    """A tokenizer of which it is not known which tokens it writes for every text."""


class UntokenizableError(DataError, code="E_UNTOKENIZABLE"):
    """A text that the tokenizer cannot represent: decoding its tokens gives another text."""


class TokenizerMismatchError(DataError, code="E_TOKENIZER_MISMATCH"):
    """An artifact and a model whose vocabularies or tokenisation differ."""


class ResumeMismatchError(DataError, code="E_RESUME_MISMATCH"):
    """Resuming an output that another configuration wrote."""


class TreeMismatchError(DataError, code="E_TREE_MISMATCH"):
    """A saved tree of another model, warping, prompt, constraint or length limit."""


class ArtifactError(DataError):
    """Base of all that can be wrong with an artifact file."""


class ArtifactFormatError(ArtifactError, code="E_ARTIFACT_FORMAT"):
    """Not an Arrow IPC file, or an unfinished one."""


class ArtifactVersionError(ArtifactError, code="E_ARTIFACT_VERSION"):
    """An artifact of a format version this cdec does not read."""


class ArtifactSchemaError(ArtifactError, code="E_ARTIFACT_SCHEMA"):
    """Columns that are missing, superfluous or of another type."""


class ArtifactChecksumError(ArtifactError, code="E_ARTIFACT_CHECKSUM"):
    """The body's digest is not the recorded one."""


class ArtifactInvalidError(ArtifactError, code="E_ARTIFACT_INVALID"):
    """Valid Arrow whose contents break an invariant: an index out of range, a cycle."""


class InputMissingError(CdecError, code="E_NOINPUT", exit_status=66):
    """An input that does not exist, is no file or cannot be read."""


class UnavailableError(CdecError, exit_status=69):
    """Base of what is missing besides the input: models and extras."""


class ModelError(UnavailableError, code="E_MODEL"):
    """A model or tokenizer that cannot be found or loaded."""


class TrustError(UnavailableError, code="E_TRUST"):
    """A model that wants to run code, its own or others', or whose weights are pickles."""


class ExtraMissingError(UnavailableError, code="E_EXTRA"):
    """An optional dependency that is not installed."""


class NativeLibraryError(UnavailableError, code="E_NATIVE"):
    """The compiled library is missing, or was made of other sources."""


class OutputExistsError(CdecError, code="E_EXISTS", exit_status=73):
    """The output file exists and may be neither replaced nor continued."""


class OutputError(CdecError, code="E_IO", exit_status=74):
    """Writing failed: a full disk, a closed device, missing permission."""


class LimitError(CdecError, code="E_LIMIT", exit_status=75):
    """A documented limit was passed; the hint names the parameter that raises it."""


class LockedError(CdecError, code="E_LOCKED", exit_status=75):
    """Another process writes the same output."""


class RewardError(CdecError, code="E_REWARD", exit_status=65):
    """A reward that raises, or gives no finite number, for one record's text."""


class ConfigError(CdecError, code="E_CONFIG", exit_status=78):
    """``cdec.toml`` or a recipe holds an unknown key or a value of the wrong type."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning as data: compilers and readers collect them, the command line prints them.

    Attributes:
        code: Stable, ``W_...``.
        message: One sentence; parameters in backquotes.
        details: Machine-readable facts, as in ``CdecError``.
    """

    code: str
    message: str
    details: dict[str, object] = field(default_factory=dict)


def wrong_type(argument: str, found: object, expected: str, hint: str) -> UsageError:
    """Return the error of an argument of another type.

    Args:
        argument: Its name.
        found: What was given.
        expected: What is taken, such as ``a model``.
        hint: What to do.
    """
    shown = repr(found)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
    return UsageError(
        f"`{argument}` is {shown}, a {type(found).__name__}, expected {expected}", hint=hint
    )


HOW_TO_MAKE_ONE = "cdec compile-set, compile-schema, compile-grammar or compile-regex"
"""For the hint of an error about an artifact that is not there."""


def needs_grammar(
    parameter: str, found: str, reasons: Mapping[str, str] | None = None
) -> UsageError:
    """Return the error of a parameter that only grammars have a use for.

    Args:
        parameter: Its name, and perhaps its value after a space.
        found: What there is instead, as a clause.
        reasons: ``Constraint.reasons`` of what there is.
    """
    name, space, value = parameter.partition(" ")
    because = f": {reasons[name]}" if reasons and name in reasons else ""
    typed = f"`{name}`{space}{value}"
    return UsageError(
        f"{typed} needs a grammar, and {found}{because}",
        hint=f"leave {typed} out, or compile a grammar with cdec compile-grammar FILE",
    )
