"""ServedConstraints: what requests ask is answered by name, within limits, by one child."""

from __future__ import annotations

import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.compilers import compile_grammar, compile_schema, compile_set, compile_spans
from cdec.core import Vocabulary
from cdec.core.errors import (
    CdecError,
    ConfigError,
    EmptySetError,
    FieldError,
    FitError,
    InputMissingError,
    LimitError,
    OutputError,
    SetMissingError,
    TokenizerMismatchError,
)
from cdec.core.files.cache import CacheFolder
from cdec.integrations.serving.constraints import ServedConstraints
from cdec.integrations.serving.settings import ServingLimits, ServingSettings
from tests.compilers.child.scarce import without_descriptors
from tools.campaign.scarcity import with_cache_in

CITIES = ["Paris", "Lyon", "Rome", "Bern", "Oslo"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, vocabulary: Vocabulary) -> Path:
    path = tmp_path_factory.mktemp("served")
    compile_set(CITIES, vocabulary, path / "cities.arrow")
    compile_grammar('start: "a"+', vocabulary, path / "letters.arrow")
    return path


def settings_of(folder: Path, **changes: Any) -> ServingSettings:
    given: dict[str, Any] = {
        "artifacts": {name: folder / f"{name}.arrow" for name in ("cities", "letters")},
        "allow": frozenset({"candidates", "grammar", "regex", "schema"}),
        "tokenizer": "embedded",
        "limits": ServingLimits(compile_seconds=60, compile_megabytes=4096),
    }
    return ServingSettings(**given | changes)


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[ServedConstraints]:
    made = ServedConstraints(settings_of(folder))
    yield made
    made.close()


def accepts(constraint: Any, *texts: str) -> list[bool]:
    return [bool(constraint.accepts(text.encode())) for text in texts]


def test_requests_get_what_they_ask_and_equal_ones_share_it(served: ServedConstraints) -> None:
    cases = [
        ({"artifact": "cities"}, ["Oslo", "Bern", "Tokyo"], [True, True, False]),
        ({"artifact": "cities", "deny": ["Bern"]}, ["Oslo", "Bern"], [True, False]),
        ({"artifact": "cities", "candidates": ["Oslo", "Rome"]}, ["Oslo", "Bern"], [True, False]),
        (
            {"artifact": "cities", "candidates": ["Oslo", "Rome"], "deny": ["Rome"]},
            ["Oslo", "Rome"],
            [True, False],
        ),
        ({"artifact": "letters", "deny": ["aa"]}, ["a", "aa", "aaa"], [True, False, True]),
        ({"candidates": ["x", "y"]}, ["x", "z"], [True, False]),
        ({"regex": "[0-9]{2}"}, ["12", "1"], [True, False]),
        ({"grammar": 'start: "b"+', "deny": ["b"]}, ["bb", "b"], [True, False]),
        ({"schema": {"enum": [1, "a"]}}, ["1", '"a"', "2"], [True, True, False]),
    ]
    for value, texts, expected in cases:
        constraint = served.read(value)
        assert accepts(constraint, *texts) == expected, value
        assert served.read(value) is constraint, value


def test_what_is_no_member_or_leaves_nothing_is_refused(served: ServedConstraints) -> None:
    with pytest.raises(FieldError):
        served.read({"artifact": "cities", "candidates": ["Tokyo"]})
    with pytest.raises(FieldError):
        served.read({"artifact": "letters", "candidates": ["a"]})
    with pytest.raises(EmptySetError):
        served.read({"artifact": "cities", "deny": CITIES})


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"regex": "a{1,100001}"}, LimitError),
        ({"regex": "((((a{1,300}){1,300}){1,300}){1,300})"}, CdecError),
        ({"regex": "(" * 5000 + "a" + ")" * 5000}, CdecError),
        ({"regex": "a{-1}(?P<n>"}, CdecError),
        ({"schema": {"type": "string", "minLength": -3}}, CdecError),
        ({"schema": {"type": "array", "minItems": 10**9}}, CdecError),
        ({"schema": {"$ref": "#"}}, CdecError),
        ({"schema": {"$ref": "file:///etc/passwd"}}, CdecError),
        ({"schema": {"type": "string", "pattern": "(a*)*b\\1"}}, CdecError),
        ({"grammar": "start: start start"}, CdecError),
        ({"grammar": '%import .secrets (x)\nstart: "a"'}, CdecError),
        ({"grammar": "%import /etc/passwd (x)\nstart: x"}, CdecError),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_known_holes_of_servers_are_errors_within_the_limits(
    served: ServedConstraints, value: dict[str, Any], error: type[CdecError]
) -> None:
    began = time.monotonic()
    with pytest.raises(error):
        served.read(value)
    assert time.monotonic() - began < 150
    assert accepts(served.read({"artifact": "cities"}), "Oslo") == [True]


def test_a_refused_source_asked_again_and_again_takes_no_memory(
    served: ServedConstraints,
) -> None:
    def refuse(times: int) -> None:
        for _ in range(times):
            with pytest.raises(CdecError, match="unterminated"):
                served.read({"regex": "(ab" * 40})

    refuse(20)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        refuse(400)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100_000


def test_schemas_of_requests_are_compiled_as_the_settings_say(
    folder: Path, vocabulary: Vocabulary
) -> None:
    value = {"schema": {"type": "object", "properties": {"b": {}, "a": {"const": 1}}}}
    compact = {"whitespace": "compact", "property_order": "declared"}
    served = ServedConstraints(settings_of(folder, schema=compact), vocabulary)
    texts = ('{"b":2,"a":1}', '{"b": 2,"a":1}', '{"a":1,"b":2}')
    # ``accepts`` reads JSON by other means; what is decoded are the session's texts.
    session = served.read(value).session()
    after = session.advance_bytes(session.start(3), [text.encode() for text in texts])
    assert session.is_complete(after).tolist() == [True, False, False]
    served.close()


def test_sources_are_compiled_in_less_than_what_an_allocator_would_reserve(
    folder: Path, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    limits = ServingLimits(compile_seconds=60, compile_megabytes=1024)
    settings = settings_of(folder, limits=limits)
    served = with_cache_in(tmp_path, ServedConstraints(settings, vocabulary))
    value = {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    assert accepts(served.read(value), '{"n":1}') == [True]
    assert accepts(served.read({"regex": "[0-9]-[a-z]{3}"}), "1-abc") == [True]
    served.close()


def test_a_huge_enum_is_compiled_or_refused_and_the_server_goes_on(
    served: ServedConstraints,
) -> None:
    value = {"schema": {"enum": [f"value {number}" for number in range(20_000)]}}
    try:
        assert accepts(served.read(value), '"value 77"') == [True]
    except CdecError as error:
        assert error.hint
    assert accepts(served.read({"artifact": "cities"}), "Oslo") == [True]


def test_what_one_process_compiled_another_finds(folder: Path, vocabulary: Vocabulary) -> None:
    value = {"regex": "[a-c]{3}x"}
    with_child = ServedConstraints(settings_of(folder))
    first = with_child.read(value)
    with_child.close()
    other = ServedConstraints(settings_of(folder), vocabulary)
    assert other._sources is not None
    found = other.read(value)
    assert other._sources._child is None
    session, again = first.session(), found.session()
    masks = [np.zeros((1, each.words), np.int32) for each in (session, again)]
    session.fill_mask(session.start(1), masks[0])
    again.fill_mask(again.start(1), masks[1])
    assert (masks[0] == masks[1]).all()


def test_candidates_that_one_process_compiled_another_only_opens(
    folder: Path, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "cdec.integrations.serving.constraints.CacheFolder", partial(CacheFolder, within=tmp_path)
    )
    value = {"candidates": [f"{word} {n}" for word in ("red", "blue") for n in range(50)]}
    first = ServedConstraints(settings_of(folder), vocabulary).read(value)
    other = ServedConstraints(settings_of(folder), vocabulary)
    with monkeypatch.context() as patch:
        patch.setattr("cdec.compilers.sets.compile.compile_set", None)
        found = other.read(value)
        assert other.read(value) is found
    texts = ("blue 7", "red 49", "red 50")
    assert accepts(found, *texts) == accepts(first, *texts) == [True, True, False]


def test_what_is_there_is_given_while_another_request_compiles(
    folder: Path, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ServedConstraints(settings_of(folder), vocabulary)
    known: list[dict[str, Any]] = [
        {"artifact": "cities"},
        {"artifact": "cities", "candidates": ["Oslo", "Rome"]},
        {"artifact": "letters", "deny": ["a"]},
        {"regex": "[0-9]{2}"},
        {"candidates": ["x", "y"]},
    ]
    expected = [served.read(value) for value in known]
    assert served._sources is not None
    begun, answered, compiled = threading.Event(), threading.Event(), served._sources.of

    def slow(text: str, options: Any) -> Any:
        begun.set()
        assert answered.wait(60)
        return compiled(text, options)

    monkeypatch.setattr(served._sources, "of", slow)
    found: list[Any] = []
    new = {"regex": "[0-9]{3}"}
    threads = [threading.Thread(target=lambda: found.append(served.read(new))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    assert all(map(served.has, known)) and not served.has(new)
    assert [served.read(value) for value in known] == expected
    assert accepts(served.read({"artifact": "cities", "deny": ["Oslo"]}), "Oslo") == [False]
    answered.set()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and len(set(found)) == 1
    served.close()


@pytest.mark.share(1)
@pytest.mark.parametrize("value", [{"regex": "[d-f]{4}"}, {"grammar": 'start: "q"+'}])
def test_a_system_that_gives_nothing_is_an_error_with_a_code_and_the_request_may_come_again(
    folder: Path,
    vocabulary: Vocabulary,
    value: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    served = with_cache_in(tmp_path, ServedConstraints(settings_of(folder), vocabulary))
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        with pytest.raises(OutputError):
            served.read(value)
    with without_descriptors(), pytest.raises(OutputError):
        served.read(value)
    with without_descriptors():
        assert accepts(served.read({"artifact": "cities"}), "Oslo") == [True]
    assert served.read(value).session().words > 0
    served.close()


@pytest.mark.share(1)
@pytest.mark.parametrize("damage", [b"", b"ARROW1", None])
def test_a_damaged_file_of_the_cache_is_compiled_and_kept_again(
    folder: Path,
    vocabulary: Vocabulary,
    damage: bytes | None,
    tmp_path: Path,
) -> None:
    value = {"regex": "[a-c]{3}y"}
    first = with_cache_in(tmp_path, ServedConstraints(settings_of(folder), vocabulary))
    first.read(value)
    first.close()
    (kept,) = (tmp_path / "served").iterdir()
    whole = kept.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2 : len(whole) // 2 + 64] = b"\xff" * 64
    kept.write_bytes(bytes(changed) if damage is None else damage)
    again = with_cache_in(tmp_path, ServedConstraints(settings_of(folder), vocabulary))
    assert again.read(value).accepts(b"abcy")
    again.close()
    assert kept.read_bytes() == whole


def test_requests_of_many_threads_are_answered_alike(served: ServedConstraints) -> None:
    found: list[Any] = []
    value = {"artifact": "cities", "candidates": ["Oslo", "Lyon"], "deny": ["Lyon"]}
    threads = [threading.Thread(target=lambda: found.append(served.read(value))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_artifacts_that_are_missing_or_of_another_tokenizer_stop_the_server(
    folder: Path, vocabulary: Vocabulary
) -> None:
    missing = settings_of(folder, artifacts={"none": folder / "none.arrow"})
    with pytest.raises(InputMissingError):
        ServedConstraints(missing)
    other = Vocabulary([bytes([i]) for i in range(60)], [0], [0])
    with pytest.raises(TokenizerMismatchError):
        ServedConstraints(settings_of(folder), other)


def test_without_a_tokenizer_artifacts_are_checked_by_what_they_say_of_themselves(
    folder: Path,
) -> None:
    served = ServedConstraints(settings_of(folder, allow=frozenset(), tokenizer=None))
    assert accepts(served.read({"artifact": "cities", "deny": ["Oslo"]}), "Oslo") == [False]
    assert len(served.all_named()) == 2


def test_a_request_has_free_text_before_its_constraint_or_around_it(
    served: ServedConstraints,
) -> None:
    vocabulary = served.vocabulary
    assert vocabulary is not None

    def follows(asked: dict[str, Any], text: str) -> bool:
        """Whether a text may be written so and end; by the tokenizer's own tokens."""
        session = served.read(asked).session()
        states = session.start(1)
        for token in vocabulary.encode([text])[0]:
            states = session.advance(states, np.array([token]))
        return bool(session.is_complete(states)[0])

    asked = {"artifact": "cities", "after": "Answer:"}
    assert served.read(asked) is served.read(dict(asked))
    assert served.has(asked)
    assert follows(asked, "Let me think. Answer: Paris")
    assert not follows(asked, "Let me think. Answer: Berlin")
    owed = {**asked, "budget": 100}
    assert follows(asked, "no answer") and not follows(owed, "no answer")
    tagged = {"regex": "[ab]+", "between": ["<x>", "</x>"]}
    assert follows(tagged, "one <x>ab</x> two <x>b</x>.")
    assert not follows(tagged, "one <x>c</x>")
    assert follows(tagged, "none") and not follows({**tagged, "regions": 1}, "none")


def test_texts_of_a_request_end_within_its_tokens(served: ServedConstraints) -> None:
    asked = {"grammar": 'start: "(" start ")" | "a"', "fit": 4}
    fitted = served.read(asked)
    assert fitted is served.read(dict(asked)) and served.has(asked)
    assert (fitted.facts.fit, fitted.max_tokens) == ("conservative", 4)
    vocabulary = fitted.vocabulary
    session, opened = fitted.session(), 0
    states, bracket = session.start(1), np.array(vocabulary.encode(["("])[0][-1:])
    while states[0] >= 0:
        states, opened = session.advance(states, bracket), opened + 1
    assert 1 < opened <= 4
    denied = served.read({"artifact": "cities", "deny": ["Oslo"], "fit": 20})
    assert accepts(denied, "Oslo") == [False] and accepts(denied, "Bern") == [True]
    with pytest.raises(FitError, match="within 0 tokens"):
        served.read({"regex": "[ab]+", "fit": 0})


def test_markers_of_a_request_are_bounded(served: ServedConstraints) -> None:
    with pytest.raises(LimitError, match="the limit is 4096"):
        served.read({"artifact": "cities", "after": ["x" * 5000]})


def test_sets_of_the_operator_stand_within_constraints(
    folder: Path, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    grammar = 'start: "in " CITY\n%declare CITY\n'
    compile_grammar(grammar, vocabulary, tmp_path / "within.arrow")
    artifacts, sets = {"within": tmp_path / "within.arrow"}, {"CITY": folder / "cities.arrow"}
    with pytest.raises(SetMissingError):
        ServedConstraints(settings_of(folder, artifacts=artifacts))
    served = ServedConstraints(settings_of(folder, artifacts=artifacts, sets=sets))
    for asked in ({"artifact": "within"}, {"grammar": grammar}):
        constraint = served.read(asked)
        assert constraint.accepts(b"in Paris") is True and served.read(asked) is constraint
        assert constraint.accepts(b"in Prague") is False
    with pytest.raises(SetMissingError, match="'TOWN'"):
        served.read({"grammar": grammar.replace("CITY", "TOWN")})
    for asked in ({"artifact": "within"}, {"grammar": grammar}):
        for chosen, left in (
            (["Paris", "Rome"], [True, True, False]),
            ({"deny": ["Rome"]}, [True, False, True]),
        ):
            narrowed = {**asked, "candidates": {"CITY": chosen}}
            constraint = served.read(narrowed)
            assert accepts(constraint, "in Paris", "in Rome", "in Bern") == left
            assert served.read(narrowed) is constraint
            (fewer,) = accepts(served.read({**narrowed, "deny": ["in Paris"]}), "in Paris")
            assert not fewer
    for candidates, error, said in (
        ({"TOWN": ["Paris"]}, FieldError, "TOWN"),
        ({"CITY": ["Prague"]}, FieldError, "Prague"),
        ({"CITY": {"but": ["Rome"]}}, FieldError, "no list of texts in 'CITY'"),
        ({"CITY": [1]}, FieldError, "no list of texts in 'CITY'"),
        ({"CITY": {"deny": CITIES}}, EmptySetError, "keeps none"),
        ({"CITY": {"deny": ["x"] * 10_001}}, LimitError, "10001 candidates"),
    ):
        with pytest.raises(error, match=said):
            served.read({"artifact": "within", "candidates": candidates})
    with pytest.raises(FieldError, match="names no constraint"):
        served.read({"candidates": {"CITY": ["Paris"]}})
    served.close()


PAGES = [{"id": "a", "text": "One fjord, two."}, {"id": "b", "text": "A river or two."}]
QUOTE = {"type": "string", "x-cdec-span-of": {"field": "page", "whole": "words"}}


def test_texts_of_requests_are_pieces_of_a_corpus(
    folder: Path, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    compile_spans(PAGES, vocabulary, tmp_path / "pages.arrow", whole="words")
    places = {"artifacts": {"pages": tmp_path / "pages.arrow"}}
    places["sets"] = {"pages": tmp_path / "pages.arrow"}
    served = ServedConstraints(settings_of(folder, **places))
    asked: dict[str, Any] = {"artifact": "pages"}
    assert accepts(served.read(asked), "One fjord", "river", "iver") == [True, True, False]
    some = {**asked, "candidates": {"documents": ["b"]}}
    assert accepts(served.read(some), "One fjord", "river") == [False, True]
    assert served.read(some) is served.read(dict(some)) and served.has(some)
    within = {"schema": {"type": "string", "x-cdec-set": "pages"}}
    assert accepts(served.read(within), '"A river"', '"A riv"') == [True, False]
    served.close()


def test_texts_of_requests_quote_their_documents(
    folder: Path, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"q": QUOTE}, "required": ["q"]}
    schema["additionalProperties"] = False
    compile_schema(schema, vocabulary, tmp_path / "quoting.arrow")
    allowed = frozenset({"schema", "document"})
    places = {"quoting": tmp_path / "quoting.arrow"}
    served = ServedConstraints(settings_of(folder, artifacts=places, allow=allowed))
    for held in ({"artifact": "quoting"}, {"schema": schema}):
        asked = {**held, "documents": {"page": "One fjord, two."}}
        constraint = served.read(asked)
        texts = ('{"q": "One fjord"}', '{"q": "fjo"}')
        assert accepts(constraint, *texts) == [True, False]
        assert served.read(dict(asked)) is constraint and served.has(asked)
        (fewer,) = accepts(served.read({**asked, "deny": [texts[0]]}), texts[0])
        assert not fewer
        for documents in ({}, {"body": "x"}, {"page": "x", "body": "x"}):
            with pytest.raises(FieldError, match=r"no documents|no field|does not quote"):
                served.read({**held, "documents": documents})
    own = {"document": {"text": "One fjord, two.", "whole": "words", "longest": 1}}
    assert accepts(served.read(own), "fjord", "One fjord", "f") == [True, False, False]
    assert served.read(own) is served.read(dict(own)) and served.has(own)
    assert accepts(served.read({"document": "abc", "deny": ["b"]}), "ab", "b") == [True, False]
    with pytest.raises(EmptySetError):
        served.read({"document": {"text": ".", "whole": "words"}})
    served.close()


@pytest.mark.parametrize("field", ["span_of", "tools", "thinking", "refs"])
def test_what_requests_cannot_ask_is_refused_by_name(served: ServedConstraints, field: str) -> None:
    with pytest.raises(FieldError, match=f"unknown fields .'{field}'") as caught:
        served.read({"artifact": "cities", field: 1})
    assert "known are artifact, candidates" in (caught.value.hint or "")


def test_settings_name_sets(tmp_path: Path) -> None:
    file = tmp_path / "serving.toml"
    file.write_text('[sets]\nCITY = "cities.arrow"\n')
    assert ServingSettings.from_file(file).sets == {"CITY": tmp_path / "cities.arrow"}
    file.write_text("[sets]\nCITY = 1\n")
    with pytest.raises(ConfigError, match="`sets` is no table of paths"):
        ServingSettings.from_file(file)
