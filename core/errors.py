"""Every error cdec raises: what was found, where, what to do next, a stable code, an exit status.

    CdecError                         E_INTERNAL            70
    ├── UsageError                    E_USAGE                2
    │   └── ChatTemplateMissingError  E_NO_CHAT_TEMPLATE     2
    ├── DataError                     E_DATA                65
    │   ├── EmptySetError             E_EMPTY_SET
    │   ├── EncodingError             E_ENCODING
    │   ├── LineTooLongError          E_LINE_TOO_LONG
    │   ├── JsonError                 E_JSON
    │   ├── FieldError                E_FIELD
    │   ├── DuplicateIdError          E_DUPLICATE_ID
    │   ├── EmptyPromptError          E_EMPTY_PROMPT
    │   ├── ContextLengthError        E_CONTEXT_LENGTH
    │   ├── PrefillError              E_PREFILL
    │   ├── UntokenizableError        E_UNTOKENIZABLE
    │   ├── TokenizerMismatchError    E_TOKENIZER_MISMATCH
    │   ├── ResumeMismatchError       E_RESUME_MISMATCH
    │   ├── TreeMismatchError         E_TREE_MISMATCH
    │   └── ArtifactError             (never raised itself)
    │       ├── ArtifactFormatError   E_ARTIFACT_FORMAT
    │       ├── ArtifactVersionError  E_ARTIFACT_VERSION
    │       ├── ArtifactSchemaError   E_ARTIFACT_SCHEMA
    │       ├── ArtifactChecksumError E_ARTIFACT_CHECKSUM
    │       └── ArtifactInvalidError  E_ARTIFACT_INVALID
    ├── InputMissingError             E_NOINPUT             66
    ├── UnavailableError              (never raised itself) 69
    │   ├── ModelError                E_MODEL
    │   ├── TrustError                E_TRUST
    │   ├── ExtraMissingError         E_EXTRA
    │   └── NativeLibraryError        E_NATIVE
    ├── OutputExistsError             E_EXISTS              73
    ├── OutputError                   E_IO                  74
    ├── LimitError                    E_LIMIT               75
    ├── LockedError                   E_LOCKED              75
    ├── RewardError                   E_REWARD              65
    └── ConfigError                   E_CONFIG              78

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


class UsageError(CdecError):
    """The command line, or a call of the Python surface, makes no sense."""

    code = "E_USAGE"
    exit_status = 2


class ChatTemplateMissingError(UsageError):
    """A record has ``messages`` and the tokenizer has no chat template."""

    code = "E_NO_CHAT_TEMPLATE"


class DataError(CdecError):
    """The input data is not what its format promises."""

    code = "E_DATA"
    exit_status = 65


class EmptySetError(DataError):
    """A set without members: nothing could ever be emitted."""

    code = "E_EMPTY_SET"


class EncodingError(DataError):
    """Bytes that are not valid UTF-8."""

    code = "E_ENCODING"


class LineTooLongError(DataError):
    """A line longer than the limit on input lines."""

    code = "E_LINE_TOO_LONG"


class JsonError(DataError):
    """A line that is not valid JSON."""

    code = "E_JSON"


class FieldError(DataError):
    """A field that is missing, of the wrong type, out of range or not allowed."""

    code = "E_FIELD"


class DuplicateIdError(DataError):
    """Two records with one id, which a resumed run could not tell apart."""

    code = "E_DUPLICATE_ID"


class EmptyPromptError(DataError):
    """An empty prompt for a model that has no begin-of-sequence token to start from."""

    code = "E_EMPTY_PROMPT"


class ContextLengthError(DataError):
    """A prompt that leaves no room in the model's context."""

    code = "E_CONTEXT_LENGTH"


class PrefillError(DataError):
    """A begun answer that no text of the constraint goes on."""

    code = "E_PREFILL"


class UntokenizableError(DataError):
    """A text that the tokenizer cannot represent: decoding its tokens gives another text."""

    code = "E_UNTOKENIZABLE"


class TokenizerMismatchError(DataError):
    """An artifact and a model whose vocabularies or tokenisation differ."""

    code = "E_TOKENIZER_MISMATCH"


class ResumeMismatchError(DataError):
    """Resuming an output that another configuration wrote."""

    code = "E_RESUME_MISMATCH"


class TreeMismatchError(DataError):
    """A saved tree of another model, warping, prompt, constraint or length limit."""

    code = "E_TREE_MISMATCH"


class ArtifactError(DataError):
    """Base of all that can be wrong with an artifact file."""


class ArtifactFormatError(ArtifactError):
    """Not an Arrow IPC file, or an unfinished one."""

    code = "E_ARTIFACT_FORMAT"


class ArtifactVersionError(ArtifactError):
    """An artifact of a format version this cdec does not read."""

    code = "E_ARTIFACT_VERSION"


class ArtifactSchemaError(ArtifactError):
    """Columns that are missing, superfluous or of another type."""

    code = "E_ARTIFACT_SCHEMA"


class ArtifactChecksumError(ArtifactError):
    """The body's digest is not the recorded one."""

    code = "E_ARTIFACT_CHECKSUM"


class ArtifactInvalidError(ArtifactError):
    """Valid Arrow whose contents break an invariant: an index out of range, a cycle."""

    code = "E_ARTIFACT_INVALID"


class InputMissingError(CdecError):
    """An input that does not exist, is no file or cannot be read."""

    code = "E_NOINPUT"
    exit_status = 66


class UnavailableError(CdecError):
    """Base of what is missing besides the input: models and extras."""

    exit_status = 69


class ModelError(UnavailableError):
    """A model or tokenizer that cannot be found or loaded."""

    code = "E_MODEL"


class TrustError(UnavailableError):
    """A model that wants to run code, its own or others', or whose weights are pickles."""

    code = "E_TRUST"


class ExtraMissingError(UnavailableError):
    """An optional dependency that is not installed."""

    code = "E_EXTRA"


class NativeLibraryError(UnavailableError):
    """The compiled library is missing, or was made of other sources."""

    code = "E_NATIVE"


class OutputExistsError(CdecError):
    """The output file exists and may be neither replaced nor continued."""

    code = "E_EXISTS"
    exit_status = 73


class OutputError(CdecError):
    """Writing failed: a full disk, a closed device, missing permission."""

    code = "E_IO"
    exit_status = 74


class LimitError(CdecError):
    """A documented limit was passed; the hint names the parameter that raises it."""

    code = "E_LIMIT"
    exit_status = 75


class LockedError(CdecError):
    """Another process writes the same output."""

    code = "E_LOCKED"
    exit_status = 75


class RewardError(CdecError):
    """A reward that raises, or gives no finite number, for one record's text."""

    code = "E_REWARD"
    exit_status = 65


class ConfigError(CdecError):
    """``cdec.toml`` holds an unknown key or a value of the wrong type."""

    code = "E_CONFIG"
    exit_status = 78


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
