"""Calls of tools: the wire formats of model families, and what a text is held to that may call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from cdec.core.errors import UsageError
from cdec.core.sample import FINISH_COMPLETE
from cdec.integrations.records.wire import HARMONY, PYTHONIC, QWEN, Wire

if TYPE_CHECKING:
    from cdec.compilers.cache import ConstraintCache, SourceCache
    from cdec.core.combine.free_text import FreeText
    from cdec.core.combine.rewritten import Writing
    from cdec.core.constraint import Constraint
    from cdec.core.errors import Notice
    from cdec.core.models.language_model import LanguageModel
    from cdec.core.sample import Sample
    from cdec.core.tokens.vocabulary import Vocabulary

AUTO, REQUIRED, NONE = "auto", "required", "none"
"""Choices of tools beside a name: a text may call, has to call, or does not."""


@dataclass(frozen=True)
class ToolStyle:
    """Wire format of a family of models.

    Attributes:
        signs: Words of which one in the chat template, or among the special tokens, tells it.
        but: Words of the template that tell another format although one of ``signs`` is there.
        begin: What stands before calls where a text may have any; None where nothing does.
        end: What stands behind each call, and at which it ends; None where the text ends there.
        key: Of a call's arguments.
        is_list: Whether what begins is a list of calls.
        bare: Whether calls that are required stand without ``begin``.
        wire: How calls are written that are no JSON; None for JSON.
        has_channels: Whether texts are messages of channels, of which ``final`` is the answer.
    """

    signs: tuple[str, ...]
    but: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None
    key: str = "arguments"
    is_list: bool = False
    bare: bool = False
    wire: Wire | None = None
    has_channels: bool = False


STYLES: Mapping[str, ToolStyle] = {
    "mistral": ToolStyle(("[TOOL_CALLS]",), begin="[TOOL_CALLS]", is_list=True),
    "harmony": ToolStyle(
        ("<|constrain|>",),
        begin="<|channel|>commentary to=functions.",
        end="<|call|>",
        wire=HARMONY,
        has_channels=True,
    ),
    "pythonic": ToolStyle(
        ("<|python_start|>",),
        begin="<|python_start|>",
        end="<|python_end|>",
        is_list=True,
        bare=True,
        wire=PYTHONIC,
    ),
    "qwen": ToolStyle(("<function=",), begin="<tool_call>\n", end="\n</tool_call>", wire=QWEN),
    "hermes": ToolStyle(
        ("<tool_call>",),
        ("<function=", "<arg_key>"),
        begin="<tool_call>\n",
        end="\n</tool_call>",
    ),
    "llama3": ToolStyle(("<|python_tag|>",), begin="<|python_tag|>", key="parameters", bare=True),
    "json": ToolStyle((), bare=True),
}
"""By name, and in the order in which they are looked for."""


def style_of(name: str | None, template: str, vocabulary: Vocabulary) -> tuple[str, ToolStyle]:
    """Return the wire format of a model, and its name.

    Args:
        name: Of the format; None where the model tells.
        template: Source of its chat template.
        vocabulary: Of the model.

    Raises:
        UsageError: There is none of this name, or the model does not tell.
    """
    if name is None:
        for known, style in STYLES.items():
            told = any(s in template or s in vocabulary.special_tokens for s in style.signs)
            if told and not any(word in template for word in style.but):
                return known, style
    elif name in STYLES:
        return name, STYLES[name]
    said = "does not tell how it writes calls of tools" if name is None else ""
    raise UsageError(
        f"the model's chat template {said}" if said else f"`tool_style` is {name!r}",
        hint=f"give `tool_style` one of {', '.join(STYLES)}",
    )


@dataclass(frozen=True)
class ToolCalls:
    """Tools that a text may call, or has to.

    Attributes:
        definitions: A JSON list of functions, as ``schema_of_tools`` takes it.
        choice: ``auto``, ``required``, or the name of the function that has to be called.
        style: Name of the wire format; None where the model tells.
        parallel: Whether there may be several calls, in formats that have them.
    """

    definitions: str
    choice: str = REQUIRED
    style: str | None = None
    parallel: bool = False

    @property
    def listed(self) -> list[dict[str, Any]]:
        """The definitions, which the chat template is told.

        Raises:
            UsageError: They are no JSON list of objects.
        """
        try:
            found = orjson.loads(self.definitions)
        except orjson.JSONDecodeError as error:
            raise UsageError(f"the tools are no JSON: {error}", hint=_HOW) from error
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise UsageError("the tools are no list of objects", hint=_HOW)
        return found

    def of(self, model: LanguageModel) -> HeldCalls:
        """Return what a model's texts are held to; raises as ``written_for``."""
        return self.written_for(model.chat_template, model.vocabulary)

    def written_for(self, template: str, vocabulary: Vocabulary) -> HeldCalls:
        """Return what texts are held to of a model with this chat template and vocabulary.

        Raises:
            UsageError: No such style, or the model does not tell; texts may call, and nothing
                tells calls of the style from other text.
            CdecError: As ``schema_of_tools``.
        """
        from cdec.compilers.schemas.tools import CallForm, schema_of_tools
        from cdec.core.combine.markers import plain, symbols_of

        name, style = style_of(self.style, template, vocabulary)
        is_list = style.is_list or (name == "json" and self.parallel)
        only = None if self.choice in (AUTO, REQUIRED) else self.choice
        most = None if self.parallel else 1
        form = CallForm(key=style.key, is_list=is_list, most=most, only=only)
        free = self._free_text(name, style, vocabulary)
        begin, end = (
            plain(symbols_of(tag or "", vocabulary)).decode() for tag in (style.begin, style.end)
        )
        schema = schema_of_tools(self.definitions, form=form)
        writing = None
        if style.wire is not None:
            may_be_called = [t for t in self.listed if only in (None, t.get("function", t)["name"])]
            writing = style.wire.of(may_be_called, vocabulary)
        channels = vocabulary if style.has_channels else None
        return HeldCalls(schema, free, style.key, begin, end, writing, channels)

    def _free_text(self, name: str, style: ToolStyle, vocabulary: Vocabulary) -> FreeText | None:
        from cdec.core.combine.free_text import FreeText

        is_owed = self.choice != AUTO
        if is_owed and style.bare:
            return None
        begin, end = style.begin, style.end
        if begin is None or (style.bare and begin not in vocabulary.special_tokens):
            raise UsageError(
                f"nothing tells calls of the style {name} from other text of this model",
                hint="give `tool_choice` required or a name, or another `tool_style`",
            )
        if end is not None and vocabulary.special_tokens.get(end) in vocabulary.eos_token_ids:
            end = None  # the text ends with it
        budget = 0 if is_owed else None
        is_one = style.is_list or style.has_channels or not self.parallel
        if end is not None and not is_one and self.choice in (AUTO, REQUIRED):
            return FreeText(between=(begin, end), budget=budget, regions=int(is_owed))
        return FreeText((begin,), budget=budget, closing=end, optional=not is_owed)


def tool_sources(vocabulary: Vocabulary, kept: ConstraintCache | None = None) -> SourceCache:
    """Return what compiles schemas of calls; they are kept in the user's cache for later runs."""
    from cdec.compilers.cache import SourceCache
    from cdec.core.files.cache import CacheFolder

    shared = CacheFolder("tools", most=_KEPT_TOOLS, max_bytes=_MAX_TOOLS)
    return SourceCache(vocabulary, kept, shared=shared)


def compiled_calls(
    calls: ToolCalls, template: str, vocabulary: Vocabulary
) -> tuple[Constraint, list[Notice]]:
    """Return the constraint of texts that are nothing but a call, and what there is to warn of.

    Args:
        calls: The tools.
        template: Source of the chat templates of the model that calls them.
        vocabulary: Of the model.

    Raises:
        UsageError: As ``ToolCalls.written_for`` and ``HeldCalls.whole``.
        CdecError: The tools cannot be compiled.
    """
    from cdec.integrations.records.sources import RecordSources

    held = calls.written_for(template, vocabulary)
    schemas: Any = RecordSources.of().options["schema"]
    with tool_sources(vocabulary) as sources:
        written = held.written(sources.of(held.schema, replace(schemas, name="the tools")))
        return held.whole(written), sources.take_notices()


_KEPT_TOOLS, _MAX_TOOLS = 64, 256 << 20
"""Constraints of tools that are kept for later runs, and most bytes of one."""
_HOW = 'give [{"type": "function", "function": {"name": ..., "parameters": {...}}}]'


@dataclass(frozen=True)
class HeldCalls:
    """What a text is held to that may call tools.

    Attributes:
        schema: JSON Schema of what the constrained parts are.
        free: What the model writes before and around them; None for nothing.
        key: Of a call's arguments.
        begin, end: What stands around them in texts, which have no special tokens.
        writing: How calls are written that are no JSON; None for JSON.
        channels: The vocabulary of a model whose texts are messages of channels; else None.
    """

    schema: str
    free: FreeText | None
    key: str
    begin: str
    end: str
    writing: Writing | None = None
    channels: Vocabulary | None = None

    def written(self, constraint: Constraint) -> Constraint:
        """Return the constraint of calls in this format, of that of their schema."""
        from cdec.core.combine.rewritten import RewrittenConstraint

        return constraint if self.writing is None else RewrittenConstraint(constraint, self.writing)

    def whole(self, constraint: Constraint) -> Constraint:
        """Return the constraint of texts that are nothing but a call, of that of calls.

        Args:
            constraint: Of calls in this format, and of what else is asked of them.

        Raises:
            UsageError: Texts need not call, or have more around calls.
        """
        from cdec.core.combine.framed import FramedConstraint

        free = self.free
        if free is None:
            return constraint
        if free.between is not None:
            raise UsageError(
                "several calls of this style stand in the midst of free text, and only draws have "
                "any",
                hint="ask for one call, or give a `tool_style` that has several in a list",
            )
        if free.budget is None:
            raise UsageError(
                "texts that may call or not are free text, and only draws have any",
                hint="give `tool_choice` required, or the name of a function",
            )
        (begin,) = free.after
        return FramedConstraint(constraint, begin, free.closing)

    def calls(self, sample: Sample) -> list[dict[str, Any]]:
        """Return the calls of a text that are whole, each with ``name`` and ``arguments``."""
        return [
            {"name": call["name"], "arguments": call[self.key]}
            for text in _constrained(sample)
            for call in _listed(orjson.loads(self._json(text)))
        ]

    def _json(self, text: str) -> bytes | str:
        """Return the JSON of a text of calls; texts that are whole have one."""
        return text if self.writing is None else self.writing.read(text.encode()) or "[]"

    def content(self, sample: Sample) -> str:
        """Return what a text has beside calls and thinking."""
        said: Mapping[str, Any] = sample.diagnostics
        text, at = sample.text or "", len(str(said.get("thinking") or ""))
        if said.get("thinking", "") is None:  # it did not come to an end
            return ""
        if self.channels is not None and (shown := _answers(sample, self.channels)) is not None:
            return shown
        if self.free is None:
            return "" if sample.finish_reason == FINISH_COMPLETE else text
        if self.free.between is None:
            if said.get("marker") is None:
                return str(said.get("free_text") or text)[at:].strip()
            return str(said["free_text"])[at:].removesuffix(self.begin).strip()
        parts = []
        for region in said.get("regions", ()):
            parts.append(text[at : region["start"]].removesuffix(self.begin))
            at = region["end"]
            at += len(self.end) if text.startswith(self.end, at) else 0
        return "".join([*parts, text[at:]]).strip()


def _answers(sample: Sample, vocabulary: Vocabulary) -> str | None:
    """Return what a text of messages says to the user; None where it has no channels."""
    words = {token: word.encode() for word, token in vocabulary.special_tokens.items()}
    table = vocabulary.token_bytes
    data = b"".join(words.get(token, table[token]) for token in sample.token_ids)
    messages = _MESSAGE.findall(data.decode("utf-8", "replace"))
    said = (
        body
        for channel, to, body in messages
        if channel in ("final", "commentary") and not to.strip()
    )
    return "".join(said) if messages else None


_MESSAGE = re.compile(
    r"<\|channel\|>(\w+)([^<]*)(?:<\|constrain\|>\w*)?<\|message\|>"
    r"(.*?)(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)


def _constrained(sample: Sample) -> Iterable[str]:
    """Return the texts of the constrained parts that are whole."""
    said: Mapping[str, Any] = sample.diagnostics
    if "regions" in said:
        whole = (r for r in said["regions"] if r["finish_reason"] == FINISH_COMPLETE)
        return [region["text"] for region in whole]
    is_one = sample.finish_reason == FINISH_COMPLETE and said.get("marker", "") is not None
    return [sample.text or ""] if is_one else []


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
