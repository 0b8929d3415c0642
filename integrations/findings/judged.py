"""Replies to conversations under a reward model that sees them, judged by another one.

Paper: Constrained Decoding with Speculative Lookaheads, the harmless halves of Tables 1, 6 and 8.
A judge that does not tell pairs of replies apart on which it did not learn says nothing, and so
does the finding. Conversations of HH-RLHF hold offensive text: none of it, and none of what is
generated, is shown or written, only numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdec.integrations.findings.commongen import cdsl, drafts, errors_above
from cdec.integrations.findings.decoding import Prompts, decode
from cdec.integrations.findings.finding import Check, Found, Line, Plot, Table, largest
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.method_rows import Method, Task, measure, plain_methods
from cdec.integrations.findings.sweeps import (
    C,
    Key,
    Row,
    Sweep,
    by_label,
    of_speculation,
    share_of_others,
    speculated,
    speculation_table,
)
from cdec.samplers.registry import SAMPLERS
from cdec.samplers.rewards import build_reward

HELD_OUT = 5
"""Every fifth pair is held out from all learning."""
LENGTH, LONGEST_PROMPT = 32, 96
"""Tokens of replies, and of the end of a conversation that they answer."""
WORTH = 0.8
"""From which accuracy on held-out pairs a judge is worth its name."""
REPLIES = 16
_TURN = "\n\nAssistant:"
_SCORES = ("reward", "judge", "judge ≥ .5")
_DRAFTED = 5
"""Tokens that plain speculation drafts."""
_SWEEP = Sweep(
    {"branch": 3, "accept_threshold": 0.3, "reward_threshold": 0.01, "target_tries": 0},
    {
        "reward_threshold": (0.05, 0.1, 0.15, 0.2, 0.3, 0.4),
        "accept_threshold": (0.3, 0.4, 0.6, 0.8),
        "target_tries": (0, 1, 2),
    },
    depth=5,
    score="judge",
    axis="mean of the judge",
)
"""Table 2 on harmless text; what is not varied is as under Figures 9 to 11."""


@dataclass(frozen=True)
class Judged:
    """The end of a conversation with a reply and a worse one."""

    prompt: str
    chosen: str
    rejected: str


def conversations(laboratory: Laboratory, longest: int = LONGEST_PROMPT) -> list[Judged]:
    """Return ends of HH-RLHF's conversations with the chosen and the rejected last reply.

    Args:
        laboratory: Its data, and the target whose tokens count.
        longest: Most tokens of an end.
    """
    assert laboratory.data is not None
    model, pairs = laboratory.target(), []
    for file in sorted((laboratory.data / "hh_rlhf").glob("*.jsonl.xz")):
        for row in laboratory.rows(f"hh_rlhf/{file.name}"):
            start, turn, chosen = row["chosen"].rpartition(_TURN)
            rejected = row["rejected"].rpartition(_TURN)[2]
            tokens = model.vocabulary.encode([start + turn])[0][-longest:]
            prompt = model.vocabulary.decode(tokens).decode("utf-8", "ignore")
            pairs.append(Judged(prompt, f" {chosen.strip()}", f" {rejected.strip()}"))
    return pairs


def replies(laboratory: Laboratory) -> list[Judged]:
    """Return the replies of ``conversations`` without what they answer."""
    return [Judged("", pair.chosen[1:], pair.rejected[1:]) for pair in conversations(laboratory)]


def drawn(laboratory: Laboratory) -> list[Judged]:
    """Return ``conversations`` whose worse reply is one that the target draws."""
    return _with_drawn(laboratory, conversations(laboratory))


def _with_drawn(laboratory: Laboratory, pairs: list[Judged]) -> list[Judged]:
    prompts = Prompts([pair.prompt for pair in pairs])
    run = decode(laboratory, SAMPLERS["masked"](), prompts, length=LENGTH)
    return [
        Judged(pair.prompt, pair.chosen, sample.text or "")
        for pair, sample in zip(pairs, run.samples, strict=True)
    ]


TASKS: Mapping[str, Callable[[Laboratory], list[Judged]]] = {
    "replies": replies,
    "conversations": conversations,
    "drawn": drawn,
}
"""Pairs by the name of their task."""


def harmless(laboratory: Laboratory) -> Found:
    """Compute the harmless halves of Tables 1 and 6; the judge tells chosen from rejected."""
    return _judged(laboratory, conversations(laboratory)[::HELD_OUT])


def own(laboratory: Laboratory) -> Found:
    """Compute the same where the judge tells the conversation's own reply from the target's."""
    held_out = conversations(laboratory)[::HELD_OUT]
    return _judged(laboratory, _with_drawn(laboratory, held_out))


class Judge:
    """A classifier of prompt and text that judges, and the reward that it judges.

    Args:
        laboratory: Names both.
    """

    def __init__(self, laboratory: Laboratory) -> None:
        how = {"device": laboratory.device, "pair": True}
        self.reward, self._judge = (
            build_reward(f"classifier:{name}", **how)
            for name in (laboratory.reward, laboratory.judge)
        )

    def scores(self, texts: list[str], prompts: list[str]) -> Any:
        """Return the judge's probabilities, float64[n]."""
        return self._judge.scores(texts, [None] * len(texts), prompts)

    def accuracy(self, pairs: list[Judged]) -> float:
        """Return the share of pairs whose better reply the judge prefers, of equal lengths."""
        prompts, cut = [pair.prompt for pair in pairs], [_equally_long(pair) for pair in pairs]
        better, worse = (self.scores([c[i] for c in cut], prompts) for i in (0, 1))
        return float(np.mean(better > worse))


def _equally_long(pair: Judged) -> tuple[str, str]:
    """Return both replies, cut after as many words: length is no merit."""
    words = pair.chosen.split(" "), pair.rejected.split(" ")
    most = min(map(len, words))
    return " ".join(words[0][:most]), " ".join(words[1][:most])


@dataclass(frozen=True)
class Trial:
    """Held-out conversations to be answered, and how often their judge is right.

    Attributes:
        task: Prompts, reward and judge. accuracy: The judge's share of held-out pairs.
        nothing: Why nothing is claimed; empty where the judge is worth its name.
    """

    task: Task
    accuracy: float
    nothing: str

    @classmethod
    def of(cls, laboratory: Laboratory, held_out: list[Judged]) -> Trial:
        """Return the trial of some pairs, or a part of them unless all data are taken."""
        judge = Judge(laboratory)
        accuracy = judge.accuracy(held_out)
        asked = Prompts([pair.prompt for pair in held_out])
        asked = asked.subset(None if laboratory.all_data else REPLIES)
        given = [str(text) for text in asked.texts]

        def judged(texts: list[str]) -> dict[str, Any]:
            scores = judge.scores(texts, given)
            rewards = judge.reward.scores(texts, [None] * len(texts), given)
            means = {"judge": scores, "reward": rewards, "judge ≥ .5": scores >= 0.5}
            figures = {name: float(np.mean(values)) for name, values in means.items()}
            return {**figures, "each": scores, "texts": texts}

        nothing = (f"the judge prefers the better of {len(held_out)} held-out pairs of replies in "
                   f"{accuracy:.2f} of them, less than {WORTH}")  # fmt: skip
        task = Task(asked, judge.reward, judged, LENGTH)
        return cls(task, accuracy, nothing if accuracy < WORTH else "")

    @property
    def check(self) -> Check:
        """How often the judge is right."""
        said = "judge: share of held-out pairs whose better reply it prefers"
        return Check(said, self.accuracy, at_least=WORTH)

    @property
    def title(self) -> str:
        """Title of its tables."""
        return f"{len(self.task.prompts)} held-out conversations"


def _judged(laboratory: Laboratory, held_out: list[Judged]) -> Found:
    trial = Trial.of(laboratory, held_out)
    if trial.nothing:
        return Found([], nothing=trial.nothing)
    rows = by_label(measure(laboratory, _methods(), trial.task, {}))
    columns = ("method", f"× at c={C}", "target calls", "draft calls", "accepted / tested",
               *_SCORES)  # fmt: skip
    cells = [
        (name, row["speedup"][C], *row["path"].values(), row["acceptance_rate"],
         *(row[score] for score in _SCORES)) for name, row in rows.items()
    ]  # fmt: skip
    lines = [Line(name, [row["speedup"][C]], [row["judge"]]) for name, row in rows.items()]
    plot = Plot("tradeoff", "What the judge thinks, by cost.", f"times cheaper than cdlh, c={C}",
                "mean of the judge", lines, log_x=True)  # fmt: skip
    table = Table(f"{trial.title}, k = 3, d = 5; calls a token", columns, cells)
    return Found([trial.check, *_checks(rows)], [table], [plot])


# --- Table 8, and Figures 9 to 11, where a judge is worth its name.


def speculation(laboratory: Laboratory) -> Found:
    """Compute the shape of Table 8: plain speculation by test and draft, judged."""
    trial = _own_trial(laboratory)
    if trial.nothing:
        return Found([], nothing=trial.nothing)
    drafting = drafts(laboratory, half=True)
    rows = speculated(laboratory, trial.task, drafting, _DRAFTED)
    table = speculation_table(laboratory, trial.task, rows, drafting, ("judge", "judge ≥ .5"))
    away = [
        abs(errors_above(rows[f"{test}, {name}"]["each"], rows[as_is]["each"]))
        for name in drafting
        for test, as_is in (("hard", "greedy"), ("lossless", "masked"))
    ]
    checks = [
        trial.check,
        *of_speculation(rows, drafting, _DRAFTED),
        Check("hard and lossless tests: judge from that of greedy texts and of the target's own "
              "draws, most standard errors", largest(away), at_most=4.0),
    ]  # fmt: skip
    return Found(checks, [table])


def thresholds(laboratory: Laboratory) -> Found:
    """Compute the shape of Figures 9 to 11: one threshold varied, by draft and test, judged."""
    trial = _own_trial(laboratory)
    if trial.nothing:
        return Found([], nothing=trial.nothing)
    drafting = drafts(laboratory)
    del drafting["target"]
    rows = _SWEEP.rows(laboratory, trial.task, drafting, ("hard", "ratio"))
    table = _SWEEP.table(rows, trial.title, ("reward", "judge", "judge ≥ .5"))
    return Found([trial.check, *_of_thresholds(rows)], [table], _SWEEP.plots(rows))


def _of_thresholds(rows: Mapping[Key, Row]) -> list[Check]:
    def ends(name: str) -> tuple[Row, Row]:
        low, *_, high = (rows["draft", "hard", name, value] for value in _SWEEP.varied[name])
        return low, high

    def cost(name: str) -> float:
        low, high = ends(name)
        return float(high["cost"][C] / low["cost"][C])

    low, high = ends("reward_threshold")
    few, many = ends("target_tries")
    pairs = [
        (rows[draft, "ratio", name, value], row)
        for (draft, test, name, value), row in rows.items()
        if (draft, test) == ("draft", "hard")
    ]
    return [
        Check("reward threshold .4 over .05, hard test: cost", cost("reward_threshold"),
              at_least=1.0),
        Check("reward threshold .4 less .05, hard test: reward", high["reward"] - low["reward"],
              at_least=0.0),
        Check("reward threshold .4 above .05, hard test: judge, standard errors",
              errors_above(high["each"], low["each"]), at_least=0.0),
        Check("b = 2 above b = 0, hard test: judge, standard errors",
              errors_above(many["each"], few["each"]), at_most=2.0),
        Check("cost with the ratio test over that with the hard one, largest",
              largest([ratio["cost"][C] / hard["cost"][C] for ratio, hard in pairs]), at_most=1.0),
        Check("judge with the ratio test above that with the hard one, most standard errors",
              largest([errors_above(ratio["each"], hard["each"]) for ratio, hard in pairs]),
              at_most=2.0),
    ]  # fmt: skip


def _own_trial(laboratory: Laboratory) -> Trial:
    held_out = conversations(laboratory)[::HELD_OUT]
    return Trial.of(laboratory, _with_drawn(laboratory, held_out))


def _methods() -> list[Method]:
    shape = {"depth": 5, "branch": 3}
    settings = {**shape, "accept_threshold": 0.4, "target_tries": 0}
    return [
        *plain_methods(5),
        Method("speculative, hard", "speculative", {"gamma": 5, "greedy": True}),
        Method("speculative, ratio", "speculative", {"gamma": 5, "ratio": True}),
        *(Method(name, name, shape) for name in ("cdlh", "cdlh-approx")),
        *(
            cdsl(f"cdsl, r={at:g}", None, **settings, reward_threshold=at)
            for at in (0.05, 0.4, 0.6)
        ),
    ]


def _checks(rows: Mapping[str, Row]) -> list[Check]:
    greedy, cdlh = rows["greedy"], rows["cdlh"]
    above = "judge of {} above that of greedy, standard errors"
    return [
        *(Check(above.format(name), errors_above(rows[name]["each"], greedy["each"]), at_least=2.0)
          for name in ("cdlh", "cdlh-approx", "cdsl, r=0.6")),
        Check("reward of cdlh less that of greedy", cdlh["reward"] - greedy["reward"],
              at_least=0.0),
        Check(f"cost of cdlh over that of cdsl, r = 0.05, c = {C}",
              rows["cdsl, r=0.05"]["speedup"][C], at_least=2.2),
        Check("plain speculation with the hard test: share of texts other than greedy ones",
              share_of_others(rows["speculative, hard"]["texts"], greedy["texts"]),
              at_most=0.05),
        Check("target calls of cdsl a token, largest",
              max(row["path"]["target_calls"] for name, row in rows.items() if "cdsl" in name),
              at_most=1.0),
    ]  # fmt: skip
