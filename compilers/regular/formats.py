"""Regular formats of JSON Schema, as patterns that match whole strings.

Sources: RFC 3339 (date, time, date-time, duration), 5321 and 6531 (e-mail), 1123 and 5890 (host
names), 3986 and 3987 (URI, IRI), 6570 (URI templates), 6901 (JSON pointers), 2673 and 4291
(addresses), 9562 (UUID).
"""

from __future__ import annotations

from functools import cache

from cdec.compilers.regular.automaton import Automaton
from cdec.compilers.regular.patterns import pattern_automaton
from cdec.core.grammars.errors import RegexUnsupportedError

_NOT_REGULAR = {
    "regex": "whether a text is a regular expression, which nests",
    "idn-hostname": "which characters a label may hold beside which others",
}
LONGEST = {"hostname": 253}
"""Characters of a format's longest string, where the automaton does not say."""
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_LABEL = "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
_OTHERS = "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF" + "".join(
    f"\\U{plane:04X}{0x1000 if plane == 0xE else 0:04X}-\\U{plane:04X}FFFD"
    for plane in range(1, 15)
)
"""Characters of an IRI besides those of a URI (ucschar)."""
_PRIVATE = "\\uE000-\\uF8FF\\U000F0000-\\U000FFFFD\\U00100000-\\U0010FFFD"
_POINTER = "(?:/(?:[^/~]|~[01])*)*"


@cache
def format_automaton(name: str) -> Automaton | None:
    """Return the strings of a format but for ``LONGEST``, None for a name that is none.

    Raises:
        RegexUnsupportedError: The format is not regular.
    """
    if name in _NOT_REGULAR:
        raise RegexUnsupportedError(
            f"format {name!r}: {_NOT_REGULAR[name]} is not regular, so no automaton can follow it",
            hint="leave the format out, or write a `pattern` for the strings that are meant",
            feature=f"format {name}",
        )
    pattern = _PATTERNS.get(name)
    if pattern is None:
        return None
    return pattern_automaton(pattern, search=False)


def _date() -> str:
    """Days of the proleptic Gregorian calendar; year 0000 is none, as in Python."""
    fours = "0[48]|[2468][048]|[13579][26]"
    leap = f"(?:[0-9][0-9](?:{fours})|(?:{fours})00)"
    year = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
    days = (
        "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
        "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
        "|02-(?:0[1-9]|1[0-9]|2[0-8])"
    )
    return f"(?:{year}-(?:{days})|{leap}-02-29)"


def _time() -> str:
    """Times with an offset. A leap second is one before midnight in UTC.

    subtle: those with an offset that is no quarter of an hour are left out; nobody keeps such time,
    and each of the other 1,344 offsets would take states of its own.
    """
    hour, minute, fraction = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]", r"(?:\.[0-9]+)?"
    plain = f"{hour}:{minute}:{minute}{fraction}(?:[Zz]|[+-]{hour}:{minute})"
    leaps = []
    for quarters in range(96):
        east, west = (1439 + 15 * quarters) % 1440, (1439 - 15 * quarters) % 1440
        offset = _clock(15 * quarters)
        for local, sign in ((east, "+"), (west, "-")):
            leaps.append(f"{_clock(local)}:60{fraction}\\{sign}{offset}")
    utc = f"23:59:60{fraction}[Zz]"
    return f"(?:{plain}|{utc}|{'|'.join(leaps)})"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _duration() -> str:
    number = "[0-9]+"
    time = f"T(?:{number}H(?:{number}M(?:{number}S)?)?|{number}M(?:{number}S)?|{number}S)"
    months = f"{number}M(?:{number}D)?"
    date = f"(?:{number}Y(?:{months})?|{months}|{number}D)"
    return f"P(?:{number}W|{date}(?:{time})?|{time})"


def _ipv6() -> str:
    group = "[0-9A-Fa-f]{1,4}"
    last = f"(?:{group}:{group}|{IPV4})"
    forms = [f"(?:{group}:){{6}}{last}"]
    for before in range(8):
        # "::" stands for one group or more: of the other seven some stand before, some behind.
        head = f"{group}(?::{group}){{{before - 1}}}" if before else ""
        behind = 7 - before
        tails = [f"{group}(?::{group}){{0,{behind - 1}}}"] if behind else []
        if behind >= 2:
            tails.append(f"(?:{group}:){{0,{behind - 2}}}{IPV4}")
        forms.append(f"{head}::(?:{'|'.join(tails)})?" if tails else f"{head}::")
    return f"(?:{'|'.join(forms)})"


IPV6 = _ipv6()


def _email(is_international: bool) -> str:
    """Mailboxes: a dot-string or a quoted string, then a domain or an address in brackets."""
    more = "\\u0080-\\U0010FFFF" if is_international else ""
    atom = f"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{more}-]+"
    quoted = f'"(?:[ !#-\\[\\]-~{more}]|\\\\[ -~])*"'
    label = f"[A-Za-z0-9{more}](?:[A-Za-z0-9{more}-]*[A-Za-z0-9{more}])?"
    literal = rf"\[(?:{IPV4}|IPv6:{IPV6})\]"
    return rf"(?:{atom}(?:\.{atom})*|{quoted})@(?:{label}(?:\.{label})*|{literal})"


def _uri(more: str, private: str, scheme: str) -> str:
    """URIs or IRIs with their scheme; with ``scheme`` "?" relative references, too."""
    free, escaped = f"A-Za-z0-9._~{more}\\-", "%[0-9A-Fa-f]{2}"
    signs = "!$&'()*+,;="
    letter = f"(?:[{free}{signs}:@]|{escaped})"
    user = f"(?:(?:[{free}{signs}:]|{escaped})*@)?"
    future = f"[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~{signs}:-]+"
    host = rf"(?:\[(?:{IPV6}|{future})\]|(?:[{free}{signs}]|{escaped})*)"
    authority = f"//{user}{host}(?::[0-9]*)?(?:/{letter}*)*"
    absolute = f"/(?:{letter}+(?:/{letter}*)*)?"
    query = rf"(?:\?(?:{letter}|[/?{private}])*)?" if private else rf"(?:\?(?:{letter}|[/?])*)?"
    fragment = f"(?:#(?:{letter}|[/?])*)?"
    rootless = f"{letter}+(?:/{letter}*)*"
    whole = f"[A-Za-z][A-Za-z0-9+.-]*:(?:{authority}|{absolute}|{rootless})?{query}{fragment}"
    if scheme:
        return whole
    # The first segment of a relative path holds no colon: it would end a scheme.
    segment = f"(?:[{free}{signs}@]|{escaped})+"
    relative = f"(?:{authority}|{absolute}|{segment}(?:/{letter}*)*)?{query}{fragment}"
    return f"(?:{whole}|{relative})"


def _uri_template() -> str:
    escaped = "%[0-9A-Fa-f]{2}"
    literal = f"(?:[!#$&-;=?-\\[\\]_a-z~{_OTHERS}{_PRIVATE}]|{escaped})"
    letter = f"(?:[A-Za-z0-9_]|{escaped})"
    name = rf"{letter}(?:\.?{letter})*(?::[1-9][0-9]{{0,3}}|\*)?"
    return rf"(?:{literal}|\{{[+#./;?&=,!@|]?{name}(?:,{name})*\}})*"


DATE, _TIME = _date(), _time()
_PATTERNS = {
    "date": DATE,
    "time": _TIME,
    "date-time": f"{DATE}[Tt]{_TIME}",
    "duration": _duration(),
    "email": _email(False),
    "idn-email": _email(True),
    "hostname": _HOST,
    "ipv4": IPV4,
    "ipv6": IPV6,
    "uri": _uri("", "", ":"),
    "uri-reference": _uri("", "", ""),
    "iri": _uri(_OTHERS, _PRIVATE, ":"),
    "iri-reference": _uri(_OTHERS, _PRIVATE, ""),
    "uri-template": _uri_template(),
    "uuid": "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
}
