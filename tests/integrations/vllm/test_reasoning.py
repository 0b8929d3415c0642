"""A served model's reasoning: free up to its end, as the engine's parser says, then masked."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cdec.compilers import compile_grammar
from cdec.core import Vocabulary
from cdec.core.errors import ConfigError
from cdec.integrations.serving.constraints import ServedConstraints
from cdec.integrations.serving.settings import ServingSettings
from tests.core.models.chat_models import END, END_THINK, THINK, byte_tokenizer

from .standins import BatchUpdate, SamplingParams, ThinkParser, stand_ins

TOKENIZER = byte_tokenizer()
VOCABULARY = Vocabulary.from_tokenizer(TOKENIZER)
WIDTH = VOCABULARY.width
GRAMMAR = 'start: "yes" | "no"'


def ids(text: str) -> list[int]:
    return list(VOCABULARY.encode([text])[0])


(Y,), (N,) = ids("y"), ids("n")
OPEN, CLOSED = [7, THINK, 8], [THINK, 8, END_THINK, 9]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> ServedConstraints:
    folder = tmp_path_factory.mktemp("served")
    compile_grammar(GRAMMAR, VOCABULARY, folder / "answer.arrow")
    (folder / "serving.toml").write_text('[artifacts]\nanswer = "answer.arrow"\n')
    return ServedConstraints(ServingSettings.from_file(folder / "serving.toml"), VOCABULARY)


@pytest.fixture
def engine(served: ServedConstraints, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with stand_ins(TOKENIZER) as found:
        for module in (found.v1, found.v2):
            monkeypatch.setattr(module, "served_by", lambda _: served)
        yield found


def config(parser: str = "think", plugin: str = "", inside: bool = False) -> Any:
    return SimpleNamespace(
        model_config=SimpleNamespace(logits_processors=["x:Y"]),
        scheduler_config=SimpleNamespace(async_scheduling=False),
        speculative_config=None,
        structured_outputs_config=SimpleNamespace(
            reasoning_parser=parser, reasoning_parser_plugin=plugin, enable_in_reasoning=inside
        ),
    )


class Run:
    """One request in either runner; ``masks`` says what may follow each of its tokens."""

    def __init__(self, engine: Any, runner: str, given: Any, **changes: Any) -> None:
        self.engine, self.runner = engine, runner
        self.config = config(**changes)
        self.given = given

    def masks(self, prompt: list[int], tokens: list[int], **more: Any) -> list[set[int]]:
        params = SamplingParams(None if self.given is None else {"cdec": self.given}, **more)
        return getattr(self, f"_{self.runner}")(params, prompt, tokens)

    def _v1(self, params: Any, prompt: list[int], tokens: list[int]) -> list[set[int]]:
        processor = self.engine.v1.ConstraintProcessor(self.config, torch.device("cpu"), False)
        written: list[int] = []
        processor.update_state(BatchUpdate([(0, params, prompt, written)]))
        found = [shown(processor.apply(torch.zeros((1, WIDTH)))[0])]
        for token in tokens:
            written.append(token)
            found.append(shown(processor.apply(torch.zeros((1, WIDTH)))[0]))
        return found

    def _v2(
        self, params: Any, prompt: list[int], tokens: list[int], resumed: int = 0
    ) -> list[set[int]]:
        whole = torch.tensor([prompt + tokens], dtype=torch.int32)
        lengths = [torch.tensor([n]) for n in (len(prompt), len(prompt) + resumed)]
        prompts, prefills = (SimpleNamespace(gpu=n, np=n.numpy()) for n in lengths)
        states = SimpleNamespace(
            device=torch.device("cpu"),
            max_num_reqs=1,
            all_token_ids=SimpleNamespace(gpu=whole),
            prompt_len=prompts,
            prefill_len=prefills,
        )
        processor = self.engine.v2.ConstraintProcessor(self.config, states)
        assert processor.add_request(0, params) == (params.extra_args is not None)
        processor.apply_staged_writes()
        found = []
        for count in range(resumed, len(tokens) + 1):
            last = len(prompt) + count - 1
            context = SimpleNamespace(
                idx_mapping_np=np.array([0]), input_ids=whole[0, last : last + 1],
                pos=torch.tensor([last]),
            )  # fmt: skip
            found.append(shown(processor.apply(torch.zeros((1, WIDTH)), context)[0]))
        return found


def shown(row: Any) -> set[int]:
    return set(np.flatnonzero(torch.isfinite(row).numpy()).tolist())


EVERY = set(range(WIDTH))
ANSWER = {"artifact": "answer"}
RUNNERS = pytest.mark.parametrize("runner", ["v1", "v2"])


@RUNNERS
def test_reasoning_is_free_and_the_token_behind_its_end_is_masked(engine: Any, runner: str) -> None:
    run = Run(engine, runner, ANSWER)
    masks = run.masks(OPEN, [*ids("hm\nno "), END_THINK, *ids("no")])
    # The end of the text is free too, as in vLLM's own structured outputs.
    assert all(mask == EVERY for mask in masks[:7])
    assert masks[7:] == [{Y, N}, set(ids("o")), {END}]
    # A model may begin to think itself: nothing in the prompt says that it is over.
    assert run.masks([7], [THINK, 5, END_THINK])[-1] == {Y, N}


@RUNNERS
def test_a_prompt_in_which_reasoning_is_over_begins_the_constraint(
    engine: Any, runner: str
) -> None:
    run = Run(engine, runner, ANSWER)
    assert run.masks(CLOSED, [N]) == [{Y, N}, set(ids("o"))]
    # A turn before had its own; this one thinks anew.
    assert run.masks([*CLOSED, *OPEN], [5])[0] == EVERY
    assert ThinkParser.made[-1]["chat_template_kwargs"]["enable_thinking"] is True


@RUNNERS
@pytest.mark.parametrize(
    ("given", "changes", "first"),
    [
        ({**ANSWER, "reasoning": False}, {}, {Y, N}),
        ({**ANSWER, "after": ":"}, {}, None),
        (ANSWER, {"parser": ""}, {Y, N}),
        (ANSWER, {"inside": True}, {Y, N}),
        (ANSWER, {"parser": "plug.py", "plugin": "plug.py"}, EVERY),
        (None, {}, EVERY),
    ],
)
def test_a_request_or_the_engine_may_say_otherwise(
    engine: Any, runner: str, given: Any, changes: dict[str, Any], first: set[int] | None
) -> None:
    masks = Run(engine, runner, given, **changes).masks(OPEN, [END_THINK, *ids(":")])
    if first is None:  # its own free text stands in the place of the parser's
        assert masks[0] == masks[1] == EVERY and masks[2] == {Y, N}
    else:
        assert masks[0] == first


@RUNNERS
def test_what_fits_has_its_number_behind_the_reasoning(
    engine: Any, runner: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(engine, runner, {**ANSWER, "fit": 3})
    masks = run.masks(OPEN, [5, 5, END_THINK, *ids("yes")], max_tokens=7)
    # Two tokens of thought, its end, three of the answer, the end of the text.
    assert [mask == EVERY for mask in masks[:2]] == [False, False]  # the text may not end there
    assert masks[0] == EVERY - {END}
    assert masks[2:] == [{END_THINK}, {Y, N}, set(ids("e")), set(ids("s")), {END}]
    with caplog.at_level(logging.WARNING):
        masks = run.masks(OPEN, [END_THINK], max_tokens=4)
    assert masks == [{END_THINK}, {Y, N}] and "leaves no room" in caplog.text
    assert run.masks(OPEN, [5], max_tokens=None)[0] == EVERY


def test_v2_follows_what_came_back_with_a_part_of_its_reasoning(engine: Any) -> None:
    run = Run(engine, "v2", ANSWER)
    params = SamplingParams({"cdec": ANSWER})
    for count, first in ((2, EVERY), (3, {Y, N}), (4, set(ids("o")))):
        masks = run._v2(params, OPEN, [5, 6, END_THINK, N, *ids("o")], resumed=count)
        assert masks[0] == first and masks[-1] == {END}


def test_a_parser_that_tells_no_text_needs_one_of_the_operator(
    engine: Any, served: ServedConstraints
) -> None:
    of, told = engine.reasoning.reasoning_of, served.settings
    with pytest.raises(ConfigError, match="'silent' does not tell"):
        of(config("silent"), told, VOCABULARY)
    found = of(config("silent"), ServingSettings(reasoning_end="</think>\n\n"), VOCABULARY)
    assert (found.end, found.most) == ("</think>\n\n", 3)
    with pytest.raises(ConfigError, match="ends reasoning"):
        of(config("think"), ServingSettings(reasoning_end="<|end|>"), VOCABULARY)
    assert of(config("think"), ServingSettings(reasoning=False), VOCABULARY) is None


def test_settings_say_whether_and_where_reasoning_ends(tmp_path: Path) -> None:
    path = tmp_path / "serving.toml"
    path.write_text('reasoning = false\nreasoning_end = "</t>"\nref_dirs = ["s"]\n')
    found = ServingSettings.from_file(path)
    assert (found.reasoning, found.reasoning_end) == (False, "</t>")
    assert found.ref_dirs == (tmp_path / "s",)
    for wrong in ("reasoning = 1", 'reasoning_end = ""', "ref_dirs = 1", "tokenizer = 1"):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match=wrong.partition(" ")[0]):
            ServingSettings.from_file(path)


def test_schemas_of_requests_refer_to_documents_of_the_operator(tmp_path: Path) -> None:
    (tmp_path / "colour.json").write_text('{"enum": ["red"]}')
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "size.json").write_text('{"$id": "https://x.org/size", "enum": ["XL"]}')
    (tmp_path / "serving.toml").write_text(
        'allow = ["schema"]\ntokenizer = "embedded"\nref_dirs = ["more"]\n'
        '[refs]\n"https://x.org/colour" = "colour.json"\n'
    )
    served = ServedConstraints(ServingSettings.from_file(tmp_path / "serving.toml"))
    for uri, member in (("https://x.org/colour", b'"red"'), ("https://x.org/size", b'"XL"')):
        found = served.read({"schema": json.dumps({"$ref": uri})})
        assert found.accepts(member) and not found.accepts(b'"blue"')
    served.close()
