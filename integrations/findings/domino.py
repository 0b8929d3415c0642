"""DOMINO: accuracy by what a mask forbids, template tokens, and speculation from counts.

Paper: arXiv 2403.06988. Texts are greedy, so that methods differ by their masks alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cdec.compilers import compile_grammar, regex_constraint
from cdec.core import CdecError, open_artifact
from cdec.core.combine.templated import templated
from cdec.core.constraint import Constraint
from cdec.data.assets import grammar_names, grammar_path
from cdec.integrations.findings.decoding import Prompts, Run, decode, pair, shipped
from cdec.integrations.findings.finding import Check, Found, Line, Plot, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.samplers.drafts.counts import Counts
from cdec.samplers.registry import SAMPLERS
from cdec.samplers.scoring.score import Scorer, ScoreRequest

_LENGTH = 96
_LOOKAHEADS: tuple[int | None, ...] = (0, 1, 2, None)
_SPECULATED = (0, 1, 2, 4, 8, 12, 16)
_ASKED = 16
"""Prompts that speculation is measured on."""
_LEARNT = 10
"""Prompts that counts are learnt on."""
_KEYS = ("name", "capital", "continent", "currency", "language", "demonym")
_SCHEMA = (
    'start: "{" '
    + ' "," '.join(f'" "? "\\"{key}\\":" " "? STRING' for key in _KEYS)
    + ' "}"\nSTRING: /"[^"\\\\\\x00-\\x1f]*"/\n'
)
"""JSON of one schema, as a grammar."""


@contextmanager
def compiled(source: str, laboratory: Laboratory) -> Iterator[Any]:
    """Yield a grammar, compiled for the target."""
    vocabulary = laboratory.target().vocabulary
    with TemporaryDirectory() as folder:
        path = Path(folder) / "grammar.arrow"
        compile_grammar(source, vocabulary, path, max_whitespace=None)
        yield open_artifact(path, vocabulary=vocabulary)


def invasiveness(laboratory: Laboratory) -> Found:
    """Compute Tables 2 and 4: accuracy by what a token may reach beyond its terminal."""
    prompts = shipped("json").subset(60)
    runs = {"unconstrained": _greedy(laboratory, prompts, None)}
    with compiled(grammar_path("json").read_text(encoding="utf-8"), laboratory) as grammar:
        for k in _LOOKAHEADS:
            name = "unlimited" if k is None else f"k = {k}"
            runs[name] = _greedy(laboratory, prompts, grammar.with_lookahead(k))
    whole = _records(laboratory, prompts)
    runs["a record of its keys"] = _greedy(laboratory, prompts, whole)
    runs["the same as a template"] = _greedy(laboratory, prompts, _apart(whole))
    rows = {name: _quality(run, prompts) for name, run in runs.items()}
    record, template = rows["a record of its keys"], rows["the same as a template"]
    checks = [
        Check("accuracy with unlimited lookahead less that of unconstrained decoding",
              rows["unlimited"][0] - rows["unconstrained"][0], at_least=0.0),
        Check("accuracy with unlimited lookahead less that of k = 0",
              rows["unlimited"][0] - rows["k = 0"][0], at_least=1e-9),
        Check("share of well-formed texts with unlimited lookahead", rows["unlimited"][1],
              at_least=rows["unconstrained"][1]),
        Check("log P of the texts with unlimited lookahead less that of k = 0, nats a text",
              rows["unlimited"][2] - rows["k = 0"][2], at_least=0.0),
        Check("accuracy with a record of its keys less that of the same as a template",
              record[0] - template[0], at_least=0.0),
        Check("log P of the texts of a record of its keys less that as a template, nats a text",
              record[2] - template[2], at_least=1e-9),
        Check("share of well-formed unconstrained texts that unlimited lookahead gives, too",
              _unchanged(runs["unconstrained"], runs["unlimited"]), at_least=1.0),
    ]  # fmt: skip
    columns = ("mask", "accuracy", "well-formed", "log P, nats a text", "tokens a text")
    cells = [(name, *row) for name, row in rows.items()]
    return Found(checks, [Table(f"{len(prompts)} records as JSON, greedy", columns, cells)])


def _records(laboratory: Laboratory, prompts: Prompts) -> list[Constraint]:
    """Return for each prompt the records of its answer's keys, spaced as the answers are."""
    vocabulary = laboratory.target().vocabulary
    made: dict[str, Constraint] = {}
    for answer in prompts.answers:
        pattern = _pattern(json.loads(answer))
        if pattern not in made:
            made[pattern] = regex_constraint(pattern, vocabulary)
    return [made[_pattern(json.loads(answer))] for answer in prompts.answers]


def _pattern(record: Mapping[str, object]) -> str:
    fields = (f'"{key}": {_OF_TYPE[type(value)]}' for key, value in record.items())
    return r"\{" + ", ".join(fields) + r"\}"


_OF_TYPE: dict[type, str] = {
    str: r'"[^"\\\x00-\x1f]*"',
    int: "-?(0|[1-9][0-9]*)",
    float: r"-?(0|[1-9][0-9]*)\.[0-9]+",
    bool: "(true|false)",
}
"""Patterns of the values of a record."""


def _apart(constraints: Sequence[Constraint]) -> list[Constraint]:
    """Return constraints with their fixed parts spelled apart, each one once."""
    narrow = {each: templated(each) for each in constraints}
    return [narrow[each] for each in constraints]


def _greedy(laboratory: Laboratory, prompts: Prompts, constraint: Any) -> Run:
    sampler = SAMPLERS["greedy"]()
    return decode(laboratory, sampler, prompts, length=_LENGTH, constraint=constraint, batch=20)


def _quality(run: Run, prompts: Prompts) -> tuple[float, float, float, float]:
    """Return the shares of right and of well-formed texts, log P and tokens a text."""
    values = [_value(sample.text) for sample in run.samples]
    answers = [json.loads(answer) for answer in prompts.answers]
    right = [value == answer for value, answer in zip(values, answers, strict=True)]
    return (
        float(np.mean(right)),
        float(np.mean([value is not None for value in values])),
        float(np.mean([sample.logprob or 0.0 for sample in run.samples])),
        run.events / len(run.samples),
    )


def _value(text: str | None) -> Any:
    """Return the value that a text is; None where it is no JSON."""
    try:
        return json.loads(text or "")
    except ValueError:
        return None


def _unchanged(free: Run, masked: Run) -> float:
    pairs = zip(free.samples, masked.samples, strict=True)
    same = [a.text == b.text for a, b in pairs if _value(a.text) is not None]
    return float(np.mean(same))


# --- Figure 2: tokens of templates.


def templates(laboratory: Laboratory) -> Found:
    """Compute Figure 2: fixed parts tokenized apart from what stands between them."""
    model, prompts = pair(laboratory)[0], shipped("json").subset(60)
    whole, apart = [], []
    narrow = _apart(_records(laboratory, prompts))
    for answer, template in zip(prompts.answers, narrow, strict=True):
        whole.append([int(t) for t in model.vocabulary.encode([answer])[0]])
        apart.append(template.token_ids_of(answer.encode()) or [])
    logs = {
        name: _log_p(laboratory, prompts, rows) for name, rows in (("own", whole), ("apart", apart))
    }
    tokens = {"own": sum(map(len, whole)), "apart": sum(map(len, apart))}
    size = sum(len(answer.encode()) for answer in prompts.answers)
    differ = [a != b for a, b in zip(whole, apart, strict=True)]
    lost = logs["own"] - logs["apart"]
    checks = [
        Check("share of texts whose tokens a template changes", float(np.mean(differ)),
              at_least=1e-9),
        Check("nats a text that a template's tokens lose, mean", float(lost.mean()), at_least=0.0),
        Check("least nats a changed text that a template's tokens lose",
              float(lost[np.array(differ)].min()) if any(differ) else float("nan"), at_least=0.0),
    ]  # fmt: skip
    rows = [
        (name, tokens[key], float(logs[key].mean()), float(np.exp(-logs[key].sum() / size)))
        for key, name in (("own", "the tokenizer's own"), ("apart", "a template's"))
    ]
    columns = ("tokens", "how many", "log P, nats a text", "perplexity a byte")
    return Found(checks, [Table("The right answers, in two spellings", columns, rows)])


def _log_p(
    laboratory: Laboratory, prompts: Prompts, rows: Sequence[Sequence[int]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    requests = [
        ScoreRequest(prompt, token_ids=row) for prompt, row in zip(prompts.texts, rows, strict=True)
    ]
    found = []
    for score in Scorer(laboratory.target()).run(requests):
        if isinstance(score, CdecError):
            raise score
        found.append(score.logprob)
    return np.array(found, np.float64)


# --- Table 3 and Figure 5: speculation from counts, and what masks cost.


def speculation(laboratory: Laboratory) -> Found:
    """Compute Figure 5: calls by the number of speculative tokens, with counts that are frozen."""
    free = grammar_path("json").read_text(encoding="utf-8")
    settings = {"free JSON": (free, shipped("json")), "JSON of a schema": (_SCHEMA, _countries())}
    checks, cells, lines, times = [], [], [], []
    for name, (source, prompts) in settings.items():
        with compiled(source, laboratory) as grammar:
            rows = list(_speculated(laboratory, grammar, prompts))
        first = rows[0]
        checks += [
            Check(f"{name}: texts that differ from greedy ones", sum(row[3] for row in rows),
                  at_most=0.0),
            Check(f"{name}: target calls a token at s = 8 over those without",
                  _at(rows, 8) / first[1], at_most=0.95),
        ]  # fmt: skip
        cells += [(name, *row[:4]) for row in rows]
        times += [(name, row[0], 1 / row[4]) for row in rows]
        x = [float(row[0]) for row in rows]
        lines.append(Line(name, x, [1 / row[1] for row in rows]))
    free_line, schema_line = lines
    checks.append(
        Check("tokens a call at s = 8, with a schema less without one",
              schema_line.y[_SPECULATED.index(8)] - free_line.y[_SPECULATED.index(8)],
              at_least=0.0)
    )  # fmt: skip
    plot = Plot("speculation", f"Tokens a call of the target, counts learnt on {_LEARNT} prompts.",
                "speculative tokens s", "tokens a call", lines)  # fmt: skip
    columns = ("task", "s", "target calls a token", "accepted of what was proposed", "other texts")
    title = f"Tokens a second, {_ASKED} prompts together"
    return Found(
        checks,
        [Table("Greedy decoding with frozen counts", columns, cells)],
        [plot],
        [
            Table(
                title,
                ("task", "s", "tokens a second"),
                times,
            )
        ],
    )


def _countries() -> Prompts:
    """Return shipped requests for records of countries, made to ask for the same keys."""
    asked = "Describe the country {} as JSON with the keys " + ", ".join(_KEYS) + ".\n"
    names = [json.loads(answer).get("name", "") for answer in _country_answers()]
    return Prompts([asked.format(name) for name in dict.fromkeys(names) if name])


def _country_answers() -> list[str]:
    prompts = shipped("json")
    pairs = zip(prompts.texts, prompts.answers, strict=True)
    return [answer for text, answer in pairs if str(text).startswith("Describe the country ")]


def _speculated(
    laboratory: Laboratory, grammar: Any, prompts: Prompts
) -> Iterator[tuple[int, float, float | None, int, float]]:
    """Yield by s: calls a token, acceptance, texts other than greedy ones, seconds a token."""
    texts = list(prompts.texts)
    learning, asked = Prompts(texts[:_LEARNT]), Prompts(texts[_LEARNT : _LEARNT + _ASKED])
    counts = Counts()
    learn: dict[str, Any] = {"draft": "counts", "gamma": 4, "counts": counts}
    decode(laboratory, SAMPLERS["greedy"](**learn), learning, length=_LENGTH, constraint=grammar)
    plain: list[str | None] = []
    for s in _SPECULATED:
        how: dict[str, Any] = {"draft": "counts", "gamma": s, "counts": counts}
        sampler = SAMPLERS["greedy"](**(how | {"freeze_counts": True} if s else {}))
        run = decode(laboratory, sampler, asked, length=_LENGTH, constraint=grammar)
        plain = plain or [sample.text for sample in run.samples]
        other = sum(a != b.text for a, b in zip(plain, run.samples, strict=True))
        calls = run.total("target_calls") / run.events
        yield s, calls, run.mean("acceptance_rate"), other, run.seconds / run.events


def _at(rows: Sequence[tuple[int, float, float | None, int, float]], s: int) -> float:
    return next(row[1] for row in rows if row[0] == s)


def overhead(laboratory: Laboratory) -> Found:
    """Compute Table 3 over all shipped grammars: what masks cost, and what speculation saves."""
    prompts = shipped("json").subset(6)
    cells: list[tuple[Any, ...]] = []
    times: list[tuple[Any, ...]] = []
    free = _drawn(laboratory, prompts, None, {})
    for name in grammar_names():
        with compiled_by_name(name, laboratory) as grammar:
            plain = _drawn(laboratory, prompts, grammar, {})
            how: dict[str, Any] = {"draft": "counts", "gamma": 8, "counts": Counts()}
            _drawn(laboratory, prompts, grammar, how)
            guessed = _drawn(laboratory, prompts, grammar, how | {"freeze_counts": True})
        calls = [run.total("target_calls") / run.events for run in (free, plain, guessed)]
        cells.append((name, *calls, _valid(plain)))
        times.append((name, *(run.seconds / run.events for run in (free, plain, guessed))))
    heads = ("grammar", "unconstrained", "masked", "masked, drafts from counts")
    checks = [
        Check("share of complete texts that are in the language, all grammars",
              min(row[4] for row in cells), at_least=1.0),
        Check("largest calls a token with counts over those without",
              largest([row[3] / row[2] for row in cells]), at_most=1.0),
    ]  # fmt: skip
    return Found(
        checks,
        [Table("Target calls a token, sampling", (*heads, "valid of complete"), cells)],
        times=[Table("Seconds a token", heads, times)],
    )


@contextmanager
def compiled_by_name(name: str, laboratory: Laboratory) -> Iterator[Any]:
    """Yield a shipped grammar, compiled for the target."""
    path = grammar_path(name)
    vocabulary = laboratory.target().vocabulary
    with TemporaryDirectory() as folder:
        artifact = Path(folder) / "grammar.arrow"
        kind: Any = "ebnf" if path.suffix == ".ebnf" else "lark"
        source = path.read_text(encoding="utf-8")
        compile_grammar(source, vocabulary, artifact, format=kind)
        yield open_artifact(artifact, vocabulary=vocabulary)


def _drawn(laboratory: Laboratory, prompts: Prompts, grammar: Any, how: dict[str, Any]) -> Run:
    name = "unconstrained" if grammar is None else "masked"
    sampler = SAMPLERS[name](**how)
    return decode(laboratory, sampler, prompts, length=40, constraint=grammar, batch=1)


def _valid(run: Run) -> float:
    ended = [sample for sample in run.samples if sample.finish_reason == "complete"]
    return float(np.mean([bool(sample.valid) for sample in ended])) if ended else 1.0
