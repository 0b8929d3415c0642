"""Under llama.cpp: vocabularies of GGUF files, and masks in its own decoding, bit for bit."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")

from llama_cpp import Llama, LogitsProcessorList
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from cdec.compilers import compile_set, regex_constraint, schema_constraint
from cdec.core import FreeText, Vocabulary
from cdec.core.artifacts.opened import bind_artifact, read_artifact
from cdec.core.constraint import Constraint
from cdec.core.errors import (
    ChatTemplateMissingError,
    ContextLengthError,
    ModelError,
    TokenizerMismatchError,
    UsageError,
)
from cdec.data import embedded_model_path
from cdec.integrations.llama_cpp import ConstraintProcessor, LlamaCppModel, gguf_vocabulary
from cdec.samplers import sample
from tests.docs.blocks import blocks_of
from tests.integrations.gguf_files import save_bpe, save_sentencepiece
from tests.laws.rounding import near
from tests.laws.sessions import own_mask

CITIES = ["Paris", "Lyon", "New York", "New York City", "Rome", "Bern", "Oslo"]
PROMPTS = ["A city:", "Where? It is", "Name one of them"]


def pieces(kind: str) -> bytes:
    """Return a small SentencePiece model."""
    sentencepiece = pytest.importorskip("sentencepiece")
    lines = ["the cat sat on a mat", "a dog sat there", "cats and dogs  sit", "that is all"] * 20
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        minloglevel=5,
        model_type=kind,
        vocab_size=310,
        byte_fallback=True,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def known() -> Vocabulary:
    """The vocabulary of the same tokenizer, by cdec's own reader."""
    return Vocabulary.from_tokenizer("embedded")


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory, known: Vocabulary) -> Path:
    """A model of the embedded tokenizer."""
    (eos,), bos = known.eos_token_ids, known.bos_token_id
    assert bos is not None
    path = tmp_path_factory.mktemp("gguf") / "bpe.gguf"
    return save_bpe(path, embedded_model_path() / "tokenizer.json", eos=eos, bos=bos)


@pytest.fixture(scope="module")
def llama(bpe: Path) -> Llama:
    return Llama(str(bpe), n_ctx=128, verbose=False, seed=1)


class Watched:
    """A processor whose calls are kept: the tokens, the scores before, those after."""

    def __init__(self, processor: ConstraintProcessor) -> None:
        self.processor = processor
        self.calls: list[tuple[list[int], NDArray[Any], NDArray[Any]]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        before = np.array(scores)
        after = self.processor(input_ids, scores)
        assert (np.array(scores) == before).all(), "the scores are left as they are"
        self.calls.append((np.asarray(input_ids).tolist(), before, after))
        return after


def completed(llama: Llama, processor: Any, prompt: str, **options: Any) -> str:
    settings = {"max_tokens": 24, "temperature": 0.0, "repeat_penalty": 1.0} | options
    given = LogitsProcessorList([processor])
    found: Any = llama.create_completion(prompt, logits_processor=given, **settings)
    text: str = found["choices"][0]["text"]
    return text


def test_the_tokens_of_a_bpe_model_are_those_of_its_tokenizer(bpe: Path, known: Vocabulary) -> None:
    found = gguf_vocabulary(bpe)
    assert list(found.token_bytes) == list(known.token_bytes)
    assert found.vocabulary_hash == known.vocabulary_hash
    assert found.eos_token_ids == known.eos_token_ids
    assert found.bos_token_id == known.bos_token_id


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_tokens_of_a_sentencepiece_model_are_those_of_its_file(
    kind: str, tmp_path: Path
) -> None:
    data = pieces(kind)
    (tmp_path / "tokenizer.model").write_bytes(data)
    theirs = Vocabulary.from_tokenizer(tmp_path / "tokenizer.model")
    found = gguf_vocabulary(save_sentencepiece(tmp_path / "pieces.gguf", data))
    assert list(found.token_bytes) == list(theirs.token_bytes)
    assert found.vocabulary_hash == theirs.vocabulary_hash
    assert found.eos_token_ids == theirs.eos_token_ids
    assert any(piece[:1] == b" " and piece[1:] for piece in found.token_bytes)


def test_a_file_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF or not")
    for name in ("x.gguf", "absent.gguf"):
        with pytest.raises(ModelError, match="cannot be read as a GGUF model"):
            gguf_vocabulary(tmp_path / name)


@pytest.fixture(scope="module")
def constraints(
    llama: Llama, known: Vocabulary, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Constraint]:
    """A set compiled with the tokenizer and opened for the model; others compiled for it."""
    path = tmp_path_factory.mktemp("sets") / "cities.arrow"
    compile_set(CITIES, known, path)
    vocabulary = gguf_vocabulary(llama)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return {
        "set": bind_artifact(read_artifact(path), vocabulary),
        "regex": regex_constraint(r"[a-z]{2,5}(, [a-z]{2,5}){0,2}\.", vocabulary),
        "schema": schema_constraint({**schema, "additionalProperties": False}, vocabulary),
    }


@pytest.mark.parametrize("kind", ["set", "regex", "schema"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_masks_in_llama_cpp_are_cdecs_own_bit_for_bit(
    llama: Llama, constraints: dict[str, Constraint], kind: str, temperature: float
) -> None:
    constraint = constraints[kind]
    processor = ConstraintProcessor(constraint, llama)
    for prompt in PROMPTS:
        watched = Watched(processor)
        completed(llama, watched, prompt, temperature=temperature)
        begin = len(watched.calls[0][0])
        for tokens, before, after in watched.calls:
            allowed = own_mask(constraint, tokens[begin:])
            assert (np.isfinite(after) == allowed).all()
            assert (after[allowed] == before[allowed]).all()
        assert len(watched.calls) > 1


def test_greedy_texts_are_the_most_probable_allowed_tokens(
    llama: Llama, constraints: dict[str, Constraint]
) -> None:
    """What llama.cpp emits is the argmax of the masked scores, and a member where it ended."""
    constraint = constraints["set"]
    processor = ConstraintProcessor(constraint, llama)
    for prompt in PROMPTS:
        watched = Watched(processor)
        text = completed(llama, watched, prompt)
        best = [int(after.argmax()) for _, _, after in watched.calls]
        begin = len(watched.calls[0][0])
        assert watched.calls[-1][0][begin:] == best[:-1]
        assert best[-1] in constraint.vocabulary.eos_token_ids
        assert constraint.vocabulary.decode(best[:-1]).decode() == text
        assert text.strip() in CITIES


def test_an_instance_serves_prompt_after_prompt(
    llama: Llama, constraints: dict[str, Constraint]
) -> None:
    processor = ConstraintProcessor(constraints["set"], llama)
    first = [completed(llama, processor, prompt) for prompt in PROMPTS]
    assert [completed(llama, processor, prompt) for prompt in PROMPTS] == first
    fresh = [
        completed(llama, ConstraintProcessor(constraints["set"], llama), prompt)
        for prompt in PROMPTS
    ]
    assert fresh == first


def test_a_prompt_that_goes_on_where_a_text_was_is_told_apart_by_its_length(
    llama: Llama, constraints: dict[str, Constraint]
) -> None:
    constraint = constraints["set"]
    prompt = llama.tokenize(b"A city:")
    watched = Watched(ConstraintProcessor(constraint, llama, prompt_length=len(prompt)))
    completed(llama, watched, "A city:")
    tokens, _, after = watched.calls[1]
    assert (np.isfinite(after) == own_mask(constraint, tokens[len(prompt) :])).all()


def test_a_constraint_of_another_tokenizer_is_refused_before_the_first_token(
    llama: Llama, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.model").write_bytes(pieces("bpe"))
    other = Vocabulary.from_tokenizer(tmp_path / "tokenizer.model")
    with pytest.raises(TokenizerMismatchError, match="another tokenizer"):
        ConstraintProcessor(regex_constraint("[ab]+", other), llama)


def test_a_constraint_whose_ends_end_nothing_there_is_refused(
    llama: Llama, known: Vocabulary
) -> None:
    other = next(i for i in sorted(known.special_token_ids) if i not in known.eos_token_ids)
    with pytest.raises(UsageError, match="end with"):
        ConstraintProcessor(regex_constraint("[ab]+", known.with_eos([other])), llama)


def test_a_model_with_a_draft_is_refused(bpe: Path) -> None:
    drafted = Llama(
        str(bpe), n_ctx=64, verbose=False, draft_model=LlamaPromptLookupDecoding(num_pred_tokens=2)
    )
    constraint = regex_constraint("[ab]+", gguf_vocabulary(drafted))
    with pytest.raises(UsageError, match="draft model"):
        ConstraintProcessor(constraint, drafted)


def test_distributions_are_those_of_a_run_from_the_start(llama: Llama, bpe: Path) -> None:
    model = LlamaCppModel(llama)
    (root,) = model.prefill(["A city:"])
    first, second = model.advance([root, root], [40, 50])
    third = model.advance([first], [60])[0]
    asked = np.array([third, root, second, first, third])
    found = model.next_logprobs(asked)
    prompt = model.prompt_tokens(int(root))
    for row, more in zip(found, ([40, 60], [], [50], [40], [40, 60]), strict=True):
        fresh = Llama(str(bpe), n_ctx=128, verbose=False)
        fresh.eval([*prompt, *more])
        logits = np.ctypeslib.as_array(fresh._ctx.get_logits_ith(-1), (fresh.n_vocab(),))
        wide = logits.astype(np.float64)
        # Two events: what a token's score is, and what it is divided by.
        assert row.tolist() == near((wide - np.logaddexp.reduce(wide)).tolist(), 2)


@pytest.mark.parametrize("kind", ["set", "regex", "schema"])
def test_the_processors_greedy_texts_are_those_of_cdecs_greedy(
    llama: Llama, constraints: dict[str, Constraint], kind: str
) -> None:
    model, constraint = LlamaCppModel(llama), constraints[kind]
    found = sample(model, constraint, PROMPTS, "greedy", max_new_tokens=24)
    processor = ConstraintProcessor(constraint, llama)
    for prompt, (one,) in zip(PROMPTS, found, strict=True):
        watched = Watched(processor)
        completed(llama, watched, prompt)
        chosen = [int(after.argmax()) for _, _, after in watched.calls]
        ends = constraint.vocabulary.eos_token_ids
        assert [token for token in chosen if token not in ends] == list(one.token_ids)


def test_methods_draw_from_a_gguf_model(llama: Llama, constraints: dict[str, Constraint]) -> None:
    """Exact draws are as frequent as the model's own probabilities of the members say."""
    model = LlamaCppModel(llama)
    drawn = sample(model, constraints["set"], "A city:", "exact", n=400, seed=3)
    by_text = {each.text: each for each in drawn}
    assert all(each.valid for each in drawn)
    # A city has several spellings in tokens, so sequences are compared, not texts.
    counts: dict[tuple[int, ...], int] = {}
    for each in drawn:
        key = tuple(each.token_ids)
        counts[key] = counts.get(key, 0) + 1
    weights = {tuple(each.token_ids): np.exp(float(each.logprob or 0)) for each in drawn}
    total = sum(weights.values())
    lower = np.exp(float(drawn[0].log_mass_lower))
    assert total <= np.exp(float(drawn[0].log_mass_upper)) * (1 + 1e-4)
    assert lower > 0 and len(by_text) > 1
    for key, weight in weights.items():
        # What 400 draws did not meet has next to no mass.
        share = weight / total
        spread = np.sqrt(400 * share * (1 - share))
        assert abs(counts[key] - 400 * share) <= 5 * spread + 1


def test_free_text_stands_before_what_follows_it(
    llama: Llama, constraints: dict[str, Constraint]
) -> None:
    """The model is asked for what follows the free text, not for what follows the prompt alone."""
    model = LlamaCppModel(llama)
    free = FreeText(after=("at",), budget=3)
    for each in sample(model, constraints["set"], "A city:", "masked", n=4, free=free):
        tokens = [*model.encode_prompt("A city:"), *each.token_ids[: each.free_tokens]]
        (root,) = model.prefill([tokens])
        rest = each.token_ids[each.free_tokens :]
        log_p = 0.0
        context = root
        for token in rest:
            log_p += float(model.next_logprobs([context])[0][token])
            (context,) = model.advance([context], [token])
        ends = model.next_logprobs([context])[0][list(model.vocabulary.eos_token_ids)]
        log_p += float(np.logaddexp.reduce(np.asarray(ends, np.float64)))
        assert each.logprob - each.free_logprob == near(log_p, 2 * (len(each.token_ids) + 1))


def test_prompts_that_cannot_be_read_are_refused(llama: Llama, bpe: Path) -> None:
    model = LlamaCppModel(llama)
    with pytest.raises(ChatTemplateMissingError):
        model.encode_prompt([{"role": "user", "content": "hi"}])
    with pytest.raises(ContextLengthError):
        model.encode_prompt([5] * llama.n_ctx())
    assert model.encode_prompt("") == [model.vocabulary.bos_token_id]
    with pytest.raises(UsageError, match="without its weights"):
        LlamaCppModel(Llama(str(bpe), vocab_only=True, verbose=False))


def test_the_script_of_the_page_runs(bpe: Path, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs/how-to/llama-cpp.md"
    script = next(b for b in blocks_of(page.read_text()) if b.title == "completion.py")
    (tmp_path / "completion.py").write_text("\n".join(script.lines))
    (tmp_path / "model.gguf").symlink_to(bpe)
    done = subprocess.run(
        [sys.executable, "completion.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, *drawn = done.stdout.splitlines()
    assert re.fullmatch("completion [a-z]{3,8}", first)
    assert len(drawn) == 3
    for line in drawn:
        assert re.fullmatch("exact  ?(Berlin|Lyon|Paris) exact", line)
