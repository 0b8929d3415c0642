"""Sources of artifacts: read to their end, and recorded, to be known again by what was made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.declaration import flag_of
from cdec.core.errors import (
    CdecError,
    LimitError,
    OutputExistsError,
    TokenizerMismatchError,
    UsageError,
)

if TYPE_CHECKING:
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.data.input.source import InputLimits

_SHOWN = 40


@dataclass(frozen=True)
class MadeFrom:
    """The options that decide what an artifact holds.

    Attributes:
        kind: Of the artifact.
        options: By the names of their parameters, JSON-ready.
    """

    kind: str
    options: Mapping[str, object]

    def recorded(self, source_hash: str) -> str:
        """Return what the artifact records.

        Args:
            source_hash: SHA-256 of the source's bytes, as they lie on disk or came from stdin.
        """
        return json.dumps({"source": source_hash, "options": dict(self.options)}, sort_keys=True)

    def require_same(
        self,
        output: Path,
        vocabulary: Callable[[], Vocabulary],
        source_hash: Callable[[], str],
    ) -> ArtifactFile:
        """Return the artifact that is there, if compiling would write the same again.

        Args:
            output: The artifact.
            vocabulary: Loads the vocabulary to compile for.
            source_hash: Reads the source; called last, since it costs most.

        Raises:
            OutputExistsError: Something else is there; it says what differs.
        """
        from cdec.core.artifacts.opened import read_artifact, require_vocabulary

        try:
            file = read_artifact(output)
        except CdecError as error:
            raise _exists(output, f"is no artifact that can be used ({error.message})") from error
        if file.kind != self.kind:
            raise _exists(output, f"is a {file.kind}, not a {self.kind}")
        before, options = _parsed(file)
        for name, value in self.options.items():
            if (was := options.get(name)) != value:
                flag = flag_of(name)
                if {type(was), type(value)} <= {str, type(None)} and not _is_hash(was, value):
                    raise _exists(
                        output, f"was compiled with {flag} {_shown(was)}, not {_shown(value)}"
                    )
                raise _exists(output, f"was compiled with another {flag}")
        try:
            require_vocabulary(file, vocabulary())
        except TokenizerMismatchError as error:
            raise _exists(output, f"is for another tokenizer ({error.message})") from error
        if before != source_hash():
            raise _exists(output, "was compiled from another content of the source")
        return file


def _exists(output: Path, what: str) -> OutputExistsError:
    return OutputExistsError(
        f"{output} exists and {what}",
        hint="replace it with --force, or name another file with -o",
        path=str(output),
    )


def _parsed(file: ArtifactFile) -> tuple[object, Mapping[str, object]]:
    """Return the hash and the options that an artifact records.

    Raises:
        OutputExistsError: It records none, as those that Python wrote.
    """
    # Loads Arrow, which no first compilation needs in this process.
    from cdec.core.artifacts.write import MADE_FROM_KEY

    try:
        made = json.loads(file.metadata[MADE_FROM_KEY])
        source, options = made["source"], made["options"]
    except (KeyError, TypeError, ValueError, RecursionError):
        options = None
    if not isinstance(options, dict):
        raise _exists(Path(file.path), "does not say what it was made from")
    return source, options


def _shown(value: object) -> str:
    if value is None:
        return "left out"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _is_hash(*values: object) -> bool:
    return any(isinstance(value, str) and value.startswith("sha256:") for value in values)


def hash_of(parts: Iterable[str | bytes]) -> str:
    """Return one hash of several parts, for an option whose value is the content of files."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return f"sha256:{digest.hexdigest()}"


def hash_of_source(source: str, limits: InputLimits) -> str:
    """Return SHA-256 of a source, read to its end.

    Args:
        source: A path or URL, ``-`` for stdin, or the folder of a saved dataset.
        limits: Its ``max_input_bytes`` applies.

    Raises:
        CdecError: It cannot be read, or is too long.
    """
    from cdec.data.input.source import SourceStats, hash_whole
    from cdec.data.rows.dataset import files_of

    digest = hashlib.sha256()
    stats = SourceStats(digest=digest)
    for file in files_of(source):
        hash_whole(file, limits=limits, stats=stats)
    return digest.hexdigest()


def counts_of(file: ArtifactFile) -> dict[str, int]:
    """Return the counts that an artifact records."""
    return {name: n for name, n in object_of(file, "cdec.counts").items() if type(n) is int}


def object_of(file: ArtifactFile, key: str) -> dict[str, Any]:
    """Return an object that an artifact's metadata hold as JSON; an empty one if they do not."""
    try:
        found = json.loads(file.metadata.get(key, ""))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_whole(source: str | Path, most: int, limit: str) -> bytes:
    """Read a source to its end.

    Args:
        source: A path, or ``-`` for stdin.
        most: Most bytes, after decompression.
        limit: Name of the parameter that says so.

    Raises:
        LimitError: It is longer.
        InputMissingError: There is no such file.
        EncodingError: UTF-16 or UTF-32.
    """
    from cdec.data.input.source import (
        ENTITY_LIMITS,
        SourceStats,
        open_source,
        read_chunks,
        source_name,
    )

    data = bytearray()
    name = source_name(source)
    with open_source(source) as stream:
        for chunk in read_chunks(stream, name, limits=ENTITY_LIMITS, stats=SourceStats()):
            data += chunk
            if len(data) > most:
                raise LimitError(
                    f"{name} has more than {most} bytes",
                    hint=f"raise `{limit}`, or make it smaller",
                    limit=limit,
                )
    return bytes(data)


def output_path(
    typed: Path | None, beside: Path | None, source: str, what: str, command: str
) -> Path:
    """Return where an artifact goes: as typed, else beside its source.

    Args:
        typed: With ``-o``.
        beside: By the source's name; None for stdin, which has none.
        source: A path or ``-``.
        what: The source in a sentence, such as ``the grammar comes``.
        command: That was typed.

    Raises:
        UsageError: Stdin without ``-o``, or the output is the input.
    """
    output = typed or beside
    if output is None:
        raise UsageError(
            f"{what} from stdin and no output was named",
            hint=f"type the artifact's name: cdec {command} - -o NAME.arrow",
        )
    if source != "-" and output.exists() and Path(source).exists() and output.samefile(source):
        raise UsageError(
            f"{output} is the input and would be the output", hint="name another file with -o"
        )
    return output


def plain_name(source: str) -> str:
    """Return a file's name without the ending of a compression."""
    from cdec.data.input.decompress import SUFFIXES

    return next((source.removesuffix(end) for end in SUFFIXES if source.endswith(end)), source)


def stem_of(source: str) -> str:
    """Return a file's name without its last ending; empty for stdin."""
    return "" if source == "-" else Path(plain_name(source)).stem
