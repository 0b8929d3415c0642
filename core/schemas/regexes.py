"""Regular expressions of ECMA-262, as the format ``regex`` means them: whether a text is one.

Source: ECMA-262, 15th edition (2024), section 22.2.1 with the flag u, which JSON Schema recommends
(2020-12, core, section 6.4). Which characters names may hold is as Python's Unicode has it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_CATEGORIES = """
Cased_Letter LC Close_Punctuation Pe Connector_Punctuation Pc Control Cc cntrl Currency_Symbol
Sc Dash_Punctuation Pd Decimal_Number Nd digit Enclosing_Mark Me Final_Punctuation Pf Format
Cf Initial_Punctuation Pi Letter L Letter_Number Nl Line_Separator Zl Lowercase_Letter Ll Mark
M Combining_Mark Math_Symbol Sm Modifier_Letter Lm Modifier_Symbol Sk Nonspacing_Mark Mn
Number N Open_Punctuation Ps Other C Other_Letter Lo Other_Number No Other_Punctuation Po
Other_Symbol So Paragraph_Separator Zp Private_Use Co Punctuation P punct Separator Z
Space_Separator Zs Spacing_Mark Mc Surrogate Cs Symbol S Titlecase_Letter Lt Unassigned Cn
Uppercase_Letter Lu
"""
"""Values of General_Category, which stand alone as well (table 68, and Unicode 17)."""
_BINARY = """
ASCII ASCII_Hex_Digit AHex Alphabetic Alpha Any Assigned Bidi_Control Bidi_C Bidi_Mirrored
Bidi_M Case_Ignorable CI Cased Changes_When_Casefolded CWCF Changes_When_Casemapped CWCM
Changes_When_Lowercased CWL Changes_When_NFKC_Casefolded CWKCF Changes_When_Titlecased CWT
Changes_When_Uppercased CWU Dash Default_Ignorable_Code_Point DI Deprecated Dep Diacritic Dia
Emoji Emoji_Component EComp Emoji_Modifier EMod Emoji_Modifier_Base EBase Emoji_Presentation
EPres Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base Grapheme_Extend Gr_Ext
Hex_Digit Hex IDS_Binary_Operator IDSB IDS_Trinary_Operator IDST ID_Continue IDC ID_Start IDS
Ideographic Ideo Join_Control Join_C Logical_Order_Exception LOE Lowercase Lower Math
Noncharacter_Code_Point NChar Pattern_Syntax Pat_Syn Pattern_White_Space Pat_WS Quotation_Mark
QMark Radical Regional_Indicator RI Sentence_Terminal STerm Soft_Dotted SD
Terminal_Punctuation Term Unified_Ideograph UIdeo Uppercase Upper Variation_Selector VS
White_Space space XID_Continue XIDC XID_Start XIDS
"""
"""Binary properties and their aliases (table 67)."""
_SCRIPTS = """
Adlm Adlam Aghb Caucasian_Albanian Ahom Ahom Arab Arabic Armi Imperial_Aramaic Armn Armenian
Avst Avestan Bali Balinese Bamu Bamum Bass Bassa_Vah Batk Batak Beng Bengali Berf Beria_Erfe
Bhks Bhaiksuki Bopo Bopomofo Brah Brahmi Brai Braille Bugi Buginese Buhd Buhid Cakm Chakma
Cans Canadian_Aboriginal Cari Carian Cham Cham Cher Cherokee Chrs Chorasmian Copt Coptic Cpmn
Cypro_Minoan Cprt Cypriot Cyrl Cyrillic Deva Devanagari Diak Dives_Akuru Dogr Dogra Dsrt
Deseret Dupl Duployan Egyp Egyptian_Hieroglyphs Elba Elbasan Elym Elymaic Ethi Ethiopic Gara
Garay Geor Georgian Glag Glagolitic Gong Gunjala_Gondi Gonm Masaram_Gondi Goth Gothic Gran
Grantha Grek Greek Gujr Gujarati Gukh Gurung_Khema Guru Gurmukhi Hang Hangul Hani Han Hano
Hanunoo Hatr Hatran Hebr Hebrew Hira Hiragana Hluw Anatolian_Hieroglyphs Hmng Pahawh_Hmong
Hmnp Nyiakeng_Puachue_Hmong Hung Old_Hungarian Ital Old_Italic Java Javanese Kali Kayah_Li
Kana Katakana Kawi Kawi Khar Kharoshthi Khmr Khmer Khoj Khojki Kits Khitan_Small_Script Knda
Kannada Krai Kirat_Rai Kthi Kaithi Lana Tai_Tham Laoo Lao Latn Latin Lepc Lepcha Limb Limbu
Lina Linear_A Linb Linear_B Lisu Lisu Lyci Lycian Lydi Lydian Mahj Mahajani Maka Makasar Mand
Mandaic Mani Manichaean Marc Marchen Medf Medefaidrin Mend Mende_Kikakui Merc Meroitic_Cursive
Mero Meroitic_Hieroglyphs Mlym Malayalam Modi Modi Mong Mongolian Mroo Mro Mtei Meetei_Mayek
Mult Multani Mymr Myanmar Nagm Nag_Mundari Nand Nandinagari Narb Old_North_Arabian Nbat
Nabataean Newa Newa Nkoo Nko Nshu Nushu Ogam Ogham Olck Ol_Chiki Onao Ol_Onal Orkh Old_Turkic
Orya Oriya Osge Osage Osma Osmanya Ougr Old_Uyghur Palm Palmyrene Pauc Pau_Cin_Hau Perm
Old_Permic Phag Phags_Pa Phli Inscriptional_Pahlavi Phlp Psalter_Pahlavi Phnx Phoenician Plrd
Miao Prti Inscriptional_Parthian Rjng Rejang Rohg Hanifi_Rohingya Runr Runic Samr Samaritan
Sarb Old_South_Arabian Saur Saurashtra Sgnw SignWriting Shaw Shavian Shrd Sharada Sidd Siddham
Sidt Sidetic Sind Khudawadi Sinh Sinhala Sogd Sogdian Sogo Old_Sogdian Sora Sora_Sompeng Soyo
Soyombo Sund Sundanese Sunu Sunuwar Sylo Syloti_Nagri Syrc Syriac Tagb Tagbanwa Takr Takri
Tale Tai_Le Talu New_Tai_Lue Taml Tamil Tang Tangut Tavt Tai_Viet Tayo Tai_Yo Telu Telugu Tfng
Tifinagh Tglg Tagalog Thaa Thaana Thai Thai Tibt Tibetan Tirh Tirhuta Tnsa Tangsa Todr Todhri
Tols Tolong_Siki Toto Toto Tutg Tulu_Tigalari Ugar Ugaritic Vaii Vai Vith Vithkuqi Wara
Warang_Citi Wcho Wancho Xpeo Old_Persian Xsux Cuneiform Yezi Yezidi Yiii Yi Zanb
Zanabazar_Square Zinh Inherited Zyyy Common Zzzz Unknown Qaac Qaai
"""
"""Values of Script and of Script_Extensions (Unicode 17)."""
_LETTERS, _MARKS = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl"), ("Mn", "Mc", "Nd", "Pc")
_OTHER_STARTS = "\u1885\u1886\u2118\u212e\u309b\u309c$_"
_OTHERS = (
    "\u00b7\u0387\u1369\u136a\u136b\u136c\u136d\u136e\u136f\u1370\u1371\u19da"
    "\u200c\u200d\u30fb\uff65"
)
_NO_LETTER = "\u2e2f"
"""Of Pattern_Syntax, though its category is Lm."""
_MOST_GROUPS = 2**32 - 2
_LAST = 0x10FFFF


class Tables(NamedTuple):
    """What expressions name, as the library reads it.

    Attributes:
        properties: uint8, what may stand in ``\\p{...}``, ascending, each before a line feed.
        starts, continues: int32, first and last characters of ranges that begin names, and go on.
    """

    properties: NDArray[np.uint8]
    starts: NDArray[np.int32]
    continues: NDArray[np.int32]


@cache
def properties() -> frozenset[str]:
    """Return what may stand in ``\\p{...}``."""
    found = {*_CATEGORIES.split(), *_BINARY.split()}
    found |= {f"{name}={v}" for name in ("General_Category", "gc") for v in _CATEGORIES.split()}
    scripts = ("Script", "sc", "Script_Extensions", "scx")
    return frozenset(found | {f"{name}={v}" for name in scripts for v in _SCRIPTS.split()})


@cache
def tables() -> Tables:
    """Return what expressions name. Cost: some 0.1 s, once."""
    text = "".join(f"{name}\n" for name in sorted(properties())).encode()
    kinds = np.full(_LAST + 3, "", "U2")
    for plane in _PLANES:
        kinds[plane.start + 1 : plane.stop + 1] = [*map(unicodedata.category, map(chr, plane))]
    starts = np.isin(kinds, _LETTERS)
    starts[_places(_NO_LETTER)] = False
    starts[_places(_OTHER_STARTS)] = True
    others = starts | np.isin(kinds, _MARKS)
    others[_places(_OTHERS)] = True
    return Tables(np.frombuffer(text, np.uint8), _ranges(starts), _ranges(others))


_PLANES = (range(0x34000), range(0xE0000, 0xE1000))
"""Where letters and marks are: all others are unassigned or for private use."""


def _places(characters: str) -> list[int]:
    return [1 + ord(character) for character in characters]


def _ranges(bits: NDArray[np.bool_]) -> NDArray[np.int32]:
    edges = np.flatnonzero(bits[1:] != bits[:-1]).astype(np.int32)
    edges[1::2] -= 1
    return edges


def _begins_name(character: str) -> bool:
    is_letter = unicodedata.category(character) in _LETTERS and character != _NO_LETTER
    return is_letter or character in _OTHER_STARTS


def _is_in_name(character: str) -> bool:
    is_mark = unicodedata.category(character) in _MARKS
    return is_mark or _begins_name(character) or character in _OTHERS


class _NoRegexError(Exception):
    """The text is no expression."""


_HEX = "[0-9A-Fa-f]"
_SURROGATES = re.compile(rf"u(d[89ab]{_HEX}{{2}})\\u(d[c-f]{_HEX}{{2}})", re.IGNORECASE)
_CODE = re.compile(rf"u\{{({_HEX}+)\}}|u({_HEX}{{4}})|x({_HEX}{{2}})|c([A-Za-z])")
_MANY = re.compile(r"[dDsSwW]|[pP]\{([^}]*)\}")
_CONTROLS = {"0": 0, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{([0-9]+)(?:,([0-9]*))?\})\??")
_OPENING = re.compile(r"\((?:\?(?::|(<?[=!])|<))?")
_REFERENCE = re.compile(r"[1-9][0-9]*")


def is_regex(text: str) -> bool:
    """Say whether a text is an expression. Cost: O(length)."""
    try:
        _Reader(text).read()
    except _NoRegexError:
        return False
    return True


class _Reader:
    """Reads an expression once, from its first character to its last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[bool] = []  # by bracket, whether a quantifier may follow it
        self._groups, self._most = 0, 0
        self._names: set[str] = set()
        self._referred: set[str] = set()

    def read(self) -> None:
        """Read all of it.

        Raises:
            _NoRegexError: It is none.
        """
        may_repeat = False
        while self._at < len(self._text):
            may_repeat = self._term(may_repeat)
        missing = self._referred - self._names
        self._require(not self._open and not missing and self._most <= self._groups)

    def _require(self, holds: bool) -> None:
        if not holds:
            raise _NoRegexError

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _term(self, may_repeat: bool) -> bool:
        """Read a piece, and say whether a quantifier may follow it."""
        character = self._peek()
        if character == "(":
            return self._bracket()
        if character in "*+?{":
            found = self._take(_QUANTIFIER)
            self._require(may_repeat and found is not None and _ascends(*found.groups()))
            return False
        self._at += 1
        if character == ")":
            self._require(bool(self._open))
            return self._open.pop()
        if character == "[":
            self._class()
        elif character == "\\":
            return self._outside_escape()
        self._require(character not in "]}")
        return character not in "^$|"

    def _bracket(self) -> bool:
        found = self._take(_OPENING)
        assert found is not None
        opening = found[0]
        self._require(self._peek() != "?" or opening != "(")
        self._open.append(found[1] is None)
        if opening == "(?<":
            name = self._name()
            self._require(name not in self._names)
            self._names.add(name)
        self._groups += opening in ("(", "(?<")
        return False

    def _name(self) -> str:
        """Read a name and the bracket behind it."""
        found: list[str] = []
        while (character := self._peek()) != ">":
            self._require(character != "")
            self._at += 1
            if character == "\\":
                self._require(self._peek() == "u")
                code = self._character()
                self._require(not 0xD800 <= code <= 0xDFFF)
                character = chr(code)
            self._require((_is_in_name if found else _begins_name)(character))
            found.append(character)
        self._at += 1
        self._require(bool(found))
        return "".join(found)

    def _outside_escape(self) -> bool:
        if self._peek() in ("b", "B"):
            self._at += 1
            return False
        if found := self._take(_REFERENCE):
            digits = found[0]
            self._require(len(digits) <= 10 and int(digits) <= _MOST_GROUPS)
            self._most = max(self._most, int(digits))
        elif self._text.startswith("k<", self._at):
            self._at += 2
            self._referred.add(self._name())
        else:
            self._escape()
        return True

    def _escape(self) -> int | None:
        """Read what stands behind a backslash: the character, None of a set of them."""
        found = self._take(_MANY)
        if found is None:
            return self._character()
        self._require(found[1] is None or found[1] in properties())
        return None

    def _character(self) -> int:
        if found := self._take(_SURROGATES):
            high, low = (int(unit, 16) for unit in found.groups())
            return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
        if found := self._take(_CODE):
            code, unit, byte, letter = found.groups()
            if letter:
                return ord(letter) % 32
            value = int(code or unit or byte, 16)
            self._require(value <= _LAST)
            return value
        character = self._peek()
        self._at += 1
        if character in _CONTROLS:
            self._require(character != "0" or self._peek() not in tuple("0123456789"))
            return _CONTROLS[character]
        self._require(character in _SYNTAX)
        return ord(character)

    def _class(self) -> None:
        if self._peek() == "^":
            self._at += 1
        while self._peek() != "]":
            first = self._atom()
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last = self._atom()
                self._require(first is not None and last is not None and first <= last)
        self._at += 1

    def _atom(self) -> int | None:
        """Read an atom of a class: the character, None of a set of them."""
        character = self._peek()
        self._require(character != "")
        self._at += 1
        if character != "\\":
            return ord(character)
        if self._peek() in ("b", "-"):
            self._at += 1
            return 8 if self._text[self._at - 1] == "b" else ord("-")
        return self._escape()


def _ascends(least: str | None, most: str | None) -> bool:
    """Say whether bounds of any number of digits ascend."""
    if not most:
        return True
    low, high = (bound.lstrip("0") for bound in (least or "", most))
    return (len(low), low) <= (len(high), high)
