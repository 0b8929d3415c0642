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

from cdec.integrations.findings.commongen import cdsl, errors_above
from cdec.integrations.findings.decoding import Prompts, decode
from cdec.integrations.findings.finding import Check, Found, Line, Plot, Table
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.method_rows import Method, Task, measure, plain_methods
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
_C = "0.34"


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


def _judged(laboratory: Laboratory, held_out: list[Judged]) -> Found:
    judge = Judge(laboratory)
    accuracy = judge.accuracy(held_out)
    if accuracy < WORTH:
        return Found([], nothing=f"the judge prefers the better of {len(held_out)} held-out pairs "
                     f"of replies in {accuracy:.2f} of them, less than {WORTH}")  # fmt: skip
    asked = Prompts([pair.prompt for pair in held_out])
    asked = asked.subset(None if laboratory.all_data else REPLIES)
    given = [str(text) for text in asked.texts]

    def judged(texts: list[str]) -> dict[str, Any]:
        scores = judge.scores(texts, given)
        rewards = judge.reward.scores(texts, [None] * len(texts), given)
        means = {"judge": scores, "reward": rewards, "satisfied": scores >= 0.5}
        figures = {name: float(np.mean(values)) for name, values in means.items()}
        return {**figures, "each": scores, "texts": texts}

    task = Task(asked, judge.reward, judged, LENGTH)
    rows = {row["method"]: row for row in measure(laboratory, _methods(), task, {})}
    columns = ("method", f"× at c={_C}", "target calls", "draft calls", "accepted / tested",
               "reward", "judge", "judge ≥ .5")  # fmt: skip
    cells = [
        (name, row["speedup"][_C], *row["path"].values(), row["acceptance_rate"],
         row["reward"], row["judge"], row["satisfied"]) for name, row in rows.items()
    ]  # fmt: skip
    lines = [Line(name, [row["speedup"][_C]], [row["judge"]]) for name, row in rows.items()]
    plot = Plot("tradeoff", "What the judge thinks, by cost.", f"times cheaper than cdlh, c={_C}",
                "mean of the judge", lines, log_x=True)  # fmt: skip
    title = f"{len(asked)} held-out conversations, k = 3, d = 5; calls a token"
    return Found(_checks(rows, accuracy), [Table(title, columns, cells)], [plot])


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


def _checks(rows: Mapping[str, dict[str, Any]], accuracy: float) -> list[Check]:
    greedy, cdlh = rows["greedy"], rows["cdlh"]
    above = "judge of {} above that of greedy, standard errors"
    return [
        Check("judge: share of held-out pairs whose better reply it prefers", accuracy,
              at_least=WORTH),
        *(Check(above.format(name), errors_above(rows[name]["each"], greedy["each"]), at_least=2.0)
          for name in ("cdlh", "cdlh-approx", "cdsl, r=0.6")),
        Check("reward of cdlh less that of greedy", cdlh["reward"] - greedy["reward"],
              at_least=0.0),
        Check(f"cost of cdlh over that of cdsl, r = 0.05, c = {_C}",
              rows["cdsl, r=0.05"]["speedup"][_C], at_least=2.2),
        Check("plain speculation with the hard test: share of texts other than greedy ones",
              float(np.mean([a != b for a, b in zip(rows["speculative, hard"]["texts"],
                                                    greedy["texts"], strict=True)])),
              at_most=0.05),
        Check("target calls of cdsl a token, largest",
              max(row["path"]["target_calls"] for name, row in rows.items() if "cdsl" in name),
              at_most=1.0),
    ]  # fmt: skip
