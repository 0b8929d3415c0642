"""The plan of a run of ``cdec sample`` before a model is loaded: command line, then files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cdec.cli.options.prompts import check_batch_file
from cdec.cli.options.record_sources import check_record_sources, record_sources
from cdec.cli.options.shared import parse_fields
from cdec.cli.runs.calls import typed_tools
from cdec.cli.runs.constraints import (
    artifact_for_records,
    document_fields,
    named_artifacts,
    read_held,
    refuse_other_constraints,
    require_grammars,
    require_members,
    typed_constraint,
    unused_sets,
    warned_of_unused,
)
from cdec.cli.runs.draft import Draft
from cdec.cli.runs.inputs import Prompts, check_prompts
from cdec.cli.runs.method import ChosenMethod, fields_of_reward, refuse_code
from cdec.cli.runs.models import (
    check_warping,
    load_keywords,
    parse_template_args,
    refuse_revision,
)
from cdec.cli.runs.output import check_form, check_trace, checked_tree, for_tree, refuse_output
from cdec.cli.runs.streaming import check_stream
from cdec.cli.runs.tokenizer import named_model
from cdec.core.errors import UsageError
from cdec.core.progress import Progress, silent
from cdec.core.record_fields import fields_of
from cdec.data.output.writer import refuse_url
from cdec.integrations.records.settings import (
    DEFAULT,
    ConstraintSpecification,
    Drawing,
    Execution,
    RunSettings,
)
from cdec.samplers.facts import ABOUT

if TYPE_CHECKING:
    from cdec.cli.frame.command import Run
    from cdec.cli.options.sampling import SampleOptions as Options
    from cdec.data.prompts.read import BadRecord, PromptRecord
    from cdec.integrations.openai_batch.body import Asking
    from cdec.integrations.records.sources import RecordSources
    from cdec.integrations.records.tools import ToolCalls
    from cdec.samplers.drafts.counts import Counts
    from cdec.samplers.learning.saved import TreeFile


@dataclass(frozen=True)
class Files:
    """The files of a run, opened or seen to be in order.

    Attributes:
        prompts: Where records come from.
        records: The records, from the first one on.
        places: What texts are held to, artifacts by their places.
        held: What all records are held to.
        options: Those of the plan, with the artifact that was found.
    """

    prompts: Prompts
    records: Iterator[PromptRecord | BadRecord]
    places: ConstraintSpecification
    held: ConstraintSpecification
    options: Options


@dataclass(frozen=True)
class Plan:
    """A run whose command line makes sense.

    Attributes:
        options: As typed, and as ``cdec.toml`` says.
        method: The method with its options.
        draft: Its draft, not yet opened.
        counts: What guesses begin with.
        tree: Where the draws of a single record are kept.
        fields: Of the samples; None keeps all.
        places: What texts are held to, artifacts by their places.
        sources: How the grammars of records are compiled.
        typed: Options that stood on the command line.
        calling: Tools that texts call; None for none.
    """

    options: Options
    method: ChosenMethod
    draft: Draft
    counts: Counts
    tree: TreeFile | None
    fields: Sequence[str] | None
    places: ConstraintSpecification
    sources: RecordSources
    typed: frozenset[str]
    calling: ToolCalls | None = None

    @classmethod
    def of(cls, options: Options, typed: frozenset[str]) -> Plan:
        """Check the command line.

        Args:
            options: All options.
            typed: Fields that stood on the command line.

        Raises:
            CdecError: It makes no sense.
        """
        method = ChosenMethod.of(options.choice, options.methods.given, typed)
        check_options(options, typed)
        refuse_code(options.methods.given, typed)
        draft = Draft.of(options, typed, method)
        return cls(
            options=options,
            method=method,
            draft=draft,
            counts=draft.load_counts(),
            tree=checked_tree(
                method.tree, output=options.writing.output_file, resume=options.writing.resume
            ),
            fields=kept_fields(options),
            places=named_artifacts(
                typed_constraint(options, options.prompts.read), options.held, options.quoting
            ),
            sources=record_sources(options.sources),
            typed=typed,
            calling=typed_tools(
                options,
                options.prompts.read,
                {
                    "--after": bool(options.free.after),
                    "--between": options.free.between is not None,
                },
            ),
        )

    @property
    def read(self) -> frozenset[str] | None:
        """Further fields of records that a reward or the constraint reads; None for any."""
        read = fields_of_reward(self.method)
        return None if read is None else read | document_fields(self.places)

    @property
    def written(self) -> Sequence[str] | None:
        """Fields of the records that are written, from which rows are made; None for all."""
        if self.fields is None or not self.options.writing.keep_input:
            return self.fields
        return tuple(dict.fromkeys((*self.fields, "input")))

    @property
    def asking(self) -> Asking | None:
        """Demands that the lines of the input may make, where they are requests of a batch file.

        Raises:
            UsageError: What they may bring is nothing that can be brought.
        """
        options = self.options
        if not options.batch.openai_batch:
            return None
        from cdec.data.prompts.read import DEFAULT_MAX_N
        from cdec.integrations.openai_batch.body import Asking
        from cdec.integrations.serving.settings import ServingSettings

        named = {name: path for name, path in self.places.named.items() if name != DEFAULT}
        return Asking(
            ServingSettings.of_requests(named, options.batch.allow, options.batch.asked_limits),
            model=options.batch.served_name or named_model(options.loading.model),
            n=options.choice.n,
            max_n=DEFAULT_MAX_N if options.max_n is None else options.max_n,
            is_greedy=ABOUT[self.method.declared.name].is_greedy(self.method.values),
        )

    def open_files(self, run: Run, progress: Progress = silent) -> Files:
        """Open the input, then see that the output may be written, then verify the artifacts.

        Args:
            run: What was typed; its console is told of an artifact that was not.
            progress: Told how much of artifacts of URLs is fetched.

        Raises:
            CdecError: One of them cannot be used.
        """
        options, places = self.options, self.places
        prompts = Prompts.open(
            options.prompts,
            max_n=options.max_n,
            read=self.read,
            passed_on=options.writing.keep_input or self.fields is None or "input" in self.fields,
            keeps_all=options.writing.keep_input,
            asking=self.asking,
        )
        flags = (*options.one_line.flags, *options.calling.flags)
        records = warned_of_unused(prompts.records(), run, flags)
        needed = self.method.declared.needs_constraint
        if not (places.named or self.calling or options.quoting.span_of) and (
            needed or (self.method.declared.masks and not places.has_artifacts)
        ):
            records, artifact = artifact_for_records(
                records,
                run,
                f"--method {options.choice.method}",
                needed=needed,
                but=options.held.conjoined,
            )
            options = replace(options, artifact=artifact)
            places = named_artifacts(artifact, options.held, options.quoting)
        refuse_output(options)
        held = read_held(places, options.held, run, progress)
        prompts.reads(held.document_fields)
        run.console.warn(unused_sets(held))
        held = replace(
            held,
            free=options.free.free_text,
            marker_limits=options.free.marker_limits,
            thinking=options.free.asked_thinking,
            thinking_tags=options.free.thinking_tags,
            tools=self.calling,
            tool_style=options.calling.tool_style,
            sources=self.sources,
        )
        has_records = not options.prompts.has_texts
        require_members(held, has_records=has_records)
        require_grammars(
            held,
            self.method.declared,
            has_records=has_records,
            guessing=self.draft.guessing,
        )
        has_file = self.draft.keeps_counts and self.method.values["counts"] is not None
        self.counts.require_artifacts(held.digests.values() if has_file else ())
        return Files(prompts, for_tree(records, self.tree, held), places, held, options)

    def settings(self, files: Files) -> RunSettings:
        """Return what the record sampler is told, models, drafts and artifacts by their names."""
        options, method = files.options, self.method
        given = {name: value for name, value in method.values.items() if value is not None}
        if method.uses("draft") and self.draft.name is not None:
            given["draft"] = self.draft.name
        is_streamed = method.declared.streams and "batch_size" not in self.typed
        return RunSettings(
            drawing=Drawing(
                method=options.choice.method,
                options=given,
                n=options.choice.n,
                max_n=options.max_n,
                seed=options.decoding.seed,
                temperature=options.warping.temperature,
                top_k=options.warping.top_k,
                top_p=options.warping.top_p,
                max_new_tokens=options.decoding.max_new_tokens,
                template=files.prompts.template,
                fields=self.fields,
            ),
            constraint=replace(
                files.held,
                named={name: str(place) for name, place in files.places.named.items()},
                others={words: str(place) for words, place in files.places.others.items()},
                sets={name: str(place) for name, place in files.places.sets.items()},
            ),
            execution=Execution(
                model=named_model(options.loading.model),
                load=load_keywords(options.loading),
                draft_load=self.draft.load_keywords(),
                batch_size=None if is_streamed else options.decoding.batch_size,
                strict_fields=options.prompts.strict_fields,
                strict=options.failures.strict,
            ),
        )


def check_options(options: Options, typed: frozenset[str]) -> None:
    """Refuse values out of range and options that contradict each other."""
    check_warping(options.warping, instead=_greedily(options.choice.method, options.methods.given))
    refuse_revision(options.loading.model, typed)
    parse_template_args(options.loading.template_args)
    if options.writing.resume and options.writing.force:
        raise UsageError("--resume continues a file, --force replaces it", hint="give one of them")
    if options.writing.resume and options.writing.output is None:
        raise UsageError("--resume needs an output file", hint="name it with -o FILE")
    if options.dealing.engine == "local" and options.writing.output is not None:
        refuse_url(options.writing.output)
    local = options.writing.output_file if options.dealing.engine == "local" else None
    check_form(local, keep_input=options.writing.keep_input)
    check_prompts(options.prompts, typed)
    check_batch_file(
        options.batch,
        typed,
        template=options.prompts.template,
        span_of=options.quoting.span_of,
        output=options.writing.output_file,
        engine=options.dealing.engine,
    )
    flags = (*options.one_line.flags, *options.calling.flags)
    check_record_sources(options.prompts, options.batch, flags, typed)
    options.calling.refuse_unused(typed)
    options.quoting.refuse_unused(typed, options.one_line.spans_of)
    if options.quoting.span_of is not None:
        refuse_beside_spans(options)
    check_trace(options.writing)
    refuse_beside_free_text(options)
    check_stream(options)


def refuse_beside_spans(options: Options) -> None:
    """Refuse what says as well what texts are held to, and prompts without fields."""
    assert options.quoting.spans is not None
    beside = {"--tools": options.calling.tools is not None}
    refuse_other_constraints(options, "--span-of", beside)
    if options.prompts.has_texts:
        raise UsageError(
            "--prompt gives a text and no fields, and --span-of names one",
            hint="give JSON records with -i FILE, which have the field "
            f"{options.quoting.span_of!r}",
        )


def refuse_beside_free_text(options: Options) -> None:
    """Refuse what cannot be combined with free text before a constraint."""
    asked, free = options.free.asked_thinking, options.free.free_text
    if free is None and asked in (None, "off"):
        return
    first = "--thinking" if free is None else "--after" if free.after else "--between"
    beside = {
        "--prefill": bool(options.held.prefill),
        "--heal": options.held.heal,
        "--fit": options.held.fit,
        "--canonical": options.held.canonical,
        "--templated": options.held.templated,
        "--tree": options.methods.given.get("tree") is not None,
    }
    for flag, is_given in beside.items():
        if is_given:
            raise UsageError(
                f"{flag} is about a text that begins with the constraint, and with {first} it "
                "begins with free text",
                hint=f"leave {flag} out",
            )


def _greedily(method: str, given: Mapping[str, Any]) -> str:
    """Say how the most probable tokens are had."""
    if ABOUT[method].is_greedy(given):
        return "leave --temperature out: the most probable tokens are taken at any temperature"
    instead = {"speculative": "--greedy", "mentored": "--method speculative --greedy"}
    words = instead.get(method, "--method greedy")
    return f"give {words} in its place, for the most probable allowed token at each step"


def kept_fields(options: Options) -> Sequence[str] | None:
    """Return the names in ``--fields``; None keeps every field.

    Raises:
        UsageError: An unknown name, or ``--resume`` without the fields it goes by.
    """
    names = parse_fields(options.fields, fields_of("sample"), "sample")
    is_by_draw = options.writing.resume and not options.batch.openai_batch
    if names is not None and is_by_draw and not {"id", "index"} <= set(names):
        raise UsageError(
            f"--fields is {options.fields!r}, without id and index, by which --resume goes",
            hint="name these two as well",
        )
    return names
