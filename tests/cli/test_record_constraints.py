"""Constraints that records bring with them: grammars and candidates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cdec.compilers import ChildCompiler, GrammarOptions, cache
from cdec.compilers.cache import CacheLimits, ConstraintCache, SourceCache
from cdec.compilers.sets.cache import SetCache
from cdec.compilers.sets.options import SetLimits
from cdec.core.child.judge import TextChecker
from cdec.core.constraint import Constraint
from cdec.core.errors import CdecError, LimitError, UntokenizableError
from tests.cli.conftest import MEMBERS, Runner, jsonl, texts_of
from tests.compilers.sets.small_tokenizers import byte_level, lossy
from tests.laws.grammar_cases import byte_vocabulary

# --- Grammars that records bring: compiled once each, errors in place, a bounded cache.

WORDS = 'start: "yes" | "no"\n'
DIGITS = "start: /[0-9]{3}/\n"
GBNF = "# digits\nroot ::= [a-c] [a-c]\n"


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_one_batch_holds_sets_and_different_grammars(cdec: Runner, cities: Path) -> None:
    data = jsonl(
        {"id": 0, "prompt": "x", "grammar": WORDS},
        {"id": 1, "prompt": "x"},
        {"id": 2, "prompt": "x", "grammar": DIGITS},
        {"id": 3, "prompt": "x", "grammar": WORDS},
        {"id": 4, "prompt": "x", "grammar": GBNF},
    )
    result = cdec("sample", "-a", cities, "--method", "masked", "--batch-size", "8", stdin=data)
    texts = texts_of(result)
    assert {texts[0], texts[3]} <= {"yes", "no"}
    assert texts[1] in MEMBERS
    assert re.fullmatch("[0-9]{3}", texts[2])
    assert re.fullmatch("[a-c]{2}", texts[4])
    assert all(record["valid"] for record in result.records)
    alone = cdec("sample", "-a", cities, "--method", "masked", "--batch-size", "1", stdin=data)
    assert texts_of(alone) == texts


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_no_artifact_is_needed_where_the_first_record_has_a_grammar(cdec: Runner) -> None:
    data = jsonl({"id": 0, "prompt": "x", "grammar": WORDS}, {"id": 1, "prompt": "x"})
    result = cdec("sample", "--method", "masked", stdin=data)
    assert result.status == 3
    assert result.records[0]["text"] in ("yes", "no")
    assert result.records[1]["error"]["code"] == "E_FIELD"
    none = cdec("sample", "--method", "masked", stdin=jsonl({"prompt": "x"}))
    assert (none.status, none.error_code) == (2, "E_USAGE")
    assert cdec("sample", "--method", "masked", stdin=b"").error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_a_bad_grammar_is_an_error_in_its_place(cdec: Runner) -> None:
    data = jsonl(
        {"id": 0, "prompt": "x", "grammar": WORDS},
        {"id": 1, "prompt": "x", "grammar": "start: nowhere\n"},
        {"id": 2, "prompt": "x", "grammar": "start: start\n"},
        {"id": 3, "prompt": "x", "grammar": "start: " + "(" * 3000 + '"a"' + ")" * 3000 + "\n"},
        {"id": 4, "prompt": "x", "grammar": 7},
        {"id": 5, "prompt": "x", "grammar": WORDS, "candidates": ["a"]},
        {"id": 6, "prompt": "x", "grammar": WORDS},
    )
    result = cdec("sample", "--method", "masked", stdin=data)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [
        None, "E_GRAMMAR_UNDEFINED", "E_EMPTY_LANGUAGE", "E_LIMIT", "E_FIELD", "E_FIELD", None
    ]  # fmt: skip
    assert result.records[1]["error"]["line"] == 1
    assert "field 'grammar'" in result.records[1]["error"]["message"]


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_limits_hold_for_the_grammars_of_records(cdec: Runner) -> None:
    data = jsonl({"prompt": "x", "grammar": WORDS})
    result = cdec("sample", "--method", "masked", "--max-grammar-bytes", "5", stdin=data)
    assert result.records[0]["error"]["code"] == "E_LIMIT"
    for words in (("--grammar-cache", "0"), ("--grammar-cache-size", "none")):
        assert cdec("sample", *words, stdin=data).error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_warnings_of_grammars_are_printed(cdec: Runner) -> None:
    grammar = 'start: "a" "b"\n%ignore /[ ]+/\n'
    words = ("sample", "--method", "masked", "--max-whitespace")
    data = jsonl({"prompt": "x", "grammar": grammar})
    for bound, count in (("none", 1), ("8", 0)):
        result = cdec(*words, bound, stdin=data)
        assert result.stderr.count("warning W_UNBOUNDED_WHITESPACE") == count
    assert cdec(*words, "many", stdin=data).error_code == "E_USAGE"


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_candidates_belong_to_sets(cdec: Runner, tmp_path: Path) -> None:
    Path("words.lark").write_text(WORDS)
    assert cdec("compile-grammar", "words.lark").status == 0
    words = ("sample", "-a", "words.arrow", "--method", "masked")
    chosen = cdec(*words, stdin=jsonl({"prompt": "x", "candidates": ["yes"]}))
    assert chosen.records[0]["error"]["code"] == "E_FIELD"


@pytest.mark.slow
@pytest.mark.usefixtures("loaded", "grammar_child")
def test_a_grammar_whose_texts_take_for_ever_to_judge_holds_up_nothing(
    cdec: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TextChecker.__init__.__kwdefaults__, "seconds", 0.3)
    slow = "start: A\nA: /(?:a|a){40}b|a{40}[c-z0-9A-Z]/"
    grammars = (WORDS, slow, DIGITS, slow.replace("40", "41"), WORDS)
    data = jsonl(*({"id": i, "prompt": "x", "grammar": g} for i, g in enumerate(grammars)))
    result = cdec("sample", "--method", "masked", "--temperature", "2", stdin=data)
    assert result.status == 0
    assert [record["valid"] for record in result.records] == [True, None, True, None, True]
    assert result.stderr.count("warning W_UNDECIDED") == 1
    assert "(and 1 more texts)" in result.stderr
    Path("slow.lark").write_text(slow)
    assert cdec("compile-grammar", "slow.lark").status == 0
    scored = cdec("score", "-a", "slow.arrow", stdin=jsonl({"prompt": "x", "text": "a" * 40 + "c"}))
    assert (scored.records[0]["member"], scored.records[0]["valid"]) == (True, None)
    assert scored.stderr.count("warning W_UNDECIDED") == 1
    # The compiled tables do not go back over a text.
    assert cdec("check", "slow.arrow", stdin=b"a" * 40 + b"c").records[0]["valid"] is True


class _Counter:
    """A compiler that counts what it is asked for."""

    def __init__(self, child: ChildCompiler) -> None:
        self.child = child
        self.calls: list[str] = []

    def compile(self, source: str, *arguments: Any, **options: Any) -> Any:
        self.calls.append(source)
        return self.child.compile(source, *arguments, **options)

    def close(self) -> None:
        return


@pytest.fixture
def counted(grammar_child: ChildCompiler, monkeypatch: pytest.MonkeyPatch) -> _Counter:
    """Count the compilations."""
    counter = _Counter(grammar_child)
    monkeypatch.setattr(cache, "ChildCompiler", lambda source: counter)
    return counter


class _Grammars(SourceCache):
    """The constraints of grammars."""

    def get(self, text: str) -> Constraint:
        """Return the constraint of a grammar."""
        return self.of(text, GrammarOptions())


def _grammars(embedded_model: Any, **limits: int) -> _Grammars:
    return _Grammars(embedded_model.vocabulary, limits=CacheLimits(**limits))


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_equal_texts_share_a_constraint(counted: _Counter, embedded_model: Any) -> None:
    grammars = _grammars(embedded_model)
    assert grammars.get(WORDS) is grammars.get(WORDS)
    assert grammars.get(DIGITS) is not grammars.get(WORDS)
    for _ in range(2):
        with pytest.raises(CdecError):
            grammars.get("start: nowhere\n")
    assert counted.calls == [WORDS, DIGITS, "start: nowhere\n"]


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_the_cache_forgets_what_was_used_longest_ago(
    counted: _Counter, embedded_model: Any
) -> None:
    grammars = _grammars(embedded_model, count=2)
    for text in (WORDS, DIGITS, WORDS, GBNF, WORDS, DIGITS):
        grammars.get(text)
    assert counted.calls == [WORDS, DIGITS, GBNF, DIGITS]


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_the_cache_is_bounded_in_bytes(counted: _Counter, embedded_model: Any) -> None:
    grammars = _grammars(embedded_model, size=1)
    kept = grammars.get(WORDS)
    assert grammars.get(WORDS) is kept
    grammars.get(DIGITS)
    assert grammars.get(WORDS) is not kept
    assert len(counted.calls) == 3


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_nothing_is_left_behind(
    counted: _Counter, embedded_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered = tmp_path / "cache"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("CDEC_CACHE_DIR", str(remembered))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    constraint = _grammars(embedded_model).get(WORDS)
    assert constraint.session("cpu").start(1) is not None
    assert list(temporary.iterdir()) == []
    assert not (remembered / "verified").exists()


@pytest.mark.usefixtures("loaded", "grammar_child")
def test_warnings_of_many_grammars_are_counted_not_repeated(grammar_child: object) -> None:
    grammars = SourceCache(byte_vocabulary(), limits=CacheLimits(count=4, size=1 << 20))
    options = GrammarOptions(max_whitespace=None)
    try:
        for letter in "abc":
            grammars.of(f'start: "{letter}"\nWS: " "+\n%ignore WS\n', options)
    finally:
        grammars.close()
    notices = grammars.take_notices()
    assert [notice.code for notice in notices].count("W_UNBOUNDED_WHITESPACE") == 1
    assert "(and 2 more texts)" in notices[0].message
    assert grammars.take_notices() == []


# --- Candidates that records bring, without an artifact: compiled as they come, in a bounded
# cache.


@pytest.mark.usefixtures("loaded")
def test_records_bring_their_candidates(cdec: Runner) -> None:
    data = jsonl(
        {"id": 0, "prompt": "The capital of France is", "candidates": ["Paris", "Lyon"]},
        {"id": 1, "prompt": "The capital of Norway is", "candidates": ["Oslo"]},
        {"id": 2, "prompt": "Nothing to hold it to"},
    )
    for words in (("sample", "--method", "disc", "--K", "2"), ("sample", "--method", "masked")):
        result = cdec(*words, stdin=data)
        assert result.status == 3, result.stderr
        assert result.records[0]["text"] in ("Paris", "Lyon")
        assert result.records[1]["text"] == "Oslo"
        assert all(record["valid"] for record in result.records[:2])
        assert result.records[2]["error"]["code"] == "E_FIELD"


@pytest.mark.usefixtures("loaded")
def test_mass_and_score_take_them_too(cdec: Runner) -> None:
    data = jsonl({"id": 0, "prompt": "The capital of France is", "candidates": ["Paris", "Lyon"]})
    Path("q.jsonl").write_bytes(data)
    mass = cdec("mass", "-i", "q.jsonl", "--candidates", "8")
    assert mass.status == 0, mass.stderr
    drawn = cdec("sample", "-i", "q.jsonl", "--method", "topn", "-n", "2")
    assert {record["text"] for record in drawn.records} == {"Paris", "Lyon"}
    Path("drawn.jsonl").write_bytes(drawn.stdout)
    scored = cdec("score", "-i", "drawn.jsonl", "--prompts", "q.jsonl")
    assert scored.status == 0, scored.stderr
    assert [record["member"] for record in scored.records] == [True, True]
    bracket = [scored.records[0][name] for name in ("log_mass_lower", "log_mass_upper")]
    assert bracket[0] <= mass.records[0]["log_mass_upper"] + 1e-6


@pytest.mark.usefixtures("loaded")
def test_they_are_narrowed_by_what_the_run_asks(cdec: Runner, cities: Path) -> None:
    data = jsonl({"prompt": "x", "candidates": ["Paris", "Rome", "Rome"]})
    Path("no.txt").write_text("Paris\n")
    result = cdec("sample", "--deny", "no.txt", "--method", "masked", stdin=data)
    assert [record["text"] for record in result.records] == ["Rome"], result.stderr
    # With an artifact they are members of it, as before.
    held = cdec("sample", "-a", cities, stdin=jsonl({"prompt": "x", "candidates": ["Lyon"]}))
    assert held.records[0]["error"]["code"] == "E_FIELD"


@pytest.mark.usefixtures("loaded")
def test_bad_candidates_are_errors_in_their_places(cdec: Runner) -> None:
    data = jsonl(
        {"id": 0, "prompt": "x", "candidates": ["a"]},
        {"id": 1, "prompt": "x", "candidates": []},
        {"id": 2, "prompt": "x", "candidates": [" "]},
        {"id": 3, "prompt": "x", "candidates": ["a", "b"], "constraint": "nope"},
    )
    result = cdec("sample", "--method", "masked", stdin=data)
    assert result.status == 3
    codes = [record.get("error", {}).get("code") for record in result.records]
    assert codes == [None, "E_FIELD", "E_EMPTY_SET", "E_FIELD"]
    assert "field 'candidates'" in result.records[2]["error"]["message"]


def test_equal_lists_share_a_constraint_within_the_limits() -> None:
    sets = SetCache(byte_level(), ConstraintCache(2, 1 << 20))
    one = sets.of(("Paris", "Rome"))
    assert sets.of(("Paris", "Rome")) is one
    sets.of(("a",))
    sets.of(("b",))
    assert sets.of(("Paris", "Rome")) is not one
    small = SetCache(byte_level(), ConstraintCache(64, 1))
    kept = small.of(("a",))
    assert small.of(("a",)) is kept
    small.of(("b",))
    assert small.of(("a",)) is not kept


def test_mistakes_are_remembered_and_named() -> None:
    sets = SetCache(lossy(), ConstraintCache(4, 1 << 20), name="field 'candidates'")
    errors = []
    for _ in range(2):
        with pytest.raises(UntokenizableError, match="field 'candidates'") as caught:
            sets.of(("Été",))
        errors.append(caught.value)
    assert errors[0].to_json() == errors[1].to_json()
    assert errors[0] is not errors[1]
    bounded = SetCache(byte_level(), ConstraintCache(4, 1 << 20), SetLimits(max_entities=1))
    with pytest.raises(LimitError):
        bounded.of(("a", "b"))


def test_warnings_of_many_lists_are_counted_not_repeated() -> None:
    sets = SetCache(byte_level(), ConstraintCache(4, 1 << 20))
    for letter in "abc":
        sets.of((letter, letter))
    (notice,) = sets.take_notices()
    assert notice.code == "W_DUPLICATES" and "(and 2 more lists)" in notice.message
    assert sets.take_notices() == []
