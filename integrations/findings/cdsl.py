"""Speculative lookahead: sentences with given concepts, what thresholds do, and speculation alone.

Paper: Constrained Decoding with Speculative Lookaheads (Nakshatri et al. 2025). Cost is its P = c
draft calls + target calls a token, where no cache spares a call; c is .15 and .34, about the
paper's, and 1, which is that of a target that drafts for itself. Texts are scored by the share of
concepts that they have: all together soft, of whole texts hard satisfaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdec.data.metrics.choice import Choice, choose
from cdec.integrations.findings.commongen import (
    GRID,
    LENGTH,
    cdsl,
    combinations,
    concept_models,
    drafts,
    errors_above,
    shown_options,
    test_task,
    validation_task,
)
from cdec.integrations.findings.decoding import Prompts
from cdec.integrations.findings.finding import Check, Found, Line, Plot, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.method_rows import (
    Method,
    Task,
    cost_ratios,
    measure,
    plain_methods,
)
from cdec.integrations.findings.sweeps import (
    C,
    Key,
    Row,
    Sweep,
    by_label,
    of_speculation,
    speculated,
    speculation_table,
)
from cdec.integrations.findings.tasks import concepts_prompt
from cdec.samplers.rewards import build_reward

SETS = {"table": 150, "speculation": 80, "validation": 32, "sweep": 40}
"""Concept sets of each finding, unless all data are taken."""
_OWN = {"1": 1.0}
_RATIOS = ("0.15", "0.34", "1")
_THRESHOLDS = {"accept_threshold": 0.3, "reward_threshold": 0.3, "target_tries": 0}
"""What figures 2, 7 and 8 fix while one of these is varied."""
_SWEEP = Sweep(
    _THRESHOLDS,
    {name: GRID[name] for name in ("reward_threshold", "accept_threshold", "target_tries")}
    | {"depth": (1, 2, 3, 5, 8)},
    depth=3,
    score="soft",
    axis="share of concepts",
)
_DRAFTED = 3
"""Tokens that plain speculation drafts."""
_EXAMPLES = (["dog", "ball", "park", "run"], ["woman", "sit", "bench", "read"])

# --- Tables 1, 4, 5 and 6, Figure 1.


def concepts(laboratory: Laboratory) -> Found:
    """Compute the CommonGen halves of Tables 1 and 6, Figure 1, and Tables 4 and 5."""
    laboratory = concept_models(laboratory)
    task, drafting = test_task(laboratory, SETS["table"]), drafts(laboratory)
    rows = measure(laboratory, _methods(drafting), task, _OWN)
    count = len(task.prompts)
    title = (f"{count} concept sets, k = 3, d = 3; calls a token, end events counted; a draft "
             "that is the target has c = 1")  # fmt: skip
    columns = ("method", *(f"× at c={c}" for c in _RATIOS), "target calls", "draft calls",
               f"cost with caches, c={C}", "tokens", "soft", "hard", "hard, lists")  # fmt: skip
    cells = [_cells(row) for row in rows]
    shown = ("greedy", "cdlh", "cdlh-approx, draft", "cdsl, draft", "cdsl, target")
    examples = _examples(laboratory, [m for m in _methods(drafting) if m.label in shown])
    times = [_ratios_measured(laboratory, task.prompts)]
    checks = [*_of_satisfaction(by_label(rows)), *_of_cost(by_label(rows), drafting)]
    tables = [Table(title, columns, cells), examples]
    return Found(checks, tables, [_tradeoff(rows)], times)


def _methods(drafting: Mapping[str, Any]) -> list[Method]:
    rows = [*plain_methods(3), Method("cdlh", "cdlh")]
    rows += [
        Method(f"cdlh-approx, {name}", "cdlh-approx", draft=draft)
        for name, draft in drafting.items()
    ]
    return rows + [cdsl(f"cdsl, {name}", draft, **_THRESHOLDS) for name, draft in drafting.items()]


def _cells(row: Row) -> tuple[object, ...]:
    speedups = (row["speedup"][c] for c in _RATIOS)
    calls = (row["path"]["target_calls"], row["path"]["draft_calls"])
    saved = row["computed_cost"][C]
    return (row["method"], *speedups, *calls, saved, row["tokens"], row["soft"], row["hard"],
            row["hard, lists"])  # fmt: skip


def _of_satisfaction(rows: Mapping[str, Row]) -> list[Check]:
    each = {name: row["each"] for name, row in rows.items()}
    above = "concepts of {} above those of {}, standard errors"
    checks = [
        Check(above.format(name, "greedy"), errors_above(each[name], each["greedy"]), at_least=2.0)
        for name in ("cdlh", "cdlh-approx, draft", "cdsl, draft")
    ]
    checks += [
        Check(above.format("cdlh", name), errors_above(each["cdlh"], each[name]), at_least=0.0)
        for name in ("cdlh-approx, draft", "cdsl, draft")
    ]
    best = max(errors_above(each[name], each["greedy"]) for name in ("top-p 0.5", "top-p 0.9"))
    return [
        *checks,
        Check("concepts of the better nucleus above those of greedy, standard errors", best,
              at_most=2.0),
        Check("whole sets of cdsl less those of greedy, share",
              rows["cdsl, draft"]["hard"] - rows["greedy"]["hard"], at_least=0.0),
    ]  # fmt: skip


def _of_cost(rows: Mapping[str, Row], drafting: Mapping[str, Any]) -> list[Check]:
    ours = [rows[f"cdsl, {name}"] for name in drafting]
    own = rows["cdlh-approx, target"]
    pairs = zip(own["texts"], rows["cdlh"]["texts"], strict=True)
    approx, cdlh = (rows[name]["path"] for name in ("cdlh-approx, draft", "cdlh"))
    return [
        Check("cdsl: largest target calls a token of all drafts",
              largest([row["path"]["target_calls"] for row in ours]), at_most=1.0),
        *(Check(f"cost of cdlh over that of cdsl with the draft, c = {c}",
                rows["cdsl, draft"]["speedup"][c], at_least=2.2) for c in _RATIOS[:2]),
        *(Check(f"cost of cdlh-approx over that of cdsl with the draft, c = {c}",
                rows["cdlh-approx, draft"]["cost"][c] / rows["cdsl, draft"]["cost"][c],
                at_least=1.0) for c in _RATIOS[:2]),
        Check("target calls of cdlh a token, at most 1 + k d", cdlh["target_calls"], at_most=10.0),
        Check("draft calls of cdlh-approx a token, at most k d", approx["draft_calls"],
              at_most=9.0),
        Check("cdlh-approx with the target as its draft: share of texts other than cdlh's",
              sum(a != b for a, b in pairs) / len(own["texts"]), at_most=0.01),
        Check("calls of cdlh over those of cdlh-approx with the target as its draft",
              own["speedup"]["1"], at_most=1.0),
        Check("largest cost with caches over cost without, c = 0.34",
              largest([row["computed_cost"][C] / row["cost"][C] for row in rows.values()]),
              at_most=1.0),
    ]  # fmt: skip


def _tradeoff(rows: Sequence[Row]) -> Plot:
    lines = [Line(row["method"], [row["speedup"][C]], [row["soft"]]) for row in rows]
    return Plot("tradeoff", f"Concepts found, by cost (c = {C}).", "times cheaper than cdlh",
                "share of concepts", lines, log_x=True)  # fmt: skip


def _examples(laboratory: Laboratory, methods: Sequence[Method]) -> Table:
    prompts = Prompts(
        [concepts_prompt(asked) for asked in _EXAMPLES],
        inputs=[{"concepts": asked} for asked in _EXAMPLES],
    )
    task = Task(prompts, build_reward("coverage"), lambda texts: {}, LENGTH)
    texts = {m.label: [s.text for s in m.run(laboratory, task).samples] for m in methods}
    cells = [
        (", ".join(asked), label, own[number])
        for number, asked in enumerate(_EXAMPLES)
        for label, own in texts.items()
    ]
    return Table("Examples", ("concepts", "method", "text"), cells)


def _ratios_measured(laboratory: Laboratory, prompts: Prompts) -> Table:
    measured = cost_ratios(laboratory, prompts)
    title = "c measured: greedy tokens a second of the target over those of the draft"
    return Table(title, ("prompts together", "c"), list(measured.items()))


# --- Tables 2 and 3.


def tuning(laboratory: Laboratory) -> Found:
    """Compute Tables 2 and 3: of the cheapest settings of a grid, the best on other sets."""
    laboratory = concept_models(laboratory)
    task = validation_task(laboratory, SETS["validation"])
    tried = _tried(laboratory, task)
    choice = choose(tried, lambda row: row["cost"][C], lambda row: float(row["soft"]))
    chosen = choice.chosen
    depth = chosen["options"]["depth"]
    costs = {d: min(row["cost"][C] for row in tried if row["options"]["depth"] == d)
             for d in GRID["depth"]}  # fmt: skip
    test = test_task(laboratory, SETS["sweep"])
    methods = [Method("greedy", "greedy"), Method("cdlh", "cdlh"),
               cdsl("chosen", **chosen["options"])]  # fmt: skip
    rows = by_label(measure(laboratory, methods, test, _OWN))
    checks = [
        Check(f"chosen setting, sets that it was not chosen on: cost of cdlh over its, c = {C}",
              rows["chosen"]["speedup"][C], at_least=2.2),
        Check("concepts of the chosen setting above those of greedy, standard errors",
              errors_above(rows["chosen"]["each"], rows["greedy"]["each"]), at_least=2.0),
        Check("lookahead that is chosen, tokens (the paper's is 3)", depth, at_most=3),
        Check("cheapest setting of the other lookahead over the cheapest of this one, cost",
              min(costs[d] for d in costs if d != depth) / costs[depth], at_least=1.0),
    ]  # fmt: skip
    return Found(checks, [_frontier(choice, task), _chosen(rows)], [_picture(choice)])


def _tried(laboratory: Laboratory, task: Task) -> Sequence[Row]:
    methods = [
        Method("cdlh", "cdlh"),
        *(cdsl(shown_options(options), **options) for options in combinations(GRID)),
    ]
    return measure(laboratory, methods, task, {})[1:]


def _frontier(choice: Choice[Row], task: Task) -> Table:
    tried, chosen = choice.ranked, choice.chosen
    shown = {row["method"]: row for row in (*choice.frontier, chosen)}
    cells = [
        (name, row["cost"][C], row["soft"], row["hard"], "yes" if row is chosen else "")
        for name, row in shown.items()
    ]
    title = f"{len(tried)} settings on {len(task.prompts)} training sets: those that none beats"
    return Table(title, ("setting", f"cost at c={C}", "soft", "hard", "chosen"), cells)


def _chosen(rows: Mapping[str, Row]) -> Table:
    cells = [(name, row["speedup"][C], row["soft"], row["hard"]) for name, row in rows.items()]
    return Table("The chosen setting on dev sets", ("method", f"× at c={C}", "soft", "hard"), cells)


def _picture(choice: Choice[Row]) -> Plot:
    lines = [
        Line(label, [row["cost"][C] for row in rows], [row["soft"] for row in rows])
        for label, rows in (("none beats", choice.frontier), ("chosen", [choice.chosen]))
    ]
    return Plot("frontier", "What concepts cost on the training part.",
                f"cost a token at c={C}, target calls", "share of concepts", lines)  # fmt: skip


# --- Figures 2, 7 and 8.


def thresholds(laboratory: Laboratory) -> Found:
    """Compute Figures 2, 7 and 8: one threshold varied, by draft and by the target's test."""
    laboratory = concept_models(laboratory)
    task = validation_task(laboratory, SETS["sweep"])
    drafting = drafts(laboratory)
    del drafting["target"]
    rows = _SWEEP.rows(laboratory, task, drafting)
    table = _SWEEP.table(rows, f"{len(task.prompts)} training sets", ("soft", "hard"))
    return Found(_of_thresholds(rows), [table], _SWEEP.plots(rows))


def _of_thresholds(rows: Mapping[Key, Row]) -> list[Check]:
    def at(name: str, value: float, test: str = "hard") -> Row:
        return rows["draft", test, name, value]

    low, high = at("reward_threshold", 0.3), at("reward_threshold", 0.9)
    checks = [
        Check("reward threshold .9 over .3, hard test: cost", high["cost"][C] / low["cost"][C],
              at_least=1.0),
        Check("reward threshold .9 above .3, hard test: concepts, standard errors",
              errors_above(high["each"], low["each"]), at_least=0.0),
        Check("acceptance threshold .9 over .3, hard test: cost",
              at("accept_threshold", 0.9)["cost"][C] / at("accept_threshold", 0.3)["cost"][C],
              at_least=1.0),
        Check("b = 2 above b = 0, hard test: concepts, standard errors",
              errors_above(at("target_tries", 2)["each"], at("target_tries", 0)["each"]),
              at_most=0.0),
        Check("b = 1 over b = 0, hard test: cost",
              at("target_tries", 1)["cost"][C] / at("target_tries", 0)["cost"][C], at_most=1.0),
        Check("largest draft calls a token of d = 1 over those of d = 8",
              largest([rows[draft, test, name, 1]["path"]["draft_calls"]
                       / rows[draft, test, name, 8]["path"]["draft_calls"]
                       for draft, test, name, value in rows if (name, value) == ("depth", 1)]),
              at_most=1.0),
    ]  # fmt: skip
    costs, gains = [], []
    for (draft, test, *rest), row in rows.items():
        if (draft, test) == ("draft", "hard"):
            other = rows[(draft, "ratio", *rest)]  # type: ignore[index]
            costs.append(other["cost"][C] / row["cost"][C])
            gains.append(errors_above(other["each"], row["each"]))
    return [
        *checks,
        Check("cost with the ratio test over that with the hard one, largest", largest(costs),
              at_most=1.0),
        Check("concepts with the ratio test above those with the hard one, most standard errors",
              largest(gains), at_most=2.0),
    ]  # fmt: skip


# --- Table 7.


def speculation(laboratory: Laboratory) -> Found:
    """Compute Table 7: plain speculation, which looks ahead for no reward, by test and draft."""
    laboratory = concept_models(laboratory)
    task, drafting = test_task(laboratory, SETS["speculation"]), drafts(laboratory, half=True)
    rows = speculated(laboratory, task, drafting, _DRAFTED)
    table = speculation_table(laboratory, task, rows, drafting, ("soft", "hard"))
    return Found(_of_speculation(rows, drafting), [table])


def _of_speculation(rows: Mapping[str, Row], drafting: Mapping[str, Any]) -> list[Check]:
    return [
        *of_speculation(rows, drafting, _DRAFTED),
        Check("ratio test, the target as its own draft: concepts from those of the target's own "
              "draws, standard errors",
              abs(errors_above(rows["ratio, target"]["each"], rows["masked"]["each"])),
              at_least=4.0),
        Check("lossless test: concepts from those of the target's own draws, standard errors",
              largest([abs(errors_above(rows[f"lossless, {name}"]["each"], rows["masked"]["each"]))
                       for name in drafting]), at_most=4.0),
    ]  # fmt: skip
