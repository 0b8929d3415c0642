"""Task models: their rows and splits on forged data, two steps of training, metrics, cards."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from cdec.core.constraint import text_verdicts
from cdec.core.models.loading import load_model
from cdec.data.assets import embedded_model_path
from cdec.data.metrics.records import Evaluated
from cdec.integrations.findings.tasks import is_held_out, mention_is_held_out, mention_prompt
from tests.shared import REPOSITORY
from tools.training.mixture import token_weights
from tools.training.tasks import sources
from tools.training.tasks.__main__ import main
from tools.training.tasks.cards import summary_lines
from tools.training.tasks.examples import Data, Example, Part, in_any_order
from tools.training.tasks.learning import learn, processor_seconds
from tools.training.tasks.measuring import METRICS, measure
from tools.training.tasks.table import TASKS
from tools.training.training import Plan

Rows = list[dict[str, Any]]


def named(held_out: bool, one_in: int, stem: str = "q") -> str:
    """Return a name that is, or is not, held out."""
    return next(f"{stem}{i}" for i in range(99) if is_held_out(f"{stem}{i}", one_in) == held_out)


def synset(held_out: bool, definition: str, *members: str) -> dict[str, Any]:
    name = named(held_out, 10, "synset")
    return {"id": name, "definition": definition, "members": members, "examples": []}


TEXT = "In 1980 Steve left. " * 20 + "Then Steve met Bill in Rome."
DOCUMENTS = {held: next(f"d{i}" for i in range(99) if mention_is_held_out(f"d{i}") == held)
             for held in (True, False)}  # fmt: skip
TITLES = ["Bill Gates", "Rome", "Rome, New York", "Steve Ballmer", "Steve Jobs (film)"]
FILES: dict[str, Rows | list[str]] = {
    "wordnet/synsets.jsonl": [
        synset(True, "a large cat", "tiger", "big cat"),
        synset(False, "a Large  cat", "lion"),  # the same question
        synset(False, "a small cat", "kitten"),
    ],
    "wordnet/lemmas.txt": ["big cat", "kitten", "lion", "tiger"],
    "entity_sets/wikipedia_titles_93k.txt": TITLES,
    "entity_disambiguation/kore50.jsonl": [
        {"doc": "KORE50/1", "text": TEXT,
         "mentions": [{"offset": TEXT.rindex("Bill"), "length": 4, "mention": "Bill",
                       "title": "Bill Gates"}]},
    ],
    "entity_disambiguation/wned_wiki.jsonl": [
        {"doc": DOCUMENTS[held], "text": TEXT,
         "mentions": [{"offset": TEXT.index("Steve") if held else TEXT.rindex("Rome"),
                       "length": 5 if held else 4, "mention": "Steve" if held else "Rome",
                       "title": "Steve Ballmer" if held else "Rome"}]}
        for held in (True, False)
    ],
    "entity_disambiguation/wiki_fair_v2.jsonl": [
        # A text that is in a document of the other part, too.
        {"doc": DOCUMENTS[False], "text": TEXT,
         "mentions": [{"offset": TEXT.index("Steve"), "length": 5, "mention": "Steve",
                       "title": "Steve Ballmer"}]},
    ],
    "climate_fever/claims.jsonl": [
        {"id": named(held, 5, "c"), "claim": f"Claim {held}", "articles": ["Rome"],
         "evidence": [{"article": "Rome", "text": f"In rome it is warm, {held}."}]}
        for held in (True, False)
    ],
    "dbpedia_entity/queries_qrels.jsonl": [
        {"id": named(True, 3), "query": "friends of bill", "qrels": {"Bill Gates": 2, "Rome": 1}},
        {"id": named(False, 3), "query": "Friends of Bill", "qrels": {"Rome": 2}},
        {"id": named(False, 3), "query": "towns", "qrels": {"Rome": 2, "Bill Gates": 0}},
    ],
    "webquestions/trainmodel.jsonl": [
        {"question": "where is rome?", "answers": ["Italy"], "topic_key": "rome"},
        {"question": "who is it?", "answers": ["it"], "topic_key": "it"},
    ],
    "commongen/train.jsonl": [
        {"concepts": ["run", "dog"], "references": ["a dog runs"]},
        {"concepts": ["cat", "run"], "references": ["A cat runs.", "the cat ran"]},
    ],
    "commongen/dev.jsonl": [
        {"concepts": ["dog", "run"], "references": ["Dogs run ."],
         "inflections": [["dog", "dogs", "Dogs"], []]},
    ],
    "gsm8k/train.jsonl": [
        {"question": "One  and two?", "answer": "<<1+2=3>>3\n#### 3"},
        {"question": "Two and two?", "answer": "<<2+2=4>>4\n#### 4"},
    ],
    "gsm8k/test_part.jsonl": [{"question": "One and two?", "answer": "<<1+2=3>>3\n#### 3"}],
    "constituency/gum_trees.jsonl": [
        # The words of a held-out sentence are a phrase of a document that is learnt from, too.
        {"id": f"{named(True, 5)}-1", "words": ["Cats", "run"],
         "tree": "( S ( NP-SBJ ( NNS Cats ) ) ( VP ( VBP run ) ) )"},
        {"id": f"{named(False, 5)}-1", "words": ["They", "say", "cats", "run"],
         "tree": "( S ( NP-SBJ ( PRP They ) ) ( VP ( VBP say ) ( S ( NP-SBJ ( NNS cats ) ) "
                 "( VP ( VBP run ) ) ) ) )"},
    ],
    **{
        f"ner/{name}_{part}.jsonl": [
            {"tokens": ["Bill", "Gates", "left", part, "Rome"],
             "tags": ["B-person", "I-person", "O", "O", "B-location"]}
        ]
        for name in ("wnut17", "crossner_politics", "crossner_science")
        for part in ("train", "dev")
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every data set that a task reads, a few rows each."""
    folder = tmp_path_factory.mktemp("shared")
    for name, rows in FILES.items():
        path = folder / "data" / f"{name}.xz"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=0))
    return folder


def documents(data: Data) -> list[str]:
    rng = np.random.default_rng(0)
    return [text for part in data.parts for text in data.documents(part)(rng)]


def drawn(data: Data) -> list[Example]:
    return [each for part in data.parts for each in part.draw(np.random.default_rng(0))]


@pytest.mark.parametrize("name", TASKS)
def test_no_question_is_both_held_out_and_learnt_from(name: str, forged: Path) -> None:
    data = TASKS[name].source(forged)
    held_out = {example.key for example in data.held_out}
    texts = set(documents(data))
    assert data.held_out and texts
    by_text = {example.text: example.key for example in drawn(data)}
    kept = {by_text[text] for text in texts if text in by_text}
    assert kept and not kept & held_out
    assert not any(example.prompt in text for example in data.held_out for text in texts)


def test_the_filter_is_what_keeps_them_apart(forged: Path) -> None:
    for name in set(TASKS) - {"concepts-small", "ner"}:
        data = TASKS[name].source(forged)
        held_out = {example.key for example in data.held_out}
        assert held_out & {example.key for example in drawn(data)}, name


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TASKS if name != "concepts-small"])
def test_no_real_question_is_both(name: str, shared: Path) -> None:
    data = TASKS[name].source(shared)
    texts = documents(data)
    held_out = {example.prompt for example in data.held_out}
    assert len(held_out) > 200 and len(texts) > 3000
    prompts = {text[: text.rindex("\n") + 1] for text in texts} | {
        text[: text.rindex(":", 0, text.rindex("\n") + 12) + 1] for text in texts
    }
    assert not held_out & prompts


@pytest.mark.parametrize("name", TASKS)
def test_only_completions_have_the_full_weight(name: str, forged: Path) -> None:
    tokenizer = Tokenizer.from_file(str(embedded_model_path() / "tokenizer.json"))
    for example in TASKS[name].source(forged).held_out:
        encoded = tokenizer.encode(example.text)
        weights = token_weights(example.text, encoded.offsets)
        heavy = [i for i, w in zip(encoded.ids, weights, strict=True) if w == 1.0]
        assert tokenizer.decode(heavy) == example.completion
        # The prompt's tokens do not depend on what follows.
        prompt = tokenizer.encode(example.prompt).ids
        assert encoded.ids[: len(prompt)] == prompt


@pytest.mark.parametrize("name", TASKS)
def test_constraints_allow_what_is_right(name: str, forged: Path) -> None:
    task = TASKS[name]
    data = task.source(forged)
    examples = list(data.held_out)[:2]
    vocabulary = load_model().vocabulary
    made = task.constraint(data, examples)
    for i, example in enumerate(examples):
        constraint = (made[i] if isinstance(made, list) else made).of(vocabulary)
        # A set's members have no space before them; the end of "run ." is no word's.
        right = example.completion.replace(" .", ".")
        has_space = task.said.startswith(("sentences", "trees"))
        right = right if has_space else right.strip()
        asked = [right.encode(), b'{"answer": "none of these"}', b" Cats run."]
        verdicts = [each["valid"] for each in text_verdicts(constraint, asked)]
        assert verdicts == [True, False, False], right


def test_a_mention_stands_in_brackets_among_whole_words() -> None:
    prompt = mention_prompt(TEXT, TEXT.rindex("Bill"), 4)
    assert prompt.endswith("Then Steve met [Bill] in Rome.\nTitle:")
    assert prompt.removeprefix("Text: ").split()[0] in TEXT.split()
    assert len(prompt) < 220
    assert mention_prompt("Rome", 0, 4) == "Text: [Rome]\nTitle:"


def test_forms_of_titles_are_parts_of_them() -> None:
    for form in np.linspace(0, 0.99, 12):
        for title in TITLES:
            short = sources.shortened(title, float(form))
            assert short and short in title
    assert sources.shortened("Rome, New York", 0.0) == "Rome"
    assert sources.shortened("Steve Jobs (film)", 0.6) == "Jobs"


def test_tags_become_spans() -> None:
    tokens = ["Bill", "Gates", "Rome", "Paul"]
    tags = ["B-person", "I-person", "B-location", "B-person"]
    assert list(sources.tagged_entities(tokens, tags)) == [
        ["Bill Gates", "person"], ["Rome", "location"], ["Paul", "person"]
    ]  # fmt: skip
    assert list(sources.tagged_entities(["a"], ["O"])) == []


def score(name: str, text: str, reference: dict[str, Any]) -> list[float]:
    record = Evaluated(0, [{"text": text, "finish_reason": "complete"}], reference)
    terms = METRICS[name].terms(record)
    assert terms is not None
    return [float(term) for term in terms]


def test_metrics_by_hand() -> None:
    right = {"value": {"entities": [["Bill", "person"], ["Rome", "location"]]}}
    text = '{"entities": [["Bill", "person"], ["Rome", "person"], ["left", "person"]]}'
    assert score("entity F1", text, right) == [2.0, 5.0]
    assert score("entity F1", "no JSON", right) == [0.0, 2.0]
    problem = {"value": {"steps": [], "answer": 3}, "source": "GSM8K"}
    assert score("answer, GSM8K", '{"steps": ["1+1=2"], "answer": 3}', problem) == [1.0, 1.0]
    assert score("answer, GSM8K", '{"steps": [], "answer": 4}', problem) == [0.0, 1.0]
    assert score("answer, GSM8K", "3", problem) == [0.0, 1.0]
    tree = {"tree": "( S ( NP ( NN a ) ) ( VP ( VB b ) ) )"}
    assert score("bracket F1", " ( S ( NP ( NN a ) ) ( X ( VB b ) ) )", tree) == [4.0, 6.0]
    assert score("tree", f" {tree['tree']}", tree) == [1.0, 1.0]
    assert score("tree", " ( S ( NN a ) )", tree) == [0.0, 1.0]
    concepts = {"concepts": ["dog", "run"], "inflections": [["run", "ran"], ["dog", "dogs"]]}
    assert score("coverage", "Dogs sit.", concepts) == [0.5, 1.0]
    assert score("all concepts", "The dogs ran.", concepts) == [1.0, 1.0]


# --- Training.


@pytest.fixture(scope="module")
def trained(forged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of a tiny model for glosses; what it would write is not worth measuring."""
    out = tmp_path_factory.mktemp("models")
    asked = ["--shared", str(forged), "--out", str(out), "--only", "gloss-lemma"]
    asked += ["--max-steps", "2", "--batch-tokens", "512", "--start", "scratch", "--shape", "tiny"]
    asked += ["--rows", "0"]
    assert main(asked) == 0
    return out


def test_two_steps_write_a_model_and_its_card(trained: Path) -> None:
    folder = trained / "gloss-lemma"
    card = json.loads((folder / "card.json").read_text())
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    assert card["parameters"] == sum(p.numel() for p in model.parameters())
    assert (card["steps"], card["tokens"], card["start"]) == (2, 1024, "scratch")
    assert [point["tokens"] for point in card["curve"]] == [0, 1024]
    assert card["measured"] == {}
    text = (folder / "README.md").read_text()
    for said in ("CC BY 4.0", "1,024 tokens", "| 1,024 |", "128,044 lemmas"):
        assert said in text
    assert "| gloss-lemma | " in (trained / "README.md").read_text()


def test_the_held_out_loss_is_that_of_each_row_alone(trained: Path, forged: Path) -> None:
    folder = trained / "gloss-lemma"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    losses: list[float] = []
    for example in sources.glosses(forged).held_out:
        begin = len(tokenizer.encode(example.prompt).ids)
        ids = torch.tensor([*tokenizer.encode(example.text).ids, tokenizer.token_to_id("<|end|>")])
        with torch.inference_mode():
            laws = model(input_ids=ids[None]).logits[0].log_softmax(-1)
        losses += [-float(laws[i - 1, ids[i]]) for i in range(begin, len(ids))]
    card = json.loads((folder / "card.json").read_text())
    # Half a percent: the loss is measured in bfloat16, which has eight bits.
    assert card["held_out_loss"] == pytest.approx(np.mean(losses), rel=5e-3)


def test_what_is_there_is_not_trained_again(trained: Path, forged: Path) -> None:
    folder = trained / "gloss-lemma"
    before = (folder / "model.safetensors").stat().st_mtime_ns
    card = (folder / "card.json").read_bytes()
    asked = ["--shared", str(forged), "--out", str(trained), "--only", "gloss-lemma"]
    asked += ["--rows", "0"]
    assert main(asked) == 0
    (folder / "card.json").unlink()
    assert main(asked) == 0
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert (folder / "card.json").read_bytes() == card


@pytest.mark.slow
def test_a_model_learns_what_it_reads(tmp_path: Path) -> None:
    """From the embedded weights a few steps on one row teach it; the clock is the processor's."""
    rows = [Example("Definition: a zorblax\nWord:", " quagga", "zorblax", {"answer": "quagga"})]
    other = [Example("Definition: a plonk\nWord:", " quagga", "plonk", {"answer": "quagga"})]
    data = Data(other, [Part("one", 1.0, in_any_order(rows))], ["quagga", "zebra"])
    plan = Plan(seconds=1e9, max_steps=12, batch_tokens=256, learning_rate=6e-3, warmup=1,
                long_share=0.0, clock=processor_seconds)  # fmt: skip
    learnt = learn(data, tmp_path, plan, shape="draft", start="embedded", seed=0)
    assert learnt.held_out_loss < learnt.curve[0]["loss"]
    assert 0 < learnt.seconds < 60
    model = load_model(str(tmp_path))
    constraint = TASKS["gloss-lemma"].constraint(data, other)
    methods: Any = {"free": ("greedy", {}), "topn": ("topn", {"n": 2}), "exact": ("exact", {})}
    found = measure(model, constraint, other, ("hits@1", "json_valid"), methods, max_new_tokens=9)
    # A metric that has nothing to say of texts says nothing.
    assert found == {name: {"hits@1": 1.0, "json_valid": None} for name in methods}


def test_the_page_has_what_was_measured() -> None:
    docs = REPOSITORY / "docs"
    kept = json.loads((docs / "figures/tasks.json").read_text(encoding="utf-8"))
    page = (docs / "how-to/task-models.md").read_text(encoding="utf-8")
    assert "\n".join(summary_lines(kept["cards"])) in page
    for card in kept["cards"]:
        assert card["metrics"] == list(TASKS[card["task"]].metrics)
        assert card["licence"] == TASKS[card["task"]].licence
    for finding in ("disc-disambiguation", "disc-retrieval"):
        for name, row in kept[finding].items():
            assert f"| {name} | {' | '.join(f'{value:.3f}' for value in row.values())} |" in page
