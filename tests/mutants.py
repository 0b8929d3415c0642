"""Mutants of a module, and which of them a set of tests finds.

    python -m tests.mutants cdec.core.mask --tests tests/core tests/laws [--most 60] [--seed 0]

A mutant is the module with one place changed: a comparison, an operator, a number, a condition or a
returned value. Each runs the tests, up to their first failure, in a fork that has the libraries
loaded already; what survives is printed with its line. Tests of a helper may go if the same mutants
are found without them.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

LIBRARIES = ("numpy", "torch", "pyarrow", "lark", "tokenizers", "hypothesis", "pytest")
SECONDS = 120
_TYPES = ("annotation", "returns")
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
}  # fmt: skip


def mutated(source: str, number: int) -> tuple[ast.Module, str] | None:
    """Return the syntax of a module with its ``number``-th place changed, and what that is."""
    tree = ast.parse(source)
    for count, (node, change) in enumerate(_places(tree)):
        if count == number:
            before = ast.unparse(node)
            change()
            ast.fix_missing_locations(tree)
            after = ast.unparse(node)
            return tree, f"line {node.lineno}: {before[:60]} -> {after[:60]}"
    return None


def _places(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, object]]:
    """Yield what can be changed, with a function that does it; types are read by nobody."""
    types = [getattr(each, name, None) for each in ast.walk(tree) for name in _TYPES]
    unread = {id(node) for root in types if isinstance(root, ast.AST) for node in ast.walk(root)}
    for node in ast.walk(tree):
        if id(node) in unread:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
            yield node, lambda n=node: n.ops.__setitem__(0, COMPARISONS[type(n.ops[0])]())
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATORS:
            yield node, lambda n=node: setattr(n, "op", OPERATORS[type(n.op)]())
        elif isinstance(node, ast.BoolOp):
            other = ast.And if isinstance(node.op, ast.Or) else ast.Or
            yield node, lambda n=node, o=other: setattr(n, "op", o())
        elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield node.test, lambda n=node: _negate(n.test)
        elif isinstance(node, ast.Return) and not _is_none(node.value):
            yield node, lambda n=node: setattr(n, "value", ast.Constant(None))
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, lambda n=node: setattr(n, "value", n.value + 1)


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _negate(test: ast.expr) -> None:
    negation = ast.UnaryOp(ast.Not(), ast.parse(ast.unparse(test), mode="eval").body)
    test.__class__ = ast.UnaryOp
    test.__dict__.update(vars(negation) | {"lineno": test.lineno})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a changed syntax."""

    def __init__(self, name: str, origin: str, tree: ast.Module) -> None:
        self.name, self.origin, self.tree = name, origin, tree

    def find_spec(self, name: str, *_: object) -> object:
        if name != self.name:
            return None
        return importlib.util.spec_from_loader(name, self, origin=self.origin)

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = self.origin
        exec(compile(self.tree, self.origin, "exec"), module.__dict__)


def is_found(name: str, origin: str, tree: ast.Module, tests: Sequence[str]) -> bool:
    """Run the tests on a mutant in a fork; true if one fails, or takes very long."""
    pid = os.fork()
    if pid == 0:
        import pytest

        status = 1
        with contextlib.suppress(BaseException):
            sys.meta_path.insert(0, _Finder(name, origin, tree))
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            options = ["-x", "-q", "--all", "-p", "no:cacheprovider", "-p", "no:randomly"]
            status = int(pytest.main([*options, *tests]))
        os._exit(status)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def main() -> None:
    """Read the command line, run the mutants and print those that live."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("module")
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--most", type=int, default=60, help="mutants, drawn if there are more")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    spec = importlib.util.find_spec(given.module)
    assert spec is not None and spec.origin is not None
    for name in [name for name in sys.modules if name.startswith("cdec")]:
        del sys.modules[name]
    source = Path(spec.origin).read_text()
    total = sum(1 for _ in _places(ast.parse(source)))
    chosen = sorted(random.Random(given.seed).sample(range(total), min(given.most, total)))
    if is_found(given.module, spec.origin, ast.parse(source), given.tests):
        sys.exit("the tests fail on the module as it is")
    lives = []
    for number in chosen:
        tree, what = mutated(source, number) or sys.exit("no such mutant")
        if not is_found(given.module, spec.origin, tree, given.tests):
            lives.append(what)
    print("\n".join(lives))
    print(f"{given.module}: {len(chosen) - len(lives)} of {len(chosen)} mutants found")


if __name__ == "__main__":
    main()
