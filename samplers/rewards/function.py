"""Rewards by a function of the user's own, ``module:function``."""

from __future__ import annotations

import copy
import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cdec.core.errors import UsageError
from cdec.samplers.rewards.base import GivenPrompt, Record, Reward, as_scores, known_prompts

_SHAPE = "Give module:function, a function(texts, records) that returns one number a text."
_Scoring: TypeAlias = Callable[..., Sequence[float]]


class FunctionReward(Reward):
    """Calls ``function(texts, records)``, which returns one number a text.

    A function that has a parameter ``prompts`` is given by that name what the texts answer: a list
    of prompts, each a text or a list of chat messages.

    Importing a module runs it, so the name comes from the command line and never from a record.
    The working directory joins the end of Python's search path.

    Args:
        argument: ``module:function``.
        hard_threshold: A text satisfies the reward from this score on.

    Raises:
        UsageError: No such module or function, the module fails, or it is no function.
    """

    name = "function"
    reads = None

    def __init__(self, argument: str = "", *, hard_threshold: float = 1.0) -> None:
        super().__init__(argument, hard_threshold=hard_threshold)
        self._function = _import(argument)
        self._takes_prompts = _has_prompts(self._function)

    @property
    def title(self) -> str:
        """The function, as it was typed."""
        return self.argument

    def place_of(self, cause: Exception) -> str | None:
        """Return the last line of the user's file that an error came through, as ``file:line``."""
        file = getattr(sys.modules.get(self.argument.partition(":")[0]), "__file__", None)
        # A SystemExit arrives as the cause of an ordinary error.
        for error in (cause, cause.__cause__):
            frames = traceback.extract_tb(error.__traceback__) if error is not None else []
            files = [frame.filename for frame in frames]
            # What follows our own frame is the user's; it may have been imported by their module.
            foreign = frames[files.index(__file__) + 1 :] if __file__ in files else []
            own = [frame for frame in foreign if frame.filename == file] or foreign[:1]
            if own:
                return f"{Path(own[-1].filename).name}:{own[-1].lineno}"
        return None

    def scores(
        self,
        texts: Sequence[str],
        records: Sequence[Record],
        prompts: Sequence[GivenPrompt] | None = None,
    ) -> NDArray[np.float64]:
        """Return what the function returns for copies of the lists, as float64.

        Raises:
            ShapeError: It is not one number a text.
            RewardError: The function takes prompts, and they are not known.
            Exception: Whatever the function raises.
        """
        given: dict[str, object] = {}
        if self._takes_prompts:
            given["prompts"] = copy.deepcopy(list(known_prompts(prompts)))
        try:
            # What it prints must not end up among the samples, nor what it changes in records.
            with redirect_stdout(sys.stderr):
                found = self._function(list(texts), copy.deepcopy(list(records)), **given)
        except SystemExit as error:
            raise RuntimeError("the function called sys.exit") from error
        return as_scores(found, len(texts))


def file_hint(argument: str) -> str | None:
    """Return what to type instead of ``path.py:function``; None if the argument names no file."""
    path, _, name = argument.rpartition(":") if ":" in argument else (argument, "", "function")
    if not path.endswith(".py"):
        return None
    # Of either system's path, the last part.
    stem = path.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
    return (
        f"Give module:function, where module is importable, e.g. {stem or 'module'}:{name} in the"
        " folder of the file."
    )


def _has_prompts(function: _Scoring) -> bool:
    """Whether a function asks for prompts by name."""
    try:
        return "prompts" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # what is not written in Python may have no signature
        return False


def _import(argument: str) -> _Scoring:
    module_name, _, name = argument.partition(":")
    if not module_name or not name:
        raise UsageError(f"the reward {argument!r} names no function", hint=_SHAPE)
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        # Last, so that it hides no installed package; it stays, for what the function imports late.
        sys.path.append(here)
    try:
        with redirect_stdout(sys.stderr):
            module = import_module(module_name)
    except (Exception, SystemExit) as error:  # an import runs code, which may raise anything
        first = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"the reward's module {module_name!r} cannot be imported:"
            f" {type(error).__name__}: {first}",
            hint=file_hint(argument)
            or "It is looked up in the working directory and among the installed packages.",
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        others = [key for key, value in vars(module).items() if callable(value)]
        close = get_close_matches(name, others, n=1)
        problem = "is not a function" if hasattr(module, name) else "does not exist"
        raise UsageError(
            f"the reward's function {name!r} {problem} in the module {module_name!r}",
            hint=f"did you mean {close[0]!r}?" if close else _SHAPE,
        )
    found: _Scoring = function
    return found
