"""Cases made of the shared corpus of hostile inputs; none where the corpus is absent."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from case import Case, Step, jsonl, words
from fixtures import CITIES
from normalise import timeless_gzip

MORE_FLAGS = {"set-line-64KiB": ["--max-entry-tokens", "65536"]}
OTHER_TOKENIZERS = {
    "gr-untokenizable-literal": ("a", "}", "b"),
    "gr-dead-end": ("a", "b", "ab", "b\u00e9"),
}


@dataclass(frozen=True)
class Hostile:
    """One line of the corpus."""

    id: str
    generator: str
    expect: Mapping[str, Any]
    is_heavy: bool

    def data(self) -> bytes:
        """Evaluate the generator: an expression of bytes, without names but the ones it uses."""
        value = eval(self.generator, {"__builtins__": {"__import__": __import__, "range": range}})
        return timeless_gzip(value if isinstance(value, bytes) else str(value).encode())


def hostile(kind: str) -> list[Hostile]:
    """Return the corpus of one kind."""
    path = Path(os.environ.get("CDEC_SHARED", "../shared")) / "corpus" / "bad_inputs.jsonl"
    if not path.is_file():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Hostile(
            row["id"], row.get("generator") or repr(row["input"]), row["expect"],
            bool(row.get("heavy")),
        )
        for row in rows
        if row["kind"] == kind
    ]  # fmt: skip


def set_cases() -> list[Case]:
    """Return ``compile-set`` of every hostile list that is not heavy."""
    found = []
    for case in hostile("set"):
        if case.is_heavy or case.id in ("set-endless-no-newline", "set-lossy-tokenizer"):
            continue
        flags = tuple(shlex.split(case.expect.get("flag", "")) + MORE_FLAGS.get(case.id, []))
        compiled = words("compile-set - -o x.arrow --json", flags)
        steps = (Step(compiled, case.data()), Step(words("inspect x.arrow --tree")))
        found.append(Case(f"corpus-{case.id}", "corpus", steps))
    for case in hostile("set"):
        if case.id == "set-lossy-tokenizer":
            argv = words("compile-set - -o x.arrow --tokenizer t.json --leading-space never")
            steps = (Step((*argv, "--suffix", "c"), case.data()),)
            prepare = partial(unigram, pieces=("a", "b", "c"))
            found.append(Case(f"corpus-{case.id}", "corpus", steps, prepare=prepare))
    endless = Step(words("compile-set /dev/zero -o x.arrow"))
    return [*found, Case("corpus-set-endless-no-newline", "corpus", (endless,))]


def unigram(work: Path, pieces: tuple[str, ...]) -> None:
    """Write a tokenizer of these pieces, without bytes to fall back on."""
    from tokenizers import Tokenizer, models

    scored = [("<unk>", 0.0), *((piece, -1.0) for piece in pieces)]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=0, byte_fallback=False))
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.save(str(work / "t.json"))


def grammar_cases() -> list[Case]:
    """Return ``compile-grammar`` of every hostile grammar, and verdicts on its texts."""
    found = []
    for case in hostile("grammar"):
        pieces = OTHER_TOKENIZERS.get(case.id)
        flags = ("--tokenizer", "t.json") if pieces else ()
        texts = [*case.expect.get("accepts", []), *case.expect.get("rejects", [])]
        if case.id == "gr-dead-end":
            texts = ["ab\u00e9", "ab"]
        checked = words("check x.arrow --field text --format jsonl")
        steps = (
            Step(words("compile-grammar - -o x.arrow --json", flags), case.data()),
            Step(checked, jsonl({"text": text} for text in texts)),
        )
        prepare = partial(unigram, pieces=pieces) if pieces else None
        name = f"corpus-{case.id}"
        found.append(Case(name, "corpus", steps, prepare=prepare, needs_compiler=True))
    return found


def prompt_cases() -> list[Case]:
    """Return ``sample`` on every hostile prompt file that is not heavy."""
    found = []
    for case in hostile("prompts"):
        if case.is_heavy:
            continue
        name = f"corpus-{case.id}"
        if case.id == "pr-no-chat-template":
            step = Step(words("sample -a cities.arrow -m plain"), case.data())
            found.append(Case(name, "corpus", (step,), prepare=_without_template))
            continue
        more = ("", "--strict", "--method masked --batch-size 1")
        data = case.data()
        # What is long takes long to cut into tokens: once will do.
        chosen = more[: 1 if len(data) > 1_000_000 else 3]
        steps = tuple(Step(words("sample -a cities.arrow", m), data) for m in chosen)
        found.append(Case(name, "corpus", steps))
    return found


def _embedded() -> Path:
    import cdec.data

    return Path(next(iter(cdec.data.__path__))) / "embedded" / "target"


def _without_template(work: Path) -> None:
    import shutil

    shutil.copytree(_embedded(), work / "plain")
    settings = json.loads((work / "plain" / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (work / "plain" / "tokenizer_config.json").write_text(json.dumps(settings))
    (work / "plain" / "chat_template.jinja").unlink(missing_ok=True)


def _model(folder: Path, **values: object) -> None:
    import shutil

    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(_embedded() / name, folder)
    config = json.loads((_embedded() / "config.json").read_text()) | values
    (folder / "config.json").write_text(json.dumps(config))


def _remote(work: Path) -> None:
    names = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.Own"}
    _model(work / "m", auto_map=names, model_type="own")
    (work / "m" / "own.py").write_text("open('ran', 'w')\n")
    (work / "m" / "model.safetensors").write_bytes(b"")


def _pickled(work: Path) -> None:
    _model(work / "m")
    (work / "m" / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'true'\ntR.")


def line_cases() -> list[Case]:
    """Return the hostile command lines that need no second process."""
    base = "sample -a cities.arrow"
    typed = ("--prompt", "a")
    full = Step(words(base, typed), stdout="/dev/full")
    secret = Step(words(base, typed), environment={"HF_TOKEN": "hf_secret", "CDEC_FAULT": "raise"})
    asked = words(base, typed, "-o out.jsonl")
    torn = (
        Step(asked),
        Step(asked),
        Step(("!append", "out.jsonl"), b'{"id": 5, "te'),
        Step((*asked, "--resume")),
        Step((*asked, "--resume", "--seed", "2")),
    )
    own = words(base, "-i a.jsonl -o a.jsonl")
    colours = ("inspect cities.arrow", "sample --help", "smple", "check nope")
    forced = tuple(Step(words(c), environment={"FORCE_COLOR": "1"}) for c in colours)
    model = words(base, "-m m", typed)
    files = {"a.jsonl": b'{"prompt": "a"}\n'}
    return [
        Case("corpus-cli-dev-full", "corpus", (full,)),
        Case("corpus-cli-secret", "corpus", (secret,)),
        Case("corpus-cli-resume", "corpus", torn),
        Case("corpus-cli-output-is-input", "corpus", (Step(own),), files),
        Case("corpus-cli-no-color", "corpus", forced),
        Case("corpus-cli-absent-model", "corpus", (Step(words(base, "-m no/such", typed)),)),
        Case("corpus-cli-remote-code", "corpus", (Step(model),), prepare=_remote),
        Case("corpus-cli-pickle", "corpus", (Step(model),), prepare=_pickled),
        Case("corpus-cli-missing-file", "corpus", (Step(words("compile-set nope.txt")),)),
        Case("corpus-cli-K-zero", "corpus", (Step(words(base, typed, "--K 0")),)),
        Case("corpus-cli-c-locale", "corpus", (
            Step(words(base, typed, "-n 4"), environment={"LC_ALL": "C"}),
            Step(words("check cities.arrow --format jsonl --field name"), CITIES, {"LC_ALL": "C"}),
        )),
    ]  # fmt: skip


# --- artifacts


def _vocabulary(width: int | None = None) -> Any:
    from cdec.core import Vocabulary

    token_bytes = [b"t%d;" % i for i in range(320)] + [b""]
    return Vocabulary(token_bytes, eos_token_ids=[320], width=width, name="test")


def _good(work: Path) -> bytes:
    from cdec.compilers import compile_token_set

    rows = [[i] for i in range(300)] + [[3, i] for i in range(40)]
    rows += [[3, 4, 5], [3, 4, 5, 6, 7, 8, 9], [9, 9, 9, 9], [9, 9, 9, 8, 1, 2, 3], [3, 4, 5]]
    compile_token_set(rows, _vocabulary(), work / "good.arrow", source="good")
    return (work / "good.arrow").read_bytes()


def _metadata(data: bytes) -> dict[bytes, bytes]:
    import pyarrow as pa

    return dict(pa.ipc.open_file(pa.py_buffer(data)).schema.metadata)


def _seal(data: bytes) -> bytes:
    """Write the right digest into a file, so that later checks are reached."""
    old = _metadata(data)[b"cdec.digest"]
    places = [data.index(old), data.rindex(old)]
    result = bytearray(data)
    for place in places:
        result[place : place + 64] = b"0" * 64
    chunks = (result[at : at + (4 << 20)] for at in range(0, len(result), 4 << 20))
    digest = hashlib.sha256(b"".join(hashlib.sha256(c).digest() for c in chunks)).hexdigest()
    for place in places:
        result[place : place + 64] = digest.encode()
    return bytes(result)


def _lists(values: Any) -> Any:
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values
    offsets = pa.array([0, len(values)], pa.int64())
    return pa.LargeListArray.from_arrays(offsets, pa.array(values))


def _rebuilt(
    good: bytes,
    change: Callable[[dict[str, Any]], None] = lambda columns: None,
    metadata: Mapping[str, str] | None = None,
    field_metadata: Mapping[bytes, bytes] | None = None,
    compression: str | None = None,
) -> bytes:
    """Write the artifact again with other contents, valid Arrow and a right digest."""
    import pyarrow as pa

    batch = pa.ipc.open_file(pa.py_buffer(good)).get_batch(0)
    columns: dict[str, Any] = {
        name: batch.column(name).values.to_numpy(zero_copy_only=False).copy()
        for name in batch.schema.names
    }
    change(columns)
    arrays = {name: _lists(values) for name, values in columns.items()}
    new = _metadata(good) | {k.encode(): v.encode() for k, v in (metadata or {}).items()}
    fields = [
        pa.field(name, array.type, metadata=field_metadata if name == "tokens" else None)
        for name, array in arrays.items()
    ]
    schema = pa.schema(fields, metadata=new)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch(list(arrays.values()), schema=schema))
    return _seal(sink.getvalue().to_pybytes())


def _patched(good: bytes, value: int) -> bytes:
    import pyarrow as pa

    buffer = pa.py_buffer(good)
    offsets = pa.ipc.open_file(buffer).get_batch(0).column("tokens").buffers()[1]
    place = offsets.address - buffer.address + 8
    return _seal(good[:place] + struct.pack("<q", value) + good[place + 8 :])


def _first_link(columns: dict[str, Any]) -> None:
    columns["node_link"][0] = len(columns["node_link"])


def _last_token(columns: dict[str, Any]) -> None:
    columns["tokens"][-1] = _vocabulary().size


def _cycle(columns: dict[str, Any]) -> None:
    import numpy as np

    columns["node_link"][np.flatnonzero(columns["node_degree"])[-1]] = 0


def _drop(columns: dict[str, Any]) -> None:
    del columns["node_token"]


def _nan(columns: dict[str, Any]) -> None:
    import numpy as np

    columns["weight"] = np.array([float("nan")])


def _dictionary(columns: dict[str, Any]) -> None:
    import pyarrow as pa

    columns["weight"] = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["x"]))


def _flip(good: bytes) -> bytes:
    half = len(good) // 2
    return good[:half] + bytes([good[half] ^ 1]) + good[half + 1 :]


def _bomb(good: bytes) -> bytes:
    import numpy as np

    def zeros(columns: dict[str, Any]) -> None:
        columns["tokens"] = np.zeros(10_000_000, np.int32)

    data = _rebuilt(good, zeros, compression="zstd")
    return _seal(data.replace(struct.pack("<q", 40_000_000), struct.pack("<q", 10**10)))


def _unfinished(good: bytes) -> bytes:
    import pyarrow as pa

    reader = pa.ipc.open_file(pa.py_buffer(good))
    sink = pa.BufferOutputStream()
    pa.ipc.new_file(sink, reader.schema).write_batch(reader.get_batch(0))
    return bytes(sink.getvalue().to_pybytes())


_EXTENSION = {
    b"ARROW:extension:name": b"ray.data.arrow_tensor",
    b"ARROW:extension:metadata": b"payload",
}
FILES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "not-arrow": lambda _: b"hello" * 1000,
    "pickle": lambda _: b"cos\nsystem\n(S'touch cdec_canary'\ntR.",
    "truncated-1-byte": lambda good: good[:-1],
    "truncated-half": lambda good: good[: len(good) // 2],
    "bitflip-body": _flip,
    "bad-offsets": lambda good: _patched(good, 10**9),
    "negative-offset": lambda good: _patched(good, -777),
    "dict-index": lambda good: _rebuilt(good, _dictionary),
    "edge-out-of-range": lambda good: _rebuilt(good, _first_link),
    "token-out-of-vocab": lambda good: _rebuilt(good, _last_token),
    "cycle-in-trie": lambda good: _rebuilt(good, _cycle),
    "nan-weight": lambda good: _rebuilt(good, _nan),
    "missing-column": lambda good: _rebuilt(good, _drop),
    "extension-type": lambda good: _rebuilt(good, field_metadata=_EXTENSION),
    "zstd-bomb": _bomb,
    "newer-version": lambda g: _rebuilt(g, metadata={"cdec.format": "999", "cdec.version": "9.1"}),
    "tokenizer-mismatch": lambda g: _rebuilt(g, metadata={"cdec.vocabulary_hash": "00" * 32}),
    "eos-mismatch": lambda g: _rebuilt(g, metadata={"cdec.eos": "[7]"}),
    "ansi-in-metadata": lambda g: _rebuilt(g, metadata={"cdec.source": "\x1b[2J"}),
    "path-in-metadata": lambda g: _rebuilt(g, metadata={"cdec.source": "../../etc/passwd"}),
    "good": lambda good: good,
    "being-written": _unfinished,
}


def _opened(name: str, work: Path) -> dict[str, Any]:
    from cdec.core import CdecError, open_artifact

    os.chdir(work)
    path = Path("case.arrow")
    path.write_bytes(FILES[name](_good(work)))
    width = 384 if name == "good" else None
    try:
        constraint: Any = open_artifact(path, vocabulary=_vocabulary(width))
    except CdecError as error:
        return {
            "code": error.code,
            "status": error.exit_status,
            "message": str(error),
            "hint": error.hint,
            "details": {key: repr(value) for key, value in error.details.items()},
        }
    return {"accepts": [constraint.accepts(text) for text in (b"t3;t4;t5;", b"t3;t4;t5", b"")]}


def _mutants(work: Path, count: int = 200) -> dict[str, Any]:
    import numpy as np

    from cdec.core import CdecError, open_artifact

    os.chdir(work)
    good = _good(work)
    rng = np.random.default_rng(0)
    places, changes = rng.integers(len(good), size=count), rng.integers(1, 256, size=count)
    codes: Counter[str] = Counter()
    digest = hashlib.sha256()
    for place, change in zip(places.tolist(), changes.tolist(), strict=True):
        mutant = bytearray(good)
        mutant[place] ^= change
        Path("case.arrow").write_bytes(mutant)
        try:
            open_artifact("case.arrow", vocabulary=_vocabulary())
        except CdecError as error:
            codes[error.code] += 1
            digest.update(f"{error.code} {error}\n".encode())
        else:
            codes["accepted"] += 1
    return {"codes": dict(sorted(codes.items())), "sha256": digest.hexdigest()}


def artifact_cases() -> Iterator[Case]:
    """Yield every hostile artifact, opened from Python and inspected on the command line."""
    for name in FILES:
        yield Case(f"artifact-{name}", "artifact", call=lambda w, n=name: _opened(n, w))

        def prepare(work: Path, name: str = name) -> None:
            data = FILES[name](_good(work))
            (work / "good.arrow").unlink()
            (work / "case.arrow").write_bytes(data)

        lines = ("inspect case.arrow", "check case.arrow", "sample -a case.arrow --prompt a")
        steps = tuple(Step(words(line), b"t3;\n") for line in lines)
        yield Case(f"artifact-cli-{name}", "artifact", steps, prepare=prepare)
    yield Case("artifact-mutants", "artifact", call=_mutants)


def corpus_cases() -> list[Case]:
    """Return all of these cases."""
    return [
        *set_cases(), *grammar_cases(), *prompt_cases(), *line_cases(), *artifact_cases()
    ]  # fmt: skip
