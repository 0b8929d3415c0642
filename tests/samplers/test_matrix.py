"""Laws of drawing: every method under every kind of constraint, against enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer, models

from cdec.compilers import (
    corpus_constraint,
    grammar_constraint,
    regex_constraint,
    schema_constraint,
)
from cdec.compilers.grammars.definition import Lexer
from cdec.core.combine.canonical import CanonicalTexts, canonical
from cdec.core.combine.conjunction import conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.fitting import fit
from cdec.core.combine.healing import HealedConstraint
from cdec.core.combine.prefill import begin
from cdec.core.combine.tagged import StartedConstraint, TaggedConstraint
from cdec.core.combine.templated import templated
from cdec.core.constraint import CONSERVATIVE, DEAD, Constraint
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.sets.spans import SpanConstraint
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.integrations.findings import enumeration
from cdec.integrations.findings.adaptive import Memory, Rules
from cdec.samplers import Request
from cdec.samplers.base import Sampler
from cdec.samplers.registry import METHODS, SAMPLERS
from tests.core.combine.test_templated import cut_rows
from tests.laws.gtest import g_test
from tests.laws.sessions import states_after
from tests.laws.set_cases import MemberCase, corpus_case, document_case, set_case
from tests.laws.sizes import heavy_or
from tests.laws.worlds import Row, Toy
from tests.samplers.drafts.draft_laws import RatioRounds, Rounds
from tests.samplers.drafts.draft_toys import Pair
from tests.samplers.lookahead import lookahead_reference as lookahead
from tests.samplers.mcmc_laws import mcmc
from tests.samplers.smc_laws import smc

# --- One model, its draft, and a constraint of each kind with all of its token sequences.

PIECES = (b"a", b"b", b"ab", b'"', b'"a')
ENDS, SPECIAL = (5, 6), 7
VOCABULARY = Vocabulary(
    [*PIECES, b"", b"", b""],
    eos_token_ids=ENDS,
    special_token_ids=ENDS,
    special_tokens={"<|s|>": SPECIAL},
)
TEXTS = (b"a", b"ab", b"abb", b"ba", b"b")
REGEX = "a(bb?)?|ba|b"
DRAWS = heavy_or(150, 5000)
"""Records of one draw each; three of a method without chance."""


def law_of(seed: int) -> Callable[[Row], NDArray[np.float64]]:
    """Return random probabilities by prefix, an eighth of those of tokens zero."""

    @cache
    def probabilities(prefix: Row) -> NDArray[np.float64]:
        own = np.random.default_rng([seed, *prefix])
        weights = own.exponential(size=VOCABULARY.width) + 0.05
        weights[list(ENDS)] *= 2.0
        weights[:5][own.random(5) < 0.125] = 0.0
        return np.asarray(weights / weights.sum())

    return probabilities


TARGET, DRAFT = law_of(51), law_of(4)
AHEAD = {"branch": 3, "depth": 2}


def score(text: str) -> float:
    return text.count("b") / 2


def spelled(row: Row) -> bytes:
    """Return the bytes of a row, in which words stand for the special token."""
    return b"".join(b"<|s|>" if token == SPECIAL else VOCABULARY.decode([token]) for token in row)


def spellings(text: bytes) -> Iterator[Row]:
    """Yield every sequence of tokens with these bytes."""
    if not text:
        yield ()
    for token, piece in (*enumerate(PIECES), (SPECIAL, b"<|s|>")):
        if text.startswith(piece):
            yield from ((token, *rest) for rest in spellings(text[len(piece) :]))


@dataclass(frozen=True)
class World:
    """A constraint, None for none, and what it allows, spelt out.

    Attributes:
        rows: Token sequences of all members. limit: Most tokens of a text.
        ends_itself: Whether members end without an end id.
    """

    make: Callable[[], Constraint] | None
    rows: tuple[Row, ...]
    limit: int
    ends_itself: bool = False
    _kept: list[Constraint] = field(default_factory=list)

    @property
    def constraint(self) -> Constraint | None:
        """The constraint, made once."""
        if self.make is not None and not self._kept:
            self._kept.append(self.make())
        return self._kept[0] if self._kept else None

    @property
    def toy(self) -> Toy:
        """The model and the members."""
        return Toy(VOCABULARY, TARGET, list(self.rows), self.ends_itself)

    @property
    def fitting(self) -> Toy:
        """The model and the members within the limit."""
        rows = [row for row in self.rows if len(row) <= self.limit]
        return Toy(VOCABULARY, TARGET, rows, self.ends_itself)

    @property
    def pair(self) -> Pair:
        """With the draft."""
        return Pair(self.toy, DRAFT, self.make is not None, self.limit)

    def ahead(self, *, is_drafted: bool) -> lookahead.World:
        """With the reward, and perhaps the draft."""
        members = None if self.make is None else set(self.rows)
        draft = DRAFT if is_drafted else None
        return lookahead.World(self.toy, members, self.limit, score, draft, **AHEAD)


def world(
    make: Callable[[], Constraint] | None,
    texts: tuple[bytes, ...] = TEXTS,
    *,
    ends: tuple[Row, ...] = ((),),
    limit: int | None = None,
) -> World:
    """Return the world of a constraint whose members have these texts, by any tokens."""
    rows = tuple(sorted((*row, *end) for text in texts for row in spellings(text) for end in ends))
    return World(make, rows, limit or max(map(len, rows)), ends != ((),))


def regex() -> Constraint:
    return regex_constraint(REGEX, VOCABULARY)


def in_schema(case: MemberCase, **beside: Any) -> Constraint:
    """The strings of a set or a document, within a schema, that satisfy what stands beside."""
    compiled = schema_constraint({**case.schema, **beside}, VOCABULARY)
    return compiled.with_sets({case.name: case.given})


def in_both(case: MemberCase, other: MemberCase) -> Constraint:
    """The strings of two sets, within a schema."""
    schema = {"allOf": [case.schema, {"x-cdec-set": "others"}]}
    compiled = schema_constraint(schema, VOCABULARY)
    return compiled.with_sets({case.name: case.given, "others": other.given})


def in_grammar(case: MemberCase) -> Constraint:
    """The texts of a set or a document, within a grammar."""
    compiled = grammar_constraint("start: TEXT\n%declare TEXT\n", VOCABULARY)
    return compiled.with_sets({"TEXT": case.given})


SET_ROWS = ((0,), (0, 1), (2,), (2, 1), (1, 0), (3, 3, 1))
WHOLE: Mapping[str, World] = {
    "set": World(lambda: Toy(VOCABULARY, TARGET, list(SET_ROWS)).constraint, SET_ROWS, 3),
    "set, short limit": World(lambda: WHOLE["set"].toy.constraint, SET_ROWS, 2),
    "regex": world(regex),
    "grammar": world(lambda: grammar_constraint('start: "a" ("b" "b"?)? | "ba" | "b"', VOCABULARY)),
    "schema": world(
        lambda: schema_constraint('{"enum": ["a", "ab", "b"]}', VOCABULARY),
        (b'"a"', b'"ab"', b'"b"'),
    ),
    "grammar, set within": world(lambda: in_grammar(set_case("a", "ab", "abb", "b", "ba"))),
    "schema, set within": world(
        lambda: in_schema(set_case("a", "ab", "b")), (b'"a"', b'"ab"', b'"b"')
    ),
    "schema, some of a set within": world(
        lambda: in_schema(set_case("a", "ab", "b", "ba", "abb"), pattern="^a|b$", maxLength=2),
        (b'"a"', b'"ab"', b'"b"'),
    ),
    "schema, two sets within": world(
        lambda: in_both(set_case("a", "ab", "b", "ba"), set_case("ab", "abb", "a")),
        (b'"a"', b'"ab"'),
    ),
    "schema, corpus within": world(
        lambda: in_schema(corpus_case("ab", "b")), (b'"a"', b'"ab"', b'"b"')
    ),
    "grammar, corpus within": world(
        lambda: in_grammar(corpus_case("abb", "ba")), (b"a", b"ab", b"abb", b"b", b"bb", b"ba")
    ),
    "grammar, special token": world(
        lambda: grammar_constraint('start: "a" (<|s|> "b"?)? | "b" <|s|>', VOCABULARY),
        (b"a", b"a<|s|>", b"a<|s|>b", b"b<|s|>"),
    ),
    "grammar, quote within": world(
        lambda: in_grammar(document_case("abb")), (b"a", b"ab", b"abb", b"b", b"bb")
    ),
    "schema, quote within": world(
        lambda: in_schema(document_case("ab")), (b'"a"', b'"ab"', b'"b"')
    ),
    "spans": world(lambda: SpanConstraint("abb", VOCABULARY), (b"a", b"ab", b"abb", b"b", b"bb")),
    "corpus": world(
        lambda: corpus_constraint(["abb", "ba", "b"], VOCABULARY),
        (b"a", b"ab", b"abb", b"b", b"bb", b"ba"),
    ),
    "conjunction": world(
        lambda: conjoin(
            regex_constraint("[ab]{1,2}|abb|aaa", VOCABULARY),
            regex_constraint(f"{REGEX}|bba", VOCABULARY),
        )
    ),
    "denial": world(lambda: deny(regex_constraint(f"{REGEX}|aa|bb", VOCABULARY), [b"aa", b"bb"])),
    "healed": world(lambda: HealedConstraint(regex(), b"a"), tuple(b"a" + text for text in TEXTS)),
    "begun": world(lambda: begin(regex(), "ab", into_prompt=False), (b"ab", b"abb")),
    "started": world(lambda: StartedConstraint(regex(), b"a"), (b"", b"b", b"bb")),
    "tagged": world(lambda: TaggedConstraint(regex(), b'"', b"<"), ends=((3,), (4,))),
    "none": World(None, ((),), 2),
}


def fitted(kind: str, most: int) -> World:
    """Return the world of a constraint's texts of at most so many tokens."""
    whole = WHOLE[kind]
    short = tuple(row for row in whole.rows if len(row) <= most)
    assert 0 < len(short) < len(whole.rows)

    def make() -> Constraint:
        assert whole.constraint is not None
        return fit(whole.constraint, most)

    return World(make, short, most, whole.ends_itself)


def nearly_fitted(kind: str, most: int) -> World:
    """Return the world of a constraint's texts of which bounds say that they end in time."""
    constraint = WHOLE[kind].constraint
    assert constraint is not None
    bounded = fit(constraint, most, max_steps=0)
    assert bounded.facts.fit == CONSERVATIVE
    session = bounded.session("cpu")
    states = states_after(session, WHOLE[kind].rows)
    allowed = (states != DEAD) & session.is_complete(states)
    rows = tuple(row for row, is_one in zip(WHOLE[kind].rows, allowed, strict=True) if is_one)
    assert len(rows) > 0 and max(map(len, rows)) <= most
    return World(lambda: bounded, rows, most)


def tokenizer() -> Vocabulary:
    """Return the vocabulary with a tokenizer: byte pair encoding of the pieces."""
    vocab = {piece.decode(): number for number, piece in enumerate(PIECES)}
    merges = [("a", "b"), ('"', "a")]
    model = Tokenizer(
        models.BPE(vocab=vocab | {"<5>": 5, "<6>": 6, "<|s|>": SPECIAL}, merges=merges)
    )
    model.add_special_tokens(["<5>", "<6>", "<|s|>"])
    return Vocabulary.from_tokenizer(model).with_eos(ENDS)


def canonically(kind: str) -> World:
    """Return the world of a constraint's texts as the tokenizer spells them."""
    whole, spelled = WHOLE[kind], tokenizer()
    own = spelled.encode([VOCABULARY.decode(row).decode() for row in whole.rows])
    rows = tuple(row for row, its in zip(whole.rows, own, strict=True) if row == tuple(its))
    assert 0 < len(rows) < len(whole.rows)

    def make() -> Constraint:
        assert whole.constraint is not None
        return canonical(whole.constraint, CanonicalTexts(spelled))

    return World(make, rows, whole.limit, whole.ends_itself)


def apart(whole: World) -> World:
    """Return the world of a constraint's texts whose fixed parts are spelled apart."""
    texts = sorted({VOCABULARY.decode(row) for row in whole.rows})
    rows = tuple(row for text in texts for row in cut_rows(VOCABULARY, texts, text))
    assert rows and set(rows) != set(whole.rows)

    def make() -> Constraint:
        assert whole.constraint is not None
        return templated(whole.constraint)

    return World(make, rows, max(map(len, rows)), whole.ends_itself)


def few_tokens() -> World:
    """Return the world of strings in at most one token of which a byte stands."""
    whole = WHOLE["schema"]
    schema = '{"enum": ["a", "ab", "b"], "x-cdec-max-tokens": 1}'
    rows = [row for row in whole.rows if sum(PIECES[token] != b'"' for token in row) <= 1]
    assert 0 < len(rows) < len(whole.rows)
    return World(lambda: schema_constraint(schema, VOCABULARY), tuple(rows), whole.limit)


FITTED = {"set": 2, "regex": 1, "schema": 3, "conjunction": 2, "begun": 2, "tagged": 2}
KINDS = {**WHOLE, **{f"{kind}, fitted": fitted(kind, most) for kind, most in FITTED.items()}}
KINDS["schema, nearly fitted"] = nearly_fitted("schema", 3)
KINDS["schema, few tokens"] = few_tokens()
WORD = "start: WORD\nWORD[max_tokens=2]: /abb|ab|a|ba|b/"
KINDS["grammar, few tokens"] = World(
    lambda: grammar_constraint(WORD, VOCABULARY, lexer="dynamic"),
    tuple(row for row in WHOLE["grammar"].rows if len(row) <= 2),
    3,
)


def healed_words(lexer: Lexer) -> World:
    """Return the world of words behind a forced letter, which their first token may spell too."""

    def is_short(row: Row) -> bool:
        ends = np.cumsum([len(PIECES[token]) for token in row])
        return int((ends > 1).sum()) <= 2

    rows = [row for text in TEXTS for row in spellings(b"a" + text) if is_short(row)]
    made = grammar_constraint(WORD, VOCABULARY, lexer=lexer)
    return World(lambda: HealedConstraint(made, b"a"), tuple(sorted(rows)), 3)


KINDS["grammar, few tokens, healed"] = healed_words("dynamic")
NESTED = 'start: pair "b"\npair[max_tokens=3]: "a" pair "b" | "a" "b"'
PAIRS = [row for text in (b"abb", b"aabbb") for row in spellings(text) if len(row) <= 4]
KINDS["nested grammar, few tokens"] = World(
    lambda: grammar_constraint(NESTED, VOCABULARY), tuple(sorted(PAIRS)), 4
)
CANONICAL = ("set", "regex", "schema", "conjunction")
KINDS |= {f"{kind}, canonical": canonically(kind) for kind in CANONICAL}
KINDS["set, templated"] = apart(WHOLE["set"])
KINDS["regex, templated"] = apart(
    world(lambda: regex_constraint("b(ab)?|a", VOCABULARY), (b"a", b"b", b"bab"))
)


def nested() -> Constraint:
    """Brackets in brackets, without end."""
    return grammar_constraint('start: "a" start "b" | "a" "b"', VOCABULARY)


def brackets(most: int) -> World:
    """Return the world of brackets that are closed within so many tokens: all of them are found."""
    texts = [b"a" * n + b"b" * n for n in range(1, most + 1)]
    rows = [row for text in texts for row in spellings(text) if len(row) <= most]
    return World(lambda: fit(nested(), most, max_steps=0), tuple(rows), most)


KINDS["nested grammar, fitted"] = brackets(4)

# --- What each method draws in a world, enumerated.

Law = dict[Any, float]
"""Of (row, finish reason); of a member's row, or None for all else, where reasons are left open."""


def by_reason(world: World) -> Law:
    """Return the law of masked decoding, or of the model where nothing is masked."""
    return dict(Rounds(world.pair, lambda prefix: None).law())


def unmasked(world: World) -> Law:
    """Return the law of the model alone; a member that ends itself ends here, too."""
    law, walks = Law(), [((), 1.0)]
    while walks:
        prefix, p = walks.pop()
        if world.ends_itself and prefix in world.rows:
            law[prefix, "complete"] = p
            continue
        given = TARGET(prefix)
        law[prefix, "complete"] = p * float(given[list(ENDS)].sum())
        on = [((*prefix, t), p * float(given[t])) for t in (*range(len(PIECES)), SPECIAL)]
        if len(prefix) < world.limit:
            walks += on
        else:
            law[prefix, "length"] = sum(share for _, share in on)
    return law


def masked(world: World) -> Law:
    return dict(enumeration.masked(world.toy, world.limit).law)


def target(world: World) -> Law:
    return dict(enumeration.target(world.fitting))


def disc(world: World) -> Law:
    return dict(enumeration.disc(world.toy, 2, limit=world.limit))


def recycled(world: World) -> Law:
    return dict(enumeration.disc(world.toy, 2, recycle=True, limit=world.limit))


def candidates(rules: Rules) -> Iterator[tuple[Row, float]]:
    """Yield where the first candidate of a record may end, and how probable that is."""
    walks: list[tuple[Row, float]] = [((), 1.0)]
    while walks:
        prefix, p = walks.pop()
        is_over = rules.has_ended(prefix) or rules.is_cut(prefix)
        events = {} if is_over else rules.events(prefix)
        if not events:
            yield prefix, p
        for event, mass in events.items():
            share = p * mass / sum(events.values())
            if event < 0:
                yield prefix, share
            else:
                walks.append(((*prefix, event), share))


def asap(world: World) -> Law:
    """Return the law of the second candidate, the first having taught the tree."""
    rules, law = Rules(world.toy, world.limit), Law()
    for prefix, p in candidates(rules):
        memory = Memory(rules)
        memory.learn([prefix])
        for row, q in memory.law().items():
            law[row] = law.get(row, 0.0) + p * q
    return law


def smc2(world: World) -> Law:
    law = Law()
    for (row, evidence, _), p in smc(world.toy, 2, 0.5, world.limit).items():
        key = row if evidence > 0 else None
        law[key] = law.get(key, 0.0) + p
    return law


def changed(world: World) -> Law:
    return dict(mcmc(world.toy, "priority", 2, world.limit))


def by_ratio(world: World) -> Law:
    return dict(RatioRounds(world.pair, world.pair.draft_law, 2).law())


def mentored(world: World) -> Law:
    return dict(Rounds(world.pair, world.pair.draft_law, 2, 0.3).law())


def greedy(world: World) -> Law:
    ahead, text = world.ahead(is_drafted=False), lookahead.Text()
    while True:
        ranked = ahead.ranked(TARGET, text.tokens)
        if not ahead.take(text, ranked[0][0] if ranked else None):
            return {(text.tokens, text.finish): 1.0}


def cdlh(world: World) -> Law:
    text = lookahead.cdlh(world.ahead(is_drafted=False))
    return {(text.tokens, text.finish): 1.0}


def approximate(world: World) -> Law:
    text = lookahead.cdlh(world.ahead(is_drafted=True))
    return {(text.tokens, text.finish): 1.0}


def cdsl(world: World) -> Law:
    return dict(lookahead.law_of_cdsl(world.ahead(is_drafted=True), lookahead.Options()))


@dataclass(frozen=True)
class How:
    """How a method is asked, and what its records must be.

    Attributes:
        law: Of a draw; None where draws are the most probable members in order.
        options: Beside a draft, where it needs one or these have ``gamma``, and a reward.
        log_weight: Of a complete row, from its weight under masked decoding.
        has_mass: Whether records estimate P(S) without bias; with a bracket where they are masked.
    """

    exactness: str
    law: Callable[[World], Law] | None
    options: Mapping[str, Any] = field(default_factory=dict)
    log_weight: Callable[[Sample, float], float | None] | None = None
    has_mass: bool = False


def accepted(sample: Sample, log_x: float) -> float | None:
    assert sample.log_candidate_weight == pytest.approx(log_x, abs=1e-9)
    return 0.0 if sample.diagnostics["accepted"] else None


def no_weight(sample: Sample, log_x: float) -> None:
    return None


def weight_of_candidates(sample: Sample, log_x: float) -> float:
    return log_x


HOWS: Mapping[str, How] = {
    "unconstrained": How("exact", unmasked, has_mass=True),
    "greedy": How("heuristic", greedy, log_weight=no_weight),
    "greedy, drafted": How("heuristic", greedy, {"gamma": 2}, no_weight),
    "masked": How("biased", masked, {}, weight_of_candidates, has_mass=True),
    "masked, drafted": How("biased", masked, {"gamma": 2}, weight_of_candidates, has_mass=True),
    "greedy, opportunistic": How("heuristic", greedy, {"opportunistic": True}, no_weight),
    "masked, opportunistic": How("biased", masked, {"opportunistic": True}, has_mass=True),
    "beam": How("heuristic", None, {"beams": 16}, no_weight),
    "disc": How("asymptotic", disc, {"K": 2}, accepted, has_mass=True),
    "disc, recycled": How(
        "asymptotic", recycled, {"K": 2, "recycle": True}, accepted, has_mass=True
    ),
    "disc, drafted": How("asymptotic", disc, {"K": 2, "gamma": 2}, accepted, has_mass=True),
    "asap": How("asymptotic", asap, {"burn_in": 1, "round": 1}, has_mass=True),
    "exact": How("exact", target, {"fallback": "none"}, lambda *_: 0.0, has_mass=True),
    "exact, aborting": How(
        "exact", target, {"fallback": "none", "abort": True}, lambda *_: 0.0, has_mass=True
    ),
    "exact, drafted": How(
        "exact", target, {"fallback": "none", "gamma": 2}, lambda *_: 0.0, has_mass=True
    ),
    "smc": How("asymptotic", smc2, {"particles": 2}, has_mass=True),
    "mcmc": How("asymptotic", changed, {"steps": 2}, no_weight, has_mass=True),
    "topn": How("exact", None, {}, no_weight),
    "speculative": How("biased", by_reason, {"gamma": 2}, weight_of_candidates, has_mass=True),
    "speculative, ratio": How("biased", by_ratio, {"gamma": 2, "ratio": True}, no_weight),
    "mentored": How("divergence", mentored, {"gamma": 2, "divergence": 0.3}, has_mass=True),
    "cdlh": How("heuristic", cdlh, AHEAD, no_weight),
    "cdlh-approx": How("heuristic", approximate, AHEAD, no_weight),
    "cdsl": How("heuristic", cdsl, {"verify": "speculative", **AHEAD}, no_weight),
}
"""Every method, some with an option that changes the law."""

CELLS = [
    (how, kind)
    for how in HOWS
    for kind in KINDS
    if kind != "none" or not METHODS[how.partition(",")[0]].needs_constraint
    # Without masks nothing holds a text to its tokens.
    if kind in WHOLE or METHODS[how.partition(",")[0]].masks
]


def tiered(cells: list[tuple[str, str]]) -> list[Any]:
    """Return cells as parameters: of each method every third kind is of the first tier."""
    hows, kinds = list(HOWS), list(KINDS)
    found = []
    for how, kind in cells:
        is_first = (hows.index(how) + kinds.index(kind)) % 3 == 0
        found.append(pytest.param(how, kind, marks=[] if is_first else pytest.mark.slow))
    return found


EACH = pytest.mark.parametrize(("how", "kind"), tiered(CELLS))


def test_every_method_has_a_row() -> None:
    assert {how.partition(",")[0] for how in HOWS} == set(METHODS)


def sampler_of(how: str) -> Sampler:
    method = METHODS[how.partition(",")[0]]
    options = dict(HOWS[how].options)
    if method.needs_draft or "gamma" in options:
        options["draft"] = TabularModel(DRAFT, VOCABULARY)
    if method.needs_reward:
        options["reward"] = lookahead.TextReward(lambda text, _: score(text))
    return SAMPLERS[method.name](**options)


def request_of(kind: str, seeds: range) -> Request:
    limit = KINDS[kind].limit
    return Request([0], KINDS[kind].constraint, seeds, max_new_tokens=limit, id=kind)


def draws_of(how: str, requests: list[Request]) -> list[list[Sample]]:
    found = sampler_of(how).draw_batch(TabularModel(TARGET, VOCABULARY), requests)
    assert all(isinstance(samples, list) for samples in found), found
    return found  # type: ignore[return-value]


@cache
def drawn(how: str, kind: str) -> list[Sample]:
    """Return the draws of many records, one each; of one where they are a ranking."""
    if HOWS[how].law is None:
        return draws_of(how, [request_of(kind, range(len(KINDS[kind].rows)))])[0]
    records = DRAWS if len(law(how, kind)) > 1 else 3
    requests = [request_of(kind, range(seed, seed + 1)) for seed in range(records)]
    return [samples[0] for samples in draws_of(how, requests)]


@cache
def law(how: str, kind: str) -> Law:
    found = HOWS[how].law
    assert found is not None
    return found(KINDS[kind])


# --- The laws.


def is_masked(how: str) -> bool:
    return METHODS[how.partition(",")[0]].masks


def log_p(row: Row, world: World) -> float:
    """Return log P of a text, with its end where the constraint does not end it."""
    toy = Toy(VOCABULARY, TARGET, list(world.rows), world.ends_itself and row in world.rows)
    return enumeration.log_prob(toy, row)


@EACH
def test_draws_have_the_enumerated_law(how: str, kind: str) -> None:
    samples, world = drawn(how, kind), KINDS[kind]
    ends = [(tuple(sample.token_ids), sample.finish_reason) for sample in samples]
    if HOWS[how].law is None:
        ranked = sorted(world.fitting.members, key=lambda row: -log_p(row, world))
        possible = [(row, "complete") for row in ranked if log_p(row, world) > -math.inf]
        assert ends[: len(possible)] == possible
        assert {reason for _, reason in ends[len(possible) :]} <= {"dead_end", "length"}
        return
    expected = law(how, kind)
    outcomes: list[Any] = list(ends)
    if not any(isinstance(key, tuple) and isinstance(key[-1:][0], str) for key in expected if key):
        outcomes = [row if reason == "complete" else None for row, reason in ends]
    assert math.fsum(expected.values()) == pytest.approx(1.0)
    # Of 200 cells a correct sampler fails in one of 50 choices of seeds.
    assert g_test(outcomes, expected) >= 1e-4


@EACH
def test_texts_are_members_with_their_probabilities_and_weights(how: str, kind: str) -> None:
    world, own = KINDS[kind], HOWS[how]
    members, x = set(world.rows), enumeration.masked(world.toy, world.limit).x
    texts = set(map(spelled, members))
    for sample in drawn(how, kind):
        assert sample.exactness == own.exactness
        row = tuple(sample.token_ids)
        if sample.finish_reason != "complete":
            assert sample.log_weight is None and not sample.valid
            continue
        assert sample.logprob == pytest.approx(log_p(row, world), abs=1e-9)
        if world.constraint is None:
            assert sample.valid is None
            continue
        # Where nothing is masked, a member of a set may come in other tokens.
        assert sample.valid is (spelled(row) in texts)
        assert row in members or not is_masked(how)
        if sample.valid:
            assert sample.text == world.constraint.member_text(row).decode()
        if own.log_weight is not None:
            expected = own.log_weight(sample, math.log(x[row]))
            assert sample.log_weight == pytest.approx(expected, abs=1e-9)


MASSES = [cell for cell in CELLS if HOWS[cell[0]].has_mass and cell[1] != "none"]


@pytest.mark.parametrize(("how", "kind"), tiered(MASSES))
def test_masses_are_unbiased_and_bracketed(how: str, kind: str) -> None:
    world, records = KINDS[kind], drawn(how, kind)
    truth = enumeration.mass(world.fitting)
    estimates = [record.diagnostics["log_mass_unclipped"] for record in records]
    masses = np.array([0.0 if each is None else math.exp(each) for each in estimates])
    # Four standard errors: once in 16,000 runs, and seeds are fixed.
    assert abs(masses.mean() - truth) <= 4 * masses.std() / math.sqrt(len(masses)) + 1e-12
    for record in records if is_masked(how) else ():
        fields = record.diagnostics
        assert math.exp(fields["log_mass_lower"] or -math.inf) <= truth * (1 + 1e-9)
        assert math.exp(fields["log_mass_upper"]) >= truth * (1 - 1e-9)
        if record.finish_reason == "complete":
            q = math.exp(log_p(tuple(record.token_ids), world)) / truth
            assert fields["probability_lower"] <= q * (1 + 1e-9)
            assert fields["probability_upper"] >= q * (1 - 1e-9)


@pytest.mark.share(4)
@pytest.mark.parametrize("how", HOWS)
def test_records_of_a_batch_are_what_they_are_alone(how: str) -> None:
    kinds = [kind for each, kind in CELLS if each == how]
    requests = [request_of(kind, range(7, 10)) for kind in kinds]
    together = draws_of(how, requests)
    for request, samples in zip(requests, together, strict=True):
        (alone,) = draws_of(how, [request])
        assert [sample.to_json() for sample in samples] == [sample.to_json() for sample in alone]
