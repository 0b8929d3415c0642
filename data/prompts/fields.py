"""Fields of prompt records checked: types, ranges, and fields that are refused."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection
from typing import Any, TypedDict, TypeVar

import orjson

from cdec.core.constraint import NarrowedSet
from cdec.core.errors import FieldError, LimitError
from cdec.data.ids import RecordId
from cdec.data.prompts.names import OtherFields, is_constraint_of_others, near_name

ValueT = TypeVar("ValueT")

MAX_SEED = 2**63 - 1

UNSUPPORTED_SAMPLING_FIELDS = frozenset(
    {
        "K",
        "beams",
        "best_of",
        "do_sample",
        "frequency_penalty",
        "length_penalty",
        "logit_bias",
        "max_completion_tokens",
        "max_new_tokens",
        "method",
        "min_p",
        "min_tokens",
        "num_beams",
        "num_return_sequences",
        "presence_penalty",
        "repetition_penalty",
        "stop_token_ids",
        "top_k",
        "top_m",
        "top_p",
        "typical_p",
    }
)
"""Sampling options of other programs; a record that sets one is refused, not misread."""

_MORE_OF_MESSAGES = {
    "assistant": {"tool_calls", "reasoning_content"},
    "tool": {"name", "tool_call_id"},
}
"""What messages of a role may say beside their content."""
_CONSTRAINT_TEXTS = ("grammar", "regex", "schema")
MOST_STOPS = 16
"""Most texts at which the texts of a record end."""


class RecordFields:
    """One record's fields with its place, so that every error can name both.

    Args:
        fields: The parsed JSON object.
        name: Name of the input.
        line: 1-based line.
        unit: What ``line`` counts, as in ``Entry``.
    """

    def __init__(
        self, fields: dict[str, object], name: str, line: int, *, unit: str = "line"
    ) -> None:
        self.fields = fields
        self.name = name
        self.line = line
        self.unit = unit

    def error(self, field: str, problem: str, hint: str) -> FieldError:
        """Return an error about one field."""
        return FieldError(
            f"{self.name}, {self.unit} {self.line}: field {field!r} {problem}",
            hint=hint,
            line=self.line,
            field=field,
        )

    def refuse_foreign_fields(self, read: Collection[str] = ()) -> None:
        """Refuse what would be ignored or is dangerous, before anything else is looked at.

        Args:
            read: Names that a template or a reward reads: such a field is data.

        Raises:
            FieldError: ``chat_template``, a sampling option records do not have, or the line is a
                request of a batch file.
        """
        if "chat_template" in self.fields:
            raise self.error(
                "chat_template",
                "is refused: a template from a record is a program",
                "the model's own chat template is applied to messages",
            )
        if "custom_id" in self.fields and "body" in self.fields:
            raise self.error(
                "url",
                "makes this a request of a batch file, and records are read",
                "give `openai_batch`, which reads requests and writes their responses",
            )
        for field, value in self.fields.items():
            if field in read:
                continue
            if is_constraint_of_others(field, value):
                raise self.error(
                    field,
                    "is not read",
                    "say what it must be by a 'schema', a 'regex', a 'grammar', or by 'candidates'",
                )
            if field in UNSUPPORTED_SAMPLING_FIELDS:
                raise self.error(
                    field,
                    "cannot be set by a record",
                    "records may set n, seed, temperature and max_tokens; the rest are options",
                )

    def refuse_slips(self, known: Collection[str], *, but: Collection[str] = ()) -> None:
        """Refuse a field whose name is a slip for one that is read, and would be ignored.

        Args:
            known: Names that are read.
            but: Further names that mean something.

        Raises:
            FieldError: There is one.
        """
        for field in self.fields:
            if field in known or field in but:
                continue
            meant = near_name(field, known)
            if meant is not None:
                raise self.error(
                    field,
                    "is not read",
                    f"did you mean {meant!r}? Give it another name if it is data of your own",
                )

    def sort_out(self, known: Collection[str], others: OtherFields, read: Collection[str]) -> None:
        """Refuse or note the fields that nothing reads.

        Args:
            known: Names of a record's own fields.
            others: What becomes of the other fields.
            read: Names that a template reads.

        Raises:
            FieldError: A slip, or with ``others.strict_fields`` any field that nothing reads.
        """
        if others.read is None:
            return
        read = {*read, *others.read}
        self.refuse_slips(known, but=read)
        for field in self.fields:
            if field in known or field in read:
                continue
            if others.strict_fields:
                raise self.error(
                    field,
                    "is read by nothing",
                    f"leave it out, or leave `strict_fields` out; a record's own: "
                    f"{', '.join(sorted(known))}",
                )
            others.note(field)

    def optional(self, field: str, check: Callable[[str, object], ValueT]) -> ValueT | None:
        """Return a field's checked value; None where the record does not have it."""
        return check(field, self.fields[field]) if field in self.fields else None

    def identifier(self, field: str, value: object) -> RecordId:
        """Check an id: a text that is not empty, or an integer of 64 bits."""
        if (isinstance(value, str) and value) or _is_integer(value):
            return value  # type: ignore[return-value]  # str or int
        raise self.error(
            field,
            f"is {shown(value)}; an id is a text or an integer of 64 bits",
            "leave it out and the record gets a hash of its content as its id",
        )

    def text(self, field: str, value: object) -> str:
        """Check a text, which may be empty."""
        if isinstance(value, str):
            return value
        raise self.error(field, f"is {shown(value)}, a text was expected", "put it in quotes")

    def non_empty_text(self, field: str, value: object) -> str:
        """Check a text that is not empty."""
        text = self.text(field, value)
        if text:
            return text
        raise self.error(field, "is empty", "leave the field out, or say what is meant")

    def seed(self, field: str, value: object) -> int:
        """Check a seed: an integer from 0 to 2^63 - 1."""
        return self._integer(field, value, 0, MAX_SEED)

    def count(self, field: str, value: object) -> int:
        """Check a number of tokens or draws: an integer of at least 1."""
        return self._integer(field, value, 1, MAX_SEED)

    def draws(self, max_n: int) -> int | None:
        """Return ``n``.

        Raises:
            FieldError: No integer of at least 1.
            LimitError: More than ``max_n``.
        """
        n = self.optional("n", self.count)
        if n is not None and n > max_n:
            raise LimitError(
                f"{self.name}, {self.unit} {self.line}: field 'n' asks for {n} draws, at most"
                f" {max_n} are made for one record",
                hint="raise `max_n`, or repeat the record under several ids",
                line=self.line,
                field="n",
                limit=f"max_n {max_n}",
            )
        return n

    def temperature(self, field: str, value: object) -> float:
        """Check a temperature: a number greater than 0."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and math.isfinite(value) and value > 0:  # type: ignore[arg-type,operator]
            return float(value)  # type: ignore[arg-type]
        raise self.error(
            field,
            f"is {shown(value)}, a number greater than 0 was expected",
            "for the most probable token at each step use `method` greedy",
        )

    def candidates(self, field: str, value: object) -> tuple[str, ...]:
        """Check a list of texts or entity ids; integers become their decimal text."""
        items = value if isinstance(value, list) else []
        if items and all((isinstance(item, str) and item) or _is_integer(item) for item in items):
            return tuple(str(item) for item in items)
        raise self.error(
            field,
            f"is {shown(value)}; a list of texts or entity ids was expected, at least one",
            "leave the field out to allow every entity of the artifact",
        )

    def candidates_or_sets(
        self, field: str, value: object
    ) -> tuple[tuple[str, ...] | None, tuple[NarrowedSet, ...]]:
        """Check candidates: a list, or of sets within the constraint an object of such by name.

        An object ``{"deny": [...]}`` in the place of a list is of texts that are left out.
        """
        if not isinstance(value, dict):
            return self.candidates(field, value), ()
        narrowed = []
        for name, given in value.items():
            is_denied = isinstance(given, dict) and given.keys() == {"deny"}
            listed = given["deny"] if is_denied else given
            narrowed.append(NarrowedSet(name, self.candidates(field, listed), is_denied))
        return None, tuple(narrowed)

    def schema(self, field: str, value: object) -> str:
        """Check a JSON Schema given as an object (or true/false) or as its text."""
        if isinstance(value, dict | bool):
            return orjson.dumps(value).decode()
        return self.non_empty_text(field, value)

    def refuse_two_constraints(self) -> None:
        """Refuse a record whose constraint could be read in two ways.

        Raises:
            FieldError: Two of ``grammar``, ``regex``, ``schema``, or one of them beside
                ``constraint`` or ``candidates``.
        """
        texts = [field for field in _CONSTRAINT_TEXTS if field in self.fields]
        # Those by the names of sets narrow what a text holds within it.
        chosen = "candidates" in self.fields and not isinstance(self.fields["candidates"], dict)
        others = ["constraint"] if "constraint" in self.fields else []
        others += ["candidates"] if chosen else []
        calls = self.fields.get("tool_choice", "none") != "none" and "tools" in self.fields
        others += ["tool_choice"] if calls else []
        if len(texts) > 1 or (texts and others) or (calls and others[1:]):
            first, second = (texts + others)[:2]
            raise self.error(
                second, f"stands beside {first!r}", "a record has one constraint of its own"
            )

    def messages(self, field: str, value: object) -> tuple[dict[str, Any], ...]:
        """Check chat messages: objects of ``role`` and ``content``, both texts.

        Those of tools, and of assistants that call them, may say what was called, as in OpenAI's
        form: ``tool_calls`` (the content may be null then), ``tool_call_id``, ``name``; and
        ``reasoning_content``, what was thought.
        """
        hint = 'give a list such as [{"role": "user", "content": "Hello"}]'
        if not isinstance(value, list) or not value:
            raise self.error(field, f"is {shown(value)}; chat messages were expected", hint)
        found = [self._message(field, n, each, hint) for n, each in enumerate(value, 1)]
        if "tool_calls" in found[-1]:
            raise self.error(
                field,
                "ends with calls of tools, which nothing answers",
                'add what they returned: {"role": "tool", "content": ...}',
            )
        return tuple(found)

    def _message(self, field: str, number: int, message: object, hint: str) -> dict[str, Any]:
        """Check the message of a number; calls of tools get their arguments as objects."""
        role = message.get("role") if isinstance(message, dict) else None
        extra = _MORE_OF_MESSAGES.get(role, set()) if isinstance(role, str) else set()
        calls = isinstance(message, dict) and "tool_calls" in message
        needed = {"role"} if calls else {"role", "content"}
        if not isinstance(message, dict) or not (
            needed <= message.keys() <= {"role", "content"} | extra
        ):
            problem = f"has a message {number} that is not an object of role and content"
            raise self.error(field, problem, hint)
        found = dict(message)
        if "tool_calls" in message:
            found["tool_calls"] = self._tool_calls(field, number, message["tool_calls"])
            found["content"] = message.get("content") or ""
        for key in found.keys() - {"tool_calls"}:
            if not isinstance(found[key], str):
                problem = f"has a message {number} whose {key} is {shown(found[key])}"
                raise self.error(field, problem, "only text is read; nothing is fetched")
        return found

    def _tool_calls(self, field: str, number: int, value: object) -> list[dict[str, Any]]:
        calls = value if isinstance(value, list) else []
        found = []
        for call in calls:
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict) or not isinstance(function.get("name"), str):
                calls = []
                break
            arguments = function.get("arguments", {})
            if isinstance(arguments, str):
                with contextlib.suppress(orjson.JSONDecodeError):
                    arguments = orjson.loads(arguments)
            found.append({**call, "function": {**function, "arguments": arguments}})
        if not calls:
            raise self.error(
                field,
                f"has a message {number} whose tool_calls are no calls",
                'give a list such as [{"function": {"name": "add", "arguments": {"a": 1}}}]',
            )
        return found

    def tools(self, field: str, value: object) -> tuple[dict[str, Any], ...]:
        """Check definitions of functions that a chat template is told: a list of objects."""
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            return tuple(value)
        raise self.error(
            field,
            f"is {shown(value)}; a list of functions was expected, at least one",
            'give [{"type": "function", "function": {"name": ..., "parameters": {...}}}]',
        )

    def tool_choice(self, field: str, value: object) -> str:
        """Check a choice of tools: a word, a function's name, or OpenAI's object of one."""
        if isinstance(value, dict) and isinstance(value.get("function"), dict):
            value = value["function"].get("name")
        if isinstance(value, str) and value:
            return value
        raise self.error(
            field,
            f"is {shown(value)}; auto, required, none or a function's name was expected",
            'give "auto", or {"type": "function", "function": {"name": ...}}',
        )

    def stops(self, field: str, value: object) -> tuple[str, ...]:
        """Check the texts at which texts end: one, or a list of a few."""
        stops: Any = [value] if isinstance(value, str) else value
        is_few = isinstance(stops, list) and len(stops) <= MOST_STOPS
        if is_few and all(isinstance(each, str) and each for each in stops):
            return tuple(stops)
        raise self.error(
            field,
            f"is {shown(value)}; a text or at most {MOST_STOPS} texts were expected, none empty",
            "correct it, or leave it out",
        )

    def flag(self, field: str, value: object) -> bool:
        """Check a truth value."""
        if isinstance(value, bool):
            return value
        raise self.error(field, f"is {shown(value)}, true or false was expected", "correct it")

    def template_arguments(self, field: str, value: object) -> dict[str, Any]:
        """Check arguments of a chat template: an object."""
        if not isinstance(value, dict):
            raise self.error(
                field,
                f"is {shown(value)}; an object was expected",
                'give {"enable_thinking": false}',
            )
        if "tools" in value:
            raise self.error(field, "has 'tools'", "give them in the record's field 'tools'")
        return value

    def _integer(self, field: str, value: object, low: int, high: int) -> int:
        if _is_integer(value) and low <= value <= high:  # type: ignore[operator]
            return value  # type: ignore[return-value]
        limits = f"from {low} to {high}" if high != MAX_SEED or low == 0 else f"of at least {low}"
        raise self.error(
            field,
            f"is {shown(value)}, an integer {limits} was expected",
            "correct the field, or leave it out to take the run's option",
        )


def shown(value: object) -> str:
    """Return a value for a message: scalars as JSON, cut to 40 characters; else its kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an empty list" if not value else "a list"
    text = orjson.dumps(value).decode()
    return text if len(text) <= 40 else text[:40] + "..."


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class FreeFields(TypedDict):
    """Fields of a record that ask for free text; None where it leaves it to the run."""

    after: tuple[str, ...] | None
    between: tuple[str, str] | None
    budget: int | None
    regions: int | None


def free_fields(record: RecordFields) -> FreeFields:
    """Return a record's fields about free text, checked one by one.

    Raises:
        FieldError: One of another type, or empty; ``after`` beside ``between``.
    """
    if "after" in record.fields and "between" in record.fields:
        raise record.error("between", "stands beside 'after'", "give one of the two")
    between = _texts(record, "between")
    if between is not None and len(between) != 2:
        raise record.error(
            "between",
            f"has {len(between)} texts, two were expected",
            'give the text that begins a region and the one that ends it: ["<call>", "</call>"]',
        )
    return {
        "after": _texts(record, "after"),
        "between": None if between is None else (between[0], between[1]),
        "budget": _count(record, "budget"),
        "regions": _count(record, "regions"),
    }


def _texts(record: RecordFields, field: str) -> tuple[str, ...] | None:
    """Return a field that is a text or a list of texts, none of them empty."""
    value = record.fields.get(field)
    if field not in record.fields:
        return None
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list) and texts and all(isinstance(t, str) and t for t in texts):
        return tuple(texts)
    raise record.error(
        field,
        f"is {shown(value)}; texts that are not empty were expected",
        "leave the field out, or give the text at which the constraint begins",
    )


def _count(record: RecordFields, field: str) -> int | None:
    value = record.fields.get(field)
    if field not in record.fields:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEED:
        return value
    raise record.error(
        field,
        f"is {shown(value)}, an integer of at least 0 was expected",
        "correct the field, or leave it out to take the run's option",
    )
