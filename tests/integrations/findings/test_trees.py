"""Constituency trees: grammars against an enumeration, brackets, and ASAp over all trees."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.compilers import grammar_constraint
from cdec.core.constraint import text_verdicts
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data.assets import embedded_model_path
from cdec.integrations.findings.aligned import METHODS, measured_task
from cdec.integrations.findings.asap import tree_checks
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.reproduce import NOT_RUN, reproduce
from cdec.integrations.findings.sygus import Task
from cdec.integrations.findings.table import FINDINGS
from cdec.integrations.findings.tasks import tree_is_held_out
from cdec.integrations.findings.trees import (
    Labels,
    Phrase,
    grammar_of,
    phrases_of,
    shared_brackets,
    tree_tasks,
    words_of,
)

PIECES = [" (", " )", " S", " N", " T", " a", " b"]
VOCABULARY = Vocabulary([*(p.encode() for p in PIECES), b""], eos_token_ids=[7],
                        special_token_ids=[7])  # fmt: skip
TREE = '( S ( NP ( NN "Art ) ) ( VP ( VBD is\\n ) ( NP ( -LRB- -LRB- ) ) ) )'


def phrases(words: Sequence[str], labels: Sequence[str], chain: int = 2) -> Iterator[str]:
    """Yield the phrases of some words; ``chain`` of them may have the same words."""
    for label in labels:
        for inner in parts(words, labels):
            yield f"( {label} {inner} )"
        for inner in phrases(words, labels, chain - 1) if chain > 1 else ():
            yield f"( {label} {inner} )"


def parts(words: Sequence[str], labels: Sequence[str]) -> Iterator[str]:
    """Yield the ways to write one word, or two parts or more."""
    if len(words) == 1:
        yield f"( T {words[0]} )"
    for n in range(1, len(words)):
        first = [*phrases(words[:n], labels), *([f"( T {words[0]} )"] if n == 1 else [])]
        after = [*phrases(words[n:], labels), *parts(words[n:], labels)]
        yield from (f"{a} {b}" for a in first for b in after)


def test_a_grammar_allows_the_trees_of_the_sentence_and_no_other_text() -> None:
    trees = list(phrases("ab", "S"))
    assert len(trees) == len(set(trees)) == 18
    constraint = grammar_constraint(
        grammar_of("ab", Labels(("S",), ("T",))), VOCABULARY, format="ebnf"
    )
    session = constraint.session()
    found = set()
    paths = [("", int(session.start(1)[0]))]
    while paths:
        text, state = paths.pop()
        found |= {text} if session.is_complete([state])[0] else set()
        tokens = [t for t in session.allowed([state])[1].tolist() if t < len(PIECES)]
        states = session.advance([state] * len(tokens), tokens).tolist()
        paths += [(text + PIECES[t], after) for t, after in zip(tokens, states, strict=True)]
    assert found == {f" {tree}" for tree in trees}


def test_words_with_quotes_stand_in_a_grammar() -> None:
    labels = Labels.of([TREE])
    assert labels == Labels(("NP", "S", "VP"), ("-LRB-", "NN", "VBD"))
    assert words_of(TREE) == ['"Art', "is\\n", "-LRB-"]
    of_bytes = Vocabulary([*(bytes([i]) for i in range(256)), b""], eos_token_ids=[256],
                          special_token_ids=[256])  # fmt: skip
    constraint = grammar_constraint(grammar_of(words_of(TREE), labels), of_bytes, format="ebnf")
    asked = [f" {TREE}".encode(), TREE.encode(), f" {TREE[:-2]}".encode()]
    assert [v["valid"] for v in text_verdicts(constraint, asked)] == [True, False, False]


def test_brackets_by_hand() -> None:
    found = [phrase for phrase, _ in phrases_of(TREE)]
    assert found == [Phrase("NP", 0, 1), Phrase("NP", 2, 3), Phrase("VP", 1, 3), Phrase("S", 0, 3)]
    assert phrases_of(TREE)[2][1] == "( VP ( VBD is\\n ) ( NP ( -LRB- -LRB- ) ) )"
    other = '( S ( NP ( NNP "Art ) ) ( VP ( VBD is\\n ) ( X ( -LRB- -LRB- ) ) ) )'
    assert shared_brackets(other, TREE) == (3, 4, 4)
    assert shared_brackets("( NN Art )", TREE) == (0, 0, 4)
    assert shared_brackets(") (", TREE) == (0, 0, 4)
    twice = "( NP ( NP ( NN a ) ) )"
    assert shared_brackets(twice, "( NP ( NN a ) )") == (1, 2, 1)


def law(prefix: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a law that closes brackets and ends more often than a tree may."""
    weights = np.array([3.0, 4.0, 2.0, 1.0, 2.0, 1.0, 1.5, 0.5 + len(prefix) % 3])
    found: NDArray[np.float64] = weights / weights.sum()
    return found


def test_asap_finds_the_mass_of_all_trees() -> None:
    """Draws by all methods find all trees: their mass is P(S), and the checks say the truth."""
    task = Task("ab", "CP", False, grammar_of("ab", Labels(("S",), ("T",))), "", 40)
    result = measured_task(TabularModel(law, VOCABULARY), task, 150, METHODS, 50)
    log_p = {}
    for tree in phrases("ab", "S"):
        row = tuple(PIECES.index(f" {part}") for part in tree.split())
        path = [float(law(row[:i])[token]) for i, token in enumerate((*row, 7))]
        log_p[row] = float(np.log(path).sum())
    log_mass = float(np.logaddexp.reduce(list(log_p.values())))
    goal = result["target"]
    assert goal["texts"] <= len(log_p)
    assert goal["log_mass"] <= log_mass + 1e-9
    bound = result["methods"]["asap"]["log_mass_upper"]
    assert goal["log_mass"] - 1e-9 <= log_mass <= bound + 1e-9
    distance, nearer, least, further = tree_checks([result])
    assert least.value == pytest.approx(bound - goal["log_mass"]) and least.holds
    masked = result["methods"]["masked"]
    assert further.value == pytest.approx(bound - masked["log_mass_upper"])
    assert distance.value > 0 and nearer.value > 0
    # A bound below what was found is told, and so is one above that of masked draws.
    for wrong, told in ((goal["log_mass"] - 0.1, least), (0.0, further)):
        false = {**result["methods"]["asap"], "log_mass_upper": wrong}
        checks = tree_checks([{**result, "methods": {"asap": false, "masked": masked}}])
        assert [check.said for check in checks[2:] if not check.holds] == [told.said]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Sentences of twenty documents."""
    trees = ["( S ( T a ) ( T b ) ( T c ) ( T d ) )", "( S ( T a ) )"]
    rows = [{"id": f"d{n}-{i}", "words": words_of(tree), "tree": tree}
            for n in range(20) for i, tree in enumerate(trees)]  # fmt: skip
    (tmp_path / "constituency").mkdir()
    lines = "\n".join(map(json.dumps, rows)).encode()
    (tmp_path / "constituency/gum_trees.jsonl.xz").write_bytes(lzma.compress(lines, preset=0))
    return tmp_path


def test_tasks_are_sentences_of_documents_that_were_held_out(data: Path) -> None:
    tasks = tree_tasks(Laboratory(data=data), 2)
    assert len({task.name for task in tasks}) == 2
    assert all(tree_is_held_out(task.name.partition("-")[0]) for task in tasks)
    assert {task.prompt for task in tasks} == {"Text: a b c d\nTree:"}


def test_without_its_model_the_finding_is_not_run_and_says_why(data: Path, tmp_path: Path) -> None:
    finding = FINDINGS["asap-constituency"]
    (models := tmp_path / "models").mkdir()
    (models / "ner").symlink_to(embedded_model_path("draft"))
    for laboratory, reason in (
        (Laboratory(data=data), "give `tasks`"),
        (Laboratory(data=data, tasks=models), "no constituency among the task models"),
    ):
        (row,) = reproduce([finding], laboratory, tmp_path / "found")
        assert (row["state"], row["reason"]) == (NOT_RUN, reason)
