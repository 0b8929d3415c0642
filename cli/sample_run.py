"""One run of ``cdec sample``: opens what was typed, turns records into tasks, drives the loop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdec.cli.adaptation import Adaptation, require_grammars
from cdec.cli.constraints import (
    Constraints,
    artifact_paths,
    refuse_unconstrained,
    verify_artifacts,
)
from cdec.cli.method import (
    METHOD_OPTIONS,
    WITHOUT_CONSTRAINT,
    WITHOUT_EFFECT,
    method_of,
)
from cdec.cli.narrowing import conjoined_paths
from cdec.cli.partners import Partners, with_typed_budget
from cdec.cli.pipeline import read_texts
from cdec.cli.prompts import Prompts
from cdec.cli.record_grammars import CacheLimits
from cdec.cli.sample_checks import check_options, inputs, parse_fields, refuse_output
from cdec.cli.sampling import Decoder, Output, Task, batches
from cdec.cli.speculation import check_speculation, load_counts, save_counts
from cdec.cli.tokenizers import resolve_model, shown_model
from cdec.cli.tree import RunConstraint, for_tree, tree_of
from cdec.core.errors import CdecError

if TYPE_CHECKING:
    from cdec.cli.command import Run
    from cdec.cli.model_options import ModelOptions
    from cdec.cli.sample import Options
    from cdec.core.model import LanguageModel, Prompt
    from cdec.data.prompts import BadRecord, PromptRecord
    from cdec.data.resume import FinishedRecords
    from cdec.data.templates import PromptTemplate
    from cdec.samplers.rewards import Reward

SOME_RECORDS_FAILED = 3


def sample(options: Options, run: Run) -> int:
    """Carry out one run; returns the exit status.

    What can be refused is refused in the order of its cost: the command line, the input, the
    output, then the model; an existing output is emptied only when all else is open.
    """
    from cdec.data.writer import open_writer

    options = with_typed_budget(options, run.typed)
    method = method_of(options, run.typed)
    check_options(options, run.typed)
    partners = Partners.of(options, run.typed, method)
    check_speculation(options, run.typed, guesses=partners.keeps_counts)
    counts = load_counts(options, guesses=partners.keeps_counts)
    sampler = partners.early_sampler(counts)
    tree = tree_of(method, output=options.output, resume=options.resume)
    fields = parse_fields(options)
    paths = artifact_paths(options.artifact, options.constraint)
    conjoined = conjoined_paths(options.conjoined)
    cache = CacheLimits.of(options)
    prompts = Prompts.open(options)
    records = prompts.records()
    if not paths and options.method not in WITHOUT_CONSTRAINT:
        records = refuse_unconstrained(records, method=options.method)
    denied = list(read_texts(options.deny)) if options.deny else []
    refuse_output(options)
    digests = verify_artifacts(paths)
    also = sorted(verify_artifacts(conjoined).values())
    require_grammars(options, {**paths, **conjoined}, guessing=partners.guessing)
    records = for_tree(records, tree, RunConstraint.of(options, digests, also, denied))
    has_file = options.counts is not None and partners.keeps_counts
    counts.require_artifacts(digests.values() if has_file else ())
    reward = partners.reward()
    model = open_model(options)
    sampler = sampler or partners.sampler(model, reward, counts, run.console)
    counts.require_vocabulary(model.vocabulary.vocabulary_hash)
    adaptation = Adaptation(model, lookahead=options.lookahead, heal=options.heal)
    constraints = Constraints(paths, model.vocabulary, denied, cache, conjoined)
    run.console.warn(constraints.notices)
    decoder = Decoder(sampler, model, options.temperature, options.top_k, options.top_p)
    with (
        constraints,
        open_writer(
            options.output,
            config=manifest(
                options,
                digests,
                model,
                partners,
                also=also,
                denied=denied,
                template=prompts.template,
            ),
            inputs=inputs(options),
            force=options.force,
            resume=options.resume,
        ) as writer,
    ):
        run.console.warn(writer.notices)
        # With a tree there is one record: its error is the run's.
        output = Output(writer, run.signals, fields, options.strict or tree is not None)
        tasks = Tasks(options, constraints, writer.finished, adaptation, reward)
        _draw(batches(tasks.of(records), options.batch_size), decoder, output, run)
        save_counts(options, counts, guesses=partners.keeps_counts)
        run.console.warn([*constraints.take_notices(), *prompts.stats.notices])
        run.console.warn(getattr(reward, "notices", ()))
    return SOME_RECORDS_FAILED if output.failed else 0


def _draw(tasks: Iterable[Sequence[Task]], decoder: Decoder, output: Output, run: Run) -> None:
    """Draw and write, batch by batch."""
    with run.console.progress("records") as progress:
        done = 0
        for batch in tasks:
            output.write(batch, decoder.results(batch))
            run.signals.checkpoint()
            done += len(batch)
            progress.update("sampling", done, None)


@dataclass(frozen=True)
class Tasks:
    """Turns records into tasks, leaving out what an output to resume holds already."""

    options: Options
    constraints: Constraints
    finished: FinishedRecords
    adaptation: Adaptation
    reward: Reward | None = None

    def of(self, records: Iterable[PromptRecord | BadRecord]) -> Iterator[Task]:
        """Yield a task for each record that is not finished."""
        from cdec.data.prompts import BadRecord

        for record in records:
            if isinstance(record, BadRecord):
                if self.finished.missing(record.id, 1):
                    yield Task(record.id, record.error)
                continue
            n = self.options.n if record.n is None else record.n
            missing = self.finished.missing(record.id, n)
            if missing:
                yield self._task(record, n, frozenset(missing))

    def _task(self, record: PromptRecord, n: int, missing: frozenset[int]) -> Task:
        from cdec.data.seeds import derive_seed
        from cdec.samplers import Request

        required = self.options.method not in WITHOUT_CONSTRAINT
        prompt: Prompt = list(record.messages or ()) if record.prompt is None else record.prompt
        try:
            constraint = self.constraints.of(record, required=required)
            prompt, constraint = self.adaptation.of(prompt, constraint)
            if self.reward is not None:
                self.reward.check(record.input)
        except CdecError as error:
            return Task(record.id, error, is_plain=False)
        seed = self.options.seed if record.seed is None else record.seed
        longest = record.max_tokens
        own = (record.n, longest, record.temperature)
        request = Request(
            prompt=prompt,
            constraint=constraint,
            seeds=[derive_seed(seed, record.id, index) for index in range(n)],
            id=record.id,
            max_new_tokens=self.options.max_new_tokens if longest is None else longest,
            input=record.input,
        )
        is_plain = all(value is None for value in own)
        return Task(record.id, request, record.temperature, is_plain, missing)


def open_model(options: ModelOptions) -> LanguageModel:
    """Load the model that the options name."""
    from cdec.core import load_model

    return load_model(
        resolve_model(options.model),
        device=options.device,
        dtype=options.dtype,
        device_map=options.device_map,
        attn_implementation=options.attn_implementation,
        revision=options.revision,
        trust_remote_code=options.trust_remote_code,
        allow_pickle=options.allow_pickle,
        quantization=options.quantization,
        allow_special=options.allow_special,
    )


def manifest(
    options: Options,
    digests: Mapping[str, str],
    model: LanguageModel,
    partners: Partners,
    *,
    also: Sequence[str],
    denied: Sequence[str],
    template: PromptTemplate | None,
) -> dict[str, object]:
    """Return all that decides what the records are: devices and batch sizes do not."""
    chosen = (
        *("n", "temperature", "top_k", "top_p", "seed", "max_new_tokens", "allow_special"),
        *("lookahead", "heal"),
    )
    return {
        "method": options.method,
        **{
            flag.strip("-"): getattr(options, name)
            for name, flag in METHOD_OPTIONS.items()
            if name not in WITHOUT_EFFECT
        },
        **partners.manifest(),
        **{name: getattr(options, name) for name in chosen},
        "model": shown_model(options.model),
        "revision": options.revision,
        "dtype": options.dtype,
        "quantization": options.quantization,
        "vocabulary": model.vocabulary.vocabulary_hash,
        "artifacts": dict(sorted(digests.items())),
        **({"and": list(also)} if also else {}),
        "deny": _hash(denied) if denied else None,
        "template": None if template is None else _hash([template.texts, template.fields]),
        "fields": options.fields,
        **({} if options.tree is None else {"tree": str(options.tree)}),
    }


def _hash(parts: object) -> str:
    """Return a hash of texts: read once, since they may come from a pipe."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
