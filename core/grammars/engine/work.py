"""How much a call has worked, when it must end for that, and trials that are undone."""

from __future__ import annotations

from cdec.core.grammars.engine import fields as f
from cdec.core.grammars.engine.pointers import (
    JOURNAL,
    NEED,
    PAUSED,
    STOPPED,
    begin_journal,
    get,
    put,
    undo,
    use,
    used,
)
from cdec.core.kernels import inner

__all__ = ["begin_trial", "end_trial", "pause", "spend", "stop"]


@inner
def spend(e: int, steps: int) -> None:
    """Count work that is not done again once it is noted."""
    put(e, f.WORK, get(e, f.WORK) + steps)


@inner
def pause(e: int) -> None:
    """End the call if it has been long. To be asked where something was noted that it may go on by.

    So every call gets further, and the kernels come back to Python for signals and other threads.
    """
    spent = get(e, f.WORK)
    if get(e, NEED) == 0 and spent > get(e, f.PAUSE_AT):
        put(e, NEED, PAUSED)
    stop(e)


@inner
def stop(e: int) -> None:
    """End the call if it has been too long, whether something was noted or not."""
    if get(e, f.WORK) > get(e, f.STOP_AT) and (get(e, NEED) == 0 or get(e, NEED) == PAUSED):
        put(e, NEED, STOPPED)


@inner
def begin_trial(e: int) -> tuple[int, int, int]:
    """Begin work whose stacks and memos are not to be kept; return what ``end_trial`` takes."""
    begin_journal(e, f.JOURNAL_ENTRIES)
    put(e, f.KEEP, 0)
    return used(e, f.VERTEX_STATE), used(e, f.SET_OFFSETS), used(e, f.SET_ITEMS)


@inner
def end_trial(e: int, before: tuple[int, int, int]) -> None:
    """Forget the stacks and memos made since ``begin_trial``.

    Masks try hundreds of tokens' terminals on every stack that comes along; kept, they would be
    most of an engine's memory, and its growth most of the time that a new mask takes. What took
    long is kept after all (KEEP, or a pause), so that it is not done again at every position of a
    text, or at every call.
    """
    if get(e, f.KEEP) != 0 or get(e, NEED) == PAUSED:
        put(e, JOURNAL, 0)
        return
    undo(e)
    put(e, f.SHIFT_LEVEL, f.NONE)
    use(e, f.VERTEX_STATE, before[0])
    use(e, f.SET_OFFSETS, before[1])
    use(e, f.SET_ITEMS, before[2])
