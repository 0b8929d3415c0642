"""Texts of Python types, and what functions and bounds of annotations ask of them."""

from __future__ import annotations

import functools
import operator
import zoneinfo
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from typing import Any

from cdec.compilers.regular.formats import DATE, IPV4, IPV6
from cdec.compilers.schemas.typed.numbers import whole
from cdec.core.schemas.own_keywords import NUMBERS, UNENFORCED

_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
TIME = rf"{_CLOCK}(?::[0-5][0-9](?:\.[0-9]{{1,6}})?)?"
EAST, WEST = rf"\+{_CLOCK}", f"-{_CLOCK}"
OFFSET = f"(?:Z|{EAST}|{WEST})"
DURATION = (
    "-?P(?:[0-9]{1,6}Y)?(?:[0-9]{1,5}M)?(?:[0-9]{1,5}W)?(?:[0-9]{1,8}D)?"
    r"(?:T(?:[0-9]{1,5}H)?(?:[0-9]{1,5}M)?(?:[0-9]{1,9}(?:\.[0-9]{1,6})?S)?)?"
)
ASCII = r"^[\x00-\x7f]*$"
LABEL = "[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"
HOST = rf"(?:(?:{LABEL}\.)*[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*|{IPV4}|\[{IPV6}\])"
_PORT = "(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}))?"
_USER = "(?:[A-Za-z0-9._~-]+(?::(?:[A-Za-z0-9._~!$*-]|%[0-9A-Fa-f]{2})*)?@)?"
_LETTER = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_PATH = f"(?:/{_LETTER}*)*"
_TAIL = rf"(?:\?(?:{_LETTER}|[/?])*)?(?:#(?:{_LETTER}|[/?])*)?"
_UNITS = "(?:[kmgtpeKMGTPE](?:i?[bB]|i?bit)?|[bB]|bit)?"
BYTE_SIZE = rf"[0-9]{{1,12}}(?:\.[0-9]{{1,6}})? ?{_UNITS}"
COMPLEX = r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[+-][0-9]{1,30}(?:\.[0-9]{1,30})?j)?"
_INTERFACE4 = f"{IPV4}(?:/(?:3[0-2]|[12]?[0-9]))?"
_INTERFACE6 = f"{IPV6}(?:/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))?"
Made = dict[str, Any]
_SIGNS = {"base64": "+/", "base64url": "_-"}
_READ = frozenset(
    [
        "EmailStr._validate",
        "NameEmail._validate",
        "SecretStr",
        "SecretBytes",
        "pattern_either_validator",
        "IPvAnyAddress._validate",
        "IPvAnyNetwork._validate",
        "IPvAnyInterface._validate",
        "defaultdict_validator",
        "sequence_validator",
        "deque_validator",
        "dequeue_validator",
        "Secret.__get_pydantic_core_schema__.<locals>.<lambda>",
        "GenerateSchema._path_schema.<locals>.path_validator",
        "_BaseUrl.__get_pydantic_core_schema__.<locals>.wrap_val",
        "_BaseMultiHostUrl.__get_pydantic_core_schema__.<locals>.wrap_val",
    ]
)
"""Functions of pydantic's own that take whatever the refined schema allows."""
_COMPARING = frozenset(
    [
        "greater_than_validator",
        "greater_than_or_equal_validator",
        "less_than_validator",
        "less_than_or_equal_validator",
        "multiple_of_validator",
    ]
)
"""Those of bounds, which stand in the schema if it is one of numbers."""
_NUMBERED = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LENGTH_OF = ("min_length_validator", "max_length_validator")
_WITHIN = ("schema", "lax_schema", "json_schema")
_LENGTHS = ("minLength", "maxLength", "minItems", "maxItems")
BOUNDS = ("gt", "ge", "lt", "le", "multiple_of")


def text(*options: str) -> dict[str, Any]:
    """Return the schema of the strings that one of some expressions matches."""
    return {"type": "string", "pattern": whole(*options)}


def uuid_of(version: int) -> str:
    """Return the identifiers of RFC 9562 of one version."""
    x = "[0-9A-Fa-f]"
    return f"{x}{{8}}-{x}{{4}}-{version}{x}{{3}}-[89ABab]{x}{{3}}-{x}{{12}}"


def _network4() -> list[str]:
    """Addresses whose bits behind the prefix are 0; 32 bits where there is none."""
    octet = IPV4.split(r"(?:\.", 1)[0]
    found = [f"{IPV4}(?:/32)?"]
    for bits in range(32):
        full, left = divmod(bits, 8)
        step = 256 >> left
        partial = "|".join(map(str, range(0, 256, step)))
        zeros = r"\.0" * (3 - full)
        found.append(rf"(?:{octet}\.){{{full}}}(?:{partial}){zeros}/{bits}")
    return found


def _network6() -> list[str]:
    """Addresses whose groups behind the prefix are ``::`` or zeros; without one 128 bits."""
    full = "[0-9A-Fa-f]{1,4}"
    found = [f"{IPV6}(?:/128)?", "::/0"]
    # The nibble that the prefix cuts: what its first bits may be.
    nibble = ("0", "[08]", "[048Cc]", "[02468ACEace]")
    for bits in range(1, 128):
        groups, left = divmod(bits, 16)
        signs = ["[0-9A-Fa-f]"] * (left // 4) + [nibble[left % 4]] * (left % 4 > 0)
        signs += ["0"] * (4 - len(signs))
        partial = f"(?:(?:{signs[0]}?{signs[1]})?{signs[2]})?{signs[3]}" if left else ""
        parts = [full] * groups + [partial] * bool(left)
        zeros = ":0" * (8 - len(parts))
        tail = f"(?:::|{zeros})" if zeros else ""
        found.append(f"{':'.join(parts)}{tail}/{bits}")
        if left:
            found.append(f"{':'.join(parts[:-1])}::/{bits}")
    return found


def _base64(signs: str) -> str:
    """Groups of four, and a last one filled up, whose bits that stand for nothing are 0."""
    one = f"[A-Za-z0-9{signs}]"
    return f"(?:{one}{{4}})*(?:{one}[AQgw]==|{one}{{2}}[AEIMQUYcgkosw048]=)?"


def ascii_base64(signs: str) -> str:
    """Return what decodes to ASCII: the highest bits of the bytes are 0.

    Args:
        signs: The last two of the 64, as a character class writes them.
    """
    order = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    first = "[A-Za-f]"
    second = f"[{''.join(sign for i, sign in enumerate(order) if not i & 8)}]"
    third = "".join(sign for i, sign in enumerate(order) if not i & 2)
    third, fourth = f"[{third}]", f"[A-Za-z0-9{signs}]"
    group = first + second + third + fourth
    return f"(?:{group})*(?:{first}[AQgw]==|{first}{second}[AEIMQUYcgkosw048]=)?"


def base64_lengths(least: int | None, most: int | None) -> list[dict[str, Any]]:
    """Return the schemas of base64 of as many bytes, three for a group of four characters."""
    group, ending = "[^=]{4}", "(?:[^=]{2}==|[^=]{3}=)"
    limits = []
    if least:
        n, left = divmod(least, 3)
        rest = {0: f"{ending}?", 1: ending, 2: "[^=]{3}="}[left]
        more = [f"(?:{group}){{{n + 1},}}{ending}?"] if left else []
        limits.append(whole(f"(?:{group}){{{n},}}{rest}", *more))
    if most is not None:
        n, left = divmod(most, 3)
        rest = {0: "", 1: "(?:[^=]{2}==)?", 2: f"{ending}?"}[left]
        fewer = [f"(?:{group}){{0,{n - 1}}}{ending}"] if n and left < 2 else []
        limits.append(whole(f"(?:{group}){{0,{n}}}{rest}", *fewer))
    return [{"pattern": limit} for limit in limits]


def url(schemes: list[str] | None, *, many_hosts: bool = False) -> dict[str, Any]:
    """Return the URLs of some schemes, None for any: ``scheme://user@host:port/path?query#part``.

    Hosts are names whose last label begins with a letter, or addresses; no label has two hyphens in
    a row (what stands behind ``xn--`` is not regular).
    """
    host = f"{HOST}{_PORT}"
    hosts = f"{host}(?:,{host})*" if many_hosts else host
    file = f"file://(?:/{_LETTER}*)+"
    rest = f"://{_USER}{hosts}{_PATH}{_TAIL}"
    if schemes is None:
        opaque = f"(?:mailto|tel|urn|news|data):{_LETTER}+"
        named = {"pattern": whole(f"[a-z][a-z0-9+.-]*{rest}"), "not": {"pattern": "^file:"}}
        return {"type": "string", "anyOf": [{"pattern": whole(file, opaque)}, named]}
    others = [scheme.replace("+", r"\+").replace(".", r"\.") for scheme in schemes]
    named_schemes = "|".join(scheme for scheme in others if scheme != "file")
    options = [f"(?:{named_schemes}){rest}"] if named_schemes else []
    return text(*options, *([file] if "file" in schemes else []))


def _email() -> dict[str, Any]:
    """Mailboxes that email-validator takes: no quotes, a domain of two labels, none reserved."""
    atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    refused = [
        r"\.(?:arpa|invalid|local|localhost|onion|test)$",
        "^[^@]{65}",
        r"@(?:.*\.)?[^.@]{64}",
    ]
    return {
        **text(rf"{atom}(?:\.{atom})*@(?:{LABEL}\.)+[a-z]{{2,24}}"),
        "maxLength": 254,
        "not": {"anyOf": [{"pattern": pattern} for pattern in refused]},
    }


def _regex() -> str:
    """Regular expressions of Python's that no flag and no number of a group makes wrong."""
    literal = r"[A-Za-z0-9 _,:;@#%&=!<>/~\"'`-]"
    escaped = r"\\[dDwWsS.^$*+?{}\[\]\\|()/-]"
    inside = r"\[\^?(?:[A-Za-z0-9_ .,:;@/]|a-z|A-Z|0-9|\\[dws.\[\]\\^-])+\]"
    quantity = r"(?:[*+?]|\{[0-9]{1,2},?\})?"
    item = rf"(?:(?:{literal}|{escaped}|\.|{inside}){quantity}|\^|\$|\\b)"
    flat = rf"{item}*(?:\|{item}*)*"
    group = rf"\((?:\?:)?{flat}\){quantity}"
    return rf"(?:{item}|{group})*(?:\|(?:{item}|{group})*)*"


_NETWORK4, _NETWORK6 = _network4(), _network6()

TEXTS: dict[str, dict[str, Any]] = {
    "time": text(f"{TIME}{OFFSET}?"),
    "date-time": text(f"{DATE}T{TIME}{OFFSET}?"),
    "duration": text(DURATION) | {"allOf": [{"pattern": "[YMWDHS]$"}]},
    **{f"uuid{version}": text(uuid_of(version)) for version in range(1, 9)},
    "ipv4network": text(*_NETWORK4),
    "ipv6network": text(*_NETWORK6),
    "ipv4interface": text(_INTERFACE4),
    "ipv6interface": text(_INTERFACE6),
    "ipvanyaddress": text(IPV4, IPV6),
    "ipvanynetwork": text(*_NETWORK4, *_NETWORK6),
    "ipvanyinterface": text(_INTERFACE4, _INTERFACE6),
    "base64": text(_base64("+/")),
    "base64url": text(_base64("_-")),
    "email": _email(),
    "name-email": _email(),
    "regex": text(_regex()),
    "fraction": text("-?[0-9]{1,20}(?:/[1-9][0-9]{0,19})?"),
    **{free: {"type": "string"} for free in ("path", "file-path", "directory-path")},
    **{free: {"type": "string"} for free in ("binary", "password")},
}
"""Schemas of strings of a format, by its name in the schema of a type."""


_TEXT_OF: dict[str, Made] = {
    "ByteSize._validate": {
        "anyOf": [text(BYTE_SIZE), {"type": "integer", "minimum": 0, NUMBERS: "integers"}]
    },
}


def noted(made: Made, reason: str) -> Made:
    """Return a schema that says what of its type is not enforced."""
    return made | {UNENFORCED: [*made.get(UNENFORCED, []), reason]}


def by_function(made: Made, schema: Mapping[str, Any]) -> Made:
    """Return what the schema of a type that a function reads becomes by what is known of it.

    Args:
        made: The schema without the function. schema: Pydantic's own of it.

    Returns:
        With ``UNENFORCED`` where the function may refuse what the schema allows.
    """
    function, name = _function(schema)
    if isinstance(function, operator.attrgetter) or function in (OrderedDict, Counter, deque):
        return made
    module = getattr(function, "__module__", None) or ""
    # A bound that is left beside several types is none that a keyword says.
    if module.split(".")[0] != "pydantic" or not made.keys().isdisjoint(BOUNDS):
        return noted(made, name)
    if name in _TEXT_OF:
        return made | _TEXT_OF[name]
    if name in ("EncodedStr.decode_str", "EncodedBytes.decode"):
        coding = function.__self__.encoder.get_json_format()
        if coding not in _SIGNS:
            return noted(made, name)
        return made | (text(ascii_base64(_SIGNS[coding])) if "Str" in name else TEXTS[coding])
    if name == "validate_str_is_valid_iana_tz":
        return {"type": "string", "enum": sorted(zoneinfo.available_timezones())}
    if name in _LENGTH_OF:
        return _with_length(made, schema, name)
    is_told = name in _COMPARING and not made.keys().isdisjoint(_NUMBERED)
    return made if is_told or name in _READ else noted(made, name)


def _with_length(made: Made, schema: Mapping[str, Any], name: str) -> Made:
    """Return a schema with a length of what its texts become, where the texts tell it."""
    names, inner = [], schema
    while within := [inner[at] for at in _WITHIN if at in inner]:
        inner = within[0]
        names += [_function(inner)[1]] if "function" in inner else []
    if any(each.startswith("Encoded") for each in names):
        limits = base64_lengths(made.get("minLength"), made.get("maxLength"))
        kept = _without_lengths(made)
        return kept | {"allOf": [*kept.get("allOf", []), *limits]}
    if inner.get("type") == "json":
        return noted(_without_lengths(made), name)
    if inner.get("type") == "bytes" and "maxLength" in made:
        return made | {"pattern": ASCII}
    is_text = inner.get("type") in ("str", "bytes") and {*names} <= {*_READ, *_LENGTH_OF}
    return made if is_text else noted(made, name)


def _without_lengths(made: Made) -> Made:
    return {keyword: value for keyword, value in made.items() if keyword not in _LENGTHS}


def _function(schema: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the function of a schema and what it is called."""
    function = schema["function"]["function"]
    while isinstance(function, functools.partial):
        function = function.func
    return function, str(getattr(function, "__qualname__", None) or function)
