"""Findings over catalogues: records from data, laws of top-M masks, tries, and their checks."""

from __future__ import annotations

import lzma
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from cdec.integrations.findings import answers, disambiguation, enumeration, retrieval, top_m, trie
from cdec.integrations.findings.disc import slack
from cdec.integrations.findings.finding import Found
from cdec.integrations.findings.laboratory import Laboratory
from cdec.integrations.findings.mentions import NearTitles, hits, mentions
from cdec.integrations.findings.tasks import (
    claim_is_held_out,
    query_is_held_out,
    query_prompt,
)
from cdec.integrations.findings.top_m import law_of, verified, world
from cdec.integrations.findings.worlds import toy_b
from cdec.samplers.registry import SAMPLERS

TOY = toy_b()
TITLES = ["Paris", "Paris, Texas", "Paris Hilton", "Hilton", "London"]


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    document = {
        "doc": "KORE50",
        "text": "Hilton came from Paris to see Paris.",
        "mentions": [
            {"offset": 0, "length": 6, "title": "Paris Hilton"},
            {"offset": 0, "length": 6, "title": "Hilton"},
            {"offset": 17, "length": 5, "title": "Paris"},
        ],
    }
    for name in ("kore50", "wiki_fair_v2", "wned_wiki"):
        _write(tmp_path / f"entity_disambiguation/{name}.jsonl.xz", orjson.dumps(document))
    _write(tmp_path / "entity_sets/wikipedia_titles_93k.txt.xz", "\n".join(TITLES).encode())
    return Laboratory(data=tmp_path)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.compress(content + b"\n"))


def test_a_mention_has_the_titles_of_its_words_and_all_that_are_right(
    laboratory: Laboratory,
) -> None:
    found = mentions(laboratory, 5)
    assert [mention.source for mention in found] == ["KORE50"] * 2 + ["Wiki-Fair"] * 2 + [
        "WNED-WIKI"
    ] * 2
    hilton, paris = found[:2]
    assert hilton.titles == {"Paris Hilton", "Hilton"}
    assert hilton.candidates == ("Hilton", "Paris Hilton")
    assert paris.candidates == ("Paris", "Paris Hilton", "Paris, Texas")
    assert "[Paris]" in paris.prompt
    assert paris.chance(np.array([0.5, 0.3, 0.2])) == 0.5
    samples = [
        {"id": hilton.id, "text": "Hilton"},
        {"id": hilton.id, "text": "Paris Hilton"},
        {"id": paris.id, "text": "Paris, Texas"},
    ]
    assert hits([hilton, paris], samples) == [2, 0]


def test_right_titles_stay_where_candidates_are_many() -> None:
    near = NearTitles([f"Paris {number}" for number in range(50)])
    chosen = near.of("Paris", frozenset({"Paris 7"}), 6)
    assert len(chosen) == 6
    assert "Paris 7" in chosen
    assert chosen == near.of("Paris", frozenset({"Paris 7"}), 6)


def test_a_world_of_records_is_the_model() -> None:
    found = world(TOY.model(), "", TOY.members)
    for row in TOY.members:
        for depth in range(len(row) + 1):
            assert found.probabilities(row[:depth]) == pytest.approx(TOY.probabilities(row[:depth]))


@pytest.mark.parametrize("top_m", [1, 2, 3])
@pytest.mark.parametrize("tries", [1, 3])
def test_draws_under_top_m_masks_follow_the_enumerated_law(top_m: int, tries: int) -> None:
    members, laws = law_of(TOY, top_m)
    draws = 1500
    sampler = SAMPLERS["disc"](K=tries, top_m=top_m)
    samples = sampler.draw(
        TOY.model(), TOY.constraint, "", n=draws, rng=np.random.default_rng([top_m, tries])
    )
    counts = Counter(tuple(sample.token_ids) for sample in samples)
    assert set(counts) <= {TOY.members[n] for n in members}
    for n, p in zip(members, laws.disc(tries), strict=True):
        assert abs(counts[TOY.members[n]] / draws - p) <= slack(draws)


def test_masks_of_all_tokens_change_nothing_and_of_one_they_do() -> None:
    members, laws = law_of(TOY, None)
    assert members == list(range(len(TOY.members)))
    _, same = law_of(TOY, TOY.vocabulary.size)
    assert same.masked == pytest.approx(laws.masked)
    one = enumeration.masked(verified(TOY, 1)).law
    assert enumeration.total_variation(one, enumeration.masked(TOY).law) > 0.1


def test_a_trie_of_dicts_allows_what_the_set_allows_and_a_wrong_one_is_found() -> None:
    ends = TOY.vocabulary.eos_token_ids
    rows = [list(row) for row in TOY.members]
    for given, differing in ((rows, 0), (rows[:-1], 1)):
        tree = trie.DictTrie(given, ends)
        for row in given:
            for depth in range(len(row) + 1):
                tree.allowed(row[:depth])
        assert tree.nodes == len({tuple(r[:d]) for r in given for d in range(len(r) + 1)})
        assert trie._differing(TOY.constraint, tree) == differing


def test_texts_that_differ_are_counted() -> None:
    same = {way: [[1, 2], [3]] for way in ("trie of dicts", "processor", "cdec")}
    found = trie.Catalogue(9, same, {"differ": 0, "prefixes": 200})
    assert all(check.holds for check in trie._checks([found]))
    other = replace(found, texts={**same, "cdec": [[1, 2], [4]]})
    failed = [check for check in trie._checks([other, found]) if not check.holds]
    assert [check.value for check in failed] == [1]


def test_the_title_is_what_stands_in_the_first_brackets() -> None:
    assert retrieval._title(" ‹Asphalt› and ‹more›") == "Asphalt"
    assert retrieval._title(" Asphalt") == "Asphalt"


def test_queries_are_asked_after_examples_and_as_a_model_was_trained() -> None:
    first, second = (retrieval.Query(q, q, {"B": 1.0, "A": 2.0}, ()) for q in ("one", "two"))
    assert retrieval.PAPERS.prompts([second], [first] * 4) == [
        "Query: ‹one›\nEntity: ‹A›\n" * 3 + "Query: ‹two›\nEntity:"
    ]
    assert retrieval.LEARNT.prompts([second], [first] * 4) == [query_prompt("two")]


def test_queries_are_those_that_no_model_was_trained_on(tmp_path: Path) -> None:
    queries = [{"id": f"q{i}", "query": "inns", "qrels": {"Paris": 2}} for i in range(30)]
    claims = [{"id": f"c{i}", "claim": "It is warm.", "articles": ["Paris"]} for i in range(30)]
    for name, rows in (("dbpedia_entity/queries_qrels", queries), ("climate_fever/claims", claims)):
        _write(tmp_path / f"{name}.jsonl.xz", b"\n".join(map(orjson.dumps, rows)))
    own = Laboratory(data=tmp_path)
    entity = {query.id for query in retrieval._entity_queries(own, {"Paris"})}
    assert entity == {row["id"] for row in queries if query_is_held_out(row["id"])}
    claimed = {query.id for query in retrieval._claims(own, {"Paris"})}
    assert claimed == {row["id"] for row in claims if claim_is_held_out(row["id"])}
    assert 3 < len(claimed) < len(entity) < 19


def test_a_list_that_hides_a_text_is_found() -> None:
    (known,) = [law_of(TOY, None)[1]]
    order = np.sort(known.log_p)[::-1].tolist()
    few = [{"id": "q"}]

    def checks(logs: list[float]) -> list[bool]:
        listed = [{"id": "q", "proved": True, "logprob": log} for log in logs]
        drawn = [{"id": "q", "logprob": order[0]}]
        found = retrieval._list_checks({"topn": listed, "masked": drawn}, few, [known])
        return [check.holds for check in found]

    assert checks(order[:3]) == [True, True, True]
    assert checks([order[0], order[2]]) == [True, False, True]
    assert checks(order[1:4]) == [True, False, False]


def test_a_gain_is_refuted_where_every_query_loses() -> None:
    texts = [TOY.vocabulary.decode(row).decode() for row in TOY.members]
    known = [law_of(TOY, None)[1]] * 4
    gained = int(np.argmax(known[0].disc(4) - known[0].masked))
    lost = int(np.argmin(known[0].disc(4) - known[0].masked))
    for best, sign in ((gained, 1), (lost, -1)):
        asked = [retrieval.Query(str(n), "", {texts[best]: 2.0}, texts) for n in range(4)]
        grades = retrieval._grades(asked, known)
        assert grades["exact"] == pytest.approx([2 * known[0].target[best]] * 4)
        gain = 2 * (known[0].disc(4) - known[0].masked)[best]
        assert retrieval._upper_gain(asked, known) == pytest.approx(gain)
        assert gain * sign > 0


@pytest.mark.slow
@pytest.mark.parametrize("compute", [disambiguation.disambiguation, top_m.samples])
def test_mentions_are_drawn_as_their_laws_say_whatever_the_data(
    laboratory: Laboratory, compute: Callable[[Laboratory], Found]
) -> None:
    found = compute(laboratory)
    drawn = [check for check in found.checks if "standard errors" in check.said]
    assert len(drawn) >= 5
    assert all(check.holds for check in drawn)
    for table in (*found.tables, *found.times):
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_expected_precision_is_that_of_the_laws() -> None:
    texts = [TOY.vocabulary.decode(row).decode() for row in TOY.members]
    (right,) = answers.scores(TOY.model(), [{"id": "q", "prompt": ""}], [texts[:2]], TOY.constraint)
    laws = law_of(TOY, None)[1]
    listed = [{"id": "q", "log_mass_lower": laws.log_mass, "log_mass_upper": laws.log_mass + 1}]
    found = retrieval._expected_precision([right], listed * 3)
    assert found["masked"] == pytest.approx(laws.masked[:2].sum() / 2)
    assert found["exact, at most"] == pytest.approx(laws.target[:2].sum() / 2)
    assert found["exact, at least"] == pytest.approx(laws.target[:2].sum() / 2 / np.e)
