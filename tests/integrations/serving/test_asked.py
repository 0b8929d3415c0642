"""What servers are asked, and rows of masks for them."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cdec.compilers import grammar_constraint, regex_constraint, set_constraint
from cdec.core import Constraint, Vocabulary, allocate_mask
from cdec.core.combine.denial import deny
from cdec.core.combine.free_parts import FreeTextConstraint
from cdec.core.combine.free_text import FreeText
from cdec.core.constraint import DEAD, DONE, text_verdicts
from cdec.core.errors import (
    CdecError,
    ConfigError,
    FieldError,
    InputMissingError,
    LimitError,
    UsageError,
)
from cdec.core.mask import mask_words, unpack_mask
from cdec.integrations import cursors
from cdec.integrations.serving import matcher as serving_rows
from cdec.integrations.serving.matcher import BatchMatcher
from cdec.integrations.serving.settings import ConstraintRequest, ServingLimits, ServingSettings

# --- ConstraintRequest and ServingSettings: what a request may say, and what an operator must.

SETTINGS = ServingSettings(
    artifacts={"cities": Path("cities.arrow")},
    allow=frozenset({"regex", "schema", "candidates"}),
    tokenizer="embedded",
    limits=ServingLimits(max_candidates=3, max_text_bytes=200),
)


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ({"artifact": "cities"}, ConstraintRequest("cities")),
        ({"artifact": "cities", "deny": None}, ConstraintRequest("cities")),
        ('{"artifact": "cities", "deny": ["Bern"]}', ConstraintRequest("cities", deny=("Bern",))),
        ({"artifact": "cities", "candidates": ["Oslo"]}, ConstraintRequest("cities", ("Oslo",))),
        ({"candidates": ["a", "b"]}, ConstraintRequest(candidates=("a", "b"))),
        ({"regex": "a+", "deny": ["a"]}, ConstraintRequest(deny=("a",), source="regex", text="a+")),
        ({"schema": {"type": "null"}}, ConstraintRequest(source="schema", text='{"type":"null"}')),
        ({"schema": True}, ConstraintRequest(source="schema", text="true")),
        (
            {"artifact": "cities", "after": "</think>", "budget": 9},
            ConstraintRequest("cities", free=FreeText(("</think>",), budget=9)),
        ),
        ({"artifact": "cities", "fit": 9}, ConstraintRequest("cities", fit=9)),
        (
            {"artifact": "cities", "documents": {"page": "x"}},
            ConstraintRequest("cities", documents=(("page", "x"),)),
        ),
        (
            {"regex": "a", "between": ["<a>", "</a>"], "regions": 1},
            ConstraintRequest(
                source="regex", text="a", free=FreeText(between=("<a>", "</a>"), regions=1)
            ),
        ),
    ],
)
def test_a_request_says_what_it_is_held_to_as_an_object_or_as_its_text(
    value: object, asked: ConstraintRequest
) -> None:
    assert ConstraintRequest.of(value, SETTINGS) == asked
    if not isinstance(value, str):
        assert ConstraintRequest.of(json.dumps(value), SETTINGS) == asked


@pytest.mark.parametrize(
    "value",
    [
        "",
        "{",
        "[]",
        "7",
        7,
        [],
        {},
        {7: "cities"},
        {"artifacts": "cities"},
        {"after": "x"},
        {"artifact": "cities", "after": 7},
        {"artifact": "cities", "after": []},
        {"artifact": "cities", "after": [""]},
        {"artifact": "cities", "after": "x", "between": ["x", "y"]},
        {"artifact": "cities", "between": ["x"]},
        {"artifact": "cities", "between": ["x", "y"], "budget": 3},
        {"artifact": "cities", "budget": 3},
        {"artifact": "cities", "after": "x", "budget": "3"},
        {"artifact": "cities", "after": "x", "budget": -1},
        {"artifact": "cities", "after": "x", "regions": True},
        {"artifact": "cities", "fit": -1},
        {"artifact": "cities", "fit": "9"},
        {"artifact": "cities", "fit": True},
        {"artifact": "cities", "fit": 9, "after": "x"},
        {"fit": 9},
        {"artifact": 7},
        {"artifact": ["cities"]},
        {"artifact": "towns"},
        {"artifact": "cities.arrow"},
        {"artifact": "/etc/passwd"},
        {"artifact": "../cities"},
        {"deny": ["Bern"]},
        {"artifact": "cities", "candidates": []},
        {"artifact": "cities", "candidates": "Oslo"},
        {"artifact": "cities", "candidates": [7]},
        {"artifact": "cities", "candidates": [""]},
        {"artifact": "cities", "candidates": {"a": "b"}},
        {"artifact": "cities", "deny": [None]},
        {"artifact": "cities", "deny": -1},
        {"artifact": "cities", "regex": "a"},
        {"candidates": ["a"], "regex": "a"},
        {"regex": "a", "schema": "{}"},
        {"regex": ""},
        {"regex": {}},
        {"schema": []},
        {"schema": -1},
        {"artifact": "cities", "deny": [b"Bern"]},
        {"artifact": "cities", "documents": ["x"]},
        {"artifact": "cities", "documents": {"page": 7}},
        {"artifact": "cities", "document": "x"},
        {"document": "x"},
        {"document": ""},
        {"document": ["x"]},
        {"document": {"text": "x", "more": 1}},
        {"document": {"text": "x", "longest": "1"}},
        {"document": {"text": "x", "whole": "lines"}},
        {"regex": "\ud800", "max": 3},
    ],
)
def test_what_is_unclear_unknown_or_a_path_is_refused_as_a_field(value: object) -> None:
    with pytest.raises(FieldError) as caught:
        ConstraintRequest.of(value, SETTINGS)
    assert caught.value.hint
    assert caught.value.details["field"] == "cdec"


@pytest.mark.parametrize("brought", [{"grammar": 'start: "a"'}, {"regex": "a"}, {"schema": "{}"}])
def test_nothing_is_compiled_unless_the_operator_allows_it(brought: dict[str, Any]) -> None:
    only = ServingSettings(artifacts=SETTINGS.artifacts)
    with pytest.raises(FieldError, match="compiles none"):
        ConstraintRequest.of(brought, only)
    with pytest.raises(FieldError, match="compiles none"):
        ConstraintRequest.of({"candidates": ["a"]}, only)
    assert ConstraintRequest.of({"artifact": "cities", "candidates": ["a"]}, only).candidates == (
        "a",
    )


@pytest.mark.parametrize(
    "value",
    [
        {"artifact": "cities", "candidates": ["a", "b", "c", "d"]},
        {"artifact": "cities", "deny": ["a"] * 4},
        {"artifact": "cities", "candidates": ["a" * 300]},
        {"regex": "a" * 300},
        {"schema": {"enum": list(range(300))}},
        json.dumps({"artifact": "cities", "deny": ["x" * 300]}),
        "[" * 300,
    ],
)
def test_what_is_too_much_is_refused_before_it_is_read(value: object) -> None:
    with pytest.raises(LimitError) as caught:
        ConstraintRequest.of(value, SETTINGS)
    assert caught.value.details["limit"] in {"max_candidates", "max_text_bytes"}


def test_values_nested_past_all_depth_are_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in ({"schema": deep}, {"artifact": deep}, '{"schema":' + "[" * 150):
        with pytest.raises(CdecError):
            ConstraintRequest.of(value, SETTINGS)


def written(folder: Path, text: str) -> Path:
    path = folder / "serving.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_settings_name_artifacts_beside_the_file_and_bound_requests(tmp_path: Path) -> None:
    text = (
        'tokenizer = "embedded"\nallow = ["regex"]\nmax_candidates = 5\ncompile_seconds = 2\n'
        '[artifacts]\ncities = "sets/cities.arrow"\nother = "/srv/x.arrow"\n'
    )
    settings = ServingSettings.from_file(written(tmp_path, text))
    paths = {"cities": tmp_path / "sets/cities.arrow", "other": Path("/srv/x.arrow")}
    assert settings.artifacts == paths
    assert settings.allow == {"regex"}
    assert settings.limits == ServingLimits(max_candidates=5, compile_seconds=2)


@pytest.mark.parametrize(
    "text",
    [
        "allow",
        "artifact = 7",
        "artifacts = 7",
        "[artifacts]\na = 7",
        'allow = "regex"',
        'allow = ["regex"]',
        'tokenizer = "embedded"\nallow = ["python"]',
        "tokenizer = 7",
        "\udcff",
    ],
)
def test_settings_that_say_something_else_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "serving.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        ServingSettings.from_file(path)
    assert caught.value.hint


def test_settings_say_how_schemas_of_requests_are_compiled(tmp_path: Path) -> None:
    text = 'whitespace = "compact"\nproperty_order = "declared"\nlenient = true\n'
    settings = ServingSettings.from_file(written(tmp_path, text))
    assert settings.schema == {
        "whitespace": "compact",
        "property_order": "declared",
        "lenient": True,
    }


@pytest.mark.parametrize(
    "text", ['whitespace = "none"', "whitespace = 1", 'lenient = "yes"', "max_whitespace = -1"]
)
def test_options_of_schemas_that_cannot_be_are_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=text.split()[0]) as caught:
        ServingSettings.from_file(written(tmp_path, text))
    assert "serving.toml" in caught.value.message


@pytest.mark.parametrize("text", ["name = 'x'", "made_from = 'x'", "limits = 3"])
def test_what_the_server_fills_in_itself_is_no_setting(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="unknown"):
        ServingSettings.from_file(written(tmp_path, text))


@pytest.mark.parametrize("text", ["max_candidates = 0", "compile_seconds = -1", "max_kept = 'a'"])
def test_limits_out_of_bounds_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CdecError):
        ServingSettings.from_file(written(tmp_path, text))


def test_settings_come_from_the_environment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CDEC_SERVING", raising=False)
    with pytest.raises(ConfigError, match="CDEC_SERVING"):
        ServingSettings.from_environment()
    monkeypatch.setenv("CDEC_SERVING", str(tmp_path / "none.toml"))
    with pytest.raises(InputMissingError):
        ServingSettings.from_environment()
    monkeypatch.setenv("CDEC_SERVING", str(written(tmp_path, '[artifacts]\na = "a.arrow"\n')))
    assert ServingSettings.from_environment().artifacts == {"a": tmp_path / "a.arrow"}


# --- BatchMatcher: masks of mixed batches are those of the constraints' own sessions, bit for bit.

CITIES = ["Paris", "Lyon", "New York", "New York City", "Rome", "Bern", "Oslo"]
LIST = 'start: "[" [WORD ("," WORD)*] "]"\nWORD: /[a-z]{1,6}/\n'


@pytest.fixture(scope="module")
def constraints(vocabulary: Vocabulary) -> list[Constraint]:
    words = grammar_constraint(LIST, vocabulary)
    return [
        set_constraint(CITIES, vocabulary),
        words,
        regex_constraint(r"[0-9]{2}-[0-9]{2}", vocabulary),
        deny(words, [b"[a]", b"[]"]),
        set_constraint(["yes", "no"], vocabulary, suffix="."),
        FreeTextConstraint(words, FreeText(("[",), budget=3)),
        FreeTextConstraint(words, FreeText(between=("(", ")"), regions=1, budget=2)),
    ]


@pytest.fixture(params=["cpu", "torch:cpu"])
def rows(request: Any, vocabulary: Vocabulary) -> BatchMatcher:
    made = BatchMatcher(torch.device("cpu"), vocabulary.eos_token_ids[0])
    made._name = request.param
    return made


def own_mask(constraint: Constraint, tokens: list[int], width: int, end: int) -> Any:
    """Return what the constraint's own session allows after tokens, bool[width]."""
    session = constraint.session("cpu")
    states = session.start(1)
    for token in tokens:
        if states[0] != DONE:
            states = session.advance(states, np.array([token]))
    mask = allocate_mask(1, constraint.vocabulary.width)
    session.fill_mask(states, mask)
    allowed = np.zeros(width, np.bool_)
    known = unpack_mask(mask, constraint.vocabulary.width)[0]
    allowed[: len(known)] = known
    if not allowed.any():
        allowed[end] = True
    return allowed


@pytest.mark.share(2)
@pytest.mark.parametrize("more", [0, 45])
def test_masks_of_mixed_batches_are_the_sessions_own_until_every_text_has_ended(
    rows: BatchMatcher, constraints: list[Constraint], vocabulary: Vocabulary, more: int
) -> None:
    width, end = vocabulary.width + more, vocabulary.eos_token_ids[0]
    random = np.random.default_rng(5)
    texts = [rows.opened(constraints[i % len(constraints)]) for i in range(15)]
    states = rows.states([text.start for text in texts])
    so_far: list[list[int]] = [[] for _ in texts]
    for _ in range(12):
        masks = rows.masks(width, texts, states)
        assert masks.shape == (15, mask_words(width))
        allowed = unpack_mask(masks.numpy(), width)
        tokens = []
        for i, text in enumerate(texts):
            assert (allowed[i] == own_mask(text.constraint, so_far[i], width, end)).all()
            tokens.append(int(random.choice(np.flatnonzero(allowed[i]))))
            so_far[i].append(tokens[i])
        states = rows.after(texts, states, torch.tensor(tokens))
        for i in (2, 7):
            assert int(rows.walk(texts[i], so_far[i])) in (int(states[i]), DONE)
    assert (states == DONE).any()


def test_what_an_engine_writes_is_what_check_accepts_and_records_show_without_the_blank(
    rows: BatchMatcher, vocabulary: Vocabulary
) -> None:
    sets: list[Constraint] = [
        set_constraint(CITIES, vocabulary),
        set_constraint(CITIES, vocabulary, leading_space="both"),
        set_constraint(CITIES, vocabulary, prefix="<", suffix=">", leading_space="always"),
    ]
    random = np.random.default_rng(2)
    for constraint in sets:
        text, written = rows.opened(constraint), set()
        for _ in range(20):
            state, tokens = rows.states([text.start]), []
            while int(state[0]) != DONE:
                masks = rows.masks(vocabulary.width, [text], state)
                allowed = np.flatnonzero(unpack_mask(masks.numpy(), vocabulary.width)[0])
                tokens.append(int(random.choice(allowed)))
                state = rows.after([text], state, torch.tensor(tokens[-1:]))
            written.add(vocabulary.decode(tokens))
        assert any(b" " in each[:2] for each in written)
        for each, verdict in zip(written, text_verdicts(constraint, written), strict=True):
            assert verdict["valid"] and verdict["text"] in CITIES, each
            assert constraint.content(each) == verdict["text"].encode()


def test_logits_of_free_rows_are_left_alone_and_others_are_masked_where_they_lie(
    rows: BatchMatcher, constraints: list[Constraint], vocabulary: Vocabulary
) -> None:
    width, end = vocabulary.width, vocabulary.eos_token_ids[0]
    for at in ([1, 4], [0, 1, 2, 3, 4], [4, 0]):
        logits = torch.randn((5, width), generator=torch.Generator().manual_seed(3))
        before = logits.clone()
        texts = [rows.opened(constraints[row % 3]) for row in at]
        rows.apply(logits, at, texts, rows.states([text.start for text in texts]))
        for row in range(5):
            expected = np.ones(width, np.bool_)
            if row in at:
                expected = own_mask(constraints[row % 3], [], width, end)
            assert (torch.isfinite(logits[row]).numpy() == expected).all()
            assert torch.equal(logits[row][expected], before[row][expected])


def test_a_text_that_ended_or_was_given_up_can_only_end(
    rows: BatchMatcher, constraints: list[Constraint], vocabulary: Vocabulary
) -> None:
    end = vocabulary.eos_token_ids[0]
    text = rows.opened(constraints[0])
    masks = rows.masks(vocabulary.width, [text, text, None], rows.states([DONE, DEAD, DEAD]))
    allowed = unpack_mask(masks.numpy(), vocabulary.width)
    assert [np.flatnonzero(row).tolist() for row in allowed] == [[end]] * 3
    after = rows.after([text, None], rows.states([DONE, DEAD]), torch.tensor([end, end]))
    assert after.tolist() == [DONE, DEAD]


def test_tokens_that_no_text_holds_lead_nowhere(
    rows: BatchMatcher, constraints: list[Constraint], vocabulary: Vocabulary
) -> None:
    text = rows.opened(constraints[0])
    wrong = torch.tensor([-1, vocabulary.width, vocabulary.width + 7])
    states = rows.after([text] * 3, rows.states([text.start] * 3), wrong)
    assert states.tolist() == [DEAD] * 3


def test_texts_of_one_constraint_share_a_session_until_it_is_full(
    rows: BatchMatcher, constraints: list[Constraint], monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = constraints[1]
    first = rows.opened(grammar)
    assert rows.opened(grammar) is first
    assert rows.opened(constraints[0]) is not first
    rows.walk(first, grammar.vocabulary.encode(["[abc,de"])[0][:3])
    monkeypatch.setattr(cursors, "_MOST_STATES", 1)
    second = rows.opened(grammar)
    assert second is not first
    state = rows.states([first.start])
    assert torch.equal(rows.masks(5000, [first], state), rows.masks(5000, [second], state))


def test_sessions_that_wait_are_bounded(rows: BatchMatcher, vocabulary: Vocabulary) -> None:
    few = serving_rows._MOST_SESSIONS
    cities = set_constraint([str(number) for number in range(few + 2)], vocabulary)
    for number in range(few + 2):
        rows.opened(cities.candidates([str(number)]))
    assert len(rows._waiting) == few


def test_logits_narrower_than_the_vocabulary_are_refused(
    rows: BatchMatcher, constraints: list[Constraint]
) -> None:
    text = rows.opened(constraints[0])
    with pytest.raises(UsageError, match="columns"):
        rows.apply(torch.zeros((1, 100)), [0], [text], rows.states([text.start]))


def test_a_text_that_gets_stuck_is_said_in_the_log(
    vocabulary: Vocabulary, caplog: pytest.LogCaptureFixture
) -> None:
    rows = BatchMatcher(torch.device("cpu"), vocabulary.eos_token_ids[0])
    words = grammar_constraint('start: "a" "b"', vocabulary)

    vars(words)["facts"] = dataclasses.replace(words.facts, is_sound=False)
    text = rows.opened(words)
    with caplog.at_level(logging.WARNING):
        rows.masks(vocabulary.width, [text, text], rows.states([text.start, DONE]))
        assert not caplog.records
        rows.masks(vocabulary.width, [text], rows.states([DEAD]))
    assert "no member" in caplog.text
