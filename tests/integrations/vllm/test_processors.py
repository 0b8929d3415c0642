"""The processors under vLLM's own contracts: its batch updates, its contexts, proposed tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("vllm", reason="vLLM is not installed")

from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.v1.sample.logits_processor import BatchUpdateBuilder, MoveDirectionality
from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext

from cdec.compilers import compile_grammar, compile_set
from cdec.core import Vocabulary, allocate_mask
from cdec.core.constraint import DEAD, DONE
from cdec.core.errors import UsageError
from cdec.core.mask import unpack_mask
from cdec.integrations.serving.constraints import ServedConstraints
from cdec.integrations.serving.settings import ServingSettings
from cdec.integrations.vllm import requests, v1, v2

CITIES = ["Paris", "Lyon", "New York", "New York City", "Rome", "Bern", "Oslo"]
LIST = 'start: "[" [WORD ("," WORD)*] "]"\nWORD: /[a-z]{1,6}/\n'
ASKED: list[dict[str, Any] | None] = [
    {"artifact": "cities"},
    {"artifact": "list"},
    None,
    {"artifact": "cities", "candidates": ["Oslo", "Bern"]},
    {"artifact": "list", "deny": ["[]"]},
    {"artifact": "list", "after": "list:", "budget": 20},
    {"artifact": "cities", "between": ["<city>", "</city>"]},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, vocabulary: Vocabulary) -> ServedConstraints:
    folder = tmp_path_factory.mktemp("served")
    compile_set(CITIES, vocabulary, folder / "cities.arrow")
    compile_grammar(LIST, vocabulary, folder / "list.arrow")
    text = '[artifacts]\ncities = "cities.arrow"\nlist = "list.arrow"\n'
    (folder / "serving.toml").write_text(text)
    settings = ServingSettings.from_file(folder / "serving.toml")
    return ServedConstraints(settings, vocabulary)


@pytest.fixture(autouse=True)
def _served(served: ServedConstraints, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (v1, v2):
        monkeypatch.setattr(module, "served_by", lambda config: served)
    monkeypatch.setattr(requests, "_checking", lambda: served)


def params(asked: dict[str, Any] | None, **more: Any) -> SamplingParams:
    return SamplingParams(extra_args=None if asked is None else {"cdec": asked}, **more)


@pytest.fixture(scope="module")
def expected(served: ServedConstraints, vocabulary: Vocabulary) -> Callable[..., Any]:
    """Return what a request's text may go on with by a session of its own, bool[width]."""

    def allowed(asked: dict[str, Any] | None, tokens: list[int]) -> Any:
        if asked is None:
            return np.ones(vocabulary.width, np.bool_)
        session = served.read(asked).session("cpu")
        states = session.start(1)
        for token in tokens:
            if states[0] not in (DONE, DEAD):
                states = session.advance(states, np.array([token]))
        mask = allocate_mask(1, vocabulary.width)
        session.fill_mask(states, mask)
        bits = unpack_mask(mask, vocabulary.width)[0]
        if not bits.any():
            bits[vocabulary.eos_token_ids[0]] = True
        return bits

    return allowed


def config(**changes: Any) -> Any:
    given = {"async_scheduling": False, "named": ["x:Y"], "speculative": None} | changes
    return SimpleNamespace(
        model_config=SimpleNamespace(logits_processors=given["named"]),
        scheduler_config=SimpleNamespace(async_scheduling=given["async_scheduling"]),
        speculative_config=given["speculative"],
        structured_outputs_config=SimpleNamespace(reasoning_parser="", enable_in_reasoning=False),
    )


class Text:
    """A request as an engine has it."""

    def __init__(self, number: int) -> None:
        self.asked = ASKED[number % len(ASKED)]
        self.tokens: list[int] = []


def test_v1_masks_are_the_sessions_own_while_requests_come_go_move_and_come_back(
    expected: Callable[..., Any], vocabulary: Vocabulary
) -> None:
    processor = v1.ConstraintProcessor(config(), torch.device("cpu"), False)
    assert not processor.is_argmax_invariant()
    random = np.random.default_rng(11)
    batch: list[Text] = []
    builder = BatchUpdateBuilder()
    away: list[Text] = []
    made = 0
    for step in range(60):
        # As vLLM's input batch: what leaves first, then what enters in its place, then moves.
        for _ in range(int(random.integers(0, 2))):
            if batch:
                gone = batch.pop()
                builder.removed_append(len(batch))
                if random.random() < 0.5 and gone.tokens:
                    away.append(gone)
        while len(batch) < 4 or (len(batch) < 9 and random.random() < 0.4):
            text = away.pop() if away and random.random() < 0.7 else Text(made)
            made += 1
            index = builder.pop_removed()
            assert index is None or index == len(batch)
            builder.added.append((len(batch), params(text.asked), [1, 2, 3], text.tokens))
            batch.append(text)
        if len(batch) > 3:
            a, b = random.choice(len(batch), 2, replace=False).tolist()
            builder.moved.append((a, b, MoveDirectionality.SWAP))
            batch[a], batch[b] = batch[b], batch[a]
        processor.update_state(builder.get_and_reset(len(batch)))
        logits = torch.randn((len(batch), vocabulary.width))
        before = logits.clone()
        found = processor.apply(logits)
        for row, text in enumerate(batch):
            allowed = expected(text.asked, text.tokens)
            assert (torch.isfinite(found[row]).numpy() == allowed).all(), (step, row)
            assert torch.equal(found[row][allowed], before[row][allowed])
            text.tokens.append(int(random.choice(np.flatnonzero(allowed))))
            if step % 17 == 5 and len(text.tokens) > 2:
                # Tokens were taken back: the list is shorter than it was.
                del text.tokens[-2:]
    assert made > 30


def test_v1_refuses_tokens_that_were_not_read_and_entry_points_that_bring_none() -> None:
    with pytest.raises(UsageError, match="entry points"):
        v1.ConstraintProcessor(
            config(async_scheduling=True, named=None), torch.device("cpu"), False
        )
    made = config(async_scheduling=True)
    processor = v1.ConstraintProcessor(made, torch.device("cpu"), False)
    builder = BatchUpdateBuilder()
    builder.added.append((0, params(ASKED[0]), [1], [-1]))
    processor.update_state(builder.get_and_reset(1))
    with pytest.raises(UsageError, match="not read"):
        processor.apply(torch.zeros((1, 4096)))


class Engine:
    """The slots of a V2 model runner, and the steps that it would take."""

    def __init__(self, slots: int, proposed: int, width: int) -> None:
        self.width, self.proposed = width, proposed
        tokens = torch.zeros((slots, 80), dtype=torch.int32)
        prompts, prefills = torch.zeros(slots, dtype=torch.int32), torch.zeros(slots).int()
        self.states = SimpleNamespace(
            device=torch.device("cpu"),
            max_num_reqs=slots,
            vocab_size=width,
            all_token_ids=SimpleNamespace(gpu=tokens),
            prompt_len=SimpleNamespace(gpu=prompts, np=prompts.numpy()),
            prefill_len=SimpleNamespace(gpu=prefills, np=prefills.numpy()),
        )
        speculative = SimpleNamespace(num_speculative_tokens=proposed) if proposed else None
        self.processor = v2.ConstraintProcessor(config(speculative=speculative), self.states)
        self.running: dict[int, Text] = {}

    def add(self, slot: int, text: Text, prompt: list[int]) -> bool:
        whole = prompt + text.tokens
        self.states.prompt_len.np[slot] = len(prompt)
        self.states.prefill_len.np[slot] = len(whole)
        self.states.all_token_ids.gpu[slot, : len(whole)] = torch.tensor(whole, dtype=torch.int32)
        self.running[slot] = text
        wanted = self.processor.add_request(slot, params(text.asked))
        self.processor.apply_staged_writes()
        return wanted

    def step(
        self, slots: list[int], proposals: dict[int, list[int]], read: dict[int, int]
    ) -> tuple[Any, list[tuple[int, int]]]:
        """Apply the processor to one batch; ``read`` tells how far long prompts have been read."""
        rows = [(slot, j) for slot in slots for j in range(len(proposals.get(slot, [])) + 1)]
        tokens, positions = [], []
        for slot, place in rows:
            length = int(self.states.prompt_len.np[slot])
            text = self.running[slot].tokens
            whole = self.states.all_token_ids.gpu[slot].tolist()[:length] + text
            last = read.get(slot, len(whole)) - 1
            tokens.append(proposals[slot][place - 1] if place else whole[last])
            positions.append(last + place)
        context = LogitsContext(
            expanded_idx_mapping=torch.tensor([slot for slot, _ in rows]),
            idx_mapping=torch.tensor(slots),
            idx_mapping_np=np.array(slots),
            expanded_local_pos=torch.tensor([place for _, place in rows]),
            input_ids=torch.tensor(tokens),
            pos=torch.tensor(positions),
            seq_lens_upper_bound_np=np.array(positions) + 1,
        )
        return self.processor.apply(torch.zeros((len(rows), self.width)), context), rows


@pytest.mark.parametrize("proposed", [0, 3])
def test_v2_masks_are_the_sessions_own_with_and_without_proposed_tokens(
    expected: Callable[..., Any], vocabulary: Vocabulary, proposed: int
) -> None:
    engine = Engine(8, proposed, vocabulary.width)
    random = np.random.default_rng(7)
    free, made, away = list(range(8)), 0, []
    for _ in range(40):
        for slot in list(engine.running):
            text = engine.running[slot]
            if random.random() < 0.1 or len(text.tokens) > 12:
                free.append(slot)
                gone = engine.running.pop(slot)
                if 0 < len(gone.tokens) < 12:
                    away.append(gone)
        random.shuffle(free)
        read: dict[int, int] = {}
        while len(engine.running) < 5:
            text = away.pop() if away and random.random() < 0.7 else Text(made)
            made += 1
            slot = free.pop()
            assert engine.add(slot, text, [9, 8, 7, 6]) == (text.asked is not None)
            if random.random() < 0.5:
                read[slot] = 2
        slots = [int(slot) for slot in random.permutation(list(engine.running))]
        proposals: dict[int, list[int]] = {}
        for slot in slots:
            text = engine.running[slot]
            if proposed and slot not in read and random.random() < 0.7:
                count = int(random.integers(1, proposed + 1))
                proposals[slot] = proposal(expected, text, count, random)
        found, rows = engine.step(slots, proposals, read)
        for row, (slot, place) in enumerate(rows):
            text = engine.running[slot]
            if slot in read:
                continue
            tokens = text.tokens + proposals.get(slot, [])[:place]
            bits = torch.isfinite(found[row]).numpy()
            assert (bits == expected(text.asked, tokens)).all()
        for slot in slots:
            if slot not in read:
                accept(expected, engine.running[slot], proposals.get(slot, []), random)
    assert made > 20


def proposal(expected: Callable[..., Any], text: Text, count: int, random: Any) -> list[int]:
    """Return tokens that a draft might propose, some of them not allowed."""
    tokens: list[int] = []
    for _ in range(count):
        allowed = np.flatnonzero(expected(text.asked, text.tokens + tokens))
        wrong = random.random() < 0.2
        tokens.append(int(random.integers(5, 900)) if wrong else int(random.choice(allowed)))
    return tokens


def accept(expected: Callable[..., Any], text: Text, tokens: list[int], random: Any) -> None:
    """Take some proposed tokens, as far as they are allowed, and one of the engine's own."""
    for token in tokens[: int(random.integers(0, len(tokens) + 1))]:
        if not expected(text.asked, text.tokens)[token]:
            break
        text.tokens.append(token)
    text.tokens.append(int(random.choice(np.flatnonzero(expected(text.asked, text.tokens)))))


@pytest.mark.parametrize("processor", [v1.ConstraintProcessor, v2.ConstraintProcessor])
@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"artifact": "towns"}, "E_FIELD"),
        ({"artifact": "/etc/passwd"}, "E_FIELD"),
        ({"artifact": "cities", "candidates": ["Tokyo"]}, "E_FIELD"),
        ({"artifact": "cities", "deny": CITIES}, "E_EMPTY_SET"),
        ({"regex": "a+"}, "E_FIELD"),
        ("{", "E_FIELD"),
        ({"artifact": "cities", "deny": ["a"] * 10_001}, "E_LIMIT"),
    ],
)
def test_what_cannot_be_served_is_refused_as_vllm_refuses(
    processor: Any, asked: Any, code: str
) -> None:
    with pytest.raises(VLLMValidationError, match=code):
        processor.validate_params(params(asked))
    processor.validate_params(params(None))
    processor.validate_params(params({"artifact": "cities"}))


def test_a_text_that_is_to_fit_has_room_for_its_end() -> None:
    check = v1.ConstraintProcessor.validate_params
    check(params({"artifact": "cities", "fit": 9}, max_tokens=10))
    with pytest.raises(VLLMValidationError, match="'max_tokens' 10 or more"):
        check(params({"artifact": "cities", "fit": 9}, max_tokens=9))


@pytest.mark.parametrize(
    "other",
    [
        {"ignore_eos": True},
        {"min_tokens": 2},
        {"stop": ["o"]},
        {"stop_token_ids": [7]},
        {"bad_words": ["a"]},
        {"allowed_token_ids": [1, 2]},
        {"logit_bias": {5: -100}},
    ],
)
def test_parameters_that_a_constraint_cannot_go_with_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(VLLMValidationError, match=next(iter(other))):
        v1.ConstraintProcessor.validate_params(params({"artifact": "cities"}, **other))
    v1.ConstraintProcessor.validate_params(params(None, **other))


def test_a_request_that_fails_behind_the_door_ends_at_once_and_stops_nobody(
    expected: Callable[..., Any], vocabulary: Vocabulary
) -> None:
    end = vocabulary.eos_token_ids[0]
    processor = v1.ConstraintProcessor(config(), torch.device("cpu"), False)
    builder = BatchUpdateBuilder()
    builder.added.append((0, params({"artifact": "gone"}), [1], []))
    builder.added.append((1, params(ASKED[0]), [1], []))
    processor.update_state(builder.get_and_reset(2))
    found = torch.isfinite(processor.apply(torch.zeros((2, vocabulary.width)))).numpy()
    assert np.flatnonzero(found[0]).tolist() == [end]
    assert (found[1] == expected(ASKED[0], [])).all()


def test_no_entry_point_loads_a_processor_by_itself() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert "vllm.logits_processors" not in text
