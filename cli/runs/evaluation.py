"""Evaluations as commands ask for them: settings of what was typed, metrics that need rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cdec.cli.frame.command import Run
from cdec.cli.options.evaluation import EvaluationOptions
from cdec.core.errors import UsageError
from cdec.data.input.source import Source

if TYPE_CHECKING:
    from cdec.data.metrics.evaluation import Evaluation, EvaluationSettings
    from cdec.data.metrics.metric import Metric
    from cdec.data.metrics.records import Evaluated
    from cdec.samplers.rewards.base import Reward


def refuse_stdin_twice(files: Sequence[str], options: EvaluationOptions) -> None:
    """Refuse stdin as more than one of the inputs of an evaluation.

    Args:
        files: Of samples, as typed.
    """
    if [*files, options.references, options.target].count("-") > 1:
        raise UsageError("stdin was given twice", hint="name files for all inputs but one")


def evaluated(sources: Sequence[Source], options: EvaluationOptions, run: Run) -> Evaluation:
    """Evaluate files of samples, and print what a reader should know.

    Raises:
        CdecError: What was typed makes no sense, or an input cannot be read.
    """
    from cdec.data.metrics.evaluation import evaluate

    settings = evaluation_settings(options)
    with run.console.stage("reading samples") as progress:
        found = evaluate(
            sources,
            references=options.references,
            target=options.target,
            settings=settings,
            progress=progress,
        )
    run.console.warn(found.notices)
    return found


def evaluation_settings(options: EvaluationOptions) -> EvaluationSettings:
    """Return the settings of the evaluation that was asked for.

    Raises:
        UsageError: What was typed makes no sense.
    """
    from cdec.data.metrics.evaluation import EvaluationSettings, chosen, metrics_of
    from cdec.data.metrics.records import exactly, folded

    metrics: Mapping[str, Metric] = metrics_of(_ks(options.at), _own_metrics(options))
    if options.metrics is not None:
        names = [name.strip() for name in options.metrics.split(",")]
        metrics = chosen(list(dict.fromkeys(names)), metrics)
    return EvaluationSettings(
        metrics=metrics,
        required=options.metrics is not None,
        as_compared=folded if options.compare == "folded" else exactly,
        uses_weights=options.weights,
        resamples=options.resamples,
        confidence=options.confidence,
        seed=options.seed,
        limits=options.input_limits,
    )


def _ks(text: str) -> list[int]:
    """Return the ranks at which rankings are cut, each once.

    Raises:
        UsageError: One is no whole number from 1.
    """
    ks = []
    for word in text.split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= 1_000_000:
            raise UsageError(
                f"--at has {word.strip()!r}, whole numbers from 1 were expected",
                hint="write --at 1,5,10",
            )
        ks.append(int(word))
    return sorted(set(ks))


def _own_metrics(options: EvaluationOptions) -> list[Metric]:
    """Return the metrics that need rewards: coverage of concepts, and the hook."""
    from cdec.data.metrics.answers import scored
    from cdec.samplers.rewards.coverage import CoverageReward

    coverage = CoverageReward()
    needs = "references with concepts"
    found = [
        scored(
            "concepts_soft",
            "Share of the record's concepts that a text names, in any form; weighted mean.",
            needs,
            lambda text, record: _coverage(coverage, text, record),
        ),
        scored(
            "concepts_hard",
            "Share of the draws, weighted, that name all concepts.",
            needs,
            lambda text, record: _all_of(_coverage(coverage, text, record)),
        ),
    ]
    if options.hook is not None:
        from cdec.samplers.rewards.function import FunctionReward

        hook, name = FunctionReward(options.hook), options.hook.rpartition(":")[2]
        found.append(
            scored(
                name,
                f"{options.hook} of the texts; weighted mean.",
                "samples",
                lambda text, record: _score(hook, text, record),
            )
        )
    return found


def _coverage(reward: Reward, text: str, record: Evaluated) -> float | None:
    reference = record.reference or {}
    return _score(reward, text, record) if "concepts" in reference else None


def _all_of(coverage: float | None) -> float | None:
    return None if coverage is None else float(coverage >= 1.0)


def _score(reward: Reward, text: str, record: Evaluated) -> float:
    return float(reward.scores([text], [record.reference])[0])
