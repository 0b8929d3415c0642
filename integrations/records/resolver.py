"""Constraint resolver of records: their own words, and what the run asks of all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from cdec.core.errors import HOW_TO_MAKE_ONE, FieldError, Notice, UsageError, needs_grammar
from cdec.core.recent import Recent
from cdec.integrations.records.settings import DEFAULT
from cdec.integrations.records.sources import RecordSources

if TYPE_CHECKING:
    from cdec.compilers.kinds import SourceOptions
    from cdec.core.artifacts.opened import StoredConstraint
    from cdec.core.artifacts.read import ArtifactFile
    from cdec.core.combine.canonical import CanonicalTexts
    from cdec.core.combine.free_text import FreeText
    from cdec.core.combine.prefill import BegunConstraint
    from cdec.core.combine.sorted_tokens import SortedTokens
    from cdec.core.combine.thinking import ModelThinking
    from cdec.core.constraint import Constraint, NarrowedSet
    from cdec.core.models.language_model import LanguageModel, Prompt
    from cdec.core.sets.quotes import DocumentPieces, SpanField
    from cdec.core.sets.within import MemberTexts
    from cdec.core.tokens.vocabulary import Vocabulary
    from cdec.data.prompts.record import PromptRecord
    from cdec.integrations.records.settings import ConstraintSpecification
    from cdec.integrations.records.tools import HeldCalls

_Asked = TypeVar("_Asked", bound=Hashable)

Bind: TypeAlias = "Callable[[ArtifactFile, Vocabulary | None], StoredConstraint]"
"""Opens a verified artifact for a model's vocabulary, as ``bind_artifact`` does."""

_HOW_TO_NAME_ONE = f"name the artifact with `artifact` (make one with {HOW_TO_MAKE_ONE})"
_KEPT_DOCUMENTS = 8
"""Documents whose pieces are kept, 20 bytes a byte of each, beside those of a batch."""
_ADAPTED = 64
"""Constraints kept with a lookahead, and for prompts with the same end cut off."""


class ConstraintResolver:
    """The constraints of a run's records, opened for its model.

    Records that ask for the same get the same constraint, so that they share sessions. A context
    manager: the child process that compiles what records bring ends with it.

    Args:
        held: What all records are held to, read.
        model: Its vocabulary must be the artifacts'; it encodes the prompts to heal.
        required: Whether every record needs a constraint.
        masks: Whether texts are held to the constraint; if not, they are judged by it alone.
        default: The constraint of records that name none, open already; None takes the artifact.
        bind: Opens artifacts; None takes ``bind_artifact``.

    Raises:
        UsageError: Healing, and a model whose prompt is not what its text continues; texts that
            are to fit, and a method without masks.
        CdecError: An artifact is of another vocabulary, or nothing is left of one.
    """

    def __init__(
        self,
        held: ConstraintSpecification,
        model: LanguageModel,
        *,
        required: bool,
        masks: bool = True,
        default: Constraint | None = None,
        bind: Bind | None = None,
    ) -> None:
        from cdec.compilers.cache import ConstraintCache, SourceCache
        from cdec.compilers.sets.cache import SetCache
        from cdec.core.artifacts.opened import bind_artifact
        from cdec.core.combine.restriction import Restriction
        from cdec.core.combine.thinking import Thinking
        from cdec.integrations.records.tools import tool_sources

        _require_sense(held, model, masks)
        sources = held.sources or RecordSources.of()
        vocabulary = model.vocabulary
        bind = bind or bind_artifact
        self._held = held
        self._spelled: dict[str, MemberTexts] = {}
        others = self._bound(bind, held.others, vocabulary)
        # What quotes a record's document differs from record to record.
        self._others_quoting = {name: one for name, one in others.items() if self._quotes(one)}
        others = {name: one for name, one in others.items() if name not in self._others_quoting}
        self._model = model
        self._required = required
        self._masks = masks
        self._restriction = Restriction(others, held.denied)
        self._opened = self._bound(bind, held.named, vocabulary)
        names = {name: _called(given) for name, given in held.named.items()}
        if default is not None:
            self._opened[DEFAULT], names[DEFAULT] = default, "the constraint"
        self._restricted = {
            name: self._left(self._opened[name], names[name])
            for name in names
            if not self._quotes(self._opened[name])
        }
        kept = ConstraintCache(sources.limits.count, sources.limits.size)
        self._source_options = sources.options
        self._sources = SourceCache(vocabulary, kept)
        self._tool_sources = tool_sources(vocabulary, kept)
        self._calls: Recent[HeldCalls] = Recent(sources.limits.count)
        self._sets = SetCache(vocabulary, kept, name="field 'candidates'")
        self._recent: Recent[Constraint] = Recent(sources.limits.count)
        self._adapted: Recent[Constraint] = Recent(_ADAPTED)
        self._unfit: Recent[UsageError] = Recent(_ADAPTED)
        self._begun: Recent[BegunConstraint] = Recent(_ADAPTED)
        self._pieces: Recent[Constraint] = Recent(_KEPT_DOCUMENTS)
        self._documents: Recent[DocumentPieces] = Recent(_KEPT_DOCUMENTS)
        self._tokens: SortedTokens | None = None
        self._texts: CanonicalTexts | None = None
        self._thinking: ModelThinking | None = None
        if held.thinking is not None:
            self._thinking = Thinking(held.thinking, held.thinking_tags).of(model)
        if held.tools is not None:
            self._calls.put(held.tools, held.tools.of(model))

    def _bound(
        self, bind: Bind, given: Mapping[str, Any], vocabulary: Vocabulary
    ) -> dict[str, Constraint]:
        """Return constraints by name, with the sets that they hold.

        Each is of an artifact that was read, of a source, or as it was given.
        """
        from cdec.core.artifacts.read import ArtifactFile
        from cdec.core.constraint_source import made_for

        def made(one: Any) -> Constraint:
            is_file = isinstance(one, ArtifactFile)
            return bind(one, vocabulary) if is_file else made_for(one, vocabulary)

        return {name: self._with_sets(made(one)) for name, one in given.items()}

    def __enter__(self) -> ConstraintResolver:
        return self

    def __exit__(self, *_: object) -> None:
        self._sources.close()
        self._tool_sources.close()

    def take_notices(self) -> list[Notice]:
        """Return the warnings since the last call."""
        compiled = [*self._sources.take_notices(), *self._sets.take_notices()]
        compiled += self._tool_sources.take_notices()
        return [*compiled, *self._restriction.take_notices()]

    def of(
        self,
        record: PromptRecord,
        *,
        max_new_tokens: int | None = None,
        takes_free: bool = False,
    ) -> tuple[Prompt, Constraint | None]:
        """Return what to prompt with for a record, and what its texts must belong to.

        Args:
            record: Its prompt, and what it says of its constraint.
            max_new_tokens: Of records that bring no ``max_tokens``, for texts that are to fit; None
                as in ``Request``.
            takes_free: Whether free text before the constraint means something here.

        Raises:
            FieldError: An unknown name, unknown candidates, or no constraint although one is
                required, or free text where it means nothing.
            UsageError: An option needs a grammar, and the constraint is none; or calls that texts
                need not be, or not alone, where free text means nothing.
            PrefillError: No text begins as the record's begun answer.
            FitError: Texts are to fit, and no text is so short.
            CanonicalError: Texts are to be canonical, and the tokenizer has unknown parts.
            CdecError: Its grammar or the like cannot be compiled, or the prompt cannot be encoded.
        """
        most = max_new_tokens if record.max_tokens is None else record.max_tokens
        with self._model.asking:
            prompt, constraint = self._resolved(record, takes_free=takes_free)
            if self._held.canonical:
                constraint = self._canonical(constraint)
            if self._held.templated:
                constraint = self._templated(constraint)
            return prompt, self._fitted(constraint, most) if self._held.fit else constraint

    def _canonical(self, constraint: Constraint | None) -> Constraint:
        """Return a constraint's texts as the model's tokenizer spells them.

        Raises:
            UsageError: There is no constraint.
            CanonicalError: Which tokens the tokenizer writes is not known.
            EmptySetError: No text is left.
        """
        from cdec.core.combine.canonical import CanonicalTexts, canonical

        inner = _some(constraint, "canonical")
        if self._texts is None:
            self._texts = CanonicalTexts(self._model.vocabulary)
        texts = self._texts
        return self._adapted.get((inner, "canonical"), lambda: canonical(inner, texts))

    def _templated(self, constraint: Constraint | None) -> Constraint:
        """Return a constraint's texts with their fixed parts spelled apart.

        Raises:
            UsageError: There is no constraint, or which bytes are fixed is not known.
        """
        from cdec.core.combine.templated import templated

        inner = _some(constraint, "templated")
        return self._adapted.get((inner, "templated"), lambda: templated(inner))

    def _fitted(self, constraint: Constraint | None, max_new_tokens: int | None) -> Constraint:
        """Return a constraint's texts that end within a number of tokens.

        Raises:
            UsageError: There is no constraint, or it does not know with how few tokens texts end.
        """
        from cdec.core.combine.fitting import MOST_TOKENS, fit
        from cdec.samplers.request import text_limit

        inner = _some(constraint, "fit")
        if (known := self._unfit.find(inner)) is not None:
            raise known
        try:
            # What is searched once serves all numbers of tokens.
            whole = self._adapted.get((inner, None), lambda: fit(inner, MOST_TOKENS))
        except UsageError as error:
            self._unfit.put(inner, error)
            raise
        most = text_limit(max_new_tokens, inner)
        return self._adapted.get((inner, most), lambda: fit(whole, most))

    def _resolved(
        self, record: PromptRecord, *, takes_free: bool
    ) -> tuple[Prompt, Constraint | None]:
        if not takes_free and (record.after is not None or record.between is not None):
            raise FieldError(
                "the record's text begins with free text, and only draws have any",
                hint="leave the field out, or give the free text at the end of the prompt",
                field="after" if record.between is None else "between",
            )
        prompt = self._prompt(record)
        if self._thinking is not None:
            prompt = self._with_thinking(prompt, record)
        calls = self.calls_of(record)
        document = self._document(record) if calls is None else None
        constraint = self._asked(record, calls, document)
        for name, other in self._others_quoting.items():
            constraint = self._left_by_quotes(constraint, self._with_pieces(other, record), name)
        # Records that ask for the same share a constraint.
        asked = (constraint, record.deny)
        constraint = self._without_denied(record, constraint, asked)
        if self._held.lookahead is not None:
            inner, look = _some(constraint, "lookahead"), self._held.lookahead
            constraint = self._adapted.get((asked, b""), lambda: inner.with_lookahead(look))
        if calls is not None and calls.free is not None and not takes_free:
            self._refuse_beside(record, "tools", "what stands before a call")
            whole = partial(calls.whole, _some(constraint, "tools"))
            return prompt, self._adapted.get((asked, calls), whole)
        prefill = self._held.prefill_of(record)
        if prefill is not None:
            return self._begin(prompt, constraint, prefill, asked)
        if not self._held.heal:
            return prompt, constraint
        return self._heal(prompt, _some(constraint, "heal"), asked)

    def _prompt(self, record: PromptRecord) -> Prompt:
        """Return the prompt of a record, with what its chat template is told."""
        from cdec.core.models.language_model import Chat

        told = record.template_arguments
        if record.prompt is None or self._is_chat:
            thinking = {} if self._thinking is None else self._thinking.arguments
            tools = {} if self._held.tools is None else {"tools": self._held.tools.listed}
            told = {**thinking, **tools, **told}
        if record.prompt is None:
            messages = list(record.messages or ())
            return Chat(messages, told) if told else messages
        if not told:
            return record.prompt
        if not self._is_chat:
            field = "chat_template_kwargs" if record.tools is None else "tools"
            raise FieldError(
                f"the record's {field} are for the chat template, and its prompt is a text",
                hint="give `messages`, or put all prompts into the template with `chat`",
                field=field,
            )
        return Chat([{"role": "user", "content": record.prompt}], told)

    @property
    def _is_chat(self) -> bool:
        """Whether prompts that are texts go into the chat template."""
        return self._model.prompt_form == "chat"

    def _with_thinking(self, prompt: Prompt, record: PromptRecord) -> Prompt:
        """Return a prompt at whose end the thinking has begun, or has been left out."""
        assert self._thinking is not None
        is_off = not self._thinking.applies(record.template_arguments)
        if is_off and self._thinking.amount != "off":
            return prompt
        is_chat = record.prompt is None or self._is_chat
        return self._thinking.prompt(self._model.encode_prompt(prompt), is_chat=is_chat)

    def free_text_of(self, record: PromptRecord) -> FreeText | None:
        """Return what the model writes freely for a record; None for nothing.

        Raises:
            FieldError: It makes no sense, or stands beside a begun answer, a healed prompt or a
                number of tokens to end within.
            LimitError: Its markers are too many, or too long.
        """
        calls = self.calls_of(record)
        usual = self._held.free if calls is None else calls.free
        free = record.free_text(usual, self._held.marker_limits)
        field = "after" if free is None or free.after else "between"
        if self._thinking is not None and self._thinking.applies(record.template_arguments):
            field = "thinking" if free is None else field
            free = self._thinking.free_text(free)
        if free is None:
            return None
        self._refuse_beside(record, field, "free text")
        return free

    def _refuse_beside(self, record: PromptRecord, field: str, begins: str) -> None:
        """Refuse what is about texts that begin with the constraint.

        Args:
            record: Its text begins otherwise.
            field: That says so. begins: What it begins with.

        Raises:
            FieldError: Such a thing is asked for.
        """
        asked = {
            "prefill": self._held.prefill_of(record) is not None,
            "heal": self._held.heal,
            "fit": self._held.fit,
            "canonical": self._held.canonical,
            "templated": self._held.templated,
        }
        beside = next((name for name, is_asked in asked.items() if is_asked), None)
        if beside is not None:
            raise FieldError(
                f"the record's text begins with {begins} (`{field}`), and `{beside}` is about one "
                "that begins with the constraint",
                hint="leave one of the two out",
                field=field,
            )

    def calls_of(self, record: PromptRecord) -> HeldCalls | None:
        """Return what holds a record's text to calls of tools; None where nothing does.

        Raises:
            FieldError: It chooses among tools, and there are none.
            CdecError: As ``ToolCalls.of``.
        """
        from cdec.integrations.records.tools import NONE, ToolCalls

        run, choice = self._held.tools, record.tool_choice
        if choice is None and (run is None or record.brings_constraint or record.constraint):
            return None
        if choice == NONE:
            return None
        if record.tools is None and run is None:
            raise FieldError(
                "the record chooses among tools, and there are none",
                hint="give it `tools`, or leave `tool_choice` out",
                field="tool_choice",
            )
        run = run or ToolCalls("[]", style=self._held.tool_style)
        parallel, own = record.parallel_tool_calls, record.tools
        asked = replace(
            run,
            definitions=run.definitions if own is None else json.dumps(own),
            choice=choice or run.choice,
            parallel=run.parallel if parallel is None else parallel,
        )
        return self._calls.get(asked, lambda: asked.of(self._model))

    def _compiled_calls(self, asked: tuple[str, HeldCalls]) -> Constraint:
        """Return the constraint of calls; that of their schema is kept for later runs."""
        schemas: Any = self._source_options["schema"]
        compiled = self._tool_sources.of(asked[1].schema, replace(schemas, name="the tools"))
        return self._recent.get((compiled, asked), lambda: asked[1].written(compiled))

    def _asked(
        self, record: PromptRecord, calls: HeldCalls | None, document: str | None
    ) -> Constraint | None:
        """Return the constraint that a record asks for, with what is asked of all of them.

        Args:
            record: What it says of it. calls: Tools that its texts call; None for none.
            document: Whose pieces its texts are; None for none.
        """
        if calls is not None:
            return self._own(("tools", calls), self._compiled_calls, "the tools")
        for field, text in record.sources.items():
            options, name = self._source_options[field], f"the record's {field}"
            compiled = self._sources.of(text, options)
            if self._quotes(compiled):
                return self._quoting(self._whole(compiled), record, name)
            return self._own((text, options, record.narrowed), self._compiled, name)
        if document is not None:
            return self._pieces_of(document)
        constraint = self._named(record.constraint)
        if constraint is None:
            if record.candidates is not None:
                return self._own(record.candidates, self._sets.of, "the record's candidates")
            if self._required or record.narrowed:
                raise FieldError(
                    "the record names no constraint and the run has no artifact",
                    hint=_HOW_TO_NAME_ONE,
                    field="constraint",
                )
            if not self._restriction or (self._others_quoting and not self._restriction.others):
                return None
            return self._recent.get(None, self._others_alone)
        name, texts = record.constraint or DEFAULT, record.candidates
        if texts is None and self._quotes(constraint):
            return self._quoting(constraint, record, name)
        if record.narrowed:
            narrowed = record.narrowed
            return self._recent.get(
                (name, narrowed), lambda: self._left(self._opened[name].narrowed(narrowed), name)
            )
        if texts is None:
            return self._restricted[name]
        return self._recent.get((name, texts), lambda: self._candidates(name, texts))

    def _document(self, record: PromptRecord) -> str | None:
        """Return the document whose pieces a record's texts are; None where they are of none.

        Raises:
            FieldError: The record has no such field, or it holds no text.
        """
        spans = self._held.spans
        if spans is None or record.brings_constraint or record.constraint is not None:
            return None
        return spans.of(record.input or {})

    def _quotes(self, constraint: Constraint) -> dict[str, SpanField]:
        """Return the sets within a constraint that are pieces of a record's documents."""
        from cdec.core.sets.quotes import quoted_fields

        return quoted_fields(constraint, self._held.quotes)

    def _quoting(self, constraint: Constraint, record: PromptRecord, name: str) -> Constraint:
        """Return what is left of a constraint, with the pieces of a record's documents within it.

        Raises:
            FieldError: A field is not there, or holds no text.
            CdecError: A document has no such piece, or is no text that can be sorted.
        """
        whole = self._with_pieces(constraint, record)
        return self._pieces.get(
            (whole, record.narrowed), lambda: self._left(whole.narrowed(record.narrowed), name)
        )

    def _with_pieces(self, constraint: Constraint, record: PromptRecord) -> Constraint:
        """Return a constraint with the pieces of a record's documents within it.

        Raises:
            FieldError: A field is not there, or holds no text.
            CdecError: A document has no such piece, or is no text that can be sorted.
        """
        from cdec.core.sets.quotes import DocumentPieces

        quotes = self._quotes(constraint).items()
        documents = tuple((held, of, of.of(record.input or {})) for held, of in quotes)

        def made() -> Constraint:
            return constraint.with_sets(
                {
                    held: self._documents.get((of, text), partial(DocumentPieces, text, of))
                    for held, of, text in documents
                }
            )

        return self._pieces.get((constraint, documents), made)

    def _left_by_quotes(
        self, constraint: Constraint | None, quoting: Constraint, name: str
    ) -> Constraint:
        """Return what is left of a record's constraint by another that quotes its documents.

        Args:
            constraint: With all else that is asked of it; None stands for all texts.
            quoting: The other one. name: What messages call it.
        """
        if constraint is None:
            return self._pieces.get((quoting, name), lambda: self._left(quoting, name))
        return self._pieces.get(
            (constraint, quoting),
            lambda: self._restriction.conjoined(constraint, {name: quoting}, "the record"),
        )

    def _pieces_of(self, document: str) -> Constraint:
        """Return the constraint of a document's pieces."""
        from cdec.core.sets.spans import SpanConstraint

        spans = self._held.spans
        assert spans is not None
        name = f"the record's field {spans.name!r}"
        return self._pieces.get(
            document,
            lambda: self._left(
                SpanConstraint(document, self._model.vocabulary, spans.options, spans.name), name
            ),
        )

    def _without_denied(
        self, record: PromptRecord, constraint: Constraint | None, asked: Hashable
    ) -> Constraint | None:
        """Return what a record's constraint leaves beside the texts that it leaves out itself."""
        if not record.deny:
            return constraint
        if constraint is None:
            raise FieldError(
                "texts are left out of a constraint, and the record has none",
                hint=_HOW_TO_NAME_ONE,
                field="deny",
            )
        from cdec.core.combine.denial import deny

        denied = [text.encode() for text in record.deny]
        return self._recent.get(("deny", asked), lambda: deny(constraint, denied))

    def _compiled(
        self, source: tuple[str, SourceOptions[Any], tuple[NarrowedSet, ...]]
    ) -> Constraint:
        """Return the constraint of a text and its options, with what is left of its sets."""
        text, options, narrowed = source
        compiled = self._sources.of(text, options)
        if not compiled.set_names:
            # Records that ask for the same share a constraint.
            return compiled.narrowed(narrowed) if narrowed else compiled
        whole = self._whole(compiled)
        return self._recent.get(("sets", source), lambda: whole.narrowed(narrowed))

    def _whole(self, compiled: Constraint) -> Constraint:
        """Return a compiled constraint with the run's sets."""
        return self._recent.get(compiled, lambda: self._with_sets(compiled))

    def _with_sets(self, constraint: Constraint) -> Constraint:
        """Return a constraint with the run's sets that it holds within it; quotes are a record's.

        Raises:
            SetMissingError: The run gives no set of a name.
        """
        from cdec.core.sets.spelled import spelled
        from cdec.core.sets.within import holding

        sets = self._held.sets
        for name in constraint.set_names:
            if name in sets and name not in self._spelled:
                self._spelled[name] = spelled(sets[name])
        return holding(constraint, self._spelled, self._quotes(constraint))

    def _own(self, asked: _Asked, make: Callable[[_Asked], Constraint], name: str) -> Constraint:
        """Return what is left of a constraint that a record brings."""
        if not self._restriction:
            return make(asked)
        return self._recent.get(asked, lambda: self._left(make(asked), name))

    def _others_alone(self) -> Constraint:
        """Return what is asked of a record without a constraint of its own."""
        try:
            return self._restriction.of(None, "the record")
        except UsageError as error:
            error.hint = "leave `deny` out, or name the artifact with `artifact`"
            raise

    def _candidates(self, name: str, texts: tuple[str, ...]) -> Constraint:
        """Return the constraint of some members of a record's artifact."""
        from cdec.core.constraint import candidates_of

        # What a record chooses among are the members of its artifact, not those of another.
        is_list = self._opened[name].listed is not None
        return candidates_of((self._restricted if is_list else self._opened)[name], texts)

    def _left(self, constraint: Constraint, name: str) -> Constraint:
        return self._restriction.of(constraint, name) if self._restriction else constraint

    def _named(self, name: str | None) -> Constraint | None:
        if name is None:
            return self._opened.get(DEFAULT)
        if name == DEFAULT or name not in self._opened:
            known = ", ".join(repr(known) for known in self._opened if known != DEFAULT)
            raise FieldError(
                f"no constraint is named {name!r}; known: {known or 'none'}",
                hint="give its artifact with `constraint`",
                field="constraint",
            )
        return self._opened[name]

    def _heal(
        self, prompt: Prompt, constraint: Constraint, asked: Hashable
    ) -> tuple[Prompt, Constraint]:
        """Cut a prompt back to a token boundary, and let texts begin with what was cut off."""
        from cdec.core.combine.healing import HealedConstraint
        from cdec.core.constraint import no_use

        if not (constraint.facts.takes_bytes or constraint.facts.takes_pieces):
            raise no_use(constraint, "heal")
        tokens = self._sorted_tokens()
        kept, prefix = tokens.cut(self._model.encode_prompt(prompt))
        if not prefix:
            return prompt, constraint
        healed = self._adapted.get(
            (asked, prefix), lambda: HealedConstraint(constraint, prefix, tokens)
        )
        return kept, healed

    def _begin(
        self, prompt: Prompt, constraint: Constraint | None, prefill: str, asked: Hashable
    ) -> tuple[Prompt, Constraint]:
        """Let texts begin with a begun answer, its first part at the end of the prompt."""
        from cdec.core.combine.prefill import begin

        if constraint is None:
            raise FieldError(
                f"the record begins its answer, {prefill[:40]!r}, which is continued within a "
                "constraint, and it has none",
                hint=f"write it at the end of the prompt, or {_HOW_TO_NAME_ONE}",
                field="prefill",
            )
        inner, into_prompt = constraint, self._model.continues_prompt
        begun = self._begun.get(
            (asked, prefill),
            lambda: begin(
                inner, prefill, self._sorted_tokens(), into_prompt=into_prompt, heal=self._masks
            ),
        )
        return [*self._model.encode_prompt(prompt), *begun.read], begun

    def _sorted_tokens(self) -> SortedTokens:
        from cdec.core.combine.sorted_tokens import SortedTokens

        if self._tokens is None:
            self._tokens = SortedTokens(self._model.vocabulary)
        return self._tokens


def _called(given: Any) -> str:
    """Return what messages call an artifact that was read, or a constraint."""
    from cdec.core.artifacts.read import ArtifactFile

    return str(given.path) if isinstance(given, ArtifactFile) else "the constraint"


def _require_sense(held: ConstraintSpecification, model: LanguageModel, masks: bool) -> None:
    """Refuse what means nothing to a model, or to a method without masks."""
    if held.heal and not model.continues_prompt:
        raise UsageError(
            "`heal` continues the prompt's last word, and this model's texts begin anew",
            hint="leave `heal` out, or take a causal model",
        )
    if held.spans is not None and DEFAULT in held.named:
        raise UsageError(
            "`spans` and an artifact each say what texts are held to",
            hint="give one of them; a further artifact that all texts satisfy is `conjoined`",
        )
    twice = sorted(held.sets.keys() & held.quotes.keys())
    if twice:
        raise UsageError(
            f"`sets` and `quotes` both say what {twice[0]!r} is",
            hint="give one of them",
        )
    asked = {"fit": held.fit, "canonical": held.canonical, "templated": held.templated}
    for parameter in (name for name, is_asked in asked.items() if is_asked and not masks):
        raise UsageError(
            f"`{parameter}` means nothing to a method without masks, which holds texts to nothing",
            hint="leave it out",
        )


def _some(constraint: Constraint | None, parameter: str) -> Constraint:
    if constraint is None:
        raise needs_grammar(parameter, "there is no constraint")
    return constraint
