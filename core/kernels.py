"""How functions that numba compiles (kernels) take their arguments: one convention for all rooms.

1. **Arrays that belong together are one named tuple of plain numpy arrays** (``TrieView`` of sets,
   ``Arena`` of subterminal trees, ``Rows`` of automata). Its docstring or a comment at each field
   gives shape, dtype and meaning. Other arguments are arrays and numbers, described in ``Args``.
2. **Python owns and grows the arrays.** A kernel that lacks room returns a status that says so and
   leaves its state as it was; Python makes room and calls again.
3. **What is read from a file is checked before it is used as an index**, in the kernel: a damaged
   artifact gives no child, no token, an empty mask, never a read outside an array. Arrays that a
   compiler made itself are not checked.
4. Entry points are ``@njit(cache=True, nogil=True)``; what only kernels call is ``@inner``.
   Inner functions in the innermost loops take the few arrays they read, not the tuple: numba counts
   references to every array of a tuple at each call.

The one exception is the engine of grammars (``cdec.core.grammars.engine``). It works on some 60
arrays, and taking a named tuple of 60 arrays apart costs about 20 microseconds a call (4 arrays 2,
16 arrays 5), where filling a known mask takes 0.5. So its entry points take one int64 array, the
*header*, with addresses and lengths (0.3 microseconds), described in ``engine.pointers``; they hold
the interpreter lock, because the sessions of several threads share one engine.

subtle: numba's cache watches only the file of an entry point. After an edit of a function that an
entry point of another file calls, remove the cached kernels (``__pycache__/*.nb*``) of its room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from numba import njit
from numba.core import event

Function = TypeVar("Function", bound=Callable[..., Any])


def inner(function: Function) -> Function:
    """Compile a function that only kernels call: nothing is compiled for calls from Python."""
    compiled: Function = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return compiled


@contextmanager
def watched_compilation(tell: Callable[[bool], None]) -> Iterator[None]:
    """Hear of kernels that are compiled in the context; what comes from the cache is not.

    Args:
        tell: Called with True when one begins while none is under way, and with False when none is
            any more.
    """

    class Listener(event.Listener):
        depth = 0

        def on_start(self, _: object) -> None:
            self.depth += 1
            if self.depth == 1:
                tell(True)

        def on_end(self, _: object) -> None:
            self.depth -= 1
            if self.depth == 0:
                tell(False)

    with event.install_listener("numba:compile", Listener()):
        yield
