"""The three lookahead algorithms in plain Python over dictionaries: no code of the samplers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdec.samplers.rewards.base import GivenPrompt, Record, Reward
from tests.laws.worlds import Row, Toy, random_toy

END = "end"
Event = int | str
Model = Callable[[Row], NDArray[np.float64]]
_TEST_STREAM = 3 << 30
"""Where a draw's uniforms of acceptance tests begin, by the documented layout."""


class TextReward(Reward):
    """Scores texts by a function of the text and the record; keeps the texts it saw."""

    name = "text"

    def __init__(self, function: Callable[[str, Record], float], threshold: float = 1.0) -> None:
        super().__init__(hard_threshold=threshold)
        self.function = function
        self.seen: list[str] = []

    def scores(
        self,
        texts: Sequence[str],
        records: Sequence[Record],
        prompts: Sequence[GivenPrompt] | None = None,
    ) -> NDArray[np.float64]:
        """Score each text."""
        self.seen += texts
        return np.array([self.function(t, r) for t, r in zip(texts, records, strict=True)])


def hashed(seed: int, levels: int) -> Callable[[str, Record], float]:
    """Return a reward of ``levels`` values without a pattern; ties are common."""

    def score(text: str, record: Record) -> float:
        digest = hashlib.sha256(f"{seed}|{text}".encode()).digest()
        return digest[0] % levels / max(1, levels - 1)

    return score


def drafts_of(toy: Toy, seed: int) -> Model:
    """Return a draft that often agrees with the toy's model and never is it."""
    other = random_toy(seed + 1_000_003)

    def probabilities(prefix: Row) -> NDArray[np.float64]:
        return 0.65 * toy.probabilities(prefix) + 0.35 * other.probabilities(prefix)

    return probabilities


@dataclass
class Text:
    """What one draw came to; ``evaluated`` and ``drafted`` are prefixes of target and draft."""

    tokens: Row = ()
    finish: str = ""
    scenarios: Counter[str] = field(default_factory=Counter)
    evaluated: set[Row] = field(default_factory=set)
    drafted: set[Row] = field(default_factory=set)
    tests: int = 0
    calls: int = 0
    """Passes of the target that evaluated something new."""


@dataclass
class World:
    """A model, perhaps a draft, perhaps a set, a limit and a reward.

    Attributes:
        members: None for no constraint.
    """

    toy: Toy
    members: set[Row] | None
    limit: int
    score: Callable[[str], float]
    draft: Model | None = None
    branch: int = 3
    depth: int = 3
    _laws: dict[tuple[Model, Row], Any] = field(default_factory=dict)

    def text(self, prefix: Row) -> str:
        """Return the text that is scored."""
        return self.toy.vocabulary.decode(prefix).decode("utf-8", "replace")

    def is_done(self, prefix: Row) -> bool:
        """Whether the constraint itself ends the text here."""
        return self.members is not None and self.toy.ends_itself and prefix in self.members

    def is_overlong(self, prefix: Row) -> bool:
        """Whether the text has all its tokens and is no member."""
        return self.members is not None and len(prefix) >= self.limit and prefix not in self.members

    def allowed(self, prefix: Row) -> list[Event]:
        """Return the events the mask leaves."""
        ends = set(self.toy.vocabulary.eos_token_ids)
        if self.members is None:
            return [*(t for t in range(self.toy.vocabulary.width) if t not in ends), END]
        n = len(prefix)
        following = {m[n] for m in self.members if m[:n] == prefix and len(m) > n}
        events: list[Event] = [] if n >= self.limit else sorted(following)
        return [*events, END] if prefix in self.members else events

    def forced(self, prefix: Row) -> int | None:
        """Return the only token the set allows."""
        allowed = self.allowed(prefix)
        only = allowed[0] if len(allowed) == 1 and self.members is not None else None
        return only if isinstance(only, int) else None

    def ranked(self, model: Model, prefix: Row) -> list[tuple[Event, float]]:
        """Return the allowed events that are possible, the most probable first."""
        if (model, prefix) not in self._laws:
            self._laws[model, prefix] = model(prefix)
        law = self._laws[model, prefix]
        ends = sum(law[e] for e in self.toy.vocabulary.eos_token_ids)
        weighed = [(e, ends if e == END else float(law[e])) for e in self.allowed(prefix)]
        return sorted((pair for pair in weighed if pair[1] > 0), key=lambda pair: -pair[1])

    def next_events(self, prefix: Row, text: Text, by_target: bool) -> Event | None:
        """Return the most probable event of the target or of the draft."""
        forced = self.forced(prefix)
        if forced is not None:
            return forced
        if by_target or self.draft is None:
            self.evaluate([prefix], text)
            ranked = self.ranked(self.toy.probabilities, prefix)
        else:
            text.drafted.add(prefix)
            ranked = self.ranked(self.draft, prefix)
        return ranked[0][0] if ranked else None

    def evaluate(self, prefixes: list[Row], text: Text) -> None:
        """Count one pass of the target, if it computes anything new."""
        text.calls += not set(prefixes) <= text.evaluated
        text.evaluated.update(prefixes)

    def rollout(self, prefix: Row, text: Text) -> tuple[list[Event], Row]:
        """Return up to ``depth`` greedy events, and the tokens with these."""
        events: list[Event] = []
        while len(events) < self.depth and len(prefix) < self.limit:
            if self.is_done(prefix) or self.is_overlong(prefix):
                break
            event = self.next_events(prefix, text, by_target=self.draft is None)
            if event is not None:
                events.append(event)
            if not isinstance(event, int):
                break
            prefix = (*prefix, event)
        return events, prefix

    def choose(self, prefix: Row, text: Text) -> Event | None:
        """Return the candidate with the best reward ahead."""
        ranked = self.ranked(self.toy.probabilities, prefix)[: self.branch]
        if not ranked or len(ranked) == 1 or len(prefix) >= self.limit:
            return ranked[0][0] if ranked else None
        scores = []
        for event, _ in ranked:
            ahead = prefix
            if isinstance(event, int):
                ahead = self.rollout((*prefix, event), text)[1]
            scores.append(self.score(self.text(ahead)))
        return ranked[scores.index(max(scores))][0]

    def take(self, text: Text, event: Event | None) -> bool:
        """Append an event; whether the text goes on."""
        if event is None:
            text.finish = "dead_end"
        elif event == END:
            text.finish = "complete"
        elif len(text.tokens) >= self.limit:
            text.finish = "length"
        else:
            text.tokens = (*text.tokens, int(event))
            if self.is_done(text.tokens):
                text.finish = "complete"
            elif self.is_overlong(text.tokens):
                text.finish = "length"
        return not text.finish


def cdlh(world: World) -> Text:
    """Lookahead event by event: by the draft if there is one, else by the target."""
    text = Text()
    if world.is_overlong(()):
        text.finish = "length"
        return text
    while True:
        chain, ahead = [text.tokens], text.tokens
        while (only := world.forced(ahead)) is not None and len(ahead) < world.limit:
            ahead = (*ahead, only)
            if world.is_done(ahead) or world.is_overlong(ahead):
                break
            chain.append(ahead)
        world.evaluate(chain, text)
        if not world.take(text, world.choose(text.tokens, text)):
            return text


@dataclass
class Options:
    """Of speculative lookahead; ``seed`` for verification by speculative sampling.

    Attributes:
        ratio: Whether the draft's own probability divides the target's, as the paper prints it.
        coin: Decides acceptance with a probability, in the place of ``seed``.
    """

    tries: int = 1
    accept: float = 0.3
    reward: float = 0.3
    keeps: bool = True
    seed: int | None = None
    ratio: bool = False
    coin: Callable[[float], bool] | None = None


def uniform(seed: int, test: int) -> float:
    """Return the number of a draw's test, from 0."""
    bits = np.random.PCG64(seed)
    bits.advance(_TEST_STREAM + 1 + test)
    return float(np.random.Generator(bits).random())


def _accepts(world: World, text: Text, prefix: Row, event: Event, options: Options) -> bool:
    """Whether the target accepts a greedy proposal."""
    ranked = world.ranked(world.toy.probabilities, prefix)
    if options.seed is None and options.coin is None:
        return bool(ranked) and ranked[0][0] == event
    chance = share(ranked, event)
    if options.ratio and world.draft is not None and world.forced(prefix) is None:
        p = share(world.ranked(world.draft, prefix), event)
        chance = min(1.0, chance / p)
    if options.coin is not None:
        return options.coin(chance)
    assert options.seed is not None
    text.tests += 1
    return uniform(options.seed, text.tests - 1) < chance


def share(ranked: list[tuple[Event, float]], event: Event) -> float:
    """Return an event's probability among those allowed."""
    total = sum(p for _, p in ranked)
    return dict(ranked).get(event, 0.0) / total if ranked else 0.0


def law_of_cdsl(world: World, options: Options) -> dict[tuple[Row, str], float]:
    """Return the probability of every (tokens, finish) by enumerating all tests' outcomes."""
    law: dict[tuple[Row, str], float] = {}
    open_paths: list[tuple[bool, ...]] = [()]
    while open_paths:
        decided = open_paths.pop()
        taken: list[bool] = []
        weight = 1.0

        def coin(chance: float) -> bool:
            nonlocal weight
            if len(taken) < len(decided):  # noqa: B023  # called within this turn alone
                heads = decided[len(taken)]  # noqa: B023
            else:
                heads = chance > 0.0
                if heads and chance < 1.0:
                    open_paths.append((*taken, False))  # noqa: B023
            taken.append(heads)  # noqa: B023
            weight *= chance if heads else 1.0 - chance
            return heads

        text = cdsl(world, replace(options, coin=coin))
        key = (text.tokens, text.finish)
        law[key] = law.get(key, 0.0) + weight
    return law


def cdsl(world: World, options: Options) -> Text:
    """Speculative lookahead, round by round."""
    text = Text()
    if world.is_overlong(()):
        text.finish = "length"
        return text
    while not text.finish:
        for event in _round(world, options, text):
            if not world.take(text, event):
                break
    return text


def _round(world: World, options: Options, text: Text) -> list[Event | None]:
    start = text.tokens
    events, _ = world.rollout(start, text)
    prefixes = [start]
    for event in events:
        if isinstance(event, int):
            prefixes.append((*prefixes[-1], event))
    asked = [p for p in prefixes if not world.is_done(p) and not world.is_overlong(p)]
    world.evaluate(asked, text)
    n = 0
    while n < len(events) and _accepts(world, text, prefixes[n], events[n], options):
        n += 1
    if len(start) >= world.limit:
        return [world.choose(start, text)]
    after = prefixes[min(n, len(prefixes) - 1)]
    good_reward = world.score(world.text(after)) >= options.reward
    good_share = (n / len(events) if events else 0.0) >= options.accept
    if good_share and good_reward:
        text.scenarios["S1"] += 1
        return list(events[:n]) if n else [world.choose(start, text)]
    text.scenarios["S4" if good_share else "S3" if good_reward else "S2"] += 1
    kept: list[Event | None] = list(events[:n]) if options.keeps else []
    at = after if options.keeps else start
    if kept and (kept[-1] == END or world.is_done(at) or world.is_overlong(at)):
        return kept
    tried = [] if good_share else _tries(world, options, text, at)
    return [*kept, *(tried or [world.choose(at, text)])]


def _tries(world: World, options: Options, text: Text, at: Row) -> list[Event]:
    """Return the target's own events, if a rollout behind them has a good reward."""
    tried: list[Event] = []
    for _ in range(options.tries):
        if len(at) >= world.limit:
            break
        world.evaluate([at], text)
        ranked = world.ranked(world.toy.probabilities, at)
        if not ranked:
            break
        event = ranked[0][0]
        tried.append(event)
        ahead = at
        if isinstance(event, int):
            at = (*at, event)
            ahead = world.rollout(at, text)[1]
        if world.score(world.text(ahead)) >= options.reward:
            return tried
        if event == END or world.is_done(at) or world.is_overlong(at):
            break
    return []
