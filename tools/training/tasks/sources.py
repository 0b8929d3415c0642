"""Sources of the tasks' rows: each function reads one task's data sets and splits them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cdec.integrations.findings.mentions import NearTitles
from cdec.integrations.findings.tasks import (
    claim_is_held_out,
    concepts_prompt,
    entities_prompt,
    gloss_prompt,
    mention_is_held_out,
    mention_prompt,
    problem_prompt,
    query_is_held_out,
    query_prompt,
    tree_is_held_out,
    tree_prompt,
)
from cdec.integrations.findings.trees import TREES, document_of, phrases_of, words_of
from tools.training import corpora
from tools.training.arithmetic import problem_document
from tools.training.tasks.examples import Data, Example, Part, in_any_order

_TITLES = "data/entity_sets/wikipedia_titles_93k.txt.xz"
_DISAMBIGUATION = ("wned_wiki", "wiki_fair_v2", "kore50")
_MOST_CANDIDATES = 20
_GENERATED = 4_000
_GENERATED_HELD_OUT = 300
_LONGEST_TREE, _LONGEST_PHRASE, _LONGEST_MEASURED = 20, 10, 12
"""Words of a sentence that is learnt from, of a phrase, and of a sentence that is measured on."""
_WORD = re.compile(r"\w+")

# --- Glosses.


def glosses(shared: Path) -> Data:
    """Return definitions of WordNet with the words that they define; a tenth is held out."""
    held_out, learnt = (_gloss_examples(shared, held_out=held) for held in (True, False))
    lemmas = corpora.read_text(shared / "data/wordnet/lemmas.txt.xz").splitlines()
    firsts = {e.prompt: e for e in reversed(held_out)}
    return Data(list(firsts.values()), [Part("glosses", 1.0, in_any_order(learnt))], lemmas)


def _gloss_examples(shared: Path, *, held_out: bool) -> list[Example]:
    return [
        Example(
            gloss_prompt(synset["definition"]),
            f" {word}",
            synset["definition"],
            {"answers": synset["members"]},
        )
        for synset in corpora.gloss_synsets(shared, held_out=held_out)
        for word in synset["members"]
    ]


# --- Mentions.


def mentions(shared: Path) -> Data:
    """Return mentions in documents with the titles of what they mean.

    Held out are whole documents. Learnt from are the others, sentences of Climate-FEVER in which
    the title of their article occurs, and forms of each title without any text around it.
    """
    titles = read_titles(shared)
    held_out: list[Example] = []
    learnt: list[Example] = []
    near = NearTitles(titles)
    for name in _DISAMBIGUATION:
        for row in corpora.read_records(shared / f"data/entity_disambiguation/{name}.jsonl.xz"):
            held = mention_is_held_out(row["doc"])
            for each in row["mentions"]:
                prompt = mention_prompt(row["text"], each["offset"], each["length"])
                right = frozenset({each["title"]})
                candidates = near.of(each["mention"], right, _MOST_CANDIDATES) if held else ()
                example = _title_example(prompt, each["title"], candidates)
                (held_out if held else learnt).append(example)
    evidence = list(_evidence(shared))
    return Data(
        list({e.prompt: e for e in held_out}.values()),
        [
            Part("mentions", 0.3, in_any_order(learnt)),
            Part("evidence", 0.2, in_any_order(evidence)),
            Part("forms of titles", 0.5, lambda rng: list(_title_forms(titles, rng))),
        ],
    )


def read_titles(shared: Path) -> list[str]:
    """Return titles of Wikipedia."""
    return corpora.read_text(shared / _TITLES).splitlines()


def _title_example(prompt: str, title: str, candidates: tuple[str, ...] = ()) -> Example:
    return Example(prompt, f" {title}", prompt, {"answer": title}, candidates)


def _evidence(shared: Path) -> Iterator[Example]:
    """Yield the first place of an article's title in each sentence of evidence."""
    for claim in corpora.read_records(shared / "data/climate_fever/claims.jsonl.xz"):
        for each in claim["evidence"]:
            name = each["article"].split(" (")[0]
            offset = each["text"].casefold().find(name.casefold())
            if offset >= 0:
                prompt = mention_prompt(each["text"], offset, len(name))
                yield _title_example(prompt, each["article"])


def _title_forms(titles: Sequence[str], rng: np.random.Generator) -> Iterator[Example]:
    """Yield each title once, mentioned in one of the ways in which texts mention it."""
    for i in rng.permutation(len(titles)):
        mention = shortened(titles[i], float(rng.random()))
        yield _title_example(mention_prompt(mention, 0, len(mention)), titles[i])


def shortened(title: str, form: float) -> str:
    """Return a title without what stands in parentheses or behind a comma, or a word of it.

    Args:
        title: Of an article. form: Chooses, 0 <= form < 1.
    """
    name = title.split(" (")[0].split(", ")[0] or title
    words = name.split()
    if form < 0.5 or len(words) < 2:
        return name
    if form < 0.7:
        return words[-1]
    return words[0] if form < 0.85 else " ".join(words[:2])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


# --- Queries.


def queries(shared: Path) -> Data:
    """Return queries and claims with titles of articles on them, a third and a fifth held out.

    Learnt from are the others, questions of WebQuestions that name the article they are on, and
    titles as people type them.
    """
    titles = read_titles(shared)
    held_out: list[Example] = []
    learnt: list[Example] = []
    for row in corpora.read_records(shared / "data/dbpedia_entity/queries_qrels.jsonl.xz"):
        grades = {title: grade for title, grade in row["qrels"].items() if grade > 0}
        if grades and query_is_held_out(row["id"]):
            best = max(grades, key=grades.__getitem__)
            held_out.append(_query_example(row["query"], best, grades))
        else:
            learnt += [_query_example(row["query"], t) for t, g in grades.items() for _ in range(g)]
    for row in corpora.read_records(shared / "data/climate_fever/claims.jsonl.xz"):
        grades = dict.fromkeys(row["articles"], 1)
        if claim_is_held_out(row["id"]):
            held_out.append(_query_example(row["claim"], row["articles"][0], grades))
        else:
            learnt += [_query_example(row["claim"], title) for title in row["articles"]]
    questions = list(_questions(shared, titles))
    return Data(
        held_out,
        [
            Part("queries and claims", 0.4, in_any_order(learnt)),
            Part("questions", 0.1, in_any_order(questions)),
            Part("titles as typed", 0.5, lambda rng: list(_typed_titles(titles, rng))),
        ],
        titles,
    )


def _query_example(query: str, title: str, grades: Mapping[str, int] | None = None) -> Example:
    reference = {"relevant": dict(grades)} if grades else {}
    return Example(query_prompt(query), f" {title}", query, reference)


def _questions(shared: Path, titles: Sequence[str]) -> Iterator[Example]:
    known = {"_".join(_words(title)): title for title in titles}
    for row in corpora.read_records(shared / "data/webquestions/trainmodel.jsonl.xz"):
        if (title := known.get(row["topic_key"])) is not None:
            yield _query_example(row["question"], title)


def _typed_titles(titles: Sequence[str], rng: np.random.Generator) -> Iterator[Example]:
    """Yield each title once, asked for by most of its words in small letters."""
    for i in rng.permutation(len(titles)):
        words = [word for word in _words(titles[i]) if rng.random() < 0.8]
        yield _query_example(" ".join(words) or titles[i], titles[i])


# --- Concepts.


def concepts(shared: Path) -> Data:
    """Return concept sets of CommonGen with sentences; its development part is held out."""
    rows = corpora.concept_records(shared)
    held_out = [
        _concept_example(
            row["concepts"],
            row["references"][0],
            {"concepts": row["concepts"], "inflections": row["inflections"]},
        )
        for row in corpora.read_records(shared / "data/commongen/dev.jsonl.xz")
    ]

    def draw(rng: np.random.Generator) -> list[Example]:
        return [
            _concept_example(
                [row["concepts"][j] for j in rng.permutation(len(row["concepts"]))],
                row["references"][int(rng.integers(len(row["references"])))],
            )
            for row in (rows[i] for i in rng.permutation(len(rows)))
        ]

    return Data(held_out, [Part("concept sets", 1.0, draw)])


def _concept_example(
    concepts: Sequence[str], sentence: str, reference: Mapping[str, Any] | None = None
) -> Example:
    sentence = corpora.as_sentence(sentence)
    question = " ".join(sorted(concepts))
    return Example(concepts_prompt(concepts), f" {sentence}", question, reference or {})


# --- Arithmetic.


def problems(shared: Path) -> Data:
    """Return problems with their steps and answers as JSON.

    Held out are the test part of GSM8K that is there, and some generated problems.
    """
    learnt = [_problem_example(text) for text in corpora.problem_documents(shared, "train")]
    test = [_problem_example(text) for text in corpora.problem_documents(shared, "test_part")]
    fixed = np.random.default_rng(8)
    generated = [_generated(fixed) for _ in range(_GENERATED_HELD_OUT)]
    return Data(
        [*test, *generated],
        [
            Part("GSM8K", 0.5, in_any_order(learnt)),
            Part("generated", 0.5, lambda rng: [_generated(rng) for _ in range(_GENERATED)]),
        ],
    )


def _generated(rng: np.random.Generator) -> Example:
    return _problem_example(problem_document(rng), "generated")


def _problem_example(document: str, label: str = "GSM8K") -> Example:
    question, _, solution = document.removeprefix("Problem: ").partition("\nJSON: ")
    reference = {"value": json.loads(solution), "source": label}
    return Example(problem_prompt(question), solution, question, reference)


# --- Entities of sentences.


def entities(shared: Path) -> Data:
    """Return sentences with their entities as JSON; the development parts are held out."""
    learnt, held_out = (
        [
            _sentence_example(row["tokens"], row["tags"])
            for name in ("wnut17", "crossner_politics", "crossner_science")
            for row in corpora.read_records(shared / f"data/ner/{name}_{part}.jsonl.xz")
        ]
        for part in ("train", "dev")
    )
    return Data(held_out, [Part("sentences", 1.0, in_any_order(learnt))])


def _sentence_example(tokens: Sequence[str], tags: Sequence[str]) -> Example:
    value = {"entities": list(tagged_entities(tokens, tags))}
    written = json.dumps(value, ensure_ascii=False)
    reference = {"value": value, "tokens": list(tokens)}
    return Example(entities_prompt(tokens), written, " ".join(tokens), reference)


def tagged_entities(tokens: Sequence[str], tags: Sequence[str]) -> Iterator[list[str]]:
    """Yield text and type of every entity that BIO tags mark."""
    begin = 0
    while begin < len(tags):
        kind = tags[begin][2:]
        end = begin + 1
        while kind and end < len(tags) and tags[end] == f"I-{kind}":
            end += 1
        if kind:
            yield [" ".join(tokens[begin:end]), kind]
        begin = end


# --- Trees of sentences.


def trees(shared: Path) -> Data:
    """Return sentences with their constituency trees; a fifth of the documents is held out.

    Learnt from are the sentences of the others, and each phrase of theirs as a text of its own.
    """
    held_out: list[Example] = []
    learnt: list[Example] = []
    phrases: list[Example] = []
    for row in corpora.read_records(shared / f"data/{TREES}"):
        words = len(row["words"])
        if tree_is_held_out(document_of(row)):
            if words <= _LONGEST_MEASURED and phrases_of(row["tree"]):
                held_out.append(_tree_example(row["tree"]))
            continue
        if words <= _LONGEST_TREE:
            learnt.append(_tree_example(row["tree"]))
        phrases += [
            _tree_example(text)
            for phrase, text in phrases_of(row["tree"])
            if 1 < phrase.end - phrase.begin <= _LONGEST_PHRASE
        ]
    return Data(
        list({e.prompt: e for e in held_out}.values()),
        [
            Part("sentences", 0.5, in_any_order(learnt)),
            Part("phrases", 0.5, in_any_order(phrases)),
        ],
    )


def _tree_example(tree: str) -> Example:
    words = words_of(tree)
    return Example(tree_prompt(words), f" {tree}", " ".join(words), {"tree": tree})
