"""Calls of tools: the wire formats of model families, and what a text is held to that may call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from cdec.core.errors import UsageError
from cdec.core.sample import FINISH_COMPLETE

if TYPE_CHECKING:
    from cdec.core.combine.free_text import FreeText
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
    """

    signs: tuple[str, ...]
    but: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None
    key: str = "arguments"
    is_list: bool = False
    bare: bool = False


STYLES: Mapping[str, ToolStyle] = {
    "mistral": ToolStyle(("[TOOL_CALLS]",), begin="[TOOL_CALLS]", is_list=True),
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
        """Return what a model's texts are held to.

        Raises:
            UsageError: No such style, or the model does not tell; texts may call, and nothing
                tells calls of the style from other text.
            CdecError: As ``schema_of_tools``.
        """
        from cdec.compilers.schemas.tools import CallForm, schema_of_tools
        from cdec.core.combine.markers import plain, symbols_of

        name, style = style_of(self.style, model.chat_template, model.vocabulary)
        is_list = style.is_list or (name == "json" and self.parallel)
        form = CallForm(
            key=style.key,
            is_list=is_list,
            most=None if self.parallel else 1,
            only=None if self.choice in (AUTO, REQUIRED) else self.choice,
        )
        free = self._free_text(name, style, model.vocabulary)
        begin, end = (
            plain(symbols_of(tag or "", model.vocabulary)).decode()
            for tag in (style.begin, style.end)
        )
        schema = schema_of_tools(self.definitions, form=form)
        return HeldCalls(schema, free, style.key, begin, end)

    def _free_text(self, name: str, style: ToolStyle, vocabulary: Vocabulary) -> FreeText | None:
        from cdec.core.combine.free_text import FreeText

        is_owed = self.choice != AUTO
        if is_owed and style.bare:
            return None
        begin = style.begin
        if begin is None or (style.bare and begin not in vocabulary.special_tokens):
            raise UsageError(
                f"nothing tells calls of the style {name} from other text of this model",
                hint="give `tool_choice` required or a name, or another `tool_style`",
            )
        budget = 0 if is_owed else None
        if style.end is not None and self.parallel and self.choice in (AUTO, REQUIRED):
            return FreeText(between=(begin, style.end), budget=budget, regions=int(is_owed))
        return FreeText((begin,), budget=budget, closing=style.end, optional=not is_owed)


_HOW = 'give [{"type": "function", "function": {"name": ..., "parameters": {...}}}]'


@dataclass(frozen=True)
class HeldCalls:
    """What a text is held to that may call tools.

    Attributes:
        schema: JSON Schema of what the constrained parts are.
        free: What the model writes before and around them; None for nothing.
        key: Of a call's arguments.
        begin, end: What stands around them in texts, which have no special tokens.
    """

    schema: str
    free: FreeText | None
    key: str
    begin: str
    end: str

    def calls(self, sample: Sample) -> list[dict[str, Any]]:
        """Return the calls of a text that are whole, each with ``name`` and ``arguments``."""
        return [
            {"name": call["name"], "arguments": call[self.key]}
            for text in _constrained(sample)
            for call in _listed(orjson.loads(text))
        ]

    def content(self, sample: Sample) -> str:
        """Return what a text has beside calls and thinking."""
        said: Mapping[str, Any] = sample.diagnostics
        text, at = sample.text or "", len(str(said.get("thinking") or ""))
        if said.get("thinking", "") is None:  # it did not come to an end
            return ""
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
