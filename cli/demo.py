"""``cdec demo``: compile, sample and compare, on what the package ships."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import CommonOptions, option
from cdec.cli.frame.tables import print_columns, print_json
from cdec.cli.options import shared

if TYPE_CHECKING:
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.samplers.request import Request


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec demo``; the documented defaults stand here."""

    prompts: int = option(8, "Questions asked.", common=True, at_least=1, at_most=math.inf)
    n: int = option(8, "Samples a question.", common=True, at_least=1, at_most=math.inf)
    seed: int = option(0, "Of every random draw.", common=True)
    json: bool = shared.json_option()


def execute(options: Options, run: Run) -> int:
    """Compile, sample and compare on the shipped data.

    Compiles the shipped list of names, asks the embedded model a few questions whose answers are on
    the list, and shows for each method how many samples were members and how many were right. Then
    one question with five answers: what masked decoding draws, what the model's law is, and what
    exact draws. Needs no network and takes less than a minute.

    \b
    Examples:
      cdec demo
      cdec demo --prompts 50 -n 16 --json
    """
    result = demonstrate(run, prompts=options.prompts, n=options.n, seed=options.seed)
    if options.json:
        print_json(run.console, result.to_json())
        return 0
    run.console.data(result.introduction)
    run.console.data("")
    print_columns(run.console, *result.methods_table())
    run.console.data("")
    run.console.data(result.conclusion)
    run.console.data("")
    run.console.data(result.comparison)
    run.console.data("")
    print_columns(run.console, *result.answers_table())
    run.console.data("")
    run.console.data("Try next:")
    for line in NEXT:
        run.console.data(f"  {line}")
    return 0


QUESTION = "Would you like some tea?"
ANSWERS = ("yes please", "some other time", "no thanks", "maybe", "never mind")
DRAWS = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the answers.

    Attributes:
        text: The answer.
        masked: Share of the draws of masked decoding. exact: That of ``exact``.
        law: Its probability, given that the text is one of the answers.
    """

    text: str
    masked: float
    law: float
    exact: float


def five_answers(model: LanguageModel, seed: int = 0, draws: int = DRAWS) -> Sequence[Answer]:
    """Draw the answers by both methods, and compute their law.

    Args:
        model: The embedded one.
        seed: Of every draw.
        draws: Texts drawn by each method.

    Returns:
        The answers, in the order of ``ANSWERS``. Cost: some five dozen prefixes evaluated.
    """
    from cdec.compilers import set_constraint
    from cdec.samplers import classify, sample

    constraint = set_constraint(ANSWERS, model.vocabulary)
    (law,) = classify(model, constraint, [QUESTION])
    probabilities = {label.text: label.probability or 0.0 for label in law.labels}
    shares = {}
    for method in ("masked", "exact"):
        drawn = sample(model, constraint, QUESTION, method=method, n=draws, seed=seed)
        shares[method] = Counter(each.text for each in drawn)
    return [
        Answer(
            text,
            shares["masked"][text] / draws,
            probabilities[text],
            shares["exact"][text] / draws,
        )
        for text in ANSWERS
    ]


Table = tuple[Sequence[str], list[Sequence[str]]]
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("unconstrained", {}),
    ("masked", {}),
    ("disc", {"K": 4}),
)
NEXT = (
    f"""cdec classify --prompt '{QUESTION}' \\
    --labels '{",".join(ANSWERS)}'""",
    """echo '{"prompt": "Is it raining?", "candidates": ["yes", "no", "maybe"]}' \\
    | cdec sample --method exact -n 3""",
    "cdec compile-grammar json",
)
"""Commands to try next: typed as they stand, these need no file."""


@dataclass(frozen=True)
class Question:
    """One shipped prompt and its answer."""

    id: str
    prompt: str
    answer: str


@dataclass
class Demonstration:
    """Findings of the demo.

    Attributes:
        entities: Members of the compiled list.
        questions: What was asked.
        samples: Samples by method, question by question.
        answers: What was found of one more question, which has five answers.
    """

    entities: int
    questions: Sequence[Question]
    samples: dict[str, list[list[Sample]]] = field(default_factory=dict)
    answers: Sequence[Answer] = ()

    @property
    def introduction(self) -> str:
        """One sentence on what was done."""
        return (
            f"Compiled a list of {self.entities:,} names and asked the embedded model "
            f"{len(self.questions)} questions,\n{self._draws} samples each."
        )

    @property
    def conclusion(self) -> str:
        """Meaning of the columns."""
        return (
            "valid: the text is on the list. right: it is the answer.\n"
            "evaluations: prefixes that the model evaluated."
        )

    @property
    def comparison(self) -> str:
        """Meaning of the last table."""
        lured = max(self.answers, key=lambda answer: answer.masked)
        likely = max(self.answers, key=lambda answer: answer.law)
        return (
            f'Of five answers to "{QUESTION}" masked decoding draws\n'
            f'"{lured.text}" in {lured.masked:.1%} of {DRAWS:,} draws. By the model\'s own law\n'
            f'"{likely.text}" has {likely.law:.1%}, and exact draws it in {likely.exact:.1%}:'
        )

    @property
    def _draws(self) -> int:
        return len(next(iter(self.samples.values()))[0])

    def answers_table(self) -> Table:
        """Return the answers: the share of each in the draws, and its probability."""
        header = ["answer", "masked draws", "the law", "exact draws"]
        return header, [
            [each.text, f"{each.masked:.1%}", f"{each.law:.1%}", f"{each.exact:.1%}"]
            for each in self.answers
        ]

    def methods_table(self) -> Table:
        """Return the shares of valid and right samples, and the cost, by method."""
        header = ["method", "valid", "right", "evaluations"]
        return header, [
            [row["method"], f"{row['valid']:.1%}", f"{row['right']:.1%}", f"{row['evaluations']:,}"]
            for row in self._summary()
        ]

    def to_json(self) -> dict[str, object]:
        """Return the summary as one JSON-ready object."""
        return {
            "entities": self.entities,
            "questions": len(self.questions),
            "samples": self._draws,
            "methods": self._summary(),
            "question": QUESTION,
            "draws": DRAWS,
            "answers": [asdict(answer) for answer in self.answers],
        }

    def _summary(self) -> list[dict[str, Any]]:
        rows = []
        for name, by_question in self.samples.items():
            pairs = [
                (sample, question.answer)
                for question, samples in zip(self.questions, by_question, strict=True)
                for sample in samples
            ]
            costs = (sample.diagnostics.get("distinct_evaluations") for sample, _ in pairs)
            rows.append(
                {
                    "method": name,
                    "valid": sum(bool(sample.valid) for sample, _ in pairs) / len(pairs),
                    "right": sum((s.text or "").strip() == answer for s, answer in pairs)
                    / len(pairs),
                    "evaluations": sum(cost for cost in costs if isinstance(cost, int)),
                }
            )
        return rows


def demonstrate(run: Run, *, prompts: int, n: int, seed: int) -> Demonstration:
    """Compile, load, draw with every method; progress goes to stderr.

    Args:
        run: Console and signals.
        prompts: Questions asked, spread over the shipped ones.
        n: Samples a question.
        seed: Of every draw.
    """
    from cdec.core import load_model, open_artifact
    from cdec.core.files.whole import scratch_folder
    from cdec.samplers import SAMPLERS

    questions = shipped_questions(prompts)
    run.console.note("loading the embedded model")
    model = load_model()
    with scratch_folder() as folder:
        artifact = folder / "facts.arrow"
        run.console.note("compiling the shipped list of names")
        entities = _compile_list(model, artifact)
        constraint = open_artifact(artifact, vocabulary=model.vocabulary)
        result = Demonstration(entities, questions)
        requests = [_request(question, constraint, n, seed) for question in questions]
        for name, options in METHODS:
            run.console.note(f"drawing with {name}")
            sampler: Any = SAMPLERS[name]
            drawn = sampler(**options).draw_batch(model, requests)
            result.samples[name] = [_samples(samples) for samples in drawn]
            run.signals.checkpoint()
    run.console.note("drawing five answers")
    result.answers = five_answers(model, seed)
    return result


def shipped_questions(count: int) -> list[Question]:
    """Return questions spread evenly over the shipped evaluation prompts."""
    from cdec.data.assets import evaluation_prompts

    lines = evaluation_prompts("facts").read_text(encoding="utf-8").splitlines()
    count = min(count, len(lines))
    chosen = (json.loads(lines[i * len(lines) // count]) for i in range(count))
    return [Question(str(row["id"]), row["prompt"], row["answer"]) for row in chosen]


def _compile_list(model: LanguageModel, artifact: Path) -> int:
    from cdec.compilers import compile_set
    from cdec.data.assets import entity_list
    from cdec.data.entities.source import read_entities

    lines = read_entities(entity_list("facts"))
    return compile_set(lines, model.vocabulary, artifact, source="facts").entities


def _request(question: Question, constraint: Any, n: int, seed: int) -> Request:
    from cdec.samplers import Request

    return Request.numbered(question.prompt, constraint, id=question.id, n=n, seed=seed)


def _samples(result: Any) -> list[Sample]:
    if isinstance(result, Exception):
        raise result
    return list(result)
