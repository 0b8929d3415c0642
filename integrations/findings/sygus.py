"""Tasks of ASAp's paper: SyGuS prompts cut to the context of a model, and its toy.

The prompts of ``gad_sygus`` have three worked examples and up to 21,771 tokens of the embedded
tokenizer. What is cut, in this order:

- *shots*: one worked example (the first) where the prompt then has at most 768 tokens (each costs
  time in every step), else none;
- *lines*: of a question that is still too long, the last ``(constraint ...)`` lines;
- *head*: unless a task is ``printed``, the fixed head of the solution, such as
  ``(define-fun f ((name String)) String``, ends the prompt and leaves the grammar. The embedded
  model has never seen a program: it gives the head about exp(-150), spread over its tokenisations,
  so that 2,000 draws of a printed task are all spent within the head. One is kept as the
  case in which nothing converges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cdec.compilers import compile_grammar
from cdec.core import LanguageModel, open_artifact
from cdec.data.assets import grammar_path
from cdec.integrations.findings.laboratory import read_jsonl

TEXT_TOKENS = 32
"""Length limit of a text of a headed task; programs that nest deeper end as ``length``."""
PRINTED_TOKENS = 96
_ONE_SHOT_TOKENS = 768
_ROOT = re.compile(r'root ::= "([^"\n]*) " ')
_QUESTION = "Question:\n"
_OTHERS = 12
"""Tasks beyond the paper's, from grammars that none of them has, then by id."""
_PRINTED_MARK = " (printed)"
_PRINTED = ("dr-name",)


@dataclass(frozen=True, slots=True)
class Task:
    """One prompt under one grammar.

    Attributes:
        family: ``SLIA``, ``INV-BV`` or ``toy``.
        cut: What was cut from the prompt, for the records.
    """

    name: str
    family: str
    in_paper: bool
    grammar: str
    prompt: str
    max_new_tokens: int
    cut: str = ""

    @property
    def is_printed(self) -> bool:
        """Whether the head of the solution is part of the text, as in the shared data."""
        return self.name.endswith(_PRINTED_MARK)


def constraint_of(task: Task, model: LanguageModel) -> Any:
    """Compile and open a task's grammar."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "grammar.arrow"
        compile_grammar(task.grammar, model.vocabulary, path, format="ebnf")
        return open_artifact(path, vocabulary=model.vocabulary)


def toy_task() -> Task:
    """Return Example 1 of the paper: strings of length 5 that its prompt asks for."""
    return Task(
        name="toy_asap",
        family="toy",
        in_paper=True,
        grammar=grammar_path("toy_asap").read_text(encoding="utf-8"),
        prompt="Be a helpful assistant. Generate a random binary string of length 5? ",
        max_new_tokens=8,
    )


def sygus_tasks(model: LanguageModel, data: Path) -> list[Task]:
    """Return the paper's 30 tasks, then others, then the printed one.

    Args:
        model: Whose context prompts are cut to.
        data: Folder that holds ``gad_sygus``.
    """
    rows = list(read_jsonl(data / "gad_sygus" / "tasks.jsonl.xz"))
    of_paper = [row for row in rows if row["in_paper"]]
    chosen = of_paper + list(_others(rows, {row["grammar"] for row in of_paper}))
    tasks = [_task(row, model, printed=False) for row in chosen]
    by_name = {row["id"]: row for row in of_paper}
    return tasks + [_task(by_name[name], model, printed=True) for name in _PRINTED]


def _others(rows: list[dict[str, Any]], known: set[str]) -> Iterator[dict[str, Any]]:
    """Yield further rows with a prompt, each of another grammar; then of the shared grammar."""
    rest = [row for row in rows if not row["in_paper"] and row["prompt_no_grammar"]]
    rest.sort(key=lambda row: row["id"])
    fresh = []
    for row in rest:
        if row["grammar"] not in known:
            known.add(row["grammar"])
            fresh.append(row)
    taken = fresh[: _OTHERS - 2]
    yield from taken
    yield from [row for row in rest if row not in taken][: _OTHERS - len(taken)]


def _task(row: dict[str, Any], model: LanguageModel, *, printed: bool) -> Task:
    root = _ROOT.match(row["grammar"])
    if root is None:
        raise ValueError(f"the grammar of {row['id']} does not begin with the head of a solution")
    head, grammar = "", row["grammar"]
    if not printed:
        # The space before the solution stays in the text: tokens begin with it.
        head, grammar = root[1], 'root ::= " " ' + grammar[root.end() :]
    limit = PRINTED_TOKENS if printed else TEXT_TOKENS
    prompt, cut = _cut(row["prompt_no_grammar"], head, model, limit)
    return Task(
        name=row["id"] + (_PRINTED_MARK if printed else ""),
        family=row["family"],
        in_paper=row["in_paper"],
        grammar=grammar,
        prompt=prompt,
        max_new_tokens=limit,
        cut=cut if printed else cut + ", head in the prompt",
    )


def _cut(full: str, head: str, model: LanguageModel, limit: int) -> tuple[str, str]:
    """Return the longest cut of a prompt that leaves room for ``limit`` tokens, and what it is."""
    room = (model.context_length or 1 << 30) - limit - 1
    intro, *examples, question = full.split(_QUESTION)
    for shots, most in ((1, min(room, _ONE_SHOT_TOKENS)), (0, room)):
        prompt = _QUESTION.join([intro, *examples[:shots], question]) + head
        if _length(prompt, model) <= most:
            return prompt, f"{shots} of {len(examples)} examples"
    lines = question.splitlines(keepends=True)
    kept = [i for i, line in enumerate(lines) if line.startswith("(constraint")]
    low, high = 0, len(kept)
    while low < high:  # the most constraints that fit
        middle = (low + high + 1) // 2
        fits = _length(intro + _QUESTION + _without(lines, kept[middle:]) + head, model) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    prompt = intro + _QUESTION + _without(lines, kept[low:]) + head
    return prompt, f"0 of {len(examples)} examples, {low} of {len(kept)} constraint lines"


def _without(lines: list[str], dropped: list[int]) -> str:
    gone = set(dropped)
    return "".join(line for i, line in enumerate(lines) if i not in gone)


def _length(prompt: str, model: LanguageModel) -> int:
    """Count tokens, with one to spare for the beginning of the text."""
    return len(model.vocabulary.encode([prompt])[0]) + 1
