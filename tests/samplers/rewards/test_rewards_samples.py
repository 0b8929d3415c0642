"""Rewards of samples and of concepts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.core.errors import CdecError, ExtraMissingError, FieldError, RewardError, UsageError
from cdec.core.sample import Sample
from cdec.samplers import SAMPLERS, Request, build_reward
from cdec.samplers.registry import METHODS
from cdec.samplers.rewards import coverage as inflection
from cdec.samplers.rewards.base import GivenPrompt, Record, Reward
from cdec.samplers.rewards.coverage import CoverageReward
from tests.laws import worlds as toys
from tests.samplers.made import ShareOfA, flat_draft
from tools.benchmarks.rewards.coverage import DEV, disagreements

# --- Rewards beside any method: samples are scored, not steered; rewards see what texts answer.

STEERED = frozenset({"cdlh", "cdlh-approx", "cdsl"})
FREE = [name for name in METHODS if name not in STEERED]
FIELDS = ("reward", "satisfaction_soft", "satisfaction_hard")


class Seeing(Reward):
    """Scores nothing; keeps the prompts it was shown, and fails or refuses where a record says."""

    name = "seeing"

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[GivenPrompt] = []
        self.calls = 0

    def check(self, record: Record) -> None:
        if record is not None and "refused" in record:
            raise FieldError("refused", field="refused")

    def scores(
        self,
        texts: Sequence[str],
        records: Sequence[Record],
        prompts: Sequence[GivenPrompt] | None = None,
    ) -> NDArray[np.float64]:
        assert prompts is not None
        self.calls += 1
        if any(record is not None and "fails" in record for record in records):
            raise KeyError("fails")
        self.seen += prompts
        return np.full(len(texts), 2.0)


def drawn(name: str, reward: Reward | None, n: int = 3) -> list[Sample]:
    toy = toys.toy_b()
    options: dict[str, Any] = {"reward": reward}
    if METHODS[name].needs_draft:
        options["draft"] = flat_draft(toy.model().vocabulary)
    sampler = SAMPLERS[name](**options)
    rng = np.random.default_rng(5)
    return sampler.draw(toy.model(), toy.constraint, "", n=n, rng=rng, max_new_tokens=4)


@pytest.mark.parametrize("name", FREE)
def test_a_reward_scores_what_a_method_draws_and_changes_no_draw(name: str) -> None:
    scored, plain = drawn(name, ShareOfA()), drawn(name, None)
    assert plain and all(not {*FIELDS} & {*sample.diagnostics} for sample in plain)
    for one, other in zip(scored, plain, strict=True):
        assert one.text is not None
        share = one.text.count("a") / max(1, len(one.text))
        assert (one.reward, one.satisfaction_soft) == (share, share)
        assert one.satisfaction_hard is (share >= 1.0)
        without = {k: v for k, v in one.to_json().items() if k not in FIELDS}
        assert without == other.to_json()


def test_a_sample_without_text_has_no_reward() -> None:
    """A budget of one draw ends a text of the toy before there is any."""
    toy = toys.toy_b()
    options: dict[str, Any] = {"max_draws": 1, "K": 1, "abort": True, "fallback": "none"}
    sampler = SAMPLERS["exact"](reward=ShareOfA(), **options)
    rng = np.random.default_rng(0)
    samples = sampler.draw(toy.model(), toy.constraint, "", n=40, rng=rng, max_new_tokens=4)
    without = [sample for sample in samples if sample.text is None]
    assert without
    for sample in without:
        assert [sample.to_json()[name] for name in FIELDS] == [None] * 3


def requests_of(*records: Record, prompt: Any = "") -> list[Request]:
    toy = toys.toy_b()
    return [
        Request(prompt, toy.constraint, [number], max_new_tokens=4, input=record)
        for number, record in enumerate(records)
    ]


def test_a_record_that_the_reward_refuses_or_fails_for_is_an_error_in_its_place() -> None:
    reward = Seeing()
    sampler = SAMPLERS["masked"](reward=reward)
    requests = requests_of(None, {"refused": 1}, {"fails": 1}, {"good": 1})
    found = sampler.draw_batch(toys.toy_b().model(), requests)
    kinds = [type(each) if isinstance(each, CdecError) else list for each in found]
    assert kinds == [list, FieldError, RewardError, list]
    assert isinstance(found[3], list) and found[3][0].reward == 2.0
    (alone,) = sampler.draw_batch(toys.toy_b().model(), requests[1:2])
    assert isinstance(alone, FieldError)


def test_all_texts_of_a_batch_are_scored_in_one_call() -> None:
    reward = Seeing()
    SAMPLERS["masked"](reward=reward).draw_batch(toys.toy_b().model(), requests_of(None, None))
    assert reward.calls == 1


MESSAGES = [{"role": "user", "content": "which?"}]


@pytest.mark.parametrize("name", ["masked", *sorted(STEERED)])
@pytest.mark.parametrize(
    ("prompt", "asked", "seen"),
    [
        ([0, 2], None, "ac"),
        ([0, 2], "what was typed", "what was typed"),
        ([0], MESSAGES, MESSAGES),
    ],
)
def test_a_reward_sees_the_prompt_as_it_was_given(
    name: str, prompt: Any, asked: Any, seen: Any
) -> None:
    toy, reward = toys.toy_b(), Seeing()
    options: dict[str, Any] = {"reward": reward}
    if METHODS[name].needs_draft:
        options["draft"] = flat_draft(toy.model().vocabulary)
    request = Request(prompt, toy.constraint, [1], max_new_tokens=4, asked=asked)
    (found,) = SAMPLERS[name](**options).draw_batch(toy.model(), [request])
    assert isinstance(found, list)
    assert reward.seen and all(each == seen for each in reward.seen)


def test_no_reward_and_what_is_none_are_refused_where_one_is_needed() -> None:
    for options in ({}, {"reward": "coverage"}):
        with pytest.raises(UsageError, match="expected a Reward"):
            SAMPLERS["cdlh"](**options)
    with pytest.raises(UsageError, match="expected a Reward"):
        SAMPLERS["masked"](reward="coverage")


FUNCTIONS = """
def echoes(texts, records, prompts):
    return [float(isinstance(p, str) and t in p) for t, p in zip(texts, prompts)]

def named(texts, records, *, prompts):
    return [float(len(prompts))] * len(texts)

def scaled(texts, records, scale=3.0):
    return [scale] * len(texts)

def breaks(texts, records, prompts):
    prompts[0][0]["content"] = "changed"
    return [1.0] * len(texts)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "asked_scores.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.delitem(sys.modules, "asked_scores", raising=False)
    return "asked_scores"


def test_a_function_that_has_a_parameter_prompts_is_given_them(module: str) -> None:
    texts, nothing = ["a", "b"], [None, None]
    echoes = build_reward(f"{module}:echoes")
    assert echoes.scores(texts, nothing, ["an a", "none"]).tolist() == [1, 0]
    assert build_reward(f"{module}:named").scores(texts, nothing, ["x", "y"]).tolist() == [2, 2]
    # Another third parameter stays the function's own.
    assert build_reward(f"{module}:scaled").scores(texts, nothing, ["x", "y"]).tolist() == [3, 3]
    _, errors = echoes.evaluate(texts, nothing)
    assert sorted(errors) == [0, 1] and "not known" in errors[0].message


def test_a_function_that_changes_messages_changes_copies(module: str) -> None:
    messages: list[Mapping[str, Any]] = [{"role": "user", "content": "as it was"}]
    build_reward(f"{module}:breaks").scores(["a"], [None], [messages])
    assert messages == [{"role": "user", "content": "as it was"}]


def test_rows_that_fail_keep_their_prompts(module: str) -> None:
    prompts: list[GivenPrompt] = ["text", [{"role": "user", "content": "x"}], []]
    scores, errors = build_reward(f"{module}:breaks").evaluate(["a"] * 3, [None] * 3, prompts)
    assert scores[1] == 1.0 and sorted(errors) == [0, 2]


# --- The coverage reward: which forms of a concept count, lists of forms, records it refuses.


def names(text: str, *concepts: str, spec: str = "", **fields: object) -> list[bool]:
    """Whether the text names each concept."""
    return CoverageReward(spec).found(text, {"concepts": list(concepts), **fields})


@pytest.mark.parametrize(
    ("concept", "words"),
    [
        ("sit", "sit sits sat sitting Sitting SITS"),
        ("drive", "drives drove driven driving"),
        ("climb", "climbed climbing"),
        ("carry", "carries carried carrying"),
        ("lie", "lies lied lying lay"),
        ("lay", "lays laid laying"),
        ("box", "boxes boxed"),
        ("knife", "knives"),
        ("leaf", "leaves"),
        ("woman", "woman women Women"),
        ("foot", "feet"),
        ("goggle", "goggles"),
        ("build", "built building"),
        ("ski", "skis skied skiing"),
        ("singe", "singeing singed"),
        ("dogs", "dog dogs"),
        ("café", "CAFÉ cafe\N{COMBINING ACUTE ACCENT}"),
        ("straße", "STRASSE"),
    ],
)
def test_every_inflected_form_counts(concept: str, words: str) -> None:
    for word in words.split():
        assert names(f"So, {word}!", concept, spec="past") == [True], word


@pytest.mark.parametrize(
    ("concept", "word"),
    [
        ("car", "cared"),
        ("hop", "hoping"),
        ("hope", "hopping"),
        ("catch", "catcher"),
        ("perform", "performer"),
        ("saw", "see"),
        ("lay", "lie"),
        ("pin", "spin"),
        ("organ", "organization"),
        ("busy", "business"),
        ("star", "stared"),
    ],
)
def test_another_word_does_not_count(concept: str, word: str) -> None:
    assert names(f"they {word} it", concept, spec="past") == [False]


def test_score_is_the_share_of_concepts_and_hard_satisfaction_is_all_of_them() -> None:
    reward = build_reward("coverage")
    record = {"concepts": ["catch_V", "dog_N", "frisbee", "throw"]}
    texts = ["", "A dog", "Dogs catching frisbees", "the frisbee thrown, a dog caught it"]
    scores = reward.scores(texts, [record] * 4)
    assert scores.dtype == np.float64
    assert scores.tolist() == [0, 0.25, 0.75, 1]
    assert reward.is_satisfied(scores).tolist() == [False, False, False, True]


def test_a_record_without_concepts_asks_for_nothing() -> None:
    reward = build_reward("coverage")
    reward.check({"concepts": []})
    assert reward.scores(["", "anything"], [{"concepts": []}] * 2).tolist() == [1, 1]


def test_a_concept_of_several_words_must_stand_in_a_row() -> None:
    assert names("Two Ice  creams, please", "ice cream", "T-shirt_N") == [True, False]
    assert names("the cream is on the ice; t-shirts", "ice_cream", "t-shirt") == [False, True]


def test_lists_of_forms_in_any_order_say_exactly_what_counts() -> None:
    lists = [["Look", "looks", "looking"], ["stood", "Stand", "standing"]]
    text = "He stood and looked."
    assert names(text, "stand", "look", inflections=lists) == [True, False]
    assert names(text, "stand", "look", spec="past") == [True, True]
    assert names("fields were looked at", "field", "look", inflections=lists) == [True, False]


def test_a_list_that_holds_two_concepts_is_left_to_the_one_without_another() -> None:
    lists = [["lie", "lay", "lying"], ["lay", "laid"]]
    assert names("it lay there, laid", "lie", "lay", inflections=lists) == [True, True]
    assert names("lying", "lie", "lay", inflections=lists) == [True, False]


def test_a_list_may_hold_forms_of_several_words() -> None:
    lists = [["ice cream", "ice creams"]]
    assert names("ICE CREAMS", "ice cream", inflections=lists) == [True]
    assert names("ice creamed", "ice cream", inflections=lists) == [False]


def test_simple_pasts_count_if_asked_for_and_else_not_as_in_the_lists() -> None:
    text = "He climbed, drove, stood, was given and fed a red bed"
    concepts = ("climb", "drive", "stand", "give", "feed", "red", "bed")
    assert names(text, *concepts) == [False, False, *[True] * 5]
    assert names(text, *concepts, spec="past") == [True] * 7
    assert isinstance(build_reward("coverage:past"), CoverageReward)
    with pytest.raises(UsageError, match="pats"):
        build_reward("coverage:pats")


def test_records_in_one_batch_do_not_mix() -> None:
    reward = build_reward("coverage")
    records = [{"concepts": [concept]} for concept in ("dog", "cat", "run")]
    assert reward.scores(["a dog runs"] * 3, records).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (None, "concepts"),
        ({}, "concepts"),
        ({"concepts": "dog"}, "concepts"),
        ({"concepts": ["dog", 3]}, "concepts"),
        ({"concepts": ["dog", "_"]}, "concepts"),
        ({"concepts": ["dog"], "inflections": ["dog"]}, "inflections"),
        ({"concepts": ["dog"], "inflections": [["dog", None]]}, "inflections"),
    ],
)
def test_a_record_that_cannot_be_scored_is_refused(
    record: dict[str, object] | None, field: str
) -> None:
    with pytest.raises(FieldError) as caught:
        build_reward("coverage").check(record)
    assert caught.value.details["field"] == field


def test_inflections_that_are_null_count_as_absent() -> None:
    record: dict[str, object] = {"concepts": ["dog"], "inflections": None}
    reward = build_reward("coverage")
    reward.check(record)
    assert reward.scores(["two dogs", "a cat"], [record] * 2).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"concepts": None}, "field 'concepts' is null, expected a list of texts"),
        ({"concepts": "dog"}, "field 'concepts' is \"dog\", expected a list of texts"),
        ({"concepts": ["dog", 3]}, "item 2 of the record's field 'concepts' is 3, expected a text"),
        ({"concepts": ["__N"]}, "item 1 of the record's field 'concepts' is '__N', which has no"),
        ({"concepts": [], "inflections": "dog"}, "'inflections' is \"dog\", expected a list of"),
        ({"concepts": [], "inflections": [[], 1]}, "item 2 of the record's field 'inflections'"),
        (
            {"concepts": [], "inflections": [[], ["dog", None]]},
            "item 2 of item 2 of the record's field 'inflections' is null, expected a text",
        ),
        ({"concepts": ["x"] * 500 + [{"a": "y" * 500}]}, "y..., expected a text"),
    ],
)
def test_a_malformed_field_is_shown_as_it_was_written(record: dict[str, object], said: str) -> None:
    with pytest.raises(FieldError) as caught:
        build_reward("coverage").check(record)
    assert said in caught.value.message
    assert len(caught.value.message) < 300


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simplemma", None)
    inflection.lemma_of.cache_clear()
    inflection._lemmatizer.cache_clear()
    with pytest.raises(ExtraMissingError) as caught:
        names("qua", "quux")
    assert "cdec[rewards]" in str(caught.value.hint)
    lists = [["dog", "dogs"]]
    assert names("dogs", "dog", inflections=lists) == [True]


def test_agrees_with_the_lists_of_commongen_without_reading_them(shared: Path) -> None:
    path = shared / DEV
    every, listed = disagreements(path, past=True), disagreements(path)
    kinds = [found.kind for found in every.disagreements]
    # The lists leave nearly all simple pasts out. Nothing they hold is missed, and nothing but
    # pasts is added where they count; where they do not, as by default, both agree.
    assert every.pairs == 3729
    assert every.recall >= 0.999
    assert kinds.count("past") > 200
    assert len(kinds) - kinds.count("past") <= 0.001 * every.pairs
    assert listed.share >= 0.996
