"""Membership of finished texts in a JSON Schema, decided by the jsonschema package alone.

Nothing here looks at a compiled program. Numbers are exact, where the package's own reading of JSON
would round them; no other document is fetched. White space is not looked at. Of names that stand
twice in an object the last one counts, as in ``json.loads``. Formats are checked by Python's
standard library and plain expressions: not by the automata that masks are made of, nor by the
package's own checks, which depend on which of a dozen packages are installed.

The package looks at no clock, and goes back in regular expressions as Python does: what is here
runs in the process of ``core.child.readers`` alone.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any

from cdec.core.child.readers import Language, Parse
from cdec.core.schemas.own_keywords import NUMBERS, SET

_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))"
_TIME = re.compile(_CLOCK, re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LABEL = r"[0-9A-Za-z](?:[0-9A-Za-z-]{0,61}[0-9A-Za-z])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# RFC 3339, appendix A.
_DURATION = re.compile(
    r"P(?:\d+W|(?:(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:{t})?|{t}))".format(
        t=r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
    ),
    re.ASCII,
)
# RFC 5321, section 4.1.2.
_ATOM = r"[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]"
_LOCAL = re.compile(rf'(?:{_ATOM}+(?:\.{_ATOM}+)*|"(?:[ !#-\[\]-~]|\\[ -~])*")')
_WIDE_ATOM = rf"(?:{_ATOM}|[^\x00-\x7f])"
_WIDE_LOCAL = re.compile(
    rf'(?:{_WIDE_ATOM}+(?:\.{_WIDE_ATOM}+)*|"(?:[ !#-\[\]-~]|[^\x00-\x7f]|\\[ -~])*")'
)
# RFC 6901, and the draft of relative pointers.
_POINTER_TEXT = r"(?:/(?:[^~/]|~[01])*)*"
_POINTER = re.compile(_POINTER_TEXT)
_RELATIVE = re.compile(rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER_TEXT})")


def is_date(text: str) -> bool:
    """Say whether it is a day of the calendar, from year 1, as ISO 8601 writes it in full."""
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    try:
        datetime.date(*map(int, found.groups()))
    except ValueError:
        return False
    return True


def is_time(text: str) -> bool:
    """Say whether it is a time with an offset; a leap second stands at 23:59:60 UTC only."""
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    hour, minute, second = (int(found[i]) for i in (1, 2, 3))
    if hour > 23 or minute > 59 or second > 60:
        return False
    sign, ahead_hour, ahead_minute = found[4], int(found[5] or 0), int(found[6] or 0)
    if ahead_hour > 23 or ahead_minute > 59:
        return False
    ahead = (ahead_hour * 60 + ahead_minute) * (-1 if sign == "-" else 1)
    return second < 60 or (hour * 60 + minute - ahead) % (24 * 60) == 23 * 60 + 59


def is_date_time(text: str) -> bool:
    """Say whether it is a date, a T and a time (RFC 3339)."""
    return text[10:11] in ("T", "t") and is_date(text[:10]) and is_time(text[11:])


def is_host(text: str) -> bool:
    """Say whether it is a name of RFC 1123; of what ``xn--`` spells nothing is asked."""
    if len(text) > 253 or not _HOST.fullmatch(text):
        return False
    return all(label[2:4] != "--" or label[:2].lower() == "xn" for label in text.split("."))


def is_email(text: str, local: re.Pattern[str] = _LOCAL) -> bool:
    """Say whether it is a mailbox of RFC 5321."""
    name, at, host = text.rpartition("@")
    if not at or not local.fullmatch(name):
        return False
    if host.startswith("[") and host.endswith("]"):
        address = host[1:-1]
        return is_ipv6(address[5:]) if address.startswith("IPv6:") else is_ipv4(address)
    if local is _WIDE_LOCAL:
        host = re.sub(r"[^\x00-\x7f]", "a", host)
    return is_host(host)


def is_ipv4(text: str) -> bool:
    """Say whether it is four decimal numbers without leading zeros."""
    try:
        return bool(ipaddress.IPv4Address(text))
    except ValueError:
        return False


def is_ipv6(text: str) -> bool:
    """Say whether it is an address of RFC 4291, without a zone."""
    try:
        return "%" not in text and bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


def _uri(extra: str = "", private: str = "") -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of RFC 3986's URI and that of its relative reference.

    Args:
        extra: Further characters, those of RFC 3987's IRI.
        private: Further ones behind the question mark.
    """
    plain = rf"[0-9A-Za-z._~!$&'()*+,;={extra}-]|%[0-9A-Fa-f]{{2}}"
    char, first = rf"(?:{plain}|[:@])", rf"(?:{plain}|@)"
    host = rf"(?:\[(?P<six>[^\]]*)\]|(?:{plain})*)"
    authority = rf"//(?:(?:{plain}|:)*@)?{host}(?::[0-9]*)?(?:/{char}*)*"
    absolute = rf"/(?:{char}+(?:/{char}*)*)?"
    tail = rf"(?:\?(?:{char}|[/?{private}])*)?(?:#(?:{char}|[/?])*)?"
    scheme = r"[A-Za-z][0-9A-Za-z+.-]*:"
    return (
        re.compile(rf"{scheme}(?:{authority}|{absolute}|{char}+(?:/{char}*)*|){tail}"),
        re.compile(rf"(?:{authority}|{absolute}|{first}+(?:/{char}*)*|){tail}"),
    )


_BEYOND = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 15)
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_URI, _RELATIVE_URI = _uri()
_IRI, _RELATIVE_IRI = _uri(_BEYOND, _PRIVATE)


def _matches_uri(*patterns: re.Pattern[str]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        for pattern in patterns:
            found = pattern.fullmatch(text)
            if found is not None:
                six = found["six"]
                future = r"[vV][0-9A-Fa-f]+\.[0-9A-Za-z._~!$&'()*+,;=:-]+"
                return six is None or is_ipv6(six) or bool(re.fullmatch(future, six))
        return False

    return holds


# RFC 6570, section 2.
_VARIABLE = r"(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2})(?:\.?(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2}))*"
_SPEC = rf"{_VARIABLE}(?::[1-9][0-9]{{0,3}}|\*)?"
_TEMPLATE = re.compile(
    rf"(?:[!#$&-;=?-\[\]_a-z~{_BEYOND}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+#./;?&=,!@|]?{_SPEC}(?:,{_SPEC})*\}})*"
)


def _is_regex(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": is_date,
    "time": is_time,
    "date-time": is_date_time,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "email": is_email,
    "idn-email": lambda text: is_email(text, _WIDE_LOCAL),
    "hostname": is_host,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "uri": _matches_uri(_URI),
    "uri-reference": _matches_uri(_URI, _RELATIVE_URI),
    "iri": _matches_uri(_IRI),
    "iri-reference": _matches_uri(_IRI, _RELATIVE_IRI),
    "uri-template": lambda text: _TEMPLATE.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "json-pointer": lambda text: _POINTER.fullmatch(text) is not None,
    "relative-json-pointer": lambda text: _RELATIVE.fullmatch(text) is not None,
    "regex": _is_regex,
}
"""Formats that are checked, by name; all others are annotations."""


def format_checker() -> Any:
    """Return the checks in jsonschema's form; values other than strings have every format."""
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    for name, holds in FORMATS.items():
        checker.checkers[name] = (_for_strings(holds), ())
    return checker


def _for_strings(holds: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or holds(value)


_SURROGATE = re.compile("[\ud800-\udfff]")
_DIGIT = re.compile("[1-9]")
LONG = 1000
"""Digits from which an integer is read as a decimal: Python's own reading is quadratic."""
_MOST_EXPONENT = 10**17


def read_json(text: str, *, finite: bool = False) -> Any:
    """Return the value of a JSON text; of names that stand twice in an object, the last one's.

    Args:
        text: Of any length.
        finite: Refuse numbers that doubles cannot hold.

    Returns:
        Numbers are int or Decimal; an exponent too large for Decimal is cut to one that is not.

    Raises:
        ValueError: It is no JSON, a string in it has half a surrogate pair, or a number is refused.
        RecursionError: Too deep.
    """
    return json.loads(
        _without_surrogates(text),
        parse_int=_finite(_integer) if finite else _integer,
        parse_float=_finite(_decimal) if finite else _decimal,
        parse_constant=_constant,
    )


def is_finite(text: str) -> bool:
    """Say whether readers of doubles take a number neither for infinity nor wrongly for 0."""
    read = float(text)
    return not math.isinf(read) and (read != 0 or not _DIGIT.search(re.split("[eE]", text)[0]))


def is_multiple(value: int | Decimal, of: int | Decimal) -> bool:
    """Say whether one number is a whole multiple of another, exactly, whatever their exponents."""
    own, power = _scaled(value)
    divisor, divisor_power = _scaled(of)
    if own == 0 or divisor == 0:
        return own == 0
    shift = power - divisor_power
    # subtle: neither mantissa ends in zero, so where the divisor has the larger power of ten, its
    # multiples do not end where the value does.
    return shift >= 0 and own * pow(10, shift, divisor) % divisor == 0


def _scaled(value: int | Decimal) -> tuple[int, int]:
    """Return mantissa and power of ten; a mantissa other than 0 does not end in zero."""
    sign, digits, power = Decimal(value).as_tuple()
    assert isinstance(power, int)
    ending = next((i for i, digit in enumerate(reversed(digits)) if digit), len(digits))
    kept = digits[: len(digits) - ending] or (0,)
    # subtle: `int` of a text refuses more than 4,300 digits.
    return int(Decimal((sign, kept, 0))), power + ending


def _finite(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def finite(text: str) -> Any:
        if not is_finite(text):
            raise ValueError(f"{text[:40]} is no finite double")
        return read(text)

    return finite


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < LONG else Decimal(text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        mantissa, exponent = re.split("[eE]", text)
        sign, digits, power = Decimal(mantissa).as_tuple()
        assert isinstance(power, int)
        # subtle: not by multiplying, which would round to the context's precision.
        power += max(-_MOST_EXPONENT, min(_MOST_EXPONENT, int(exponent[:20])))
        return Decimal((sign, digits, power))


def _constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _without_surrogates(text: str) -> str:
    r"""Return a text none of whose strings has half a surrogate pair.

    Raises:
        ValueError: One has: ``"\ud800"``.
    """
    if "\\u" in text:
        # subtle: pairs that are escaped are one character once read.
        read = json.loads(text)
        pending = [read]
        while pending:
            value = pending.pop()
            if isinstance(value, dict):
                pending += value.keys()
                pending += value.values()
            elif isinstance(value, list):
                pending += value
            elif isinstance(value, str) and _SURROGATE.search(value):
                raise ValueError("half a surrogate pair")
    return text


_DEPTH = 20_000
"""Calls within calls: jsonschema makes about ten for each bracket within brackets."""
_DRAFTS = ("Draft202012Validator", "Draft7Validator", "Draft6Validator", "Draft4Validator")
"""What a schema that names no draft may be written in, the first that takes it."""


def stored_language(metadata: Mapping[str, str], sets: Sequence[str] = ()) -> Language:
    """Return the language of a schema artifact's metadata; texts begin as ``sets`` asks."""
    options = json.loads(metadata["cdec.options"])
    # Artifacts from before there was the option hold any.
    numbers = options.get("numbers", "any")
    return schema_language(metadata["cdec.schema"], options["formats"], numbers, sets)


def schema_language(
    source: str, formats: str = "enforce", numbers: str = "any", sets: Sequence[str] = ()
) -> Language:
    """Return what ``parser_of`` reads, for the process that judges."""
    return Language(__name__, (source, formats, numbers, "1" if sets else ""))


def load() -> None:
    """Import the package and make a first validator."""
    sys.setrecursionlimit(_DEPTH)
    parse = parser_of('{"type": "integer", "format": "date"}')
    assert parse is not None
    parse("1", 0.0)


def parser_of(
    source: str, formats: str = "enforce", numbers: str = "any", sets: str = ""
) -> Parse | None:
    """Return what says whether a text is an instance; None where the source is no schema.

    Args:
        source: The schema, JSON.
        formats: ``enforce`` or ``annotate``.
        numbers: ``any``, or ``finite``: a text with one that no double can hold is no instance.
        sets: Not empty: a text stands behind a line that says by a JSON object, by the name of each
            set, which of its strings are members.

    Returns:
        A function of a text; the time is not looked at. None of it where a reference leads nowhere
        or for ever, or a pattern is none of Python's.
    """
    from jsonschema.exceptions import SchemaError, _WrappedReferencingError
    from jsonschema_specifications import REGISTRY

    try:
        schema = read_json(source)
        validator_class = _validator_class(schema)
    except (ValueError, RecursionError, SchemaError):
        return None
    checker = format_checker() if formats == "enforce" else None
    # subtle: without a registry of its own the package would fetch references from the network.
    members: dict[str, list[str]] = {}
    if sets:
        validator_class = _with_members(validator_class, members)
    validator = validator_class(schema, registry=REGISTRY, format_checker=checker)

    def parse(text: str, _deadline: float) -> bool | None:
        if sets:
            said, text = text.split("\n", 1)
            members.clear()
            members.update(json.loads(said))
        try:
            instance = read_json(text, finite=numbers == "finite")
        except ValueError:
            return False
        except RecursionError:
            return None
        try:
            return bool(validator.is_valid(instance))
        except (RecursionError, re.error, _WrappedReferencingError):
            return None

    return parse


def _validator_class(schema: Any) -> Any:
    """Return jsonschema's class for the draft that a schema is written in, with exact numbers.

    Raises:
        SchemaError: It is a schema of no draft.
    """
    import jsonschema

    named = None
    if isinstance(schema, dict) and isinstance(schema.get("$schema"), str):
        named = jsonschema.validators.validator_for(schema, default=None)
    classes = [getattr(jsonschema, name) for name in _DRAFTS] if named is None else [named]
    for kind in classes:
        if kind(kind.META_SCHEMA).is_valid(_floats(schema)):
            return _exact(kind)
    raise jsonschema.SchemaError("a schema of no draft")


@cache
def _exact(kind: Any) -> Any:
    """Return a validator class of jsonschema's with numbers that are exact."""
    import jsonschema

    strict = kind in (jsonschema.Draft3Validator, jsonschema.Draft4Validator)
    types = kind.TYPE_CHECKER.redefine("integer", _is_spelled_integer if strict else _is_integer)
    # Drafts from 2019-09 on let `dependencies` count for those who know it, and cdec does.
    older = jsonschema.Draft7Validator.VALIDATORS["dependencies"]
    known = {"multipleOf": _multiple_of, NUMBERS: _read_as}
    if "dependencies" not in kind.VALIDATORS:
        known["dependencies"] = older
    return jsonschema.validators.extend(kind, validators=known, type_checker=types)


def _with_members(kind: Any, members: Mapping[str, list[str]]) -> Any:
    """Return a validator class that knows which strings of a text are members of which set."""
    from jsonschema import ValidationError, validators

    def is_member(validator: Any, name: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "string") and instance not in members.get(name, ()):
            yield ValidationError(f"{instance!r} is no member of {name}")

    return validators.extend(kind, validators={SET: is_member})


def _is_spelled_integer(_checker: object, value: object) -> bool:
    if isinstance(value, Decimal):
        # An integer of a thousand digits and more, or one with a fraction or an exponent.
        return value.as_tuple().exponent == 0 and len(value.as_tuple().digits) >= LONG
    return isinstance(value, int) and not isinstance(value, bool)


def _is_integer(_checker: object, value: object) -> bool:
    if isinstance(value, Decimal):
        return is_multiple(value, 1)
    return isinstance(value, int) and not isinstance(value, bool)


def _multiple_of(validator: Any, of: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "number") and not is_multiple(instance, of):
        yield ValidationError(f"{instance} is not a multiple of {of}")


def _read_as(validator: Any, reader: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not validator.is_type(instance, "number"):
        return
    is_read = _is_spelled_integer(None, instance) if reader == "integers" else None
    if not (is_finite(str(instance)) if is_read is None else is_read):
        yield ValidationError(f"{instance} is not read as it is by readers of {reader}")


def _floats(value: Any) -> Any:
    """Return a schema with floats for decimals, which the metaschemas' own validators know."""
    if isinstance(value, Decimal):
        return int(value) if is_multiple(value, 1) and value.adjusted() < 300 else float(value)
    if isinstance(value, dict):
        return {name: _floats(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_floats(below) for below in value]
    return value
