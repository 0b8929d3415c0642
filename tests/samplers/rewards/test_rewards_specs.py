"""Rewards from specs, the user's functions and patterns, and failures that stay with their row."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec import samplers
from cdec.core.errors import CdecError, RewardError, UsageError
from cdec.samplers.mentored import mentored_distribution
from cdec.samplers.rewards import REWARDS, build_reward
from cdec.samplers.rewards.base import GivenPrompt, Record, Reward

MODULE = """
calls = []
number = 3

def lengths(texts, records):
    calls.append(len(texts))
    return [len(text) / 10 for text in texts]

def field(texts, records):
    return [record["weight"] for record in records]

def short(texts, records):
    return [0.5] * (len(texts) - 1)

def leaves(texts, records):
    if "leave" in texts:
        raise SystemExit(0)
    return [1.0] * len(texts)

def talks(texts, records):
    print("scoring", len(texts))
    return [1.0] * len(texts)

def changes(texts, records):
    found = [float(len(record["words"])) for record in records]
    for record in records:
        record["words"].append("cat")
        record["text"] = texts.pop()
    return found

def generates(texts, records):
    return (1.0 for text in texts)

def nothing(texts, records):
    pass

def one(texts, records):
    return 0.5

def table(texts, records):
    return [[0.5] for text in texts]
"""
LINE_OF_FIELD = 1 + MODULE[: MODULE.index('record["weight"]')].count("\n")


class Scripted(Reward):
    """Scores a text by what it says: ``raise`` raises, others are read as numbers."""

    name = "scripted"

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def scores(
        self,
        texts: Sequence[str],
        records: Sequence[Record],
        prompts: Sequence[GivenPrompt] | None = None,
    ) -> NDArray[np.float64]:
        self.batches.append(len(texts))
        if "raise" in texts:
            raise KeyError("weight")
        return np.array([float(text) for text in texts])


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the working directory."""
    (tmp_path / "my_scores.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.delitem(sys.modules, "my_scores", raising=False)
    return "my_scores"


def test_rows_that_fail_do_not_take_the_others_along() -> None:
    reward = Scripted()
    texts = ["0.5", "raise", "nan", "inf", "1"]
    scores, errors = reward.evaluate(texts, [None] * 5)
    assert np.isnan(scores).tolist() == [False, True, True, True, False]
    assert (scores[0], scores[4]) == (0.5, 1)
    assert sorted(errors) == [1, 2, 3]
    assert isinstance(errors[1], RewardError)
    assert (errors[1].code, errors[1].exit_status) == ("E_REWARD", 65)
    assert "KeyError: 'weight'" in errors[1].message
    assert "'raise'" in errors[1].message
    assert "NaN" in errors[2].message
    assert reward.batches == [5, 1, 1, 1, 1, 1]


def test_numbers_that_are_not_finite_need_no_second_try() -> None:
    reward = Scripted()
    scores, errors = reward.evaluate(["0.5", "nan"], [None, None])
    assert (scores[0], list(errors), reward.batches) == (0.5, [1], [2])
    assert reward.is_satisfied(scores).tolist() == [False, False]


def test_no_texts_give_no_scores() -> None:
    for spec in ("coverage", "regex:a"):
        scores, errors = build_reward(spec).evaluate([], [])
        assert (scores.shape, errors) == ((0,), {})


def test_long_texts_are_cut_in_the_message() -> None:
    _, errors = Scripted().evaluate(["x" * 500], [None])
    assert "x" * 160 + "..." in errors[0].message
    assert len(errors[0].message) < 480


def test_a_record_that_coverage_cannot_read_is_that_rows_error() -> None:
    records: list[Record] = [{"concepts": ["dog"]}, {}]
    scores, errors = build_reward("coverage").evaluate(["a dog"] * 2, records)
    assert scores[0] == 1
    assert "no field 'concepts'" in errors[1].message


def test_a_function_of_a_module_in_the_working_directory(module: str) -> None:
    reward = build_reward(f"{module}:lengths")
    assert reward.scores(["ab", "abcd"], [None, None]).tolist() == [0.2, 0.4]
    assert sys.modules[module].calls == [2]
    longer = build_reward(f"function:{module}:lengths", hard_threshold=0.3)
    assert longer.is_satisfied(longer.scores(["ab", "abcd"], [None, None])).tolist() == [0, 1]


def test_a_function_reads_records_and_its_failures_are_theirs(module: str) -> None:
    reward = build_reward(f"{module}:field")
    records: list[Record] = [{"weight": 0.25}, {"weight": "heavy"}, {}, None]
    scores, errors = reward.evaluate(["a", "b", "c", "d"], records)
    assert scores[0] == 0.25
    assert sorted(errors) == [1, 2, 3]
    assert "not of numbers, ['heavy'], for 1 text" in errors[1].message.replace('"', "'")
    assert f"KeyError: 'weight' at my_scores.py:{LINE_OF_FIELD}," in errors[2].message
    assert errors[2].message.startswith("the reward my_scores:field failed")
    assert isinstance(errors[2].__cause__, KeyError)


def test_an_error_deep_inside_is_shown_at_the_line_of_the_users_own_file(
    tmp_path: Path, module: str
) -> None:
    (tmp_path / "deep_scores.py").write_text(
        "import json\nfrom my_scores import field\n\n"
        "def parse(texts, records):\n    return [json.loads(text) for text in texts]\n"
    )
    for name, place in (("parse", "deep_scores.py:5"), ("field", f"my_scores.py:{LINE_OF_FIELD}")):
        _, errors = build_reward(f"deep_scores:{name}").evaluate(["{"], [{}])
        assert f"at {place}," in errors[0].message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("generates", "returned a generator for 1 text"),
        ("nothing", "returned None for 1 text"),
        ("one", "returned a number, no list, for 1 text"),
        ("table", "returned an array of shape (1, 1) for 1 text"),
        ("short", "returned 0 numbers for 1 text"),
    ],
)
def test_what_is_not_one_number_a_text_is_said_in_words(module: str, name: str, said: str) -> None:
    _, errors = build_reward(f"{module}:{name}").evaluate(["a", "b"], [None, None])
    assert sorted(errors) == [0, 1]
    assert errors[0].message.startswith(f"the reward {module}:{name} {said}, for the text 'a'")
    assert "Error" not in errors[0].message
    assert errors[0].hint == "Return a list of one number a text."


@pytest.mark.parametrize(
    ("spec", "said", "hint"),
    [
        ("coverge", "no reward 'coverge'", "'coverage'"),
        ("regx:a", "no reward 'regx:a'", "'regex'"),
        ("", "no reward ''", "regex:PATTERN"),
        ("my scores", "no reward", "module:function"),
        ("regex:", "no pattern", "regex:PATTERN"),
        ("regex:ab(c", "column 5", "backslash"),
        ("classifier", "no model", "classifier:PATH"),
        ("function:", "names no function", "module:function"),
        ("function:my_scores", "names no function", "module:function"),
        ("no_such_module_x:f", "cannot be imported", "working directory"),
        ("my_scores:lenghts", "does not exist", "'lengths'"),
        ("my_scores:number", "is not a function", "module:function"),
        ("my_scores.py:lengths", "cannot be imported", "e.g. my_scores:lengths"),
        ("function:./my_scores.py:lengths", "cannot be imported", "e.g. my_scores:lengths"),
        ("./my_scores.py:lengths", "no reward", "e.g. my_scores:lengths"),
        ("C:\\rewards\\my_scores.py:lengths", "no reward", "e.g. my_scores:lengths"),
        ("my_scores.py", "no reward", "e.g. my_scores:function"),
    ],
)
def test_a_spec_that_makes_no_sense_says_what_to_type(
    module: str, spec: str, said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        build_reward(spec)
    assert said in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_module_that_fails_while_imported_is_a_usage_error(tmp_path: Path, module: str) -> None:
    (tmp_path / "broken_scores.py").write_text("raise RuntimeError('no luck')")
    with pytest.raises(UsageError, match="RuntimeError: no luck"):
        build_reward("broken_scores:f")


def test_a_function_that_calls_sys_exit_fails_for_its_rows_and_the_run_goes_on(
    module: str,
) -> None:
    reward = build_reward(f"{module}:leaves")
    scores, errors = reward.evaluate(["stay", "leave", "stay"], [None] * 3)
    assert scores[[0, 2]].tolist() == [1, 1]
    assert list(errors) == [1]
    assert "sys.exit at my_scores.py:" in errors[1].message


def test_what_a_function_prints_does_not_join_the_samples(
    module: str, capfd: pytest.CaptureFixture[str]
) -> None:
    build_reward(f"{module}:talks").scores(["a"], [None])
    assert capfd.readouterr() == ("", "scoring 1\n")


def test_a_function_that_changes_its_arguments_changes_copies(module: str) -> None:
    reward = build_reward(f"{module}:changes")
    texts = ["ab", "c"]
    records: list[Record] = [{"words": ["dog"]}, {"words": []}]
    assert reward.scores(texts, records).tolist() == [1, 0]
    assert (texts, records) == (["ab", "c"], [{"words": ["dog"]}, {"words": []}])
    assert reward.scores(texts, records).tolist() == [1, 0]


def test_a_module_that_prints_or_exits_while_imported(
    tmp_path: Path, module: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chatty_scores.py").write_text("print('hello')\nf = lambda texts, records: [1.0]")
    assert build_reward("chatty_scores:f").scores(["a"], [None]).tolist() == [1]
    assert capfd.readouterr() == ("", "hello\n")
    (tmp_path / "leaving_scores.py").write_text("import sys; sys.exit(3)")
    with pytest.raises(UsageError, match="SystemExit: 3"):
        build_reward("leaving_scores:f")


def test_an_option_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="no option 'device'") as caught:
        build_reward("regex:a", device="cpu")
    assert "seconds" in str(caught.value.hint)
    with pytest.raises(UsageError, match="seconds is 0"):
        build_reward("regex:a", seconds=0)


def test_a_pattern_is_found_anywhere_in_the_text() -> None:
    reward = build_reward(r"regex:(?i)\bdogs?\b:")
    scores = reward.scores(["Dogs: many", "hotdogs:", "dogs"], [None] * 3)
    assert scores.tolist() == [1, 0, 0]
    assert reward.is_satisfied(scores).tolist() == [True, False, False]


def test_a_pattern_that_backtracks_for_ever_is_that_texts_error() -> None:
    reward = build_reward("regex:(a|aa)+$", seconds=0.05)
    scores, errors = reward.evaluate(["a" * 60 + "b", "aa"], [None, None])
    assert list(errors) == [0]
    assert "0.05 seconds" in errors[0].message
    assert scores[1] == 1


def test_what_python_users_call_is_found_beside_the_samplers() -> None:
    assert samplers.build_reward is build_reward
    assert samplers.mentored_distribution is mentored_distribution
    with pytest.raises(AttributeError, match="no attribute 'build_rewards'"):
        _ = samplers.build_rewards  # type: ignore[attr-defined]


def test_every_kind_of_reward_is_listed() -> None:
    assert list(REWARDS) == ["coverage", "classifier", "regex", "function"]
    assert issubclass(RewardError, CdecError)
