"""Decoding of prompts by a target and a draft: runs, and the accounts of their calls."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from cdec.compilers import compile_set
from cdec.core import CdecError, LanguageModel, Sample, open_artifact
from cdec.data.assets import entity_list, evaluation_prompts
from cdec.integrations.findings.laboratory import Laboratory, read_jsonl
from cdec.integrations.findings.tasks import concepts_prompt
from cdec.samplers.request import Request

BATCH = 64
PAPER_RATIOS = (0.15, 0.34)
"""Costs of a draft call in target calls of the kind that papers have."""


@dataclass(frozen=True)
class Prompts:
    """Prompts with their right answers, and the fields that a reward reads."""

    texts: Sequence[str | list[int]]
    answers: Sequence[str] = ()
    inputs: Sequence[Mapping[str, object] | None] = ()

    def __len__(self) -> int:
        return len(self.texts)

    def subset(self, count: int | None) -> Prompts:
        """Return ``count`` of them, spread evenly; all for None."""
        rows = np.linspace(0, len(self) - 1, min(count or len(self), len(self))).astype(int)
        parts = (self.texts, self.answers, self.inputs)
        return Prompts(*([part[i] for i in rows] if part else [] for part in parts))

    def requests(self, seeds: Sequence[int], length: int | None, constraint: Any) -> list[Request]:
        """Return a request a prompt, seeded by ``seeds`` and its number.

        Args:
            seeds: One a draw. length: Most new tokens.
            constraint: Of all; a list has one a prompt.
        """
        own = constraint if isinstance(constraint, list) else [constraint] * len(self)
        return [
            Request(
                prompt=text,
                constraint=own[number],
                seeds=[seed * 1_000_003 + number for seed in seeds],
                max_new_tokens=length,
                input=self.inputs[number] if self.inputs else None,
            )
            for number, text in enumerate(self.texts)
        ]


@dataclass(frozen=True)
class Run:
    """Samples in the order of their prompts, what they took, and calls as papers count them.

    Attributes:
        seconds: Of decoding, by the clock of the laboratory.
        path: Draft calls, target calls and events without any cache; None where the draft's are not
            counted.
    """

    samples: list[Sample]
    seconds: float
    path: tuple[int, int, int] | None

    @property
    def events(self) -> int:
        """Tokens of all texts, end events counted."""
        return sum(
            len(sample.token_ids) + (sample.finish_reason == "complete") for sample in self.samples
        )

    def total(self, name: str) -> float:
        """Return the sum of a diagnostic field; missing and null count as 0."""
        return float(sum(sample.diagnostics.get(name) or 0 for sample in self.samples))  # type: ignore[misc]

    def calls(self) -> dict[str, float]:
        """Return calls a token, with the samplers' prefix caches."""
        names = ("target_calls", "draft_calls")
        return {name: self.total(name) / self.events for name in names}

    def path_calls(self) -> dict[str, float]:
        """Return calls a token without any cache; of a draft's not counted, caches saved none."""
        draft = self.total("draft_calls") if self.path is None else self.path[0]
        calls = {"target_calls": self.total("path_calls"), "draft_calls": draft}
        return {name: count / self.events for name, count in calls.items()}

    def mean(self, name: str) -> float | None:
        """Return the mean of a diagnostic field over the samples that have it."""
        found = [sample.diagnostics.get(name) for sample in self.samples]
        known = [float(value) for value in found if value is not None]  # type: ignore[arg-type]
        return float(np.mean(known)) if known else None

    def right(self, prompts: Prompts) -> float:
        """Return the share of samples whose text is the answer, as many samples a prompt."""
        each = len(self.samples) // len(prompts)
        answers = np.repeat(np.array(prompts.answers, object), each)
        pairs = zip(self.samples, answers, strict=True)
        return float(np.mean([(sample.text or "").strip() == answer for sample, answer in pairs]))


def pair(laboratory: Laboratory) -> tuple[LanguageModel, LanguageModel]:
    """Return the target and the draft."""
    return laboratory.target(), laboratory.proposer()


def shipped(*names: str) -> Prompts:
    """Return the shipped prompts of ``facts``, ``json`` or ``glosses``."""
    lines = [line for name in names for line in evaluation_prompts(name).read_bytes().splitlines()]
    rows = [orjson.loads(line) for line in lines]
    return Prompts([row["prompt"] for row in rows], [row["answer"] for row in rows])


def concept_sets(path: Path, count: int | None) -> tuple[Prompts, list[dict[str, Any]]]:
    """Return CommonGen prompts with their concepts, spread evenly, and the records themselves."""
    rows = list(read_jsonl(path))
    texts = [concepts_prompt(row["concepts"]) for row in rows]
    inputs = [{"concepts": row["concepts"]} for row in rows]
    numbered = Prompts(texts, [str(i) for i in range(len(rows))], inputs).subset(count)
    return numbered, [rows[int(number)] for number in numbered.answers]


@contextmanager
def entity_set(model: LanguageModel) -> Iterator[Any]:
    """Yield the shipped names as a constraint."""
    members = entity_list("facts").read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "set.arrow"
        compile_set(members, model.vocabulary, path)
        yield open_artifact(path, vocabulary=model.vocabulary)


def decode(
    laboratory: Laboratory,
    sampler: Any,
    prompts: Prompts,
    *,
    model: LanguageModel | None = None,
    seeds: Sequence[int] = (0,),
    batch: int = BATCH,
    length: int | None = 64,
    constraint: Any = None,
) -> Run:
    """Draw a text for every prompt and seed, ``batch`` prompts at a time.

    Args:
        laboratory: Its clock, and its target.
        sampler: Draws. prompts: What it goes on from.
        model: The laboratory's target if None.
        seeds: One a draw of each prompt.
        length: Most new tokens; None as in ``Request``.
        constraint: None for none; a list has one a prompt.

    Raises:
        CdecError: A record failed.
    """
    model = model or pair(laboratory)[0]
    requests = prompts.requests(seeds, length, constraint)
    samples: list[Sample] = []
    path = (0, 0, 0) if hasattr(sampler, "last_path_calls") else None
    begin = laboratory.seconds()
    for first in range(0, len(requests), batch):
        for drawn in sampler.draw_batch(model, requests[first : first + batch]):
            if isinstance(drawn, CdecError):
                raise drawn
            samples += drawn
        if path is not None:
            path = tuple(map(sum, zip(path, sampler.last_path_calls, strict=True)))  # type: ignore[assignment]
    seconds = laboratory.seconds() - begin
    return Run(samples, seconds, path)


def cost(calls: Mapping[str, float], ratio: float) -> float:
    """Return P = c draft calls + target calls a token (design, ALGORITHMS section 4)."""
    return ratio * calls["draft_calls"] + calls["target_calls"]
