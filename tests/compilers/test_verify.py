"""Verification of compiled constraints, and artifacts kept between runs."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from cdec.compilers import (
    ChildCompiler,
    compile_grammar,
    compile_regex,
    compile_set,
    verify_artifact,
)
from cdec.compilers import verify as again
from cdec.compilers.cache import PROCESS_LIMITS, ConstraintCache
from cdec.compilers.sets.kind import verify_set
from cdec.core.artifacts.opened import KINDS, bind_artifact, read_artifact
from cdec.core.artifacts.read import verify_bytes
from cdec.core.errors import ArtifactInvalidError, CdecError, LimitError, OutputError
from cdec.core.grammars.errors import RegexSyntaxError
from cdec.core.mask import allocate_mask
from cdec.core.tokens.vocabulary import Vocabulary
from cdec.data.assets import embedded_model_path
from tests.core.artifacts.hostile_files import GOOD, META
from tests.core.grammars.engine.plain_engine import JSON, byte_vocabulary
from tests.forging import arrays_of, metadata_of, rebuild

# --- A forged artifact whose indexes are all legal is found by compiling it again.


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return GOOD(tmp_path_factory.mktemp("good"))


SET_COLUMNS = ("node_row", "node_count", "text_hash", "text_row", "dense_masks")


def legal_changes(data: bytes, name: str, rng: np.random.Generator) -> Any:
    """Change one value of a column so that opening still accepts it; None where none was found."""
    kind, metadata = KINDS[metadata_of(data)["cdec.kind"]], metadata_of(data)
    columns = arrays_of(data)
    array = columns[name]
    for _ in range(40 if len(array) else 0):
        changed = array.copy()
        changed[rng.integers(len(array))] = array[rng.integers(len(array))]
        if np.array_equal(changed, array):
            continue
        try:
            kind.check_all({**columns, name: changed}, metadata)
        except ArtifactInvalidError:
            continue
        return changed
    return None


@pytest.mark.parametrize("prefix", ["", "Entity: <"])
@pytest.mark.parametrize("space", ["never", "both"])
def test_compiled_sets_are_what_their_rows_give(tmp_path: Path, prefix: str, space: Any) -> None:
    path, vocabulary = tmp_path / "a.arrow", Vocabulary.from_tokenizer(str(embedded_model_path()))
    lines = ["Oslo", "Rome", "Oslo Airport", "", "Zürich", "\ufb01ne"]
    compile_set(
        [{"text": line, "id": f"Q{i}"} for i, line in enumerate(lines)],
        vocabulary,
        path,
        prefix=prefix,
        suffix=">" if prefix else "",
        leading_space=space,
        normalize="nfkc",
        keep_empty=True,
    )
    found = verify_artifact(read_artifact(path))
    assert {"node_token", "text_hash", "text_row", "cdec.options", "cdec.counts"} <= {*found.same}
    assert {"tokens", "row_offsets", "id_bytes", "source_lines"} <= {*found.given}


def test_forged_sets_are_found(good: bytes) -> None:
    rng, forged = np.random.default_rng(0), 0
    for name in arrays_of(good):
        changed = legal_changes(good, name, rng)
        if changed is None or name.startswith(("source", "id_", "vocabulary")):
            continue
        forged += 1
        with pytest.raises(ArtifactInvalidError) as caught:
            verify_artifact(verify_bytes(rebuild(good, {name: changed}), KINDS))
        assert caught.value.details["differing"]
    assert forged >= 4
    counts = json.loads(metadata_of(good)["cdec.counts"]) | {"entities": 7}
    with pytest.raises(ArtifactInvalidError, match=r"cdec\.counts"):
        verify_artifact(verify_bytes(META(good, {"cdec.counts": json.dumps(counts)}), KINDS))


@pytest.fixture(scope="module")
def child() -> Iterator[ChildCompiler]:
    with ChildCompiler() as child:
        yield child


@pytest.fixture
def warm(child: ChildCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """One child process for all of these tests."""
    monkeypatch.setattr(again, "ChildCompiler", lambda source: nullcontext(child))


@pytest.fixture(scope="module")
def grammar(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("grammar") / "g.arrow"
    compile_grammar(JSON, byte_vocabulary(('{"', "],", '": ')), path)
    return path.read_bytes()


@pytest.mark.usefixtures("warm")
def test_compiled_grammars_are_what_their_source_gives(grammar: bytes) -> None:
    found = verify_artifact(verify_bytes(grammar, KINDS))
    assert found.given == ["cdec.version", "cdec.digest"]
    assert {*arrays_of(grammar)} <= {*found.same}


@pytest.mark.usefixtures("warm")
def test_numbers_of_tokens_are_compiled_again(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    source = 'start: e WORD\ne[max_tokens=9]: "(" e ")" | "a"\nWORD[max_tokens=2]: /[a-z]+/'
    compile_grammar(source, byte_vocabulary(("ab",)), path)
    found = verify_artifact(verify_bytes(path.read_bytes(), KINDS))
    assert {"cdec.budgets", "cdec.rule_budgets", "cdec.attributes"} <= {*found.same}


@pytest.mark.usefixtures("warm")
def test_a_regular_expression_is_compiled_again_with_what_narrows_it(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    compile_regex(r"\w{2,90}|\d*", byte_vocabulary(("ab",)), path, conjoined=["[^a]*"])
    assert "delta" in verify_artifact(verify_bytes(path.read_bytes(), KINDS)).same


@pytest.mark.usefixtures("warm")
def test_a_grammar_whose_masks_are_not_its_own_is_found(grammar: bytes) -> None:
    """Every index is legal and the digest right: masks and checks differ, and nothing tells."""
    arrays = arrays_of(grammar)
    sizes = np.diff(arrays["group_tokens"])
    place = int(arrays["group_tokens"][int(np.flatnonzero(sizes == 1)[0])])
    arrays["tokens"][place] = (arrays["tokens"][place] + 1) % 256
    constraint = bind_artifact(verify_bytes(rebuild(grammar, arrays), KINDS))
    session, mask = constraint.session(), allocate_mask(1, constraint.vocabulary.width)
    session.fill_mask(session.start(1), mask)
    with pytest.raises(ArtifactInvalidError, match="tokens") as caught:
        verify_artifact(verify_bytes(rebuild(grammar, arrays), KINDS))
    assert caught.value.details["differing"] == ["tokens"]


@pytest.mark.usefixtures("warm")
def test_a_source_that_does_not_compile_is_named(grammar: bytes) -> None:
    for source in ("start: (", "start: missing"):
        with pytest.raises(CdecError, match="cannot be compiled again"):
            verify_artifact(verify_bytes(META(grammar, {"cdec.grammar": source}), KINDS))
    with pytest.raises(ArtifactInvalidError, match=r"cdec\.grammar|delta"):
        other = META(grammar, {"cdec.grammar": 'start: "a"\n', "cdec.source_hash": "0"})
        verify_artifact(verify_bytes(other, KINDS))


def test_every_column_of_a_set_that_follows_from_its_rows_is_compared(good: bytes) -> None:
    same = verify_set(verify_bytes(good, KINDS)).same
    assert set(SET_COLUMNS) <= set(same)


# --- ConstraintCache: what could not be compiled is remembered as words, what may yet be is not.


class _Failing:
    """A compiler that fails; counts its calls."""

    def __init__(self, error: CdecError) -> None:
        self.calls = 0
        self._error = error

    def __call__(self) -> NoReturn:
        self.calls += 1
        raise self._error.again()


def _ask(kept: ConstraintCache, make: _Failing, frames: int = 0) -> None:
    """Ask at some depth of the stack, beside locals that a frame would keep alive."""
    beside = bytearray(10_000)
    if frames:
        _ask(kept, make, frames - 1)
    else:
        kept.get("asked", make)
    assert beside


def test_a_refusal_is_remembered_as_it_was_without_the_frames_it_was_raised_in() -> None:
    refusal = RegexSyntaxError("no regex", hint="write one", line=1)
    make, kept = _Failing(refusal), ConstraintCache(4, 1 << 20)
    for _ in range(2):
        with pytest.raises(RegexSyntaxError) as raised:
            _ask(kept, make)
        assert raised.value.to_json() == refusal.to_json()
    assert make.calls == 1
    del raised
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(400):
            with pytest.raises(RegexSyntaxError):
                _ask(kept, make, frames=5)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 200_000


@pytest.mark.share(1)
@pytest.mark.parametrize(
    "refusal",
    [*(LimitError("too much", limit=name) for name in PROCESS_LIMITS), OutputError("no process")],
    ids=str,
)
def test_what_the_machine_may_have_refused_is_compiled_anew(refusal: CdecError) -> None:
    make, kept = _Failing(refusal), ConstraintCache(4, 1 << 20)
    for _ in range(2):
        with pytest.raises(type(refusal)):
            kept.get("asked", make)
    assert make.calls == 2


@pytest.mark.slow
def test_a_limit_of_the_source_is_remembered() -> None:
    make = _Failing(LimitError("too many rules", limit="max_rules"))
    kept = ConstraintCache(4, 1 << 20)
    for _ in range(2):
        with pytest.raises(LimitError):
            kept.get("asked", make)
    assert make.calls == 1
