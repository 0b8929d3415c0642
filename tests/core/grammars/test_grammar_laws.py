"""The laws of sessions on the workloads: masks, check and advance agree, nothing is invaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdec.core import Vocabulary
from cdec.core.constraint import DEAD
from cdec.data.assets import embedded_model_path
from tests.benchmarks.grammars.workloads import shared_module, workloads
from tests.conftest import shared_folder
from tests.core.grammars.walks import mask_of
from tests.laws import sessions as laws
from tests.laws.grammar_cases import byte_vocabulary, compiled

NAMES = ["json_free", "gsm8k", "conll", "xml", "c_subset", "template", "sygus_bv4"]
pytestmark = pytest.mark.skipif(
    not (shared_folder() / "bench").is_dir(), reason="the workloads are in the shared data"
)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.from_tokenizer(str(embedded_model_path()))


@pytest.mark.parametrize("name", NAMES)
def test_every_token_obeys_the_laws_along_documents(
    name: str, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    load = workloads()[name]
    constraint = compiled(load["lark"], tmp_path, vocabulary, lexer=load["lexer"])
    assert constraint.is_sound, constraint.metadata.get("cdec.sound_reason")
    documents = [vocabulary.encode([text])[0] for text in load["docs"]]
    laws.assert_session_laws(
        constraint, documents, np.random.default_rng(3), walks=6, max_steps=40, max_states=60
    )


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
