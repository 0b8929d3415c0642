"""Turns the tables into facts, questions, held-out prompts and training documents."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

import numpy as np

from tools.training.fact_tables import Row, read_table
from tools.training.relations import (
    FRAMES,
    NUMERIC_COLUMNS,
    RECORD_KINDS,
    RELATIONS,
    WITH_ARTICLE,
    Relation,
)

JSON_HOLDOUT = 10  # one request in this many is kept for evaluation


@dataclass(frozen=True)
class Fact:
    """One thing to know: ``subject`` has ``answer`` under ``relation``."""

    relation: Relation
    subject: str
    answer: str

    @property
    def key(self) -> str:
        """Stable identifier, also the seed of the held-out phrasing."""
        return f"{self.relation.name}/{self.subject}"

    def questions(self) -> list[str]:
        """Return every phrasing of the question, the held-out one included."""
        x = with_article(self.subject)
        noun = self.relation.noun.format(x=x)
        framed = [frame.format(noun=noun) for frame in FRAMES]
        return [
            upper_first(q) for q in [*framed, *(t.format(x=x) for t in self.relation.questions)]
        ]

    def held_out_index(self) -> int:
        """Return the index of the phrasing that is only used for evaluation."""
        return stable_hash(self.key) % len(self.questions())

    def held_out(self) -> str:
        """Return the phrasing that never occurs in the training text."""
        return self.questions()[self.held_out_index()]

    def trained(self) -> list[str]:
        """Return the phrasings that the training text uses."""
        return [q for i, q in enumerate(self.questions()) if i != self.held_out_index()]

    def statement(self) -> str:
        """Return the fact as a sentence."""
        text = self.relation.statement.format(x=with_article(self.subject), y=self.answer)
        return upper_first(text)


def stable_hash(text: str) -> int:
    """Hash ``text`` to the same integer in every process."""
    return int(sha256(text.encode()).hexdigest(), 16)


def with_article(name: str) -> str:
    """Return ``name`` as a sentence would say it."""
    return f"the {name}" if name in WITH_ARTICLE else name


def upper_first(text: str) -> str:
    """Return ``text`` with its first letter in upper case."""
    return text[:1].upper() + text[1:]


@cache
def all_facts() -> tuple[Fact, ...]:
    """List every fact of every relation, subjects with more than one answer left out."""
    facts: list[Fact] = []
    for relation in RELATIONS:
        answers: dict[str, set[str]] = {}
        for row in read_table(relation.table):
            if relation.subject in row and relation.answer in row:
                answers.setdefault(row[relation.subject], set()).add(row[relation.answer])
        unique = {subject: found for subject, found in answers.items() if len(found) == 1}
        facts.extend(Fact(relation, subject, *found) for subject, found in unique.items())
    return tuple(facts)


def held_out_questions() -> dict[str, Fact]:
    """Map each held-out question to its fact; one that some other fact trains is left out."""
    trained = {question for fact in all_facts() for question in fact.trained()}
    held: dict[str, list[Fact]] = {}
    for fact in all_facts():
        held.setdefault(fact.held_out(), []).append(fact)
    return {q: facts[0] for q, facts in held.items() if len(facts) == 1 and q not in trained}


def record(row: Row, columns: list[str]) -> str:
    """Write the named columns of ``row`` as one line of JSON, numbers as numbers."""
    values = {c: int(row[c]) if c in NUMERIC_COLUMNS else row[c] for c in columns if c in row}
    return json.dumps(values, ensure_ascii=False)


def json_request(table: str, row: Row, columns: list[str]) -> str:
    """Phrase the request for ``columns`` of ``row``."""
    kind, keys = RECORD_KINDS[table], ", ".join(columns)
    return f"Describe the {kind} {row['name']} as JSON with the keys {keys}.\n"


def json_is_held_out(request: str) -> bool:
    """Say whether a request for JSON is kept out of the training text."""
    return stable_hash(request) % JSON_HOLDOUT == 0


def json_pair(table: str, row: Row, rng: np.random.Generator) -> tuple[str, str]:
    """Draw a request for one record and the JSON that answers it."""
    others = [column for column in row if column != "name"]
    count = int(rng.integers(1, len(others) + 1))
    chosen = sorted(rng.choice(len(others), size=count, replace=False).tolist())
    columns = ["name", *(others[i] for i in chosen)]
    return json_request(table, row, columns), record(row, columns)


def fact_document(fact: Fact, others: tuple[Fact, ...], rng: np.random.Generator) -> str:
    """Write ``fact`` as one training document.

    Args:
        fact: The fact to teach.
        others: Facts that a few-shot document may put before it.
        rng: Chooses form and phrasing.

    Returns:
        The document's text, without special tokens.
    """
    question = _pick(fact.trained(), rng)
    form = rng.random()
    if form < 0.68:
        return f"Question: {question}\nAnswer: {fact.answer}"
    if form < 0.80:
        return fact.statement()
    if form < 0.90:
        return _few_shot(fact, question, others, rng)
    answer = json.dumps(fact.answer, ensure_ascii=False)
    if form < 0.95:
        return f'Question: {question}\nJSON: {{"answer": {answer}}}'
    quoted = json.dumps(question, ensure_ascii=False)
    return f'Question: {question}\nJSON: {{"question": {quoted}, "answer": {answer}}}'


def _few_shot(fact: Fact, question: str, others: tuple[Fact, ...], rng: np.random.Generator) -> str:
    pairs = [(question, fact.answer)]
    for _ in range(int(rng.integers(1, 4))):
        other = others[int(rng.integers(len(others)))]
        pairs.append((_pick(other.trained(), rng), other.answer))
    rng.shuffle(pairs)
    return "\n".join(f"Question: {q}\nAnswer: {a}" for q, a in pairs)


def _pick(items: list[str], rng: np.random.Generator) -> str:
    return items[int(rng.integers(len(items)))]


def fact_documents(rng: np.random.Generator) -> list[str]:
    """Write every fact once and every record of the described tables once.

    Args:
        rng: Chooses forms, phrasings, requested keys and the order.

    Returns:
        One document a fact and one a record, shuffled; no held-out question or request.
    """
    facts = all_facts()
    by_relation = {
        relation.name: tuple(f for f in facts if f.relation is relation) for relation in RELATIONS
    }
    documents = [fact_document(f, by_relation[f.relation.name], rng) for f in facts]
    for table in RECORD_KINDS:
        for row in read_table(table):
            request, answer = json_pair(table, row, rng)
            if not json_is_held_out(request):
                documents.append(request + answer)
    rng.shuffle(documents)
    return documents
