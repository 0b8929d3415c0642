"""A right digest, or a place in the memory of verified files, is no reason to trust contents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cdec.compilers import compile_spans
from cdec.compilers.grammars.compile import build_grammar
from cdec.compilers.grammars.options import GrammarOptions
from cdec.core.artifacts.opened import KINDS, bind_artifact, read_artifact
from cdec.core.artifacts.read import ArtifactFile, verify_bytes
from cdec.core.artifacts.write import write_artifact
from cdec.core.errors import ArtifactInvalidError
from cdec.core.grammars import session as grammar_engine
from cdec.core.mask import allocate_mask
from tests.core.artifacts.hostile_files import META
from tests.core.artifacts.test_artifact_corpus import count_verifications
from tests.core.grammars.engine.plain_engine import COMMENTS, JSON, byte_vocabulary
from tests.core.schemas.test_schema_laws import record
from tests.forging import arrays_of, metadata_of, pretend_verified, rebuild
from tests.guarded import faults, guarded

BLOCKS = (
    'start: (NAME _NEWLINE | "(" NAME ")" ":" _NEWLINE _INDENT start _DEDENT)*\nNAME: /x+/\n'
    "_NEWLINE: /(\\n *)+/\n%declare _INDENT _DEDENT\n"
)
KINDS_OF: dict[str, tuple[str, dict[str, Any]]] = {
    "contextual": (JSON, {"lexer": "contextual"}),
    "dynamic": (COMMENTS, {"lexer": "dynamic"}),
    "indented": (BLOCKS, {"indenter": "columns=4"}),
}
"""Grammars by name, and what they are compiled with."""
CORPORA_OF: dict[str, dict[str, Any]] = {
    "spans": {},
    "cut spans": {"whole": "words", "shortest": 1, "longest": 2},
}
"""Corpora by name, and which pieces."""
FREE = {"letters": {-1, 1}, "context_start": {-1, 1}, "live_offsets": {1}}
"""Columns that may be shorter or longer by one: no other column counts what they number."""


@pytest.fixture(scope="module")
def artifacts(good: bytes, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """A set with a dense mask, grammars (one of each parser, one indented), a schema, corpora."""
    folder = tmp_path_factory.mktemp("artifacts")
    for name, (source, given) in KINDS_OF.items():
        vocabulary = byte_vocabulary(('{"', "],", "/*", "):\n ", "\nx"))
        options = GrammarOptions(**given)
        columns, metadata, _ = build_grammar(source, vocabulary, options, folder / name)
        write_artifact(folder / name, "grammar", columns, metadata)
    columns, metadata = record().arrays._asdict(), record().metadata
    write_artifact(folder / "schema", "schema", columns, metadata | {"cdec.options": "{}"})
    for name, given in CORPORA_OF.items():
        texts = [{"id": "d1", "text": "the cat sat, the cat"}, {"id": "d2", "text": "é! a cat"}]
        compile_spans(texts, byte_vocabulary(("the", " c", "at")), folder / name, **given)
    names = [*KINDS_OF, "schema", *CORPORA_OF]
    return {"set": good} | {name: (folder / name).read_bytes() for name in names}


def test_a_dense_mask_of_other_children_is_refused(good: bytes) -> None:
    masks = arrays_of(good)["dense_masks"].view(np.uint32)
    # As many bits, one of them another: token 319 is no child, token 0 is one.
    masks[0] ^= np.uint32(1)
    masks[9] ^= np.uint32(1 << 31)
    with pytest.raises(ArtifactInvalidError, match="dense_masks"):
        verify_bytes(rebuild(good, {"dense_masks": masks.view(np.int32)}), KINDS)


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("cdec.options", {"normalize": "nfd"}),
        ("cdec.options", {"normalize": ["nfc"]}),
        ("cdec.options", {"ends_itself": "no"}),
        ("cdec.options", {"heads": [None]}),
        ("cdec.options", {"suffix_bytes": "a"}),
        ("cdec.counts", {"rows": "many"}),
        ("cdec.counts", {"rows": -1}),
        ("cdec.counts", {"rows": True}),
    ],
)
def test_set_options_of_another_kind_are_refused(good: bytes, key: str, changed: Any) -> None:
    before = json.loads(metadata_of(good)[key])
    with pytest.raises(ArtifactInvalidError):
        verify_bytes(META(good, {key: json.dumps(before | changed)}), KINDS)


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("cdec.options", {"start": None}),
        ("cdec.options", {"max_whitespace": "8"}),
        ("cdec.options", {"max_whitespace": 10**9}),
        ("cdec.options", {"blanks": 3}),
        ("cdec.options", {"indenter": 3}),
        ("cdec.options", {"lexer": ["dynamic"]}),
        ("cdec.names", {"terminals": 3}),
        ("cdec.names", {"patterns": [None]}),
        ("cdec.names", {"rules": [["start", ["x"]]]}),
        ("cdec.counts", {"rules": 1.5}),
        ("cdec.characters", {"sets": None}),
        ("cdec.characters", {"sets": [[5, 3]]}),
        ("cdec.characters", {"sets": [[-4, 3]]}),
        ("cdec.characters", {"sets": [[0, 0x110000]]}),
        ("cdec.characters", {"sets": [[1]]}),
        ("cdec.characters", {"sets": [["a", "b"]]}),
        ("cdec.characters", {"patterns": None}),
        ("cdec.characters", {"patterns": [1]}),
        ("cdec.characters", {"rules": []}),
        ("cdec.characters", {"rules": [[0]]}),
        ("cdec.characters", {"rules": [[0, [10**9]]]}),
        ("cdec.characters", {"rules": [[0, [-(10**9)]]]}),
        ("cdec.characters", {"rules": [[1 << 40, []]]}),
        ("cdec.characters", {"rules": {"0": []}}),
        ("cdec.characters", {"start": -1}),
        ("cdec.characters", {"start": "start"}),
    ],
)
def test_grammar_metadata_of_another_kind_are_refused(
    artifacts: Mapping[str, bytes], key: str, changed: Any
) -> None:
    data = artifacts["dynamic"]
    before = json.loads(metadata_of(data)[key])
    with pytest.raises(ArtifactInvalidError):
        verify_bytes(META(data, {key: json.dumps(before | changed)}), KINDS)


@pytest.mark.parametrize("kind", ["set", "dynamic"])
def test_json_without_end_is_refused_or_text(artifacts: Mapping[str, bytes], kind: str) -> None:
    deep = "[" * 100_000
    for key in metadata_of(artifacts[kind]):
        if key in ("cdec.digest", "cdec.kind", "cdec.format"):
            continue
        try:
            file = verify_bytes(META(artifacts[kind], {key: deep}), KINDS)
            constraint = bind_artifact(file)
        except ArtifactInvalidError:
            continue
        except Exception as error:
            assert key in ("cdec.vocabulary_hash", "cdec.tokenization_hash"), (key, error)
            continue
        assert constraint.summary()[key.removeprefix("cdec.")] in (deep, constraint.facts.is_sound)


@pytest.mark.parametrize("kind", ["contextual", "dynamic"])
def test_groups_hold_no_end_id_and_no_padding(artifacts: Mapping[str, bytes], kind: str) -> None:
    arrays = arrays_of(artifacts[kind])
    end = json.loads(metadata_of(artifacts[kind])["cdec.eos"])[0]
    arrays["tokens"][0] = end
    with pytest.raises(ArtifactInvalidError, match="tokens"):
        verify_bytes(rebuild(artifacts[kind], {"tokens": arrays["tokens"]}), KINDS)
    masks = arrays["dense_masks"]
    if len(masks):
        masks[end // 32] |= np.int32(1 << end % 32)
        with pytest.raises(ArtifactInvalidError, match="dense_masks"):
            verify_bytes(rebuild(artifacts[kind], {"dense_masks": masks}), KINDS)


@pytest.mark.parametrize("kind", ["set", *KINDS_OF, "schema", *CORPORA_OF])
@pytest.mark.share(1)
def test_lengths_are_compared_even_where_a_file_is_called_verified(
    artifacts: Mapping[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "forged.arrow"
    path.write_bytes(artifacts[kind])
    pretend_verified(path)
    read_artifact(path)
    for name, array in arrays_of(artifacts[kind]).items():
        for changed in (array[:-1], np.append(array, array[-1:])):
            if len(changed) - len(array) in FREE.get(name, ()) or len(changed) == len(array):
                continue
            path.write_bytes(rebuild(artifacts[kind], {name: changed}))
            pretend_verified(path)
            with pytest.raises(ArtifactInvalidError):
                read_artifact(path)


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_memory_that_others_may_write_to_is_not_believed(
    good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv("CDEC_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "forged.arrow"
    links = arrays_of(good)["node_link"]
    links[0] = 0
    path.write_bytes(rebuild(good, {"node_link": links}))
    pretend_verified(path)
    read_artifact(path)  # this user's own memory is believed
    (tmp_path / "cache" / "verified").chmod(mode)
    calls = count_verifications(monkeypatch)
    with pytest.raises(ArtifactInvalidError):
        read_artifact(path)
    assert calls == [str(path)]


@pytest.mark.share("kind")
@pytest.mark.parametrize("kind", ["set", *KINDS_OF, "schema", *CORPORA_OF])
@pytest.mark.parametrize("at_end", [True, False])
def test_no_contents_lead_a_kernel_out_of_its_arrays(
    artifacts: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch, kind: str, at_end: bool
) -> None:
    """What a forged memory lets in: lengths that agree, and anything as contents."""
    monkeypatch.setattr(grammar_engine, "_MOST_BYTES", 1 << 28)
    columns, metadata = arrays_of(artifacts[kind]), metadata_of(artifacts[kind])
    names = sorted(name for name in columns if not name.startswith("vocabulary"))

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        changed = {name: array.copy() for name, array in columns.items()}
        for name in rng.choice(names, 3):
            _scramble(changed[name], rng)
        try:
            KINDS[metadata["cdec.kind"]].check_shape(changed, metadata)
        except ArtifactInvalidError:
            return
        safe = {name: guarded(array, at_end=at_end) for name, array in changed.items()}
        file = ArtifactFile(metadata["cdec.kind"], dict(metadata), safe, Path("forged"))
        try:
            _walk(bind_artifact(file), rng)
        except Exception:
            # Contents that make no sense may be an error: this is about memory alone.
            return

    _walk(bind_artifact(verify_bytes(artifacts[kind], KINDS)), np.random.default_rng(0))
    assert faults(work, 60) == {}


def _scramble(array: NDArray[Any], rng: np.random.Generator) -> None:
    if not len(array):
        return
    low, high = [(0, 40), (0, 2**31 - 1), (-(2**31), 2**31 - 1)][rng.integers(0, 3)]
    low = 0 if array.dtype.kind == "u" else low
    at = rng.integers(0, len(array), 1 if rng.random() < 0.5 else max(1, len(array) // 8))
    array[at] = rng.integers(low, high, len(at)).astype(array.dtype)


def _walk(constraint: Any, rng: np.random.Generator) -> None:
    """Ask a constraint for everything that reads its columns."""
    session, width = constraint.session(), constraint.vocabulary.width
    states = session.start(4)
    for _ in range(6):
        session.fill_mask(states, allocate_mask(4, width))
        session.is_complete(states)
        session.forced(states)
        offsets, ids = session.allowed(states)
        session.check(states, rng.integers(-2, width + 2, size=(4, 6)))
        bounds = zip(offsets.tolist(), offsets[1:].tolist(), strict=False)
        chosen = [int(rng.choice(ids[a:b])) if b > a else 0 for a, b in bounds]
        after = session.advance(states, np.array(chosen))
        states = np.where(after >= 0, after, states)
    if constraint.facts.kind == "set":
        session.completions(np.zeros(width), np.zeros(width)).tokens(states, 4)
        constraint.accepts(constraint.vocabulary.token_bytes[3])
        constraint.members.rows_of_id("7")
        constraint.members.entity_ids(np.arange(3))
    if constraint.facts.kind == "spans":
        for text in (b"cat", b"at", b"the cat"):
            constraint.annotations(text)
            constraint.accepts(text)
    if type(constraint).tree_parameters:
        constraint.tree()
    constraint.statistics()
