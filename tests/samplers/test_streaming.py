"""Texts handed out while they are decoded: their pieces are the fields of the samples."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cdec.compilers import grammar_constraint, regex_constraint, schema_constraint, set_constraint
from cdec.core.combine.conjunction import conjoin
from cdec.core.combine.denial import deny
from cdec.core.combine.free_text import FreeText
from cdec.core.errors import CdecError, UsageError
from cdec.core.models.tabular import TabularModel
from cdec.core.sample import Sample
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.samplers import SAMPLERS, Request
from cdec.samplers.registry import METHODS
from cdec.samplers.request import TextPart
from cdec.samplers.streaming import FREE_TEXT, STREAMED, TEXT, GrowingTexts, Piece, _Growing
from tests.core.spelling.tokenizers_small import tokenizer_named
from tests.laws.sizes import heavy_or

E_ACUTE = "\u00e9".encode()
TOKENS = [b"a", b"b", b"ab", b"1", b'"', E_ACUTE[:1], E_ACUTE[1:], b"a" + E_ACUTE[:1], b" ", b"x"]
VOCABULARY = Vocabulary([*TOKENS, b""], [len(TOKENS)], [len(TOKENS)])
ITSELF = "the model itself"
"""Stands for a draft whose proposals are all taken."""
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "masked": [{}, {"top_m": 6}, {"opportunistic": True}, {"draft": "prompt-lookup", "gamma": 2}],
    "greedy": [{}, {"draft": ITSELF, "gamma": 3}, {"opportunistic": True}],
    "speculative": [
        {"draft": "counts"},
        {"draft": ITSELF, "gamma": 3},
        {"draft": ITSELF, "gamma": 3, "greedy": True},
    ],
}
CASES = [(name, options) for name, several in OPTIONS.items() for options in several]


def model(seed: int = 0) -> TabularModel:
    """Return a model with laws of its own at every prefix."""

    def law(prefix: tuple[int, ...]) -> Any:
        rng = np.random.default_rng([seed, *prefix])
        return rng.dirichlet(np.full(VOCABULARY.width, 0.4))

    return TabularModel(law, VOCABULARY)


CONSTRAINTS: dict[str, Any] = {
    "none": None,
    "any": regex_constraint('[ab1"]*', VOCABULARY),
    "regex": regex_constraint("(a|\u00e9|ab){2,5}", VOCABULARY),
    "grammar": grammar_constraint('start: "a" start "b" | "\u00e9" | "1"+', VOCABULARY),
    "schema": schema_constraint({"enum": ["a\u00e9", "ab", 1]}, VOCABULARY),
    "conjoined": conjoin(
        regex_constraint("[ab]{1,4}", VOCABULARY), regex_constraint(".*b", VOCABULARY)
    ),
    "denied": deny(regex_constraint("[ab]{1,3}", VOCABULARY), [b"ab", b"a"]),
}


class Pieces:
    """What was handed out, by draw: of texts, and of what stands before their constraint."""

    def __init__(self) -> None:
        self.of: dict[tuple[object, int], list[str]] = {}
        self.free: dict[tuple[object, int], list[str]] = {}
        self.done: list[tuple[object, int]] = []
        self.again: list[tuple[object, int]] = []

    def take(self, piece: Piece) -> None:
        key = piece.id, piece.index
        assert key not in self.done
        assert piece.part == TEXT or key not in self.of
        {TEXT: self.of, FREE_TEXT: self.free}[piece.part].setdefault(key, []).append(piece.text)
        if piece.is_last:
            self.done.append(key)
        if piece.is_shown:
            self.again.append(key)


def streamed(
    method: str, options: dict[str, Any], given: Any, requests: Sequence[Request]
) -> tuple[Pieces, list[Sample]]:
    """Return the pieces and the samples, which are those that are drawn without."""
    pieces = Pieces()
    if options.get("draft") == ITSELF:
        options = options | {"draft": given}
    sampler = SAMPLERS[method](**options)
    results = sampler.draw_batch(given, requests, observer=GrowingTexts(method, pieces.take))
    found: list[Sample] = []
    for result in results:
        assert not isinstance(result, CdecError), result
        found += result
    without = SAMPLERS[method](**options).draw_batch(given, requests)
    assert [each.to_json() for result in without for each in result] == [
        each.to_json() for each in found
    ]
    return pieces, found


@pytest.mark.share(24)
@pytest.mark.parametrize("kind", CONSTRAINTS)
@pytest.mark.parametrize(("method", "options"), CASES)
def test_pieces_joined_are_the_text(method: str, options: dict[str, Any], kind: str) -> None:
    constraint = CONSTRAINTS[kind]
    if constraint is None and METHODS[method].needs_constraint:
        pytest.skip("the method needs a constraint")
    for seed in range(heavy_or(2, 6)):
        requests = [
            Request.numbered([3, 0, 2], constraint, id=name, n=n, seed=seed, max_new_tokens=7)
            for name, n in (("one", 3), (2, 1))
        ]
        pieces, found = streamed(method, options, model(seed), requests)
        expected = {(each.id, each.index): each.text for each in found}
        assert {key: "".join(parts) for key, parts in pieces.of.items()} == expected
        assert pieces.done == list(expected)


def test_pieces_come_as_tokens_are_drawn_and_hold_whole_characters() -> None:
    law = {(): 5, (5,): 6, (5, 6): 7, (5, 6, 7): 6, (5, 6, 7, 6): 10}

    def certain(prefix: tuple[int, ...]) -> Any:
        return np.eye(VOCABULARY.width)[law[prefix]]

    request = Request.numbered([], None, id="r")
    pieces, (sample,) = streamed("masked", {}, TabularModel(certain, VOCABULARY), [request])
    assert pieces.of[("r", 0)] == ["\u00e9", "a", "\u00e9", ""]
    assert sample.text == "\u00e9a\u00e9"


FREE = {
    "after": FreeText(("b",)),
    "several": FreeText(("ab", "1a", "a")),
    "forced": FreeText(("xa",), budget=2),
    "thinking": FreeText(("a",), budget=3, thinking=FreeText(("1", "b"), budget=2)),
    "closed": FreeText(("a",), budget=2, closing=" x"),
    "optional": FreeText(("b1",), optional=True),
    "between": FreeText(between=("a", "x")),
    "regions": FreeText(between=("b", "\u00e9"), budget=2, regions=2, thinking=FreeText(("1",))),
}


@pytest.mark.share("kind", "free")
@pytest.mark.parametrize("free", FREE)
@pytest.mark.parametrize("kind", sorted(set(CONSTRAINTS) - {"none"}))
@pytest.mark.parametrize(("method", "options"), CASES)
def test_pieces_of_parts_joined_are_the_fields(
    method: str, options: dict[str, Any], kind: str, free: str
) -> None:
    for seed in range(heavy_or(2, 12)):
        requests = [
            Request.numbered(
                [3, 0, 2],
                CONSTRAINTS[kind],
                id=name,
                n=n,
                first=first,
                seed=seed,
                max_new_tokens=most,
                free=asked,
            )
            for name, n, first, most, asked in (
                ("one", 3, 0, 12, FREE[free]),
                ("plain", 2, 0, 7, None),
                (2, 2, 5, 9, FREE[free]),
            )
        ]
        pieces, found = streamed(method, options, model(seed), requests)
        for each in found:
            key = each.id, each.index
            assert "".join(pieces.of[key]) == (each.text or ""), each
            assert "".join(pieces.free.get(key, [])) == each.diagnostics.get("free_text", "")
            came = each.diagnostics.get("marker", "")
            assert (key in pieces.again) == (came is None)
        assert sorted(map(str, pieces.done)) == sorted(str((e.id, e.index)) for e in found)


def test_free_text_comes_as_its_tokens_are_drawn() -> None:
    law = {(): 1, (1,): 9, (1, 9): 7, (1, 9, 7): 6, (1, 9, 7, 6): 2, (1, 9, 7, 6, 2): 1}

    def certain(prefix: tuple[int, ...]) -> Any:
        return np.eye(VOCABULARY.width)[law.get(prefix, 10)]

    constraint = regex_constraint("b(b|1)", VOCABULARY)
    free = FreeText(("\u00e9a",))
    request = Request.numbered([], constraint, id="r", free=free)
    pieces, (sample,) = streamed("masked", {}, TabularModel(certain, VOCABULARY), [request])
    # The last token of the marker goes on as the member does.
    assert pieces.free["r", 0] == ["b", "x", "a", "\u00e9", "a"]
    assert pieces.of["r", 0] == ["bb", ""]
    assert (sample.text, sample.diagnostics["free_text"]) == ("bb", "bxa\u00e9a")


@pytest.mark.parametrize("method", ["masked", "greedy"])
def test_guesses_that_are_taken_together_come_as_one_piece(method: str) -> None:
    cycle = [0, 1, 3, 4]
    law = np.full((len(cycle), VOCABULARY.width), 1e-9)
    law[np.arange(len(cycle)), cycle] = 1

    def repeating(prefix: tuple[int, ...]) -> Any:
        return law[len(prefix) % len(cycle)] / law[0].sum()

    request = Request.numbered(cycle * 6, CONSTRAINTS["any"], id="r", n=2, max_new_tokens=13)
    given = TabularModel(repeating, VOCABULARY)
    pieces, found = streamed(method, {"draft": "prompt-lookup", "gamma": 4}, given, [request])
    for each in found:
        assert each.text == 'ab1"ab1"ab1"a' == "".join(pieces.of["r", each.index])
        assert max(map(len, pieces.of["r", each.index])) > 1


@pytest.mark.parametrize(
    "made", [{}, {"prefix": "<", "suffix": ">>"}, {"leading_space": "both"}, {"suffix": "!"}]
)
def test_forced_parts_of_sets_are_no_part_of_pieces(embedded_model: Any, made: Any) -> None:
    texts = ["Paris", "Paris, Texas", "S\u00e3o Paulo", "Rome"]
    constraint = set_constraint(texts, embedded_model.vocabulary, **made)
    for method, options in (("masked", {}), ("speculative", {"draft": "prompt-lookup"})):
        requests = [Request.numbered("A city:", constraint, id=name, n=3) for name in "ab"]
        pieces, found = streamed(method, options, embedded_model, requests)
        for each in found:
            assert "".join(pieces.of[each.id, each.index]) == each.text
        if "leading_space" not in made:
            assert max(len([p for p in parts if p]) for parts in pieces.of.values()) > 1


def test_a_batch_that_is_drawn_anew_gives_no_piece_twice() -> None:
    calls: list[tuple[int, ...]] = []

    def law(prefix: tuple[int, ...]) -> Any:
        calls.append(prefix)
        if len(calls) == 4:
            raise CdecError("the model failed once")
        return np.eye(VOCABULARY.width)[0 if len(prefix) < 5 else 10]

    requests = [Request.numbered([], None, id=name) for name in "xy"]
    pieces = Pieces()
    observer = GrowingTexts("masked", pieces.take)
    given = TabularModel(law, VOCABULARY)
    results = SAMPLERS["masked"]().draw_batch(given, requests, observer=observer)
    for name, result in zip("xy", results, strict=True):
        assert not isinstance(result, CdecError)
        assert "".join(pieces.of[name, 0]) == result[0].text == "aaaaa"


@pytest.mark.share(1)
@pytest.mark.parametrize("made", [{}, {"prefix": "<", "suffix": ">>"}, {"suffix": "!"}])
def test_forced_parts_of_sets_behind_free_text_are_no_part_of_pieces(
    embedded_model: Any, made: Any
) -> None:
    constraint = set_constraint(["Paris", "S\u00e3o Paulo"], embedded_model.vocabulary, **made)
    for free in (FreeText((":", "e")), FreeText(("a",), budget=3, closing=" ok")):
        requests = [
            Request.numbered("A city", constraint, id=name, n=3, max_new_tokens=30, free=free)
            for name in "ab"
        ]
        pieces, found = streamed("masked", {}, embedded_model, requests)
        for each in found:
            assert "".join(pieces.of[each.id, each.index]) == (each.text or ""), each
            assert "".join(pieces.free[each.id, each.index]) == each.diagnostics["free_text"]


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(STREAMED)))
def test_methods_that_choose_among_texts_are_refused(method: str) -> None:
    with pytest.raises(UsageError, match="cannot be streamed"):
        GrowingTexts(method, lambda *_: None)


KINDS = ("gpt2", "qwen", "runs", "pieces", "metaspace", "embedded")
"""Tokenizers of bytes, with byte fallback, escaped and merged spaces, special and added tokens."""


@pytest.mark.parametrize("name", KINDS)
def test_free_text_is_decoded_token_by_token_as_it_is_as_a_whole(name: str) -> None:
    vocabulary = tokenizer_named(name)
    rng = np.random.default_rng(5)
    part = TextPart(FreeText(after=("\u2063|never|",)), True)
    asked = Request([1], None, [0], part=part)
    texts = ["Zu\u0308rich: \u6771\u4eac  \U0001f600\n\n", " a  b", "\u00e9" * 9]
    rows = [rng.integers(0, vocabulary.size, 60).tolist() for _ in range(heavy_or(20, 200))]
    rows += [[*vocabulary.encode([text])[0], *rows[0]] for text in texts]
    for row in rows:
        growing, found = _Growing(vocabulary), ""
        for place, token in enumerate(row):
            growing.put(place, token, asked)
            found += "".join(new for _, new in growing.pieces(asked))
            whole = vocabulary.decode(row[: place + 1])
            assert found == codecs.getincrementaldecoder("utf-8")("replace").decode(whole)
            assert growing.length(FREE_TEXT) == len(found)
        # What is drawn anew is no new piece, and what follows it is.
        cut = len(row) // 2
        for place, token in enumerate(row[cut:], cut):
            growing.put(place, token, asked)
            assert list(growing.pieces(asked)) == []
        growing.put(len(row), token := vocabulary.encode(["x"])[0][0], asked)
        found += "".join(new for _, new in growing.pieces(asked))
        whole = vocabulary.decode([*row, token])
        assert found == codecs.getincrementaldecoder("utf-8")("replace").decode(whole)


def test_a_token_of_free_text_costs_by_its_own_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def counted(self: Vocabulary, token_ids: Any) -> bytes:
        decoded.append(len(list(token_ids)))
        return b"a\xc3\xa9"[: len(list(token_ids)) * 3]

    monkeypatch.setattr(Vocabulary, "decode", counted)
    part = TextPart(FreeText(after=("|",)), True)
    growing, asked, most = _Growing(VOCABULARY), Request([1], None, [0], part=part), 0
    for place in range(4000):
        growing.put(place, 0, asked)
        (sure,) = growing._sure(asked)
        shown = growing.shown.get(FREE_TEXT)
        most = max(most, len(sure.after(0 if shown is None else shown.fed, growing.data)))
        assert "".join(new for _, new in growing.pieces(asked)) == "a\u00e9"
    assert most == 3 and max(decoded) == 1 and len(decoded) == 4000


@pytest.mark.parametrize(
    "made", [lambda one: one, lambda one: conjoin(one, one), lambda one: deny(one, [b"bbb"])]
)
def test_a_token_of_a_member_costs_by_its_own_bytes(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint = made(regex_constraint("[ab]*", VOCABULARY))
    letter = VOCABULARY.token_bytes.index(b"a")
    begun = constraint.member_text(()).decode()
    decoded, decode = list[int](), Vocabulary.decode

    def counted(self: Vocabulary, token_ids: Any) -> bytes:
        decoded.append(len(list(token_ids)))
        return decode(self, token_ids)

    monkeypatch.setattr(Vocabulary, "decode", counted)
    growing, asked = _Growing(VOCABULARY), Request([1], constraint, [0])
    for place in range(1000):
        growing.put(place, letter, asked)
        new = "".join(new for _, new in growing.pieces(asked))
        assert new == (begun if place == 0 else "") + "a"
    assert max(decoded) <= 2 and sum(decoded) < 4000
