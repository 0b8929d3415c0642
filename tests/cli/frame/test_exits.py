"""Every exit status that an error can have is explained."""

from __future__ import annotations

from cdec.cli.frame.command import EXIT_STATUSES, SOME_RECORDS_FAILED, SOME_TEXTS_INVALID
from cdec.cli.frame.process import BROKEN_PIPE_STATUS
from cdec.core.errors import CdecError


def _kinds(kind: type[CdecError]) -> list[type[CdecError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _kinds(below))]


def test_every_status_of_an_error_is_explained() -> None:
    statuses = {kind.exit_status for kind in _kinds(CdecError)}
    statuses |= {0, SOME_TEXTS_INVALID, SOME_RECORDS_FAILED, BROKEN_PIPE_STATUS, 130, 143}
    assert statuses == set(EXIT_STATUSES)
