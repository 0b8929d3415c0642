"""Formats of JSON Schema as sets of strings."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from cdec.compilers.regular.strings import Strings
from cdec.core.grammars.errors import RegexUnsupportedError

CASES = {
    "date": (
        "2000-02-29 1999-12-31 0001-01-01",
        "1900-02-29 2021-02-30 0000-01-01 2021-1-1 2021-04-31",
    ),
    "time": (
        "23:59:60Z 01:29:60+01:30 15:59:60-08:00 08:30:06.28z",
        "22:59:60Z 23:59:60+00:30 8:3:6Z 12:00:00",
    ),
    "date-time": (
        "1990-12-31T15:59:60.1-08:00 1963-06-19t08:30:06z",
        "1998-12-31T23:58:60Z 2021-02-29T00:00:00Z",
    ),
    "duration": ("P4DT12H30M5S P1Y PT1H P2W P1Y2M3DT4H", "P PT P1YT P2D1Y P1Y2W P1D2H 1D"),
    "email": (
        'a.b@c.d "a@b"@c x@[127.0.0.1] x@[IPv6:::1]',
        ".a@b a..b@c a@ @b a@b_c x@[127.0.0.300]",
    ),
    "idn-email": ("실례@실례.테스트", "a@@b"),
    "hostname": (
        "a www.a-b.c 1h xn--9n2bp8q",
        "-a a- a_b . a. " + "a" * 64 + " " + ".".join("a" * 130),
    ),
    "ipv4": ("127.0.0.1 255.255.255.255 0.0.0.0", "256.1.1.1 1.1.1 01.1.1.1 1.1.1.1.1 ١.1.1.1"),
    "ipv6": (
        "::1 :: 1:: 1:2:3:4:5:6:7:8 ::ffff:1.2.3.4 1::8 1:2:3:4:5:6:7::",
        "1 :2:3 1::2::3 1:2:3:4:5:6:7:8:9 ::1.2.3 12345:: ::1%1",
    ),
    "uri": (
        "http://a.b/c?d#e urn:x:y http://[::1]:80/ mailto:a@b http:",
        "//a /a a\\b http://a/<> http://[a] :// ",
    ),
    "uri-reference": ("/a ?x #f ../a http://a a/b:c", "a\\b #a#b 1:b"),
    "iri": ("http://ƒøø.ßår/?∂éœ=πîx#πîüx", "/a http://ƒ<"),
    "iri-reference": ("/âππ #ƒräg", "#ƒräg\\mênt"),
    "uri-template": ("http://a/{b}/{c:3}{?d,e*} a'b", "{a {a:} a} {}"),
    "uuid": (
        "2EB8AA08-aa98-11ea-b4aa-73b441d16380",
        "2eb8aa08-aa98-11ea-b4aa73b441d16380 2eb8aa08aa9811eab4aa73b441d16380",
    ),
    "json-pointer": ("/a/b~0~1/ /", "a ~ /~ /~2"),
    "relative-json-pointer": ("0 1/a 2#", "01 -1/a 1## /a"),
}


@pytest.mark.parametrize("name", CASES)
def test_texts_of_a_format_are_told_from_others(name: str) -> None:
    strings = Strings.format(name)
    assert strings is not None
    inside, outside = CASES[name]
    assert [text for text in inside.split(" ") if text not in strings] == []
    assert [text for text in outside.split(" ") if text in strings] == []


@pytest.mark.parametrize("name", ["date", "email", "idn-email", "ipv4", "ipv6", "uuid"])
def test_what_a_format_holds_the_jsonschema_package_accepts(name: str) -> None:
    strings = Strings.format(name)
    assert strings is not None
    checker = Draft202012Validator.FORMAT_CHECKER
    for text in CASES[name][0].split(" "):
        checker.check(text, name)


def test_unknown_names_are_no_formats_and_those_not_regular_are_refused() -> None:
    assert Strings.format("color") is None
    for name in ("regex", "idn-hostname"):
        with pytest.raises(RegexUnsupportedError, match=name):
            Strings.format(name)
