"""The number of proposals that pays: costs by the clock, shares accepted, and trials.

A *unit* is a round of proposals, with the forced tokens behind it, or some steps without a draft,
whose time is taken together. Units of 0 to ``LONGEST`` proposals are compared by the tokens a
second that they are expected to give:

- *Cost*: the median of the last units of as many walks (in steps of half an octave) and proposals,
  of those of 0 a step; between and beyond those that were tried, a straight line; where walks are
  of another number, what the nearest one tells.
- *Gain*: 1 + a1 + a1 a2 + ..., where a_d is the share of walks that go on past their proposal d,
  decayed by round; what is not known of a place is taken from the place before.
- *Choice*: the best of those that were tried lately, if it is better by a margin. Others are tried
  within a budget: what trials have lost, beside the choice, stays under a share of all time; a
  trial that promises a gain is free.
- *Debt*: what rounds have taken more than as many steps without a draft, promises or not. It is
  held under that share too: beyond it nothing is proposed. So useless drafts cost that share at
  most.

It decides costs alone: what is drawn may not depend on how many tokens were proposed.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from math import inf, log2, sqrt
from statistics import median

import numpy as np
from numpy.typing import NDArray

LONGEST = 16
"""Most proposals of a draft whose number is not given."""
LENGTHS = (0, 1, 2, 4, 8, LONGEST)
"""Numbers of proposals that are compared."""
SHARE = 0.01
"""Of the time, what trials may lose."""
_PATIENCE, _LEAST_SHARE = 16, 0.4
"""Trials in vain that halve the share, and what is left of it at last."""
LOAN = 1.0
"""Units without a draft that trials may lose before there is a share."""
_MARGIN = 1.04
"""How much better more proposals have to be, errors of measurement left aside."""
_WINDOW = 9
"""Units that a cost is the median of."""
_FRESH = 192
"""Units after which a cost is asked for again."""
_PAUSE = 8
"""Units between trials that promise no gain."""
_FEW = 4
"""Units without the draft that it catches up with in passing."""
_SURE = 3
"""Steps without the draft whose cost has to be known before it is tried."""
_TOGETHER = 8
"""Steps without the draft that are one unit, as soon as their cost is known."""
_LONGEST_UNIT = 2.0
"""How much longer than expected a round is taken to be in the account of what rounds have lost:
what is longer, something else has interrupted."""
_AFTERWARDS, _SEVERAL = 2.0, 4
"""Steps that the first round of more than so many walks is taken to cost later: rows of unequal
lengths are padded from then on (measured: 2 to 3 steps of a batch of 32)."""
_CREDIT = 5.0
"""Shares of the time that rounds which paid may spend before they have to pay again."""
_BY_LENGTH = 0.5
"""Of what the only rounds that were tried cost more than a step: the share that longer ones are
taken to cost again for every proposal. The rest is the price of any round."""
_TICK = 1e-9
"""Seconds that a unit takes at least."""
_DECAY = 0.97
_PRIOR, _PRIOR_WALKS = 0.5, 2.0
"""The share of proposals that is accepted where nothing is known, and how many walks that counts
for."""


def _bucket(walks: int) -> int:
    """Return the half octave of a number of walks."""
    return round(2 * log2(walks))


def clock() -> float:
    """Return seconds from some moment on."""
    return time.perf_counter()


@dataclass(slots=True)
class _Unit:
    """The unit under way.

    Attributes:
        size: Its walks' bucket. walks: At its start. length: Proposals of each.
        begin: By the clock. is_trial: Whether it is no choice.
        is_first: Whether it reads prompts. unread: Whether the draft reads all before it proposes;
        is_behind: Whether it reads more than the last few tokens.
        least: Fewest walks of its bucket. left: Steps without a draft that are still to be taken.
        steps: Of those, how many were. tokens: Events of all walks.
        accepted: int64[W] proposals that each walk went on past.
    """

    size: int
    walks: int
    length: int
    begin: float
    is_trial: bool
    is_first: bool
    unread: bool
    is_behind: bool
    least: int
    left: int = 0
    steps: int = 0
    tokens: int = 0
    accepted: NDArray[np.int64] | None = None


@dataclass(slots=True)
class _Costs:
    """Seconds of units of one number of walks, by proposals: the last ones, and when they were."""

    seconds: dict[int, deque[tuple[int, float]]] = field(default_factory=dict)
    medians: dict[int, float] = field(default_factory=dict)

    def add(self, length: int, seconds: float, now: int) -> None:
        """Take in a unit; what is too old goes."""
        last = self.seconds.setdefault(length, deque(maxlen=_WINDOW))
        while last and last[0][0] < now - _FRESH:
            last.popleft()
        last.append((now, seconds))
        # The lower middle one, which is faster to find than their mean.
        self.medians[length] = sorted(value for _, value in last)[(len(last) - 1) // 2]

    def age(self, length: int, now: int) -> float:
        """Return how many units ago the last one was."""
        last = self.seconds.get(length)
        return now - last[-1][0] if last else inf

    def error(self, length: int) -> float:
        """Return the error that a median may have, as a share of it; inf where nothing is known."""
        last = self.seconds.get(length)
        return self.spread() / sqrt(len(last)) if last else inf

    def spread(self) -> float:
        """Return how far units lie from their median, as a share of it, where most are known."""
        length = max(self.seconds, key=lambda one: len(self.seconds[one]), default=None)
        if length is None:
            return 0.0
        middle = max(self.medians[length], _TICK)
        return median(abs(value / middle - 1) for _, value in self.seconds[length])


class Pace:
    """Chooses the number of proposals of each unit; lasts from batch to batch.

    Args:
        reads_texts: Whether the draft reads all tokens itself, as a model does: a round after steps
            without it costs more than the next.
    """

    def __init__(self, *, reads_texts: bool) -> None:
        self._reads_texts = reads_texts
        self._costs: defaultdict[int, _Costs] = defaultdict(_Costs)
        self._current: dict[int, int] = {}
        self._went = np.zeros(LONGEST + 1)
        self._came = np.zeros(LONGEST + 1)
        self._forced = 1.0
        self._reading, self._waited, self._has_read = 0.0, 0.0, False
        self._tokens = self._texts = self._done = 0.0
        self._seconds = self._lost = self._debt = 0.0
        self._firsts: defaultdict[int, _Costs] = defaultdict(_Costs)
        self._units = self._last_trial = self._in_vain = 0
        self._unit: _Unit | None = None
        self._is_first = self._unread = self._is_even = True
        self._repeats: int | None = None
        self._without = 0
        self._planned, self._until = (-1, -1), 0

    def begin(self, n: int) -> None:
        """Begin with ``n`` new texts, whose prompts are still to be read."""
        self._close(None)
        self._is_first = self._unread = self._is_even = True
        self._repeats = None
        self._texts = _DECAY * self._texts + n
        self._tokens *= _DECAY
        self._done = 0.0

    def choose(self, walks: int, most: int) -> int:
        """Return how many proposals each of ``walks`` gets now, at most ``most``."""
        now = clock()
        self._close(now)
        size = _bucket(walks)
        length, is_trial = self._chosen(size, max(length for length in LENGTHS if length <= most))
        reads = self._reads_texts and length > 0
        unread = reads and self._unread
        behind = unread or (reads and self._without > _FEW)
        first, self._is_first = self._is_first, False
        least = next(n for n in range(walks, 0, -1) if n == 1 or _bucket(n - 1) != size)
        unit = _Unit(size, walks, length, now, is_trial, first, unread, behind, least)
        self._unit, self._unread = unit, self._unread and not length
        self._without = 0 if length else self._without + 1
        if not length:
            is_known = not first and len(self._costs[size].seconds.get(0, ())) >= _SURE
            unit.left = (2 if is_trial else _TOGETHER) if is_known else 1
            self.goes_on(walks)
        return length

    def goes_on(self, walks: int) -> bool:
        """Say whether the next step of ``walks`` is another one of the unit, without a draft."""
        unit = self._unit
        if unit is None or not unit.left or not unit.least <= walks <= unit.walks:
            return False
        unit.left -= 1
        unit.steps += 1
        unit.tokens += walks
        return True

    def note(self, tokens: int, accepted: NDArray[np.int64] | None = None) -> None:
        """Tell what a round, or a step of a run that it read ahead, brought.

        Args:
            tokens: Events of all walks. accepted: int64[W] proposals accepted of each; None of a
                step.
        """
        unit = self._unit
        if unit is not None:
            unit.tokens += tokens
            unit.accepted = unit.accepted if accepted is None else accepted

    def foresee(self, steps: int, walks: int, told: int) -> None:
        """Tell how many of the events of steps without a draft would have been proposed."""
        decay = _DECAY**steps
        self._came[1] = decay * self._came[1] + walks
        self._went[1] = decay * self._went[1] + told

    # What is learnt.

    def _close(self, now: float | None) -> None:
        unit, self._unit = self._unit, None
        if unit is None or not unit.tokens:
            return
        self._tokens += unit.tokens
        self._done += unit.tokens / unit.walks
        if unit.accepted is not None:
            self._learn(unit.length, unit.accepted)
        if now is None:
            return
        steps = max(1, unit.steps)
        self._seconds += now - unit.begin
        seconds = min((now - unit.begin) / steps, self._most(unit))
        each = unit.tokens / unit.walks / steps
        self._owe(unit, seconds, each)
        if unit.is_first:
            # Until it is known: a draft reads new texts no slower than the target does.
            more = max(0.0, seconds - self._cost(unit.size, unit.length)) / unit.walks
            self._reading = self._reading if self._has_read else more
            self._firsts[unit.size].add(unit.length, seconds, self._units)
            return
        self._units += steps
        if unit.accepted is not None:
            accepted = float(unit.accepted.mean())
            self._forced += (1 - _DECAY) * (each / (1 + accepted) - self._forced)
        usual = self._rates(unit.size)[self._usual(unit.size)] if unit.is_trial else 0.0
        if usual:
            # What trials gain pays for others.
            lost = self._lost + steps * (seconds - each / usual)
            self._lost = max(lost, -_CREDIT * SHARE * self._seconds)
        self._book(unit, seconds)

    def _most(self, unit: _Unit) -> float:
        """Return the seconds that a unit can have taken, if nothing has interrupted it.

        The proposals and one event more take so many passes at most, those of a draft as many.
        """
        plain = self._cost(unit.size, 0)
        first = self._firsts[unit.size].medians.get(0, inf)
        passes = 1 + unit.length * (2 if self._reads_texts else 1)
        most = passes * plain if unit.length else inf
        return most + 2 * first if unit.is_first or unit.is_behind else most

    def _owe(self, unit: _Unit, seconds: float, each: float) -> None:
        """Add to the account what a round took more than steps without a draft would have."""
        plain = self._cost(unit.size, 0)
        first = self._firsts[unit.size].medians.get(0, inf) if unit.is_first else plain
        if not unit.length or first + plain == inf:
            return
        without = first + (each - 1) * plain
        usual = inf
        if not (unit.is_first or unit.is_behind):
            usual = self._cost(unit.size, unit.length)
        self._debt += min(seconds, _LONGEST_UNIT * usual) - without
        if self._is_even and unit.walks > _SEVERAL:
            self._debt += _AFTERWARDS * plain
        self._is_even = False
        self._debt = max(self._debt, -_CREDIT * SHARE * self._seconds)

    def _budget(self, size: int) -> float:
        """Return the seconds that may be lost altogether."""
        unit = self._cost(size, 0)
        left = max(_LEAST_SHARE, 1 / (1 + self._in_vain / _PATIENCE))
        return left * SHARE * self._seconds + (LOAN * unit if unit < inf else 0.0)

    def _book(self, unit: _Unit, seconds: float) -> None:
        """Take in what a unit cost; what a draft reads first shows in the next unit."""
        self._repeats = unit.length if unit.is_trial and unit.is_behind else None
        if unit.is_behind:
            self._waited = seconds if unit.unread else 0.0
            return
        if self._waited:
            read = max(0.0, self._waited - seconds) / unit.walks
            self._reading += 0.3 * (read - self._reading)
            self._waited, self._has_read = 0.0, True
        self._costs[unit.size].add(unit.length, seconds, self._units)

    def _learn(self, length: int, accepted: NDArray[np.int64]) -> None:
        self._went *= _DECAY
        self._came *= _DECAY
        at_least = np.cumsum(np.bincount(accepted, minlength=length + 1)[::-1])[::-1]
        self._came[1 : length + 1] += at_least[:length]
        self._went[1 : length + 1] += at_least[1 : length + 1]

    # What is expected.

    def _gains(self) -> dict[int, float]:
        """Return the tokens of a unit and walk by its proposals, forced ones left aside."""
        share, reached, total = _PRIOR, 1.0, 1.0
        gains = {0: 1.0}
        for place in range(1, LONGEST + 1):
            known = self._went[place] + _PRIOR_WALKS * share
            share = float(known / (self._came[place] + _PRIOR_WALKS))
            reached *= share
            total += reached
            gains[place] = total
        return gains

    def _cost(self, size: int, length: int) -> float:
        """Return the seconds that a unit is expected to take."""
        own = self._costs[size].medians
        if length in own:
            return own[length]
        near = min(
            (other for other, costs in self._costs.items() if length in costs.medians),
            key=lambda other: abs(other - size),
            default=None,
        )
        shared = [] if near is None else [k for k in own if k in self._costs[near].medians]
        if near is not None and abs(near - size) <= 1:
            found = self._costs[near].medians
            scale = median(own[k] / max(found[k], _TICK) for k in shared) if shared else 1.0
            return scale * found[length]
        return self._on_a_line(own, length)

    def _on_a_line(self, own: dict[int, float], length: int) -> float:
        """Return a cost from those of other lengths; k + 1 tokens cost k + 1 passes at most."""
        tried = sorted(own)
        if not tried:
            return inf
        if len(tried) == 1 or length < tried[0]:
            return own[tried[0]] * (1 + length) / (1 + tried[0])
        below = [k for k in tried if k < length]
        above = [k for k in tried if k > length]
        first, second = (below[-1], above[0]) if above else (tried[-2], tried[-1])
        slope = max(0.0, (own[second] - own[first]) / (second - first))
        if not above:
            slope *= _BY_LENGTH if first == 0 else 1.0
            first = second
        return own[first] + slope * (length - first)

    def _rates(self, size: int) -> dict[int, float]:
        """Return the tokens a second and walk of each number of proposals."""
        gains = self._gains()
        # What the draft has to read of new texts is paid by the tokens that are left of them.
        whole = self._tokens / max(1.0, self._texts)
        left = whole if self._is_first else max(1.0, whole - self._done, self._done / 2)
        a_token = self._reads(size) / max(1.0, left)
        found = {}
        for length in LENGTHS:
            tokens = (self._forced if length else 1.0) * gains[length]
            cost = self._cost(size, length) + (a_token * tokens if length else 0.0)
            found[length] = tokens / max(cost, _TICK)
        return found

    def _reads(self, size: int) -> float:
        """Return the seconds that the draft takes to read new texts."""
        return self._reading * float(2 ** (size / 2))

    # What is chosen.

    def _chosen(self, size: int, most: int) -> tuple[int, bool]:
        """Return a number of proposals, and whether it is a trial."""
        if self._debt > self._budget(size):
            return 0, False
        if self._repeats is not None and self._repeats <= most:
            return self._repeats, True
        current = min(self._usual(size), most)
        age = self._costs[size].age(0, self._units)
        if current and _FRESH / 2 < age < inf and not self._is_first:
            # All that is lost and gained is measured by it.
            return 0, True
        if self._planned == (size, most) and self._units < self._until:
            return current, False
        plain = self._costs[size].seconds.get(0, ())
        if len(plain) < _SURE and not current:
            return 0, False
        rates = self._rates(size)
        costs = self._costs[size]
        start = current
        for length in LENGTHS:
            # Fewer proposals need no proof: they may lose a gain, and more may cost.
            errors = costs.error(length) + costs.error(start)
            sure = 1.0 if length < start else _MARGIN + min(1.0, errors)
            is_tried = costs.age(length, self._units) <= _FRESH
            if length <= most and is_tried and rates[length] > sure * rates[current]:
                current = length
        self._current[size] = current
        is_known = len(costs.seconds.get(current, ())) == _WINDOW and not self._is_first
        self._planned, self._until = (size, most), self._units + (_PAUSE if is_known else 1)
        knows = rates[current] > 0 and not self._is_first
        trial = self._trial(size, current, most, rates) if knows else None
        return (current, False) if trial is None else (trial, True)

    def _usual(self, size: int) -> int:
        """Return what was chosen for as many walks, or for nearly as many."""
        near = (size, size + 1, size - 1)
        return next((self._current[s] for s in near if s in self._current), 0)

    def _trial(self, size: int, current: int, most: int, rates: dict[int, float]) -> int | None:
        """Return the number of proposals to try, of those that can be afforded; None for none."""
        costs, usual = self._costs[size], rates[current]
        budget = self._budget(size) - max(self._lost, self._debt)
        reading = self._reads(size) if self._reads_texts and self._unread else 0.0
        may_lose = self._units - self._last_trial >= _PAUSE
        found: list[tuple[bool, float, int]] = []
        for length in LENGTHS:
            if length == current or length > most:
                continue
            age = costs.age(length, self._units)
            cost = self._cost(size, length) + (reading if length else 0.0)
            loss = cost * (1 - rates[length] / usual)
            is_gain = loss < 0 and (age > _FRESH or len(costs.seconds[length]) < _WINDOW)
            if is_gain or (may_lose and loss <= budget):
                found.append((not is_gain, -age, length))
        if not found:
            return None
        self._last_trial = self._until = self._units
        self._in_vain = 0 if current else self._in_vain + 1
        return min(found)[2]
