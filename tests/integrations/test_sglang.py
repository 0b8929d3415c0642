"""The SGLang backend under a mirror of SGLang's published interface.

SGLang itself needs CUDA. ``SGLANG_WHEEL=PATH`` holds the mirror to the file of a wheel
(``pip download --no-deps sglang``).
"""

from __future__ import annotations

import ast
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from cdec.compilers import compile_grammar, compile_set
from cdec.core import Vocabulary
from cdec.core.constraint import DONE
from cdec.core.errors import CdecError, TokenizerMismatchError
from tests.laws.sessions import own_mask

CITIES = ["Paris", "Lyon", "New York", "New York City", "Rome", "Bern", "Oslo"]
LIST = 'start: "[" [WORD ("," WORD)*] "]"\nWORD: /[a-z]{1,6}/\n'
REGISTRY: dict[str, Callable[..., Any]] = {}
CHOICES = ["xgrammar"]


class GrammarRow(NamedTuple):
    row: int
    grammar: Any


class BaseGrammarObject:
    """As SGLang 0.5.23 has it: what an object inherits, and what it must answer."""

    def __init__(self) -> None:
        self._finished = False
        self.grammar_stats = None
        self.current_token: int | None = None

    def maybe_init_reasoning(self, reasoning: bool) -> None:
        pass

    def accept_token(self, token: int) -> None:
        raise NotImplementedError

    def rollback(self, k: int) -> None:
        raise NotImplementedError

    def is_terminated(self) -> bool:
        return False

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> Any:
        raise NotImplementedError

    def fill_vocab_mask(self, vocab_mask: Any, idx: int) -> None:
        raise NotImplementedError

    @staticmethod
    def fill_vocab_mask_batched(entries: Any, vocab_mask: Any) -> None:
        for entry in entries:
            entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    @staticmethod
    def reset_vocab_mask(vocab_mask: Any) -> None:
        raise NotImplementedError

    @staticmethod
    def move_vocab_mask(vocab_mask: Any, device: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def apply_vocab_mask(logits: Any, vocab_mask: Any) -> None:
        raise NotImplementedError

    def copy(self) -> Any:
        return self

    def try_jump_forward(self, tokenizer: Any) -> Any:
        raise NotImplementedError


class InvalidGrammarObject(BaseGrammarObject):
    def __init__(self, error_message: str = "Unknown grammar error") -> None:
        super().__init__()
        self.error_message = error_message


class BaseGrammarBackend:
    """As SGLang 0.5.23 has it, as far as requests go."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor()
        self.cache: dict[tuple[str, str], Any] = {}

    def dispatch_json(self, key_string: str) -> Any:
        return InvalidGrammarObject()

    def dispatch_regex(self, key_string: str) -> Any:
        return InvalidGrammarObject()

    def dispatch_ebnf(self, key_string: str) -> Any:
        return InvalidGrammarObject()

    def dispatch_structural_tag(self, key_string: str) -> Any:
        return InvalidGrammarObject()

    def _init_value_dispatch(self, key: tuple[str, str], require_reasoning: bool) -> Any:
        kind, text = key
        dispatch = {
            "json": self.dispatch_json,
            "regex": self.dispatch_regex,
            "ebnf": self.dispatch_ebnf,
            "structural_tag": self.dispatch_structural_tag,
        }
        return dispatch[kind](text)

    def get_cached_or_future_value(
        self, key: tuple[str, str], require_reasoning: bool
    ) -> tuple[Any, bool]:
        value = self.cache.get(key)
        if value:
            copied = value.copy()
            copied.maybe_init_reasoning(require_reasoning)
            return copied, True
        return self.executor.submit(self._init_value_dispatch, key, require_reasoning), False

    def set_cache(self, key: tuple[str, str], value: Any) -> None:
        self.cache[key] = value


@pytest.fixture(scope="module")
def sglang() -> Iterator[Any]:
    """Yield ``cdec.integrations.sglang`` over the mirror."""
    base = ModuleType("sglang.srt.constrained.base_grammar_backend")
    for each in (BaseGrammarBackend, BaseGrammarObject, InvalidGrammarObject, GrammarRow):
        setattr(base, each.__name__, each)
    vars(base)["register_grammar_backend"] = REGISTRY.__setitem__
    choices = ModuleType("sglang.srt.arg_groups.choices")
    vars(choices)["add_grammar_backend_choices"] = CHOICES.extend
    names = ["sglang", "sglang.srt", "sglang.srt.constrained", "sglang.srt.arg_groups"]
    modules = {name: ModuleType(name) for name in names} | {
        module.__name__: module for module in (base, choices)
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        from cdec.integrations import sglang

        yield sglang
    sys.modules.pop("cdec.integrations.sglang", None)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, vocabulary: Vocabulary) -> Path:
    folder = tmp_path_factory.mktemp("served")
    compile_set(CITIES, vocabulary, folder / "cities.arrow")
    compile_grammar(LIST, vocabulary, folder / "list.arrow")
    path = folder / "serving.toml"
    path.write_text('max_kept = 3\n[artifacts]\ncities = "cities.arrow"\nlist = "list.arrow"\n')
    return path


@pytest.fixture
def backend(
    sglang: Any, settings: Path, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.setenv("CDEC_SERVING", str(settings))
    sglang.register()
    assert "cdec" in CHOICES
    arguments = SimpleNamespace(tokenizer_path="embedded", model_path="embedded")
    ends = set(vocabulary.eos_token_ids)
    return REGISTRY["cdec"](arguments, SimpleNamespace(eos_token_id=None), vocabulary.width, ends)


def asked(text: str) -> tuple[str, str]:
    return "json", '{"cdec": ' + text + "}"


def object_of(backend: Any, key: tuple[str, str]) -> Any:
    """Return a request's object as SGLang's grammar manager gets it."""
    found, was_kept = backend.get_cached_or_future_value(key, False)
    if was_kept:
        return found
    assert isinstance(found, Future)
    made = found.result()
    backend.set_cache(key, made.copy())
    return made


def test_masks_of_a_batch_are_the_sessions_own_and_others_rows_stay(
    backend: Any, vocabulary: Vocabulary
) -> None:
    keys = [
        asked('{"artifact": "cities"}'),
        asked('{"artifact": "list"}'),
        asked('{"artifact": "cities", "deny": ["Oslo"]}'),
    ]
    objects = [object_of(backend, keys[i % 3]) for i in range(6)]
    random = np.random.default_rng(3)
    mask = objects[0].allocate_vocab_mask(vocabulary.width, 8, "cpu")
    assert (mask == -1).all()
    texts: list[list[int]] = [[] for _ in objects]
    for _ in range(10):
        objects[0].reset_vocab_mask(mask)
        going = [i for i, text in enumerate(objects) if not text.is_terminated()]
        entries = [GrammarRow(7 - i, objects[i]) for i in going]
        objects[0].fill_vocab_mask_batched(entries, mask)
        logits = torch.zeros((8, vocabulary.width))
        objects[0].apply_vocab_mask(logits, objects[0].move_vocab_mask(mask, "cpu"))
        free = [row for row in range(8) if row not in {entry.row for entry in entries}]
        assert torch.isfinite(logits[free]).all()
        for i in going:
            allowed = own_mask(objects[i].cursor.constraint, texts[i])
            assert (torch.isfinite(logits[7 - i]).numpy() == allowed).all()
            single = objects[i].allocate_vocab_mask(vocabulary.width, 1, "cpu")
            objects[i].fill_vocab_mask(single, 0)
            assert torch.equal(single[0], mask[7 - i])
            token = int(random.choice(np.flatnonzero(allowed)))
            texts[i].append(token)
            objects[i].accept_token(token)
            assert objects[i].current_token == token
    assert any(text.is_terminated() for text in objects)


def test_tokens_are_taken_back_refused_and_ignored_behind_the_end(
    backend: Any, vocabulary: Vocabulary
) -> None:
    text = object_of(backend, asked('{"artifact": "cities", "candidates": ["New York"]}'))
    walked: list[int] = []
    while not text.is_terminated():
        token = int(np.flatnonzero(own_mask(text.cursor.constraint, walked))[0])
        text.accept_token(token)
        walked.append(token)
    text.accept_token(5)
    assert text.is_terminated()
    text.rollback(2)
    assert not text.is_terminated()
    with pytest.raises(ValueError, match="not accepted"):
        text.accept_token(vocabulary.width + 3)
    for token in walked[-2:]:
        text.accept_token(token)
    assert text.state == DONE
    text.rollback(100)
    assert text.state == text.cursor.start
    assert text.try_jump_forward(None) is None


def test_a_kept_object_begins_anew_for_every_request_and_few_are_kept(backend: Any) -> None:
    key = asked('{"artifact": "list"}')
    first = object_of(backend, key)
    token = int(np.flatnonzero(own_mask(first.cursor.constraint, []))[0])
    first.accept_token(token)
    again = object_of(backend, key)
    assert again is not first
    assert again.state == again.cursor.start
    assert again.cursor is first.cursor
    for name in CITIES:
        object_of(backend, asked('{"artifact": "cities", "deny": ["' + name + '"]}'))
    assert len(backend.cache) == 3


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (("regex", "a+"), "E_FIELD"),
        (("ebnf", 'start: "a"'), "E_FIELD"),
        (("json", '{"type": "object"}'), "E_FIELD"),
        (("json", "$$ANY$$"), "E_FIELD"),
        (("json", "{"), "E_FIELD"),
        (("structural_tag", "{}"), "E_FIELD"),
        (asked('{"artifact": "/etc/passwd"}'), "E_FIELD"),
        (asked('{"artifact": "cities", "candidates": ["Tokyo"]}'), "E_FIELD"),
        (asked('{"artifact": "cities", "deny": ["' + '","'.join(CITIES) + '"]}'), "E_EMPTY_SET"),
    ],
)
def test_what_is_refused_is_an_invalid_object_with_code_and_hint(
    backend: Any, key: tuple[str, str], code: str
) -> None:
    found = object_of(backend, key)
    assert isinstance(found, InvalidGrammarObject)
    assert found.error_message.startswith(code)


def test_a_server_of_another_tokenizer_or_another_end_does_not_start(
    sglang: Any, settings: Path, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = SimpleNamespace(tokenizer_path="embedded", model_path="embedded")
    tokenizer = SimpleNamespace(eos_token_id=None)
    monkeypatch.delenv("CDEC_SERVING", raising=False)
    with pytest.raises(CdecError, match="CDEC_SERVING"):
        sglang.backend_of(arguments, tokenizer, vocabulary.width, {1})
    monkeypatch.setenv("CDEC_SERVING", str(settings))
    for width, ends in ((vocabulary.width, {9}), (100, {1}), (vocabulary.width, None)):
        with pytest.raises(TokenizerMismatchError):
            sglang.backend_of(arguments, tokenizer, width, ends)


def test_the_mirror_is_what_a_wheel_of_sglang_publishes() -> None:
    wheel = os.environ.get("SGLANG_WHEEL")
    if not wheel:
        pytest.skip("SGLANG_WHEEL names no wheel of SGLang")
    with zipfile.ZipFile(wheel) as files:
        source = files.read("sglang/srt/constrained/base_grammar_backend.py").decode()
    theirs, ours = methods(ast.parse(source)), methods(ast.parse(Path(__file__).read_text()))
    for name in ("BaseGrammarObject", "BaseGrammarBackend", "InvalidGrammarObject"):
        for method, arguments in ours[name].items():
            assert theirs[name][method] == arguments, (name, method)
    answered = {name for name, arguments in theirs["BaseGrammarObject"].items() if arguments}
    jumps = {"jump_forward_str_state", "jump_and_retokenize", "finished"}
    assert answered - jumps <= set(ours["BaseGrammarObject"])
    assert "register_grammar_backend" in theirs[""]


def methods(tree: ast.Module) -> dict[str, dict[str, list[str]]]:
    """Return the arguments of methods by class, and of functions under no name."""
    found: dict[str, dict[str, list[str]]] = {"": {}}
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef):
                name = node.name if isinstance(node, ast.ClassDef) else ""
                found.setdefault(name, {})[inner.name] = [a.arg for a in inner.args.args]
    return found
