"""Finds the files that ship with the package: models, entity lists, prompts, grammars, recipes."""

from __future__ import annotations

from pathlib import Path

from cdec.core.errors import InputMissingError

EMBEDDED = Path(__file__).parent / "embedded"
GRAMMARS = Path(__file__).parent / "grammars"
RECIPES = Path(__file__).parent / "recipes"


def embedded_model_path(name: str = "target") -> Path:
    """Return the folder of an embedded model, as transformers loads it.

    Args:
        name: "target" or "draft"; both have the same vocabulary.

    Raises:
        InputMissingError: The package has no such model.
    """
    return _shipped(EMBEDDED / name / "model.safetensors", f"embedded model {name!r}").parent


def entity_list(name: str) -> Path:
    """Return the file of an entity list, one name a line, sorted, unique.

    Args:
        name: "facts" or "unicode_names".

    Raises:
        InputMissingError: The package has no such list.
    """
    return _shipped(EMBEDDED / "entities" / f"{name}.txt", f"entity list {name!r}")


def evaluation_prompts(name: str) -> Path:
    """Return a JSONL file of prompts with ``id``, ``prompt``, ``answer`` and ``relation``.

    Args:
        name: "facts", "json" or "glosses".

    Raises:
        InputMissingError: The package has no such prompts.
    """
    return _shipped(EMBEDDED / "eval" / f"{name}.jsonl", f"evaluation prompts {name!r}")


def grammar_path(name: str) -> Path:
    """Return the file of a grammar; its ending, ``.lark`` or ``.ebnf``, tells the dialect.

    Args:
        name: One of ``grammar_names``, such as "json".

    Raises:
        InputMissingError: The package has no such grammar.
    """
    names = grammar_names()
    if name not in names:
        raise InputMissingError(
            f"no grammar {name!r} ships with cdec; present: {', '.join(names) or 'nothing'}",
            hint="name one that is present, or the path of a grammar file",
            path=name,
        )
    return next(path for path in _grammars() if path.stem == name)


def grammar_names() -> list[str]:
    """Return the names of the grammars that ship with the package, sorted."""
    return sorted(path.stem for path in _grammars())


def recipe_names() -> list[str]:
    """Return the names of the recipes that ship with the package, sorted."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def recipe_path(name: str) -> Path:
    """Return the file of a shipped recipe.

    Args:
        name: One of ``recipe_names``, such as "disc".

    Raises:
        InputMissingError: The package has no such recipe.
    """
    return _shipped(RECIPES / f"{name}.toml", f"recipe {name!r}")


def _grammars() -> list[Path]:
    return [path for path in GRAMMARS.glob("*") if path.suffix in (".lark", ".ebnf")]


def _shipped(path: Path, what: str) -> Path:
    if path.is_file():
        return path
    folder = path.parent.parent if path.suffix == ".safetensors" else path.parent
    present = sorted(p.stem for p in folder.iterdir()) if folder.is_dir() else []
    raise InputMissingError(
        f"no {what} at {path}; present: {', '.join(present) or 'nothing'}",
        hint="name one that is present, or build it with python -m tools.training",
        path=str(path),
    )
