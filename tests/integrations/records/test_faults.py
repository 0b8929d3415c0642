"""Errors that nobody raised on purpose: those about memory are told from faults."""

from __future__ import annotations

import errno

import pytest

from cdec.core.errors import CdecError, DataError, ExtraMissingError
from cdec.integrations.records.faults import as_cdec_error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 8 bytes"),
        RuntimeError("can't start new thread"),
    ],
)
def test_memory_that_is_used_up_is_status_75_whoever_says_so(error: Exception) -> None:
    assert as_cdec_error(error).exit_status == 75
    wrapped = ExtraMissingError("the model cannot be loaded")
    wrapped.__cause__ = error
    assert as_cdec_error(wrapped).exit_status == 75


def test_other_errors_keep_their_meaning() -> None:
    assert as_cdec_error(KeyError("x")).exit_status == 70
    assert as_cdec_error(OSError(errno.ENOSPC, "No space left on device")).exit_status == 74
    data = DataError("out of memory, says a record")
    assert as_cdec_error(data) is data
    assert isinstance(as_cdec_error(RuntimeError("x")), CdecError)
