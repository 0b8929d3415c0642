"""One draft for every method, and speculation under grammars."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import compile_grammar
from cdec.core import open_artifact
from cdec.core.combine.healing import HealedConstraint
from cdec.core.errors import CdecError, ModelError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS
from cdec.samplers.beam import BeamSampler
from cdec.samplers.drafts.counts import Counts
from cdec.samplers.drafts.named import NamedDraft
from cdec.samplers.exact import ExactSampler
from cdec.samplers.greedy import GreedySampler
from cdec.samplers.masked import MaskedSampler
from cdec.samplers.registry import METHODS
from cdec.samplers.request import Request
from tests.laws.sessions import assert_session_laws
from tests.laws.worlds import Row, toy_set
from tests.samplers.drafts.draft_toys import pairs, random_law
from tests.samplers.keyed import bare

# --- One draft for all methods: opened once a batch, accounted for once, released whatever
# happens.

PAIR = pairs()["set"]
DRAFTED = [name for name, method in METHODS.items() if method.option("draft") is not None]


def drawn(sampler: Any, n: int = 20) -> list[dict[str, object]]:
    """Return the records of a few draws, but for the method's name."""
    rng = np.random.default_rng(3)
    samples = sampler.draw(PAIR.toy.model(), PAIR.constraint, "", n=n, rng=rng)
    return [{**sample.to_json(), "method": None} for sample in samples]


@pytest.mark.parametrize("draft", ["model", "prompt-lookup", "counts"])
@pytest.mark.parametrize("is_greedy", [False, True])
def test_speculative_is_masked_or_greedy_with_a_draft(draft: str, is_greedy: bool) -> None:
    options: dict[str, Any] = {"draft": draft, "gamma": 4}
    if draft == "model":
        options["draft"] = PAIR.draft_model()
    plain = GreedySampler(**options) if is_greedy else MaskedSampler(**options)
    if draft == "model":
        options["draft"] = PAIR.draft_model()
    assert drawn(SAMPLERS["speculative"](greedy=is_greedy, **options)) == drawn(plain)


@pytest.mark.parametrize("options", [{"top_m": 2}, {"opportunistic": True}])
def test_without_full_masks_a_draft_model_changes_no_text(options: dict[str, Any]) -> None:
    plain = drawn(MaskedSampler(**options))
    drafted = drawn(MaskedSampler(draft=PAIR.draft_model(), gamma=4, **options))
    names = ("text", "token_ids", "logprob", "log_weight", "finish_reason")
    assert [[record[name] for name in names] for record in drafted] == [
        [record[name] for name in names] for record in plain
    ]
    assert {record["acceptance_rate"] for record in drafted} - {None}


@pytest.mark.parametrize("name", DRAFTED)
def test_a_draft_is_opened_once_a_batch_and_released(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    own = NamedDraft.on

    def watched(self: NamedDraft, batch: Any) -> Any:
        opened.append(own(self, batch))
        return opened[-1]

    monkeypatch.setattr(NamedDraft, "on", watched)
    draft = PAIR.draft_model()
    sampler: Any = SAMPLERS[name](draft=draft, **reward_of(name))
    records = drawn(sampler, 3)
    assert len(opened) == 1
    assert all(record["draft_calls"] is not None for record in records)
    assert draft.tree.live == 0


@pytest.mark.parametrize("name", DRAFTED)
def test_a_draft_is_released_where_the_run_fails(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Any:
        raise ModelError("no luck")

    sampler: Any = SAMPLERS[name](draft=PAIR.draft_model(), **reward_of(name))
    closed = []
    monkeypatch.setattr(type(sampler), "run", fails)
    monkeypatch.setattr(
        "cdec.samplers.drafts.speculate.DraftRun.__exit__", lambda *_: closed.append(1)
    )
    with pytest.raises(ModelError):
        drawn(sampler, 1)
    assert closed == [1]


@pytest.mark.parametrize("name", DRAFTED)
def test_what_is_no_draft_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        SAMPLERS[name](draft="guesses", **reward_of(name))
    assert caught.value.details["option"] == "draft"
    assert "`draft` is 'guesses'" in caught.value.message


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("disc", {"draft": "counts", "top_m": 2}, "`draft` and `top_m`"),
        ("disc", {"draft": "counts", "beams": 2}, "`draft` and `beams`"),
        ("exact", {"draft": "counts", "abort": True}, "`abort` and `draft`"),
        ("mentored", {"draft": "counts"}, "does not take counts"),
        ("cdsl", {"draft": "prompt-lookup"}, "`draft` prompt-lookup proposes what was seen before"),
    ],
)
def test_what_does_not_go_with_a_draft_is_refused_before_anything_is_opened(
    name: str, options: dict[str, Any], said: str
) -> None:
    values = METHODS[name].checked(options)
    with pytest.raises(UsageError, match=said):
        SAMPLERS[name].require_consistent(values)


def reward_of(name: str) -> dict[str, Any]:
    """Return the reward that a method needs, as its argument."""
    from cdec.samplers.rewards import build_reward

    return {"reward": build_reward("regex:a")} if METHODS[name].needs_reward else {}


# --- With a draft, results hang on the record alone, whatever contexts the models hold besides.
#
# A model that was used gives freed ids anew, in no order: nothing may follow the order of ids.

VOCABULARY = pairs()["set"].toy.vocabulary
KINDS: dict[str, dict[str, Any]] = {
    "gamma 3": {"gamma": 3},
    "rounds of 4": {"gamma": 4, "round": 4},
    "prompt-lookup": {"draft": "prompt-lookup", "gamma": 2},
    "no draft": {"draft": None},
}


def random_rows(rng: np.random.Generator) -> list[Row]:
    """Return eight distinct rows of up to five letters."""
    rows: set[Row] = set()
    while len(rows) < 8:
        rows.add(tuple(int(t) for t in rng.integers(0, 4, size=int(rng.integers(1, 6)))))
    return sorted(rows)


def requests(seed: int) -> list[Request]:
    """Return five records, of which two share a prompt and two a set."""
    rng = np.random.default_rng(seed)
    sets = [toy_set(random_rows(rng), VOCABULARY) for _ in range(3)]
    which = [([0, 1, 0], 0), ([1, 2], 1), ([0, 1, 0], 2), ([2], 0), ([], 1)]
    return [
        Request(prompt, sets[number], [50 * seed + 10 * i + j for j in range(6)], id=i)
        for i, (prompt, number) in enumerate(which)
    ]


@functools.cache
def laws(seed: int) -> tuple[Any, Any]:
    """Return a target's and a draft's probabilities, computed once a prefix."""
    target, draft = random_law(1000 + seed, 0.2 * (seed % 3)), random_law(2000 + seed, 0.3)
    return functools.cache(target), functools.cache(draft)


def sampler(kind: str, seed: int, used: bool) -> tuple[ExactSampler, TabularModel]:
    """Return a sampler and its target; used models have holes among their contexts."""
    target, draft = (TabularModel(law, VOCABULARY) for law in laws(seed))
    ours = ExactSampler(**{"draft": draft} | KINDS[kind])
    if used:
        target.prefill([[3]])
        draft.prefill([[3]])
        for _ in range(2):
            ours.draw_batch(target, requests(seed + 1000))
    return ours, target


def records(results: list[Any]) -> list[list[dict[str, Any]]]:
    """Return samples as JSON objects with rounded sums; an error fails the test."""
    assert not any(isinstance(samples, CdecError) for samples in results)
    return [
        [
            {k: round(v, 9) if isinstance(v, float) else v for k, v in sample.to_json().items()}
            for sample in samples
        ]
        for samples in results
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_exact_gives_a_record_the_same_samples_alone_and_beside_others(kind: str) -> None:
    for seed in (33, 37, 43):
        asked = requests(seed)
        found = {}
        for size, used in ((1, False), (1, True), (2, True), (5, False)):
            found[size, used] = []
            for start in range(0, 5, size):
                ours, target = sampler(kind, seed, used)
                some = asked[start : start + size]
                found[size, used] += records(ours.draw_batch(target, some))
        for case, those in found.items():
            assert those == found[1, False], (seed, case)


# --- Grammars under the samplers: laws with guesses, opportunistic masks, healing and a
# lookahead.

TOKENS = [b"{", b"}", b'"', b"a", b"b", b":", b",", b'":', b'",', b'"}', b"ab", b'{"', b' "', b" "]
GRAMMAR_VOCABULARY = Vocabulary([*TOKENS, b""], eos_token_ids=[len(TOKENS)])
OBJECT = """
start: "{" [pair ("," pair)*] "}"
pair: STRING ":" STRING
STRING: /"[ab]{1,4}"/
%ignore / {1,2}/
"""


def compiled(source: str, vocabulary: Vocabulary, folder: Path, lexer: Any = None) -> Any:
    path = folder / "grammar.arrow"
    compile_grammar(source, vocabulary, path, lexer=lexer, force=True)
    return open_artifact(path, vocabulary=vocabulary)


@pytest.fixture
def objects(tmp_path: Path) -> Any:
    """Flat objects of strings over a and b."""
    return compiled(OBJECT, GRAMMAR_VOCABULARY, tmp_path)


def model(seed: int = 3) -> TabularModel:
    """A model that mostly writes objects."""

    def probabilities(prefix: tuple[int, ...]) -> np.ndarray:
        own = np.random.default_rng([seed, *prefix[-3:]])
        weights = own.exponential(size=len(TOKENS) + 1) ** 2 + 1e-3
        weights[13] *= 0.1
        return weights / weights.sum()

    return TabularModel(probabilities, GRAMMAR_VOCABULARY)


def test_beams_are_members_without_repetition(objects: Any) -> None:
    samples = BeamSampler(beams=6).draw(
        model(), objects, "", n=6, rng=np.random.default_rng(0), max_new_tokens=12
    )
    whole = [sample for sample in samples if sample.finish_reason == "complete"]
    assert len({tuple(s.token_ids) for s in whole}) == len(whole) > 2
    assert all(sample.valid for sample in whole)


@pytest.mark.share(3)
@pytest.mark.parametrize("make", [GreedySampler, MaskedSampler])
@pytest.mark.parametrize("seed", range(4))
def test_guesses_change_no_text(objects: Any, make: Any, seed: int) -> None:
    draw: dict[str, Any] = {"n": 20, "max_new_tokens": 40}
    rng = np.random.default_rng
    plain = make().draw(model(seed), objects, "", rng=rng(seed), **draw)
    sampler = make(draft="counts", gamma=4, counts=Counts(threshold=0.2))
    for _ in range(2):
        guessed = sampler.draw(model(seed), objects, "", rng=rng(seed), **draw)
        assert [bare(sample) for sample in guessed] == [bare(sample) for sample in plain]
    calls = [sum(s.diagnostics["target_calls"] for s in samples) for samples in (plain, guessed)]
    assert calls[1] < calls[0]


def test_saved_counts_serve_another_session(objects: Any, tmp_path: Path) -> None:
    sampler = GreedySampler(draft="counts", gamma=6)
    options: dict[str, Any] = {"rng": np.random.default_rng(0), "max_new_tokens": 40}
    sampler.draw(model(), objects, "", **options)
    sampler.drafting.counts.save(tmp_path / "counts.json")
    objects.session()
    again = open_artifact(tmp_path / "grammar.arrow", vocabulary=GRAMMAR_VOCABULARY)
    counts = Counts.load(tmp_path / "counts.json")
    counts.require_artifacts([again.metadata["cdec.digest"]])  # type: ignore[attr-defined]
    (cold,) = GreedySampler(draft="counts", gamma=6).draw(model(), again, "", **options)
    (warm,) = GreedySampler(draft="counts", gamma=6, counts=counts).draw(
        model(), again, "", **options
    )
    assert warm.token_ids == cold.token_ids
    assert warm.diagnostics["target_calls"] < cold.diagnostics["target_calls"]


@pytest.mark.parametrize("prefix", [b'{"', b'"', b'"a', b' "ab":'])
def test_healed_grammars_obey_the_laws(tmp_path: Path, prefix: bytes) -> None:
    # The texts behind the prefix: what is left of a pair.
    inner = compiled('start: /[ab]{0,2}/ /"?:?/ /[}a]/\n', GRAMMAR_VOCABULARY, tmp_path, "dynamic")
    table = {token: i for i, token in enumerate(TOKENS)}
    members = [
        [table[bytes([b])] for b in prefix + text] for text in (b'ab":}', b'a"}', b"}", b"aba")
    ]
    healed = HealedConstraint(inner, prefix)
    assert_session_laws(healed, members, np.random.default_rng(0))


def test_a_lookahead_shows_in_the_record_and_forbids_bridges(objects: Any) -> None:
    narrow = objects.with_lookahead(0)
    bridges = {TOKENS.index(token) for token in (b'":', b'",', b'"}', b'{"')}
    for constraint, expected in ((objects, True), (narrow, False)):
        samples = MaskedSampler().draw(
            model(), constraint, "", n=60, rng=np.random.default_rng(0), max_new_tokens=60
        )
        drawn = {token for sample in samples for token in sample.token_ids}
        assert bool(drawn & bridges) is expected
        looked = {sample.diagnostics.get("lookahead") for sample in samples}
        assert looked == ({None} if expected else {0})
