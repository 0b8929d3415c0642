"""How functions that numba compiles (kernels) take their arguments: one convention for all rooms.

1. **Arrays that belong together are one named tuple of plain numpy arrays** (``Arena`` of
   subterminal trees, ``Rows`` of automata). Its docstring or a comment at each field gives shape,
   dtype and meaning. Other arguments are arrays and numbers, described in ``Args``.
2. **Python owns and grows the arrays.** A kernel that lacks room returns a status that says so and
   leaves its state as it was; Python makes room and calls again.
3. **What is read from a file is checked before it is used as an index**, in the kernel: a damaged
   artifact gives no child, no token, an empty mask, never a read outside an array. Arrays that a
   compiler made itself are not checked.
4. What Python calls is a ``@kernel``; what only kernels call is ``@inner``, for which no call from
   Python is compiled. What is large and called in many places has its own copy, ``by_address``. All
   are kept in the user's cache (``cdec.core.files.kernel_cache``).
   Inner functions in the innermost loops take the few arrays they read, not the tuple: numba counts
   references to every array of a tuple at each call.

The one exception is the engine of grammars (``cdec.core.grammars.engine``). It works on some 60
arrays, and taking a named tuple of 60 arrays apart costs about 20 microseconds a call (4 arrays 2,
16 arrays 5), where filling a known mask takes 0.5. So its entry points take one int64 array, the
*header*, with addresses and lengths (0.3 microseconds), described in ``engine.pointers``; they hold
the interpreter lock, because the sessions of several threads share one engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, overload

from numba import njit
from numba.core import event
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

from cdec.core.files.kernel_cache import KernelCache

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(
    function: Any = None, /, *, signature: str | None = None, nogil: bool = True, **options: Any
) -> Any:
    """Compile a function that Python calls, when it is called first.

    Args:
        function: It.
        signature: The only types that it takes, as numba writes them; it is compiled at once.
        nogil: Let other threads of Python run meanwhile.
        options: Further ones of ``numba.njit``.
    """
    if function is None:
        return partial(kernel, signature=signature, nogil=nogil, **options)
    dispatcher = _kept(function, nogil=nogil, no_cfunc_wrapper=True, **options)
    if signature is not None:
        dispatcher.compile(signature)
        dispatcher.disable_compile()
    return dispatcher


@overload
def inner(function: Function, /) -> Function: ...
@overload
def inner(function: None = None, /, **options: Any) -> Callable[[Any], Any]: ...
def inner(function: Any = None, /, **options: Any) -> Any:
    """Compile a function that only kernels call: nothing is compiled for calls from Python.

    Args:
        function: It.
        options: Further ones of ``numba.njit``.
    """
    if function is None:
        return partial(inner, **options)
    return _kept(function, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def by_address(signature: str) -> Callable[[Any], Any]:
    """Compile a function that kernels call at its ``address``, so that they hold no copy of it.

    Args:
        signature: Its types, as numba writes them.
    """

    def compiled(function: Any) -> Any:
        made: Any = CFunc(function, normalize_signature(signature), locals={}, options={})
        made._cache = KernelCache(made)
        made.compile()
        return made

    return compiled


def _kept(function: Any, **options: Any) -> Any:
    dispatcher = njit(**options)(function)
    dispatcher._cache = KernelCache(dispatcher)
    return dispatcher


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
