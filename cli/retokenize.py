"""``cdec retokenize``: texts in the tokens that a model prefers, with perplexities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import Declared
from cdec.cli.frame.results import print_results
from cdec.cli.frame.typed import record_error
from cdec.cli.options import shared
from cdec.cli.options.model import ModelOptions
from cdec.cli.options.shared import refuse_terminal, require_utf8
from cdec.cli.options.texts import TextRecordOptions
from cdec.cli.runs.inputs import require_input
from cdec.cli.runs.models import refuse_revision

if TYPE_CHECKING:
    from cdec.data.input.source import SourceStats
    from cdec.data.prompts.record import BadRecord
    from cdec.data.prompts.text_records import TextRecord


@dataclass(frozen=True, kw_only=True)
class Options(TextRecordOptions, ModelOptions):
    """Options of ``cdec retokenize``; the documented defaults stand here."""

    prompt: Annotated[
        str,
        Declared(
            "What stands before the texts of records that have no `prompt`.",
            shared.INPUT,
            metavar="TEXT",
        ),
    ] = ""
    end: Annotated[
        bool,
        Declared("Count the end of the text as an event.", shared.METHOD),
    ] = False
    batch_size: Annotated[
        int,
        Declared(
            "Texts rewritten together; results come batch by batch.", shared.METHOD, at_least=1
        ),
    ] = 16
    strict: shared.StrictOption = False


def execute(options: Options, run: Run) -> int:
    """Rewrite texts in the tokens a model prefers, as JSON lines.

    Token by token, the most probable one that is a prefix of the remaining text. Each line has
    `text`, `token_ids`, `tokens`, `logprob`, `perplexity`, and the same of the tokenizer's own
    tokens: `canonical_token_ids`, `canonical_logprob`, `canonical_perplexity`; `id` first, where
    the record has one. Logarithms are natural; perplexity is exp(-logprob / tokens). A bad record
    becomes an error object in its place, and the exit status is 3.

    \b
    Examples:
      echo '{"name": "Ada"}' | jq -cR '{text: .}' | cdec retokenize --prompt "As JSON: "
      cdec retokenize -m gpt2 -i texts.txt --prompt "A text: " | jq .perplexity
    """
    refuse_revision(options.model, run.typed)
    prompt = require_utf8(options.prompt, "--prompt")
    if options.input == "-":
        refuse_terminal("texts (text or JSONL lines)", "give -i FILE, or pipe them in")
    require_input(options.input)
    return print_results(run, retokenized(options, prompt, run))


def retokenized(options: Options, prompt: str, run: Run) -> Iterator[dict[str, object]]:
    """Yield the result of each text, or its error object, in the order of the input.

    Raises:
        CdecError: With ``--strict`` the first bad record's own error.
    """
    from cdec.cli.runs import models
    from cdec.core.errors import CdecError
    from cdec.data.input.source import SourceStats
    from cdec.data.prompts.record import BadRecord
    from cdec.samplers.scoring.retokenize import Retokenizer

    retokenizer = Retokenizer(models.open_model(options), end=options.end)
    stats = SourceStats()
    for batch in _batches(options, stats):
        texts = [record for record in batch if not isinstance(record, BadRecord)]
        prompts = [prompt if record.prompt is None else record.prompt for record in texts]
        results = iter(retokenizer.run([record.text for record in texts], prompts))
        for record in batch:
            found = record.error if isinstance(record, BadRecord) else next(results)
            if not isinstance(found, CdecError):
                yield ({} if record.id is None else {"id": record.id}) | found.to_json()
            elif options.strict:
                raise found
            else:
                yield record_error(found, f"line {record.line}" if record.id is None else record.id)
        run.signals.checkpoint()
    run.console.warn(stats.notices)


def _batches(options: Options, stats: SourceStats) -> Iterator[list[TextRecord | BadRecord]]:
    """Yield the input's records, ``--batch-size`` at a time."""
    from cdec.data.prompts.text_records import read_texts

    records = read_texts(
        options.input,
        field=options.field,
        limits=options.input_limits,
        stats=stats,
    )
    while batch := list(islice(records, options.batch_size)):
        yield batch
