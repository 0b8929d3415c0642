"""An OpenAI-compatible vLLM server under constraints: what it answers is what cdec allows."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")

from cdec.compilers import compile_grammar, compile_schema, compile_set
from cdec.core import load_model
from cdec.core.constraint import DEAD, DONE
from cdec.integrations.serving.constraints import ServedConstraints
from cdec.integrations.serving.settings import ServingSettings
from cdec.samplers import sample
from tests.integrations.vllm.serving import ask, random_model, served

pytestmark = pytest.mark.heavy

CITIES = ["Paris", "Lyon", "New York", "New York City", "Rome", "London", "Berlin", "Bern", "Oslo"]
LIST = 'start: "[" [WORD ("," WORD)*] "]"\nWORD: /[a-z]{1,6}/\n'
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["a", "b"]}, "n": {"type": "integer", "maximum": 9}},
    "required": ["name", "n"],
    "additionalProperties": False,
}
ASKED: list[dict[str, Any] | None] = [
    {"artifact": "cities"},
    {"artifact": "list"},
    {"artifact": "schema"},
    {"artifact": "cities", "candidates": ["Oslo", "Bern", "New York"]},
    {"artifact": "cities", "deny": ["Paris", "Rome"]},
    {"regex": "[0-9]{3}-[0-9]{4}"},
    None,
]
PROMPTS = [f"{word} {number}" for number in range(4) for word in ("The city of", "It is", "A", "7")]
REQUESTS = 1000
TOKENS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("server")
    (path / "model").mkdir()
    random_model(path / "model")
    vocabulary = load_model(str(path / "model")).vocabulary
    compile_set(CITIES, vocabulary, path / "cities.arrow")
    compile_grammar(LIST, vocabulary, path / "list.arrow")
    compile_schema(SCHEMA, vocabulary, path / "schema.arrow")
    names = "\n".join(f'{name} = "{name}.arrow"' for name in ("cities", "list", "schema"))
    head = f'tokenizer = "{path / "model"}"\nallow = ["regex"]\nmax_candidates = 50\n'
    limits = "compile_seconds = 60\ncompile_megabytes = 4096\n"
    (path / "serving.toml").write_text(f"{head}{limits}[artifacts]\n{names}\n")
    return path


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served(folder / "model", folder / "serving.toml", folder / "log") as found:
        yield found


def body_of(number: int) -> dict[str, Any]:
    asked = ASKED[number % len(ASKED)]
    arguments = {} if asked is None else {"vllm_xargs": {"cdec": json.dumps(asked)}}
    return {
        "prompt": PROMPTS[number % len(PROMPTS)],
        "max_tokens": TOKENS,
        "temperature": 0.0 if number % 2 else 1.0,
        "seed": number,
        "return_token_ids": True,
        **arguments,
    }


def test_a_thousand_requests_under_mixed_constraints_are_what_cdec_allows_and_decodes(
    folder: Path, address: str
) -> None:
    bodies = [body_of(number) for number in range(REQUESTS)]
    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda body: ask(address, body), bodies))
    assert {status for status, _ in answers} == {200}
    model = load_model(str(folder / "model"), dtype="float32")
    asked_of = ServedConstraints(
        ServingSettings.from_file(folder / "serving.toml"), model.vocabulary
    )
    ends = set(model.vocabulary.eos_token_ids)
    greedy: dict[tuple[int, int], list[int]] = {}
    complete = 0
    for number, (_, answer) in enumerate(answers):
        choice = answer["choices"][0]
        tokens = [token for token in choice["token_ids"] if token not in ends]
        which, prompt = number % len(ASKED), number % len(PROMPTS)
        asked = ASKED[which]
        constraint = None if asked is None else asked_of.read(asked)
        if constraint is not None:
            session = constraint.session("cpu")
            states = session.start(1)
            for token in choice["token_ids"]:
                states = session.advance(states, np.array([token]))
                assert states[0] != DEAD, (asked, choice)
            if choice["finish_reason"] == "stop":
                complete += 1
                assert states[0] == DONE
                assert constraint.accepts(constraint.member_text(tokens))
            else:
                assert len(choice["token_ids"]) == TOKENS
        if number % 2:
            if (which, prompt) not in greedy:
                drawn = sample(
                    model, constraint, [PROMPTS[prompt]], method="greedy", max_new_tokens=TOKENS
                )
                greedy[which, prompt] = list(drawn[0][0].token_ids)
            assert tokens == greedy[which, prompt], (asked, PROMPTS[prompt])
    asked_of.close()
    assert complete > REQUESTS // 2


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"artifact": "towns"}, "E_FIELD"),
        ({"artifact": "../cities.arrow"}, "E_FIELD"),
        ({"artifact": "cities", "candidates": ["Tokyo"]}, "E_FIELD"),
        ({"artifact": "cities", "candidates": ["Oslo"] * 51}, "E_LIMIT"),
        ({"artifact": "cities", "deny": CITIES}, "E_EMPTY_SET"),
        ({"schema": {"$ref": "#"}}, "E_FIELD"),
        ({"regex": "(" * 3000}, "E_"),
    ],
)
def test_a_bad_request_is_answered_with_400_and_the_server_goes_on(
    address: str, asked: dict[str, Any], code: str
) -> None:
    body = {"prompt": "It is", "max_tokens": 5, "vllm_xargs": {"cdec": json.dumps(asked)}}
    status, answer = ask(address, body)
    assert status == 400
    assert code in json.dumps(answer)
    good = {**body, "vllm_xargs": {"cdec": '{"artifact": "cities"}'}, "temperature": 0}
    assert ask(address, good)[0] == 200


def test_the_server_answers_others_while_a_request_is_compiled(address: str, folder: Path) -> None:
    asked = json.dumps({"regex": ".*a.{12}b.{14}"})
    body = {"prompt": "It is", "max_tokens": 5, "vllm_xargs": {"cdec": asked}}
    known = {**body, "vllm_xargs": {"cdec": '{"artifact": "cities"}'}}
    assert ask(address, known)[0] == 200
    answered = 0
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ask, address, body)
        while not slow.done():
            with urllib.request.urlopen(f"{address}/health", timeout=60) as health:
                assert health.status == 200
            assert ask(address, known)[0] == 200
            answered += not slow.done()
    assert slow.result()[0] in (200, 400)
    # Where it is compiled on the event loop, one answer at most comes before its own.
    assert answered > 3
    assert "on the server's event loop" not in (folder / "log").read_text()


def test_a_constraint_of_another_tokenizer_stops_the_server_before_it_serves(
    folder: Path, tmp_path: Path
) -> None:
    from cdec.core import Vocabulary

    other = Vocabulary([bytes([i]) for i in range(60)], [0], [0])
    compile_grammar('start: "0"', other, tmp_path / "other.arrow")
    settings = tmp_path / "serving.toml"
    settings.write_text('[artifacts]\nother = "other.arrow"\n')
    with (
        pytest.raises(RuntimeError, match=r"TokenizerMismatchError|was compiled for"),
        served(folder / "model", settings, tmp_path / "log"),
    ):
        pass
