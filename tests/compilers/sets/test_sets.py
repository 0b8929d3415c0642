"""Sets compiled to artifacts and to constraints."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdec.compilers import SetReport, compile_set, set_constraint
from cdec.core import Vocabulary, open_artifact
from cdec.core.artifacts.opened import read_artifact
from cdec.core.errors import EmptySetError, FieldError, UntokenizableError, UsageError
from cdec.core.progress import Stage
from cdec.core.sets.entities import EntityBatch
from cdec.core.sets.set_constraint import SetConstraint
from tests.compilers.sets.small_tokenizers import byte_level, lossy
from tests.laws.worlds import toy_a

# --- compile_set: texts become rows that decode to them, with sources, ids, counts and notices.

TITLES = ["Paris", "Parish", "New York", "New York City", "London Bridge", "München \U0001f600"]


def compiled(
    tmp_path: Path, lines: Any, vocabulary: Vocabulary | None = None, **options: Any
) -> tuple[SetReport, SetConstraint]:
    """Compile and open again."""
    vocabulary = vocabulary or byte_level()
    path = tmp_path / "set.arrow"
    report = compile_set(lines, vocabulary, path, force=True, **options)
    constraint = open_artifact(path, vocabulary=vocabulary)
    assert isinstance(constraint, SetConstraint)
    return report, constraint


def row_bytes(constraint: SetConstraint) -> list[bytes]:
    """The bytes of all rows, in row order."""
    arrays = constraint.arrays
    return [constraint.vocabulary.decode(arrays.row(r)) for r in range(arrays.n_rows)]


def codes(report: SetReport) -> list[str]:
    return [notice.code for notice in report.notices]


def test_rows_are_the_members_canonical_tokens_in_order(tmp_path: Path) -> None:
    report, constraint = compiled(tmp_path, TITLES)
    expected = sorted(byte_level().encode([" " + title for title in TITLES]))
    arrays = constraint.arrays
    assert [arrays.row(r).tolist() for r in range(arrays.n_rows)] == expected
    assert (report.entities, report.rows, report.duplicates) == (6, 6, 0)
    assert report.tokens == sum(map(len, expected))
    assert report.longest == max(map(len, expected))
    assert report.nodes == arrays.n_nodes
    assert report.bytes == (tmp_path / "set.arrow").stat().st_size


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    texts=st.lists(st.text(max_size=5), min_size=1, max_size=12),
    space=st.sampled_from(["always", "never"]),
    prefix=st.sampled_from(["", "Entity: <", "é"]),
    suffix=st.sampled_from(["", ">", " end"]),
)
def test_members_are_exactly_the_texts(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], space: str, prefix: str, suffix: str
) -> None:
    options: dict[str, Any] = {"leading_space": space, "prefix": prefix, "suffix": suffix}
    folder = tmp_path_factory.mktemp("sets")
    report, constraint = compiled(folder, texts, keep_empty=True, **options)
    lines = defaultdict(list)
    for number, text in enumerate(texts, 1):
        lines[text.encode()].append(str(number))
    for text, numbers in lines.items():
        assert constraint.annotations(text) == {"entity_ids": numbers}
    decoded = {constraint.member_text(constraint.arrays.row(r)) for r in range(len(lines))}
    assert decoded == set(lines)
    assert report.entities == len(lines)
    assert report.duplicates == len(texts) - len(lines)
    for text in [b"", b" ", b"\x00", "é".encode(), *(text + b"x" for text in lines)]:
        assert constraint.accepts(text) == (text in lines)


def test_duplicates_keep_all_their_sources(tmp_path: Path) -> None:
    report, constraint = compiled(tmp_path, ["a", "b", "a", "a", "b"])
    assert (report.entities, report.duplicates) == (2, 3)
    assert codes(report) == ["W_DUPLICATES"]
    assert report.notices[0].details == {"count": 3}
    assert constraint.annotations(b"a") == {"entity_ids": ["1", "3", "4"]}
    assert constraint.annotations(b"b") == {"entity_ids": ["2", "5"]}


def test_ids_of_mappings_become_entity_ids(tmp_path: Path) -> None:
    lines = [{"id": "Q90", "text": "Paris"}, {"id": 7, "text": "Paris"}, {"text": "Rome"}, "Oslo"]
    _, constraint = compiled(tmp_path, lines)
    assert constraint.annotations(b"Paris") == {"entity_ids": ["Q90", "7"]}
    assert constraint.annotations(b"Rome") == {"entity_ids": ["3"]}
    assert constraint.annotations(b"Oslo") == {"entity_ids": ["4"]}


def test_batches_carry_their_own_lines_and_ids(tmp_path: Path) -> None:
    batches = [
        EntityBatch(["x", "y"], [10, 20]),
        EntityBatch(["z", "x"], [30, 40], ids=["Z", "X"]),
    ]
    _, constraint = compiled(tmp_path, batches)
    assert constraint.annotations(b"x") == {"entity_ids": ["10", "X"]}
    assert constraint.annotations(b"y") == {"entity_ids": ["20"]}
    assert constraint.annotations(b"z") == {"entity_ids": ["Z"]}


def test_source_without_ids_stores_none(tmp_path: Path) -> None:
    compiled(tmp_path, ["a", "b"])
    arrays = read_artifact(tmp_path / "set.arrow").arrays
    assert len(arrays["id_offsets"]) == len(arrays["id_bytes"]) == 0


def test_prefix_and_suffix_are_tokenised_together_with_the_member(tmp_path: Path) -> None:
    _, constraint = compiled(tmp_path, ["Paris"], prefix="entity <", suffix=">")
    assert constraint.arrays.tokens.tolist() == byte_level().encode(["entity <Paris>"])[0]
    assert constraint.member_text(constraint.arrays.row(0)) == b"Paris"
    assert constraint.facts.ends_itself


@pytest.mark.parametrize(
    ("prefix", "decided"),
    [
        ("", "always"),
        ("Entity:", "always"),
        ("x", "always"),
        ("Entity: ", "never"),
        ("\n", "never"),
        (" <", "never"),
        ('say "', "never"),
        ("(", "never"),
        ("«", "never"),
    ],
)
def test_automatic_leading_space_is_decided_and_recorded(
    tmp_path: Path, prefix: str, decided: str
) -> None:
    report, constraint = compiled(tmp_path, ["Paris"], prefix=prefix)
    assert report.options["leading_space"] == decided
    assert report.options["leading_space_requested"] == "auto"
    space = " " if decided == "always" else ""
    assert row_bytes(constraint) == [f"{prefix}{space}Paris".encode()]
    recorded = json.loads(read_artifact(tmp_path / "set.arrow").metadata["cdec.options"])
    assert recorded == report.options


def test_both_forms_are_one_entity(tmp_path: Path) -> None:
    report, constraint = compiled(tmp_path, ["Paris", "Rome", "Paris"], leading_space="both")
    assert sorted(row_bytes(constraint)) == [b" Paris", b" Rome", b"Paris", b"Rome"]
    assert (report.entities, report.rows, report.duplicates) == (2, 4, 1)
    assert len(constraint.rows.of_text(b"Paris")) == 2
    assert constraint.annotations(b"Paris") == {"entity_ids": ["1", "3"]}


def test_empty_member_of_both_forms_is_one_row(tmp_path: Path) -> None:
    report, constraint = compiled(tmp_path, ["", "x"], leading_space="both", keep_empty=True)
    assert sorted(row_bytes(constraint)) == [b"", b" x", b"x"]
    assert (report.entities, report.duplicates) == (2, 0)
    assert constraint.annotations(b"") == {"entity_ids": ["1"]}


def test_blank_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    report, constraint = compiled(tmp_path, ["", "a", "  \t", "a "])
    assert (report.entities, report.blank) == (2, 2)
    assert codes(report) == ["W_BLANK_LINES"]
    assert constraint.accepts(b"a ")
    assert constraint.annotations(b"a") == {"entity_ids": ["2"]}


def test_kept_empty_member_is_complete_at_the_root(tmp_path: Path) -> None:
    report, constraint = compiled(tmp_path, ["", "a"], keep_empty=True)
    session = constraint.session()
    assert session.is_complete(session.start(1)).tolist() == [True]
    assert report.entities == 2
    assert constraint.accepts(b"")


@pytest.mark.parametrize("lines", [[], [""], ["\n", " "]])
def test_set_without_members_is_an_error(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(EmptySetError):
        compile_set(lines, byte_level(), tmp_path / "set.arrow")
    assert list(tmp_path.iterdir()) == []


def test_denied_texts_are_no_members(tmp_path: Path) -> None:
    report, constraint = compiled(tmp_path, TITLES, deny=["Paris", "unknown"])
    assert report.denied == 1
    assert not constraint.accepts(b"Paris")
    assert constraint.accepts(b"Parish")


def test_everything_denied_is_an_empty_set(tmp_path: Path) -> None:
    with pytest.raises(EmptySetError, match="1 denied"):
        compile_set(["a"], byte_level(), tmp_path / "set.arrow", deny=["a"])


def test_normal_forms_join_texts_and_say_so(tmp_path: Path) -> None:
    composed, decomposed, wide = "é", "e\u0301", "ｅ\u0301"
    lines = [composed, decomposed, wide]
    report, constraint = compiled(tmp_path, lines)
    assert (report.entities, codes(report)) == (3, [])
    report, constraint = compiled(tmp_path, lines, normalize="nfc")
    assert report.entities == 2
    assert codes(report) == ["W_DUPLICATES", "W_NORMALISATION"]
    assert report.notices[1].details == {"members": 1}
    assert constraint.annotations(composed.encode()) == {"entity_ids": ["1", "2"]}
    report, constraint = compiled(tmp_path, [*lines, composed], normalize="nfkc")
    assert report.entities == 1
    assert report.notices[1].details == {"members": 1}


def test_plain_duplicates_are_no_normalisation(tmp_path: Path) -> None:
    report, _ = compiled(tmp_path, ["a", "a"], normalize="nfc")
    assert codes(report) == ["W_DUPLICATES"]


def test_deny_list_is_normalised_as_the_texts_are(tmp_path: Path) -> None:
    report, _ = compiled(tmp_path, ["é", "x"], normalize="nfc", deny=["e\u0301"])
    assert report.denied == 1


def test_newlines_that_are_part_of_members_are_noticed(tmp_path: Path) -> None:
    assert codes(compiled(tmp_path, ["a\n", "b\n"])[0]) == ["W_LINE_ENDS"]
    assert codes(compiled(tmp_path, ["a\n", "b"])[0]) == []


def test_metadata_names_source_and_vocabulary(tmp_path: Path) -> None:
    compiled(tmp_path, TITLES, source="../titles \x1b[2J.txt")
    metadata = read_artifact(tmp_path / "set.arrow").metadata
    vocabulary = byte_level()
    assert metadata["cdec.source"] == "../titles \x1b[2J.txt"
    assert metadata["cdec.vocabulary_hash"] == vocabulary.vocabulary_hash
    assert metadata["cdec.tokenization_hash"] == vocabulary.tokenization_hash
    assert metadata["cdec.vocabulary_size"] == str(vocabulary.size)
    assert json.loads(metadata["cdec.eos"]) == list(vocabulary.eos_token_ids)
    assert len(metadata["cdec.source_hash"]) == 64


def test_source_hash_tells_sources_apart(tmp_path: Path) -> None:
    hashes = []
    for lines in (["a", "b"], ["a", "b"], ["b", "a"], ["ab"]):
        compiled(tmp_path, lines)
        hashes.append(read_artifact(tmp_path / "set.arrow").metadata["cdec.source_hash"])
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_progress_tells_every_phase_in_order(tmp_path: Path) -> None:
    told: list[Stage] = []
    compiled(tmp_path, TITLES, progress=told.append)
    names = ["tokenizing", "sorting", "building the trie", "indexing texts", "writing"]
    assert [stage.name for stage in told] == names
    assert told[0] == Stage("tokenizing", 6, None, "entities")
    # What cannot say how far it is counts nothing.
    assert {stage.unit for stage in told[1:]} == {""}


def test_report_has_the_seconds_of_every_phase(tmp_path: Path) -> None:
    report, _ = compiled(tmp_path, TITLES)
    expected = {"read", "tokenize", "sort", "trie", "index", "write", "total"}
    assert set(report.seconds) == expected
    assert all(seconds >= 0 for seconds in report.seconds.values())


def test_many_batches_are_one_set(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    numbers = rng.integers(0, 30_000, size=70_000).tolist()
    report, constraint = compiled(tmp_path, (f"Paris {number}" for number in numbers))
    assert report.entities == len(set(numbers))
    assert report.duplicates == len(numbers) - len(set(numbers))
    last = f"Paris {numbers[-1]}".encode()
    lines = [str(i) for i, number in enumerate(numbers, 1) if number == numbers[-1]]
    assert constraint.annotations(last) == {"entity_ids": lines}


# --- set_constraint: a list of texts as a constraint without a file, equal to the one compiled
# to.

TEXTS = ["Paris", "Parish", "New York", "München \U0001f600", "Paris"]


def made(texts: Any, **options: Any) -> SetConstraint:
    constraint = set_constraint(texts, byte_level(), **options)
    assert isinstance(constraint, SetConstraint)
    return constraint


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=12),
    space=st.sampled_from(["auto", "always", "never"]),
    prefix=st.sampled_from(["", "Entity: <"]),
    suffix=st.sampled_from(["", ">"]),
    normalize=st.sampled_from(["none", "nfc"]),
)
@pytest.mark.slow
def test_it_is_what_the_file_opens_as(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], space: str, **options: Any
) -> None:
    options["leading_space"] = space
    path = tmp_path_factory.mktemp("sets") / "set.arrow"
    compile_set(texts, byte_level(), path, keep_empty=True, **options)
    opened = open_artifact(path, vocabulary=byte_level())
    assert isinstance(opened, SetConstraint)
    mine = made(texts, keep_empty=True, **options)
    for name, array in opened.arrays.to_mapping().items():
        assert np.array_equal(array, mine.arrays.to_mapping()[name])
    for text in texts:
        assert mine.annotations(text.encode()) == opened.annotations(text.encode())
        assert mine.accepts(text.encode()) == opened.accepts(text.encode())
    left_out = {"cdec.digest", "cdec.version", "cdec.format"}
    assert {k: v for k, v in opened.metadata.items() if k not in left_out} == {
        k: v for k, v in mine.metadata.items() if k not in left_out
    }
    assert mine.summary()["kind"] == mine.facts.kind


def test_ids_come_from_mappings() -> None:
    constraint = made([{"text": "Paris", "id": "Q90"}, {"text": "Paris", "id": 5}, "Rome"])
    assert constraint.annotations(b"Paris") == {"entity_ids": ["Q90", "5"]}
    assert constraint.annotations(b"Rome") == {"entity_ids": ["3"]}


def test_its_arrays_are_read_only_and_its_digest_tells_sets_apart() -> None:
    one, again, other = made(TEXTS), made(TEXTS), made(TEXTS[1:3])
    assert not one.arrays.tokens.flags.writeable
    digests = [each.metadata["cdec.digest"] for each in (one, again, other)]
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 64


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made(TEXTS)
    assert not list(tmp_path.iterdir())


def test_refusals_are_those_of_compile_set() -> None:
    with pytest.raises(EmptySetError):
        made([])
    with pytest.raises(EmptySetError):
        made([" ", ""])
    with pytest.raises(FieldError):
        made([{"texts": "Paris"}])
    with pytest.raises(UsageError):
        made("Paris")
    with pytest.raises(UntokenizableError):
        set_constraint(["Été"], lossy())
    with pytest.raises(UsageError, match="no tokenizer"):
        set_constraint(["a"], toy_a().vocabulary)
    with pytest.raises(UsageError, match="leading_space"):
        made(TEXTS, leading_space="perhaps")
