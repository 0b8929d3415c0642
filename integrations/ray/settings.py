"""Settings of every worker of a run: it must draw what one machine alone would draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from cdec.core.errors import (
    ArtifactChecksumError,
    InputMissingError,
    UnavailableError,
    UsageError,
)
from cdec.integrations.records.settings import ConstraintSpecification, RunSettings
from cdec.samplers.sampling import named_method

if TYPE_CHECKING:
    from cdec.core.run_clock import RunClock
    from cdec.integrations.records.sampling import RecordSampler


class WorkerError(UnavailableError):
    """A worker that cannot work, though the run itself is in order."""

    code = "E_WORKER"


@dataclass(frozen=True)
class Settings:
    """Settings of sampling records, wherever that is done.

    Attributes:
        run: What the record sampler is told, all of which can be pickled: artifacts by their
            places, the model by name or path, or as a function that makes it in the worker.
        digests: Of the artifacts that the run began with, by name; a worker that finds another one
            under the same name refuses to work.
        version: Of cdec, where the run was begun.
    """

    run: RunSettings
    digests: Mapping[str, str] = field(default_factory=dict)
    version: str = ""

    @classmethod
    def of(cls, run: RunSettings) -> Settings:
        """Return the settings of a run that begins here; its artifacts are looked at.

        Raises:
            UsageError: A tree is asked for, or an option that neither the sampler nor the method
                has, or with a value that it cannot have.
            CdecError: An artifact is not there, or is none.
        """
        if run.execution.trace is not None:
            raise UsageError(
                "`trace` takes the lines of one process, and workers are many",
                hint="leave it out, or take `cdec.integrations.records` in one process",
            )
        _require_known(run)
        return cls(run, digests_of(run.constraint), installed_version())

    def opened(self, clock: RunClock | None = None) -> RecordSampler:
        """Open model and artifacts in this process.

        Args:
            clock: Counts the time of the model and of the constraints; None for none.

        Raises:
            WorkerError: Another version of cdec is installed here.
            ArtifactChecksumError: An artifact is another one here.
            CdecError: One of them cannot be had, or they do not fit each other.
        """
        from cdec.integrations.records.sampling import RecordSampler

        here = installed_version()
        if here != self.version:
            raise WorkerError(
                f"a worker has cdec {here}, and the run was begun by cdec {self.version}",
                hint="install the same version on every machine",
            )
        try:
            found = digests_of(self.run.constraint)
        except InputMissingError as error:
            error.hint = (
                "put artifacts where every machine finds them under the same name: a shared "
                "folder, or an object store (s3://...)"
            )
            raise
        for name, digest in self.digests.items():
            if found.get(name) != digest:
                raise ArtifactChecksumError(
                    f"the artifact {name} of a worker has the digest {found.get(name)}, and that "
                    f"of the run {digest}",
                    hint="let all machines read one file, and leave it as it is during a run",
                )
        execution = replace(self.run.execution, clock=clock)
        return RecordSampler(settings=replace(self.run, execution=execution))


def _require_known(run: RunSettings) -> None:
    """Refuse here what every worker would refuse, after it has loaded its model.

    Raises:
        UsageError: As ``Settings.of``.
    """
    method, options = named_method(run.drawing.method), run.drawing.options
    has = {name for option in method.options for name in (option.name, option.also) if name}
    for name in options.keys() - has:
        close = get_close_matches(name, RunSettings.keywords() | has, n=1)
        raise UsageError(
            f"`{name}` is an option neither of record samplers nor of the method {method.name}",
            hint=f"did you mean `{close[0]}`?" if close else f"it has {', '.join(sorted(has))}",
        )
    method.checked(options)


def digests_of(held: ConstraintSpecification) -> dict[str, str]:
    """Return the digests of the artifacts of a run, by their places.

    Raises:
        UsageError: An artifact in memory, which has no file that other processes could read.
        CdecError: One is not there, or is none.
    """
    from cdec.core.artifacts.read import peek_metadata

    found = {}
    for place in (*held.named.values(), *held.others.values(), *held.sets.values()):
        if hasattr(place, "session"):
            raise UsageError(
                "the artifact is an open constraint, and workers are other processes",
                hint="give the path or the URL of its file",
            )
        found[str(place)] = peek_metadata(place).get("cdec.digest", "")
    return found


def installed_version() -> str:
    """Return the version of cdec in this process."""
    try:
        return version("cdec")
    except PackageNotFoundError:
        return "unknown"
