"""``cdec retokenize``: texts in the tokens that a model prefers, with perplexities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import CommonOptions, group, option
from cdec.cli.frame.tables import print_json
from cdec.cli.options import shared
from cdec.cli.options.model import ModelOptions
from cdec.cli.options.shared import refuse_terminal, require_utf8
from cdec.cli.options.texts import TextRecordOptions
from cdec.cli.runs.files import require_input
from cdec.cli.runs.models import refuse_revision
from cdec.cli.runs.tokenizer import loading

if TYPE_CHECKING:
    from cdec.core.errors import CdecError
    from cdec.data.prompts.record import BadRecord
    from cdec.data.prompts.texts import TextRecord
    from cdec.integrations.records.tasks import Task
    from cdec.samplers.scoring.retokenize import Retokenized


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec retokenize``, in the order of its help."""

    loading: ModelOptions = group(ModelOptions)
    texts: TextRecordOptions = group(TextRecordOptions)

    prompt: str = option(
        "",
        "What stands before the texts of records that have no `prompt`.",
        shared.INPUT,
        metavar="TEXT",
        common=True,
    )
    end: bool = option(False, "Count the end of the text as an event.", shared.METHOD)
    batch_size: int = option(
        16, "Texts rewritten together; results come batch by batch.", shared.METHOD, at_least=1
    )
    failures: shared.FailureOptions = group(shared.FailureOptions)
    json: bool = shared.json_line_option()
    progress: bool | None = shared.progress_option()


def execute(options: Options, run: Run) -> int:
    """Rewrite texts in the tokens that a model prefers.

    Token by token, the most probable one that is a prefix of the remaining text. Each JSON line has
    `text`, `token_ids`, `tokens`, `logprob`, `perplexity`, and the same of the tokenizer's own
    tokens: `canonical_token_ids`, `canonical_logprob`, `canonical_perplexity`; `id` first, where
    the record has one. Logarithms are natural; perplexity is exp(-logprob / tokens). A bad record
    becomes an error object in its place, and the exit status is 3.

    \b
    Examples:
      echo '{"name": "Ada"}' | jq -cR '{text: .}' | cdec retokenize --prompt "As JSON: "
      cdec retokenize -m gpt2 -i texts.txt --prompt "A text: " | jq .perplexity
    """
    refuse_revision(options.loading.model, run.typed)
    prompt = require_utf8(options.prompt, "--prompt")
    if options.texts.input == "-":
        refuse_terminal("texts (text or JSONL lines)", "give -i FILE, or pipe them in")
    require_input(options.texts.input)
    return _retokenize(options, prompt, run)


def _retokenize(options: Options, prompt: str, run: Run) -> int:
    """Carry out one run; returns the exit status."""
    from cdec.cli.runs import models
    from cdec.cli.runs.loop import Loop, arriving
    from cdec.data.input.source import SourceStats
    from cdec.data.prompts.texts import read_texts
    from cdec.data.rows.count import count_records
    from cdec.integrations.records.tasks import batches
    from cdec.samplers.scoring.retokenize import Retokenizer

    with run.console.stage(loading(options.loading.model)):
        model = models.open_timed(options.loading, run.clock)
    retokenizer = Retokenizer(model, end=options.end)

    def work(tasks: Sequence[Task]) -> Sequence[Retokenized | CdecError]:
        texts, prompts = zip(*(task.request for task in tasks), strict=True)
        return retokenizer.run(texts, prompts)

    stats = SourceStats()
    records = read_texts(
        options.texts.input,
        format=options.texts.input_format,
        no_header=options.texts.no_header,
        field=options.texts.field,
        limits=options.texts.input_limits,
        stats=stats,
    )
    loop = Loop(
        work=work,
        records=lambda task, result: [{**task.head, **result.to_json()}],
        write=partial(print_json, run.console),
        strict=options.failures.strict,
        max_bad=options.failures.max_bad,
        phase="retokenizing",
        total=count_records(options.texts.input),
        model=model,
        json=options.json,
    )
    records, is_idle = arriving(
        records, [options.texts.input], options.texts.idle, options.batch_size, run.clock
    )
    tasks = (_task(record, prompt) for record in records)
    status = loop.over(batches(tasks, options.batch_size, is_idle), run)
    run.console.warn(stats.notices)
    return status


def _task(record: TextRecord | BadRecord, prompt: str) -> Task:
    """Return what to rewrite: a text, and what stands before it where the record does not say."""
    from cdec.data.prompts.record import BadRecord
    from cdec.integrations.records.tasks import Task

    name = f"line {record.line}" if record.id is None else record.id
    if isinstance(record, BadRecord):
        return Task(name, record.error)
    request = (record.text, prompt if record.prompt is None else record.prompt)
    return Task(name, request, head={} if record.id is None else {"id": record.id})
