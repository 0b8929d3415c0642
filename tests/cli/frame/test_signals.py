"""Signals take effect between records, and the second one at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cdec.cli.frame.process import HANDLED, Interrupted, Signals


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """Give the test process its handlers back: a run that was ended would have kept them."""
    before = {signum: signal.getsignal(signum) for signum in HANDLED}
    hook, told = sys.unraisablehook, signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(told)
    yield
    sys.unraisablehook = hook
    signal.set_wakeup_fd(told)
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_with_its_status(signum: signal.Signals) -> None:
    with pytest.raises(Interrupted) as caught, Signals():
        os.kill(os.getpid(), signum)
    assert caught.value.exit_status == 128 + signum


def test_a_shield_finishes_first() -> None:
    done = []
    with pytest.raises(Interrupted), Signals() as signals:
        with signals.shield():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("written")
        done.append("never")
    assert done == ["written"]


def test_a_dropped_interruption_comes_back_at_the_checkpoint() -> None:
    with pytest.raises(Interrupted), Signals() as signals:
        with contextlib.suppress(Interrupted):  # as the interpreter does inside a callback
            os.kill(os.getpid(), signal.SIGINT)
        signals.checkpoint()


def test_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Signals():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_the_second_signal_ends_the_process_at_once() -> None:
    code = (
        "import os, signal, time\n"
        "from cdec.cli.frame.process import Signals\n"
        "with Signals() as signals:\n"
        "    with signals.shield():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(20)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=15).returncode == 130


def test_a_second_signal_during_the_shutdown_keeps_the_status() -> None:
    code = (
        "import atexit, os, signal, sys\n"
        "from cdec.cli.frame.process import Interrupted, Signals\n"
        "class Last:\n"
        "    def __del__(self, kill=os.kill, process=os.getpid(), signum=signal.SIGINT):\n"
        "        kill(process, signum)\n"
        "last = Last()\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "try:\n"
        "    with Signals():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "except Interrupted as error:\n"
        "    sys.exit(error.exit_status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=15, capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")


def test_the_second_signal_ends_native_code_too() -> None:
    code = (
        "import hashlib, os, signal, threading, time\n"
        "from cdec.cli.frame.process import Signals\n"
        "def kill():\n"
        "    for _ in range(2):\n"
        "        time.sleep(0.3)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "with Signals() as signals:\n"
        "    signals.before_exit = lambda: os.write(1, b'erased')\n"
        "    threading.Thread(target=kill, daemon=True).start()\n"
        "    hashlib.pbkdf2_hmac('sha256', b'x', b'x', 200_000_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=15, capture_output=True)
    assert (done.returncode, done.stdout) == (130, b"erased")


def test_an_interruption_that_a_finaliser_swallows_is_raised_again() -> None:
    code = (
        "import os, signal, sys, time\n"
        "from cdec.cli.frame.process import Interrupted, Signals\n"
        "class Deaf:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(0.01)\n"
        "try:\n"
        "    with Signals():\n"
        "        deaf = Deaf()\n"
        "        del deaf\n"
        "        time.sleep(20)\n"
        "except Interrupted as error:\n"
        "    sys.exit(error.exit_status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=15, capture_output=True)
    assert (done.returncode, done.stderr) == (143, b"")
