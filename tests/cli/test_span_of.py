"""Texts that are pieces of a field of their record, on the command line."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Runner, jsonl

PAGE = "Lyon lies on two rivers. The Rhône is the longer one. Its people like to eat."
RUN = ("sample", "--span-of", "page", "--method", "masked")


@pytest.mark.usefixtures("loaded")
def test_texts_are_pieces_of_their_records_documents(cdec: Runner) -> None:
    other = "Nothing of it. But this!"
    records = jsonl(
        {"id": 1, "prompt": "A river:", "page": PAGE, "n": 8},
        {"id": 2, "prompt": "A river:", "page": other, "n": 8},
        {"id": 3, "prompt": "A river:", "page": "no", "candidates": ["yes", "maybe"]},
    )
    result = cdec(*RUN, "--span-whole", "sentences", stdin=records)
    assert result.status == 0, result.stderr
    pages = {1: PAGE, 2: other}
    for record in result.records:
        if record["id"] == 3:
            assert record["text"] in ("yes", "maybe") and "span" not in record
            continue
        page, span = pages[record["id"]], record["span"]
        assert span["field"] == "page" and span["places"] == 1
        assert page[span["offset"] :][: span["length"]] == record["text"]
        assert record["valid"] and record["text"].endswith((".", "!"))
        assert record["input"] == {"page": page}
    apart = cdec(*RUN, "--span-whole", "sentences", "--batch-size", 1, stdin=records)
    assert [one["text"] for one in apart.records] == [one["text"] for one in result.records]


@pytest.mark.usefixtures("loaded")
def test_numbers_of_words_narrow_the_pieces(cdec: Runner) -> None:
    records = jsonl({"id": 1, "prompt": "A river:", "page": PAGE, "n": 20})
    words = ("--span-whole", "words", "--span-shortest", 2, "--span-longest", 3)
    result = cdec(*RUN, *words, "--fields", "text", stdin=records)
    texts = [record["text"] for record in result.records]
    assert len(texts) == 20 and {len(text.split()) for text in texts} <= {2, 3}
    assert all(text in PAGE for text in texts)


@pytest.mark.usefixtures("loaded")
def test_records_without_a_document_become_errors_in_their_places(cdec: Runner) -> None:
    records = jsonl(
        {"id": 1, "prompt": "x"},
        {"id": 2, "prompt": "x", "page": [PAGE]},
        {"id": 3, "prompt": "x", "page": ""},
        {"id": 4, "prompt": "x", "page": "yes"},
    )
    result = cdec(*RUN, "--fields", "id,text", stdin=records)
    codes = [record["error"]["code"] for record in result.records[:3]]
    assert codes == ["E_FIELD", "E_FIELD", "E_EMPTY_SET"]
    assert result.records[3]["text"] in "yes" and result.status == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--prompt", "x"), "--prompt gives a text and no fields"),
        (("-a", "cities.arrow"), "each say what texts are held to"),
        (("--regex", "[a-z]"), "each say what texts are held to"),
        (("--span-shortest", 3, "--span-longest", 2), "have more than 2"),
        (("--span-longest", 0), "expected at least 1"),
    ],
)
def test_what_contradicts_a_document_is_refused(
    cdec: Runner, words: tuple[object, ...], said: str
) -> None:
    result = cdec(*RUN, *words, stdin=jsonl({"id": 1, "prompt": "x", "page": PAGE}))
    assert result.status == 2 and said in result.stderr


def test_words_of_spans_mean_nothing_without_a_field(cdec: Runner) -> None:
    result = cdec("sample", "--span-whole", "words", "--prompt", "x")
    assert result.status == 2 and "--span-whole means nothing without --span-of" in result.stderr
