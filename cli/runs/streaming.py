"""Texts of ``cdec sample --stream``: shown on a terminal as they grow, or printed as JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from cdec.cli.frame.console import escape
from cdec.cli.frame.tables import print_json
from cdec.core.errors import UsageError

if TYPE_CHECKING:
    from cdec.cli.frame.console import Console
    from cdec.cli.options.sampling import SampleOptions as Options
    from cdec.samplers.streaming import GrowingTexts, Piece


def check_stream(options: Options) -> None:
    """Refuse to show texts that are none of one method's, or not told of while they grow.

    Raises:
        UsageError: A method that chooses among texts that are done, or an option beside it.
    """
    if not options.writing.stream:
        return
    from cdec.samplers.streaming import require_streamed

    require_streamed(options.choice.method)
    beside = {
        "--engine ray": options.dealing.engine == "ray",
        "--openai-batch": options.batch.openai_batch,
        "--trace": options.writing.trace is not None,
        "--reward": options.methods.given.get("reward") is not None,
    }
    for flag, is_given in beside.items():
        if is_given:
            raise UsageError(f"{flag} means nothing with --stream", hint="leave one of them out")


def of(options: Options, console: Console) -> GrowingTexts | None:
    """Return what hands out the texts of a run as they grow; None where nobody asks."""
    if not options.writing.stream:
        return None
    from cdec.samplers.streaming import GrowingTexts

    if console.stdout.isatty():
        return GrowingTexts(options.choice.method, Screen(console).show)
    return GrowingTexts(options.choice.method, partial(_print_piece, console))


def print_record(
    options: Options,
    console: Console,
    write: Callable[[Mapping[str, object]], None],
    record: Mapping[str, object],
) -> None:
    """Write a record to stdout, with nothing of progress on its line.

    On a terminal the text of a sample that was shown while it grew stands there already.
    """
    if options.writing.stream and console.stdout.isatty() and "error" not in record:
        return
    with console.printing():
        write(record)


def _print_piece(console: Console, piece: Piece) -> None:
    if piece.text:
        line = {"id": piece.id, "index": piece.index, "part": piece.part, "delta": piece.text}
        print_json(console, line)
        console.stdout.flush()


class Screen:
    """Texts that grow side by side on a terminal, where one at a time is shown.

    The one that was first grows there; the others wait until it is done.

    Args:
        console: Its stdout is the terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._waiting: dict[tuple[object, int], tuple[str, bool]] = {}

    def show(self, piece: Piece) -> None:
        """Take a piece of a text, whose parts follow each other; as ``GrowingTexts`` writes it."""
        before, _ = self._waiting.get((piece.id, piece.index), ("", False))
        new = "" if piece.is_shown else piece.text
        self._waiting[piece.id, piece.index] = before + new, piece.is_last
        while self._waiting:
            key, (text, is_done) = next(iter(self._waiting.items()))
            lines = map(escape, text.split("\n"))
            self._console.stdout.write("\n".join(lines) + ("\n" if is_done else ""))
            self._console.stdout.flush()
            if not is_done:
                self._waiting[key] = "", False
                return
            del self._waiting[key]
