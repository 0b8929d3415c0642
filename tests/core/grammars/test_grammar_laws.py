"""Laws of grammar constraints on the grammars that ship and on documents."""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core import Vocabulary
from cdec.core.constraint import DEAD
from cdec.data.assets import grammar_path
from tests.core.grammars.finite_language import accepts, mask_of
from tests.laws import sessions as laws
from tests.laws.grammar_cases import byte_vocabulary, compiled
from tests.shared import shared_folder
from tools.benchmarks.grammars.workloads import shared_module, workloads

# --- The laws of sessions on the workloads: masks, check and advance agree, nothing is invaded.

NAMES = ["json_free", "gsm8k", "conll", "xml", "c_subset", "template", "sygus_bv4"]
NEEDED = pytest.mark.skipif(
    not (shared_folder() / "bench").is_dir(), reason="the workloads are in the shared data"
)


@pytest.mark.share(1)
@NEEDED
@pytest.mark.parametrize("name", NAMES)
def test_every_token_obeys_the_laws_along_documents(
    name: str, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    load = workloads()[name]
    constraint = compiled(load["lark"], tmp_path, vocabulary, lexer=load["lexer"])
    assert constraint.facts.is_sound, constraint.metadata.get("cdec.sound_reason")
    documents = [vocabulary.encode([text])[0] for text in load["docs"]]
    laws.assert_session_laws(
        constraint, documents, np.random.default_rng(3), walks=6, max_steps=40, max_states=60
    )


@NEEDED
@pytest.mark.share(3)
@pytest.mark.parametrize("name", NAMES)
def test_masks_equal_bytewise_stepping_at_every_position(
    name: str, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    """Mask bit = advance for every token, at every position of documents that share one memo."""
    load = workloads()[name]
    session = compiled(load["lark"], tmp_path, vocabulary, lexer=load["lexer"]).session("cpu")
    every = np.arange(vocabulary.width)
    for text in sorted(load["docs"], key=len)[:3]:
        states = session.start(1)
        for token in vocabulary.encode([text])[0]:
            mask = mask_of(session, states, vocabulary.width)
            stepped = session.advance(np.repeat(states, vocabulary.width), every) != DEAD
            np.testing.assert_array_equal(mask, stepped)
            states = session.advance(states, np.array([token]))


@pytest.mark.share(1)
@NEEDED
@pytest.mark.parametrize("tokenizer", ["mistral32k", "tekken131k"])
@pytest.mark.parametrize("name", NAMES)
def test_no_canonical_token_is_ever_refused(name: str, tokenizer: str, tmp_path: Path) -> None:
    load = workloads()[name]
    tok = shared_module("toks").Tok(tokenizer)
    vocabulary = Vocabulary(tok.tokens, [tok.eos], tok.special, name=tokenizer)
    session = compiled(load["lark"], tmp_path, vocabulary, lexer=load["lexer"]).session("cpu")
    bridges = 0
    for text in load["docs"]:
        states = session.start(1)
        for token in tok.check(text):
            assert mask_of(session, states, vocabulary.width)[token], (text, tok.tokens[token])
            states = session.advance(states, np.array([token]))
            bridges += tok.tokens[token] in (b"}]", b'"}', b'",\n', b'":', b'{"', b'","', b"();")
        assert mask_of(session, states, vocabulary.width)[tok.eos], text
    assert bridges or name not in ("json_free", "gsm8k", "conll")


@NEEDED
def test_random_states_find_a_completion(vocabulary: Vocabulary, tmp_path: Path) -> None:
    """Soundness: from states that random walks reach, some walk of few tokens ends."""
    rng = np.random.default_rng(0)
    for name in ("json_free", "c_subset"):
        session = compiled(workloads()[name]["lark"], tmp_path, byte_vocabulary()).session("cpu")
        for _ in range(20):
            states = session.start(1)
            for _ in range(int(rng.integers(1, 30))):
                _, ids = session.allowed(states)
                ids = ids[ids < byte_vocabulary().size - 1]
                if not len(ids):
                    break
                states = session.advance(states, rng.choice(ids, 1))
            assert shortest_completion(session, states, 4000), name


def shortest_completion(session: Any, states: Any, most: int) -> bool:
    """Say whether breadth-first search of at most ``most`` states finds a complete one."""
    seen, queue = set(states.tolist()), states
    while len(queue) and len(seen) < most:
        if session.is_complete(queue).any():
            return True
        offsets, ids = session.allowed(queue)
        after = session.advance(np.repeat(queue, np.diff(offsets)), ids)
        fresh = [state for state in np.unique(after).tolist() if state >= 0 and state not in seen]
        seen.update(fresh)
        queue = np.array(fresh, np.int64)
    return bool(session.is_complete(queue).any()) if len(queue) else False


# --- Shipped grammars on documents labelled by others: the JSON suite in full, CSV, C,
# arithmetic.

DATA = shared_folder() / "data"
NEEDS_DOCUMENTS = pytest.mark.skipif(
    not DATA.is_dir(), reason="the documents are in the shared data"
)


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a compressed or plain JSONL file."""
    data = path.read_bytes()
    text = lzma.decompress(data) if path.suffix == ".xz" else data
    for line in text.splitlines():
        yield json.loads(line)


def text_of(row: dict[str, Any]) -> bytes:
    if "bytes_b64" in row:
        return base64.b64decode(row["bytes_b64"])
    return str(row["text"]).encode("utf-8", "surrogatepass")


def shipped(name: str, folder: Path) -> Any:
    """Compile a shipped grammar over single bytes and open a session."""
    source = grammar_path(name).read_text(encoding="utf-8")
    return compiled(source, folder, byte_vocabulary(())).session("cpu")


@NEEDS_DOCUMENTS
def test_json_suite_in_full(tmp_path: Path) -> None:
    session = shipped("json", tmp_path)
    wrong, counts, recorded = [], {"accept": 0, "reject": 0}, {}
    for row in rows_of(DATA / "json_test_suite" / "cases.jsonl.xz"):
        verdict = accepts(session, text_of(row))
        if row["name"].startswith("i_"):
            recorded[row["name"]] = verdict
        elif row["name"][:2] in ("y_", "n_"):
            expected = row["name"].startswith("y_")
            counts["accept" if expected else "reject"] += 1
            if verdict != expected:
                wrong.append(row["name"])
    assert not wrong
    assert counts == {"accept": 95, "reject": 188} and len(recorded) == 35
    # Implementation-defined: escapes of lone surrogates are JSON text, raw invalid UTF-8 is not.
    assert recorded["i_string_1st_surrogate_but_2nd_missing.json"]
    assert not recorded["i_string_invalid_utf-8.json"]


def share(session: Any, rows: list[dict[str, Any]], expect: str) -> float:
    """Return the share of the rows labelled ``expect`` that the grammar labels alike."""
    chosen = [row for row in rows if row["expect"] == expect]
    alike = [accepts(session, text_of(row)) == (expect == "accept") for row in chosen]
    return sum(alike) / len(alike)


@pytest.mark.slow
@NEEDS_DOCUMENTS
def test_c_subset_reads_what_it_covers(tmp_path: Path) -> None:
    """The subset has no preprocessor; programs that use one are outside of it."""
    session = shipped("c", tmp_path)
    rows = [
        row
        for name in ("c_testsuite", "wacc_tests")
        for row in rows_of(DATA / "c_programs" / f"{name}.jsonl.xz")
        if "\n#" not in "\n" + row["text"]
    ]
    accepted, refused = share(session, rows, "accept"), share(session, rows, "reject")
    assert accepted >= 0.6, f"accepts {accepted:.3f} of the programs"
    assert refused >= 0.7, f"refuses {refused:.3f} of the broken programs"


@NEEDS_DOCUMENTS
def test_csv_grammar_reads_the_spectrum(tmp_path: Path) -> None:
    session = shipped("csv", tmp_path)
    rows = list(rows_of(DATA / "sample_documents" / "csv_spectrum.jsonl"))
    assert len(rows) >= 10
    for row in rows:
        text = row.get("csv", row.get("text"))
        assert accepts(session, text.encode()), row
    assert not accepts(session, b'a,"b\n')


@NEEDS_DOCUMENTS
@pytest.mark.parametrize(("name", "grammar"), [("json", "json")])
def test_grammars_read_the_examples_of_their_format(
    name: str, grammar: str, tmp_path: Path
) -> None:
    session = shipped(name, tmp_path)
    rows = list(rows_of(DATA / "sample_documents" / "antlr_examples.jsonl.xz"))
    texts = [row for row in rows if row["grammar"] == grammar and not row["antlr_errors_expected"]]
    assert texts
    for row in texts:
        assert accepts(session, text_of(row)), row["name"]
