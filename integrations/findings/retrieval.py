"""DISC's retrieval by writing names: answers of questions, and titles of articles on queries.

Paper: arXiv 2504.09135, Tables 3 and 4. The sets have thousands of members, so their laws are
computed for some questions only, and over the judged titles of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from cdec.compilers import compile_set
from cdec.core.models.language_model import LanguageModel
from cdec.data.metrics.evaluation import metrics_of
from cdec.integrations.findings.answers import (
    DISC,
    EXACT,
    GRADE,
    MASKED,
    ROUNDING,
    TRIES,
    VANILLA,
    Record,
    Way,
    as_log,
    by_label,
    calls,
    difference,
    drawn,
    evaluated,
    law_checks,
    laws,
    scores,
    spread,
    value,
)
from cdec.integrations.findings.finding import Check, Found, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.laws import Law, MemberLaws, standard_errors
from cdec.integrations.findings.mentions import TITLES
from cdec.integrations.findings.tasks import (
    claim_is_held_out,
    query_is_held_out,
    query_prompt,
)
from cdec.samplers.scoring.score import Score

QUESTIONS = 24
QUERIES = 16
"""Of each data set."""
_ENUMERATED = 2
_DRAWS = 2
_MANY = 32
_LISTED = 5
_JUDGED = 40
_SHOTS = 3
_OPEN, _CLOSE = "‹", "›"
_LIST = Way("topn", "topn", {"max_evaluations": 400}, draws=_LISTED)
_BEAM = Way("beam 5", "beam", {"beams": _LISTED}, draws=_LISTED)


@contextmanager
def compiled(
    model: LanguageModel, members: Sequence[str], *, prefix: str = "", suffix: str = ""
) -> Iterator[Path]:
    """Yield the artifact of a set, compiled for the target."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "set.arrow"
        compile_set(members, model.vocabulary, path, prefix=prefix, suffix=suffix)
        yield path


def questions(laboratory: Laboratory) -> Found:
    """Compute Table 3's shape: R-precision on WebQuestions, over all of its answers."""
    names = laboratory.lines("webquestions/answer_names.txt.xz")
    every = list(laboratory.rows("webquestions/devtest.jsonl.xz"))
    asked = spread(every, QUESTIONS)
    records = [_question(row) for row in asked]
    few = spread(records, _ENUMERATED)
    references = [{"id": row["id"], "answers": row["answers"]} for row in asked]
    model = laboratory.target()
    with compiled(model, names) as artifact:
        ways = [VANILLA, MASKED, *DISC.values(), _BEAM]
        samples = {way.label: drawn(model, way, records, artifact) for way in ways}
        whole = [_question(row) for row in every]
        samples[_LIST.label] = drawn(model, _LIST, whole, artifact)
        right = scores(model, whole, [row["answers"] for row in every], artifact)
        known = laws(model, few, [names] * len(few), artifact)
        many = {
            way.label: drawn(model, way, [{**r, "n": _MANY} for r in few], artifact)
            for way in (MASKED, *DISC.values(), EXACT)
        }
    found = evaluated(samples, references, metrics_of()["r_precision"])
    expected = _expected_precision(right, samples[_LIST.label])
    heads = ("method", "R-precision", "low", "high", "calls a draw")
    rows = [(label, *value(found, label), calls(own)) for label, own in samples.items()]
    title = f"R-precision of rankings: {_DRAWS} draws by their shares, {_LISTED} listed texts"
    return Found(
        [
            *_list_checks(samples, few, known),
            *_law_checks(known, [names] * len(few), many),
            Check(
                "R-precision of disc K=4 less that of masked, upper end of its 95% interval",
                difference(found, MASKED.label, DISC[TRIES[-1]].label).interval.upper,
                at_least=0.0,
            ),
            Check(
                "expected R-precision of a draw from Q, lower bound, less that of a masked one",
                expected["exact, at least"] - expected[MASKED.label],
                at_least=0.0,
            ),
        ],
        [
            Table(title, heads, rows),
            Table(f"Expected R-precision of one draw, {len(every)} questions", *_cells(expected)),
            _mass_table(few, known),
        ],
    )


def _cells(values: Mapping[str, float]) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    return tuple(values), [tuple(values.values())]


def _expected_precision(
    right: Sequence[Sequence[Score]], listed: Sequence[Record]
) -> dict[str, float]:
    """Return the expected R-precision of one masked draw, and the bounds of that of one of Q.

    Args:
        right: Scores of the right answers of each question.
        listed: What ``topn`` says of the same questions: its bounds of P(S) are certified.
    """
    bounds = {s["id"]: (s["log_mass_lower"], s["log_mass_upper"]) for s in listed}
    rows = []
    for own, (lower, upper) in zip(right, bounds.values(), strict=True):
        log_p = np.array([as_log(score.logprob) for score in own])
        masked = float(np.exp([as_log(score.log_masked) for score in own]).sum())
        least, most = (float(np.exp(log_p - log_mass).sum()) for log_mass in (upper, lower))
        rows.append(np.array([masked, least, min(1.0, most)]) / len(own))
    labels = (MASKED.label, *(f"{EXACT.label}, at {end}" for end in ("least", "most")))
    return dict(zip(labels, np.mean(rows, axis=0).tolist(), strict=True))


def _question(row: Mapping[str, str]) -> Record:
    return {"id": row["id"], "prompt": f"Question: {row['question']}\nAnswer:", "n": _DRAWS}


def _mass_table(asked: Sequence[Record], known: Sequence[MemberLaws]) -> Table:
    each = [by_label(own) for own in known]
    heads = ("question", "P(S)", *(f"TV, {label}" for label in each[0]))
    rows = [
        (r["prompt"].splitlines()[0], np.exp(own.log_mass), *map(own.distance, law.values()))
        for r, own, law in zip(asked, known, each, strict=True)
    ]
    return Table("Laws over all answers", heads, rows)


def _list_checks(
    samples: Mapping[str, Sequence[Record]], few: Sequence[Record], known: Sequence[MemberLaws]
) -> list[Check]:
    """Return checks of what ``topn`` lists: the best, and proved where it says so."""
    listed: dict[str, list[float]] = {}
    for sample in samples[_LIST.label]:
        if sample["proved"]:
            listed.setdefault(sample["id"], []).append(sample["logprob"])
    gaps = [
        abs(found - right)
        for record, own in zip(few, known, strict=True)
        for found, right in zip(
            listed.get(record["id"], ()), np.sort(own.log_p)[::-1], strict=False
        )
    ]
    beyond = [
        sample["logprob"] - listed[sample["id"]][0]
        for label, own in samples.items()
        if label != VANILLA.label
        for sample in own
        if sample["id"] in listed
    ]
    proved = sum(map(len, listed.values())) / len(samples[_LIST.label])
    return [
        Check("texts that topn proved, share", proved, at_least=0.5),
        Check(
            "log P at proved ranks of topn, farthest from that of all texts scored, nats",
            largest(gaps),
            at_most=ROUNDING,
        ),
        Check("a text of any method over topn's first, nats", largest(beyond), at_most=ROUNDING),
    ]


def _law_checks(
    known: Sequence[MemberLaws],
    members: Sequence[Sequence[str]],
    many: Mapping[str, Sequence[Record]],
) -> list[Check]:
    """Return checks of laws, and of how often the most probable member of each is drawn."""
    best = [texts[int(np.argmax(own.log_p))] for own, texts in zip(known, members, strict=True)]
    each = [by_label(own) for own in known]
    gaps = []
    for label, own in many.items():
        texts = np.array([sample["text"] for sample in own], object).reshape(len(known), -1)
        hits = [int((row == text).sum()) for row, text in zip(texts, best, strict=True)]
        chances = [
            float(law[label][np.argmax(o.log_p)]) for o, law in zip(known, each, strict=True)
        ]
        gaps.append(standard_errors(hits, chances, texts.shape[1]))
    return [
        *law_checks(known),
        Check(
            "how often the most probable text is drawn, standard errors from the laws",
            largest(gaps),
            at_most=5.0,
        ),
    ]


@dataclass(frozen=True)
class Query:
    """A query with grades of titles, and the titles that were judged."""

    id: str
    text: str
    grades: Mapping[str, float]
    judged: Sequence[str]


@dataclass(frozen=True)
class Form:
    """How queries are asked.

    Attributes:
        said: For the table.
        asked: Returns the prompt of a query, given what stands before it.
        opened: What stands before a title. closed: behind it.
        shots: Examples before each query.
    """

    said: str
    asked: Callable[[str], str]
    opened: str = ""
    closed: str = ""
    shots: int = 0

    def prompts(self, queries: Sequence[Query], examples: Sequence[Query]) -> list[str]:
        """Return the prompts of queries, each behind as many of the examples as the form has."""
        head = "".join(
            f"{self.asked(q.text)} {self.opened}{_best(q)}{self.closed}\n"
            for q in examples[: self.shots]
        )
        return [head + self.asked(q.text) for q in queries]


def _in_brackets(query: str) -> str:
    return f"Query: {_OPEN}{' '.join(query.split())}{_CLOSE}\nEntity:"


PAPERS = Form("after three examples", _in_brackets, _OPEN, _CLOSE, _SHOTS)
LEARNT = Form("as the model was trained to read them", query_prompt)


def retrieval(laboratory: Laboratory) -> Found:
    """Compute Table 4: grades of the titles that are written after three examples.

    The model that was trained to name titles is asked as it was trained, too.
    """
    titles = laboratory.lines(TITLES)
    checks: list[Check] = []
    tables = []
    trained = laboratory.task("query-title")
    model = trained or laboratory.target()
    sources = {
        "DBpedia-Entity": _entity_queries(laboratory, set(titles)),
        "Climate-FEVER": _claims(laboratory, set(titles)),
    }
    for form in (PAPERS,) if trained is None else (LEARNT, PAPERS):
        with compiled(model, titles, prefix=f" {form.opened}", suffix=form.closed) as artifact:
            for name, queries in sources.items():
                own, table = _graded(model, queries, form, artifact)
                said = f"{name}, {form.said}"
                checks += [Check(f"{said}: {c.said}", c.value, c.at_least, c.at_most) for c in own]
                tables.append(Table(f"{said}: {table.title}", table.columns, table.rows))
    return Found(checks, tables)


def _graded(
    model: LanguageModel, queries: Sequence[Query], form: Form, artifact: Path
) -> tuple[list[Check], Table]:
    """Return checks and the table of one data set, whose first queries are the examples."""
    examples, asked = queries[:_SHOTS], queries[_SHOTS:]
    prompts = form.prompts(asked, examples)
    records = [
        {"id": q.id, "prompt": prompt, "n": _DRAWS}
        for q, prompt in zip(asked, prompts, strict=True)
    ]
    references = [{"id": q.id, "relevant": dict(q.grades)} for q in asked]
    ways = [VANILLA, MASKED, *DISC.values()]
    samples = {way.label: drawn(model, way, records, artifact) for way in ways}
    judged = [{**r, "candidates": list(q.judged)} for r, q in zip(records, asked, strict=True)]
    known = laws(model, judged, [q.judged for q in asked], artifact)
    many = {way.label: drawn(model, way, judged, artifact) for way in (MASKED, DISC[4], EXACT)}
    found = evaluated(samples, references, GRADE, as_compared=_title)
    expected = {label: float(own.mean()) for label, own in _grades(asked, known).items()}
    heads = ("method", "grade", "low", "high", "judged titles, by the law", "calls a draw")
    rows: list[tuple[object, ...]] = [
        (label, *value(found, label), expected.get(label), calls(own))
        for label, own in samples.items()
    ]
    rows.append((EXACT.label, None, None, None, expected[EXACT.label], None))
    title = f"mean grade of draws of all titles, and expected over {_JUDGED} judged ones at most"
    checks = [
        *_law_checks(known, [q.judged for q in asked], many),
        *_weight_checks(samples),
        Check(
            "expected grade of disc K=4 less that of masked, by the laws, upper end of 95%",
            _upper_gain(asked, known),
            at_least=0.0,
        ),
    ]
    return checks, Table(title, heads, rows)


def _weight_checks(samples: Mapping[str, Sequence[Record]]) -> list[Check]:
    """Return the check that resampling and acceptance prefer candidates of more weight x."""
    means = {}
    for way in (MASKED, DISC[TRIES[-1]]):
        x = np.array([sample["log_candidate_weight"] for sample in samples[way.label]], float)
        means[way.label] = x.mean(), x.var(ddof=1) / len(x)
    (masked, one), (disc, other) = means.values()
    return [
        Check(
            "mean log x of disc K=4 over that of masked, standard errors",
            float((disc - masked) / np.sqrt(one + other)),
            at_least=-3.0,
        )
    ]


def _grades(asked: Sequence[Query], known: Sequence[MemberLaws]) -> dict[str, Law]:
    """Return the expected grade of each query, float64[queries], by method."""
    grades = [np.array([q.grades.get(title, 0.0) for title in q.judged]) for q in asked]
    each = [by_label(own) for own in known]
    return {
        label: np.array([float(law[label] @ g) for law, g in zip(each, grades, strict=True)])
        for label in each[0]
    }


def _upper_gain(asked: Sequence[Query], known: Sequence[MemberLaws]) -> float:
    """Return what the gain over masked decoding is at most, two standard errors over queries."""
    grades = _grades(asked, known)
    gain = grades[DISC[TRIES[-1]].label] - grades[MASKED.label]
    return float(gain.mean() + 1.96 * gain.std(ddof=1) / np.sqrt(len(gain)))


def _best(query: Query) -> str:
    return max(sorted(query.grades), key=query.grades.__getitem__)


def _title(text: str) -> str:
    """Return the title in the text: what stands within the first brackets, if it has any."""
    return text.partition(_OPEN)[2].partition(_CLOSE)[0] if _OPEN in text else text.strip()


def _entity_queries(laboratory: Laboratory, titles: set[str]) -> list[Query]:
    queries = []
    for row in laboratory.rows("dbpedia_entity/queries_qrels.jsonl.xz"):
        grades = {t: float(g) for t, g in row["qrels"].items() if t in titles}
        if query_is_held_out(row["id"]) and max(grades.values(), default=0.0) > 0:
            right = [t for t in grades if grades[t] > 0]
            others = [t for t in grades if grades[t] == 0]
            judged = sorted(spread(right, _JUDGED // 2) + spread(others, _JUDGED // 2))
            queries.append(Query(row["id"], row["query"], grades, judged))
    return spread(queries, QUERIES + _SHOTS)


def _claims(laboratory: Laboratory, titles: set[str]) -> list[Query]:
    every = laboratory.rows("climate_fever/claims.jsonl.xz")
    rows = spread([row for row in every if claim_is_held_out(row["id"])], QUERIES + _SHOTS)
    known = sorted({t for row in rows for t in row["articles"] if t in titles})
    queries = []
    for row in rows:
        grades = {title: 1.0 for title in row["articles"] if title in titles}
        judged = sorted({*grades, *spread(known, _JUDGED - len(grades))})
        queries.append(Query(row["id"], row["claim"], grades, judged))
    return [query for query in queries if query.grades]
