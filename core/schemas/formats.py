"""Formats of JSON Schema, checked by Python's standard library and plain expressions.

Not by the automata that masks are made of, nor by the jsonschema package's own checks, which depend
on which of a dozen packages are installed.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Callable
from typing import Any

from cdec.core.schemas.regexes import is_regex

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
    "regex": is_regex,
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
