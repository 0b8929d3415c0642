"""Records of a run: prompts that are typed, in files or on stdin; the prompts of given texts."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cdec.cli.options.shared import refuse_terminal, require_utf8
from cdec.cli.runs.files import require_input
from cdec.core.errors import FieldError, Notice, UsageError

if TYPE_CHECKING:
    from cdec.cli.options.prompts import PromptOptions
    from cdec.data.input.source import InputLimits, SourceStats
    from cdec.data.prompts.names import OtherFields
    from cdec.data.prompts.read import BadRecord, PromptRecord
    from cdec.data.prompts.templates import PromptTemplate
    from cdec.data.prompts.texts import ScoreRecord
    from cdec.integrations.openai_batch.body import Asking

_OPENED = 16
"""Files that are opened to see whether they can be: of a folder, the first tell enough."""


@dataclass(frozen=True)
class Prompts:
    """The input of a run that draws.

    Attributes:
        options: As typed.
        max_n: Most draws that a record may ask for; None for the default.
        texts: What ``--prompt`` and ``--prompt-file`` gave.
        template: Fills prompts from fields; None where records bring them.
        stats: Counts and notices of the input.
        others: What becomes of the fields of records that are not cdec's.
        sources: The files of the input, where there are no texts.
        total: Records there are; None where that cannot be told cheaply.
        asking: What the lines may ask, where they are requests of a batch file.
    """

    options: PromptOptions
    max_n: int | None
    texts: tuple[str, ...]
    template: PromptTemplate | None
    stats: SourceStats
    others: OtherFields
    sources: Sequence[str] = ()
    total: int | None = None
    asking: Asking | None = None

    @classmethod
    def open(
        cls,
        options: PromptOptions,
        *,
        max_n: int | None = None,
        read: frozenset[str] | None = frozenset(),
        passed_on: bool = False,
        keeps_all: bool = False,
        asking: Asking | None = None,
    ) -> Prompts:
        """Read the template, and see whether the input can be opened.

        Args:
            options: Where prompts come from.
            max_n: Most draws that a record may ask for; None for the default.
            read: Names of further fields that a reward reads; None where it may read any.
            passed_on: Whether results carry the fields that are not cdec's.
            keeps_all: Whether they carry all fields.
            asking: As in the attributes.

        Raises:
            InputMissingError: Template, input or the file of a prompt are not there.
            EncodingError, LimitError: The file of a prompt is no UTF-8, or too long.
            UsageError: A prompt or the template is malformed.
        """
        from cdec.data.input.source import SourceStats
        from cdec.data.prompts.names import OtherFields
        from cdec.data.prompts.places import input_files
        from cdec.data.prompts.templates import read_template
        from cdec.data.rows.count import count_all

        stats = SourceStats()
        texts = [typed_prompt(text, stats) for text in options.prompt]
        texts += [read_prompt(path, options.input_limits) for path in options.prompt_file]
        template = None if options.template is None else read_template(options.template)
        files = [] if texts else input_files(options.input)
        for file in files[:_OPENED]:
            require_input(file.source)
        sources = [file.source for file in files]
        others = OtherFields(read, passed_on, keeps_all, options.strict_fields)
        # subtle: counted now, since what is read of a redirected file is no longer there.
        whole = options.chosen_shard is None
        total = (len(texts) or count_all(sources)) if whole else None
        return cls(options, max_n, tuple(texts), template, stats, others, sources, total, asking)

    def records(self) -> Iterator[PromptRecord | BadRecord]:
        """Return the records in their order.

        The ids of a file are read now, so that duplicates are refused before anything is opened;
        those of a pipe are met as they come.

        Raises:
            DuplicateIdError: Two records of a file name one id.
            CdecError: The file cannot be read.
        """
        from cdec.data.rows.formats import can_repeat

        records = self._read()
        if self.texts or not all(map(can_repeat, self.sources)):
            return records
        return itertools.chain(list(itertools.islice(records, 1)), records)

    def reads(self, fields: Collection[str]) -> None:
        """Take note of further fields that are read."""
        if self.others.read is not None:
            self.others.read = self.others.read.union(fields)
        for name in fields:
            self.others.unread.pop(name, None)

    def _read(self) -> Iterator[PromptRecord | BadRecord]:
        from cdec.data.prompts.read import DEFAULT_MAX_N, prompts_from_texts, read_prompts

        shard = self.options.chosen_shard
        if self.texts:
            texts = prompts_from_texts(
                self.texts, template=self.template, name="--prompt", others=self.others
            )
            yield from (text for text in texts if shard is None or shard.has(text.id))
            return
        limits, stats = self.options.input_limits, self.stats
        if self.asking is not None:
            from cdec.integrations.openai_batch.reading import read_requests

            yield from read_requests(
                self.sources, self.asking, limits=limits, stats=stats, shard=shard
            )
            return
        yield from read_prompts(
            self.sources,
            format=self.options.input_format,
            no_header=self.options.no_header,
            shard=shard,
            template=self.template,
            max_n=DEFAULT_MAX_N if self.max_n is None else self.max_n,
            limits=limits,
            stats=stats,
            others=self.others,
        )


@dataclass(frozen=True)
class ScorePrompts:
    """The prompts of a run.

    Attributes:
        text: What ``--prompt`` or ``--prompt-file`` gave.
        by_id: What ``--prompts`` gave, by ``id_key``; None without it.
        name: How ``--prompts`` calls its file.
        notices: Warnings about that file.
    """

    text: str | None
    by_id: Mapping[bytes, PromptRecord | BadRecord] | None = None
    name: str = ""
    notices: list[Notice] = field(default_factory=list)

    @classmethod
    def read(
        cls, text: str | None, path: str | None, template: Path | None, limits: InputLimits
    ) -> ScorePrompts:
        """Read the prompts of a file whole; ids come out as ``cdec sample`` derived them.

        Raises:
            CdecError: The file or the template cannot be read.
        """
        if path is None:
            return cls(text)
        from cdec.data.ids import id_key
        from cdec.data.input.source import SourceStats
        from cdec.data.prompts.read import read_prompts
        from cdec.data.prompts.templates import read_template

        filled = None if template is None else read_template(template)
        stats = SourceStats()
        # How many draws a record asks for does not matter here.
        records = read_prompts(path, template=filled, max_n=2**63, limits=limits, stats=stats)
        by_id = {id_key(record.id): record for record in records}
        return cls(text, by_id, path, list(stats.notices))

    def of(self, record: ScoreRecord) -> PromptRecord:
        """Return the prompt of a record, with the options its prompt record had.

        Raises:
            CdecError: It has none, or the prompt's own record is bad.
        """
        from cdec.data.ids import id_key
        from cdec.data.prompts.read import BadRecord, PromptRecord
        from cdec.data.prompts.record import without_prefill

        if record.prompt is not None or record.messages is not None:
            given = record.id if record.id is not None else f"line {record.line}"
            messages, prefill = without_prefill(record.messages)
            return PromptRecord(
                given,
                record.line,
                record.prompt,
                messages,
                tools=record.tools,
                chat_template_kwargs=record.chat_template_kwargs,
                prefill=record.prefill or prefill,
                input=record.input,
            )
        if self.by_id is not None and record.id is not None:
            found = self.by_id.get(id_key(record.id))
            if isinstance(found, BadRecord):
                raise found.error
            if found is not None:
                return found
            raise FieldError(
                f"no record of {self.name} has the id {record.id!r}",
                hint="give the file that cdec sample read the prompts from",
                field="id",
            )
        if self.text is not None:
            name = f"line {record.line}"
            return PromptRecord(name, record.line, self.text, input=record.input)
        missing = "id" if self.by_id is not None else "prompt"
        raise FieldError(
            f"line {record.line} has no {missing}, so its prompt is not known",
            hint="give the record a prompt, or give --prompt TEXT or --prompts FILE",
            field=missing,
        )


def typed_prompt(text: str, stats: SourceStats) -> str:
    r"""Return the text of ``--prompt``; one with ``\n`` spelled out gets a notice, and stays.

    Raises:
        UsageError: It is no UTF-8.
    """
    if "\\n" in text and "\n" not in text:
        stats.notice_once(
            "W_SPELLED_NEWLINE",
            "`prompt` holds a backslash and an n, which stay as they are: type $'...' in the place "
            'of "..." for a newline, or give `prompt_file`',
        )
    return require_utf8(text, "--prompt")


def read_prompt(path: str, limits: InputLimits) -> str:
    """Return the text of a file of ``--prompt-file``.

    Raises:
        InputMissingError, EncodingError, LimitError: It cannot be read, is no UTF-8, is too long.
    """
    from cdec.data.prompts.templates import read_text_file

    return read_text_file(
        path,
        max_bytes=limits.max_line_bytes,
        what="prompt",
        hint="raise `max_line_bytes`, or give many prompts as records with -i FILE",
    )


def check_prompts(options: PromptOptions, typed: frozenset[str]) -> None:
    """Refuse prompts from two places or from a terminal."""
    if options.has_texts and "input" in typed:
        flag = "--prompt" if options.prompt else "--prompt-file"
        raise UsageError(f"{flag} and --input were both given", hint="give one of them")
    if options.prompt_file.count("-") > 1:
        raise UsageError("--prompt-file names stdin twice", hint="give each prompt its own file")
    if "-" in options.prompt_file:
        refuse_terminal("a prompt", "give --prompt TEXT or --prompt-file FILE, or pipe it in")
    if not options.has_texts and "-" in options.input:
        refuse_terminal(
            "prompts (text or JSONL lines)", "give --prompt TEXT or -i FILE, or pipe them in"
        )
