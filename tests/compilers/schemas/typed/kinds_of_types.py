"""Every type that the documentation names, with values as a user would write them."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import ipaddress
import math
import re
import struct
import sys
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID, uuid1, uuid4

import pydantic as p
from pydantic import networks
from typing_extensions import TypedDict

Value = TypeVar("Value")
UTC = dt.UTC
EAST = dt.timezone(dt.timedelta(hours=5, minutes=30))


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 30


class Share(enum.Enum):
    HALF = 0.5
    ALL = 1.0


class Point(NamedTuple):
    x: int
    y: float = 0.5


class Film(TypedDict, total=False):
    year: int
    rating: Annotated[float, p.Field(ge=0, le=10)]


@dataclasses.dataclass
class Order:
    amount: Annotated[int, p.Field(gt=0)]
    price: Decimal
    tags: list[str] = dataclasses.field(default_factory=list)


class Cat(p.BaseModel):
    kind: Literal["cat"]
    lives: p.PositiveInt


class Dog(p.BaseModel):
    kind: Literal["dog"]
    born: dt.date


class Owner(p.BaseModel):
    pet: Annotated[Cat | Dog, p.Field(discriminator="kind")]
    name: str = p.Field(alias="fullName", min_length=1, max_length=20)
    seen: dt.datetime | None = None


class Tree(p.BaseModel):
    value: int
    below: list[Tree] = []


class Trimmed(p.BaseModel):
    model_config = p.ConfigDict(str_strip_whitespace=True, str_min_length=1, strict=True)
    name: str
    count: int
    share: float


class Settings(p.BaseModel):
    model_config = p.ConfigDict(
        use_enum_values=True,
        ser_json_bytes="hex",
        val_json_bytes="hex",
        regex_engine="python-re",
        validate_by_name=True,
    )
    level: Level = p.Field(alias="grade")
    lasts: dt.timedelta
    data: Annotated[bytes, p.Field(min_length=2, max_length=4)]
    name: Annotated[str, p.Field(pattern=r"^[a-z]\w$")]


class Coded(p.BaseModel):
    model_config = p.ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")
    data: Annotated[bytes, p.Field(min_length=1, max_length=7)]


class Page(p.BaseModel, Generic[Value]):
    items: list[Value]
    more: bool


def field(kind: Any, **bounds: Any) -> Any:
    return Annotated[kind, p.Field(**bounds)]


DAY, HOUR = dt.timedelta(days=1), dt.timedelta(hours=1)
NOON = dt.datetime(2024, 2, 29, 12)
YESTERDAY, LATER = dt.date.today() - DAY, dt.date.today() + 30 * DAY
LONG_AGO = dt.datetime.now(UTC) - 3 * DAY
NETWORK = ipaddress.ip_network("2001:db8:0:f00::/56")

TYPES: dict[str, tuple[Any, list[Any]]] = {
    "int": (int, [0, -7, 10**18, 2**70]),
    "StrictInt": (p.StrictInt, [3]),
    "conint": (p.conint(gt=1, le=10**6, multiple_of=3), [3, 999999]),
    "PositiveInt": (p.PositiveInt, [1]),
    "NonNegativeInt": (p.NonNegativeInt, [0]),
    "NegativeInt": (p.NegativeInt, [-1]),
    "int, any of two": (field(int | float, gt=0, lt=1), [0.5]),
    "bool": (bool, [True, False]),
    "StrictBool": (p.StrictBool, [True]),
    "float": (float, [0.0, 1.5, -2e-5, 1e100, 123456.789]),
    "StrictFloat": (p.StrictFloat, [1.0]),
    "FiniteFloat": (p.FiniteFloat, [1e-7]),
    "share": (field(float, gt=0, lt=1), [0.5, 1e-4]),
    "closed share": (field(float, ge=0, le=1), [0.0, 1.0]),
    "NegativeFloat": (p.NegativeFloat, [-0.1]),
    "float of a range": (field(float, gt=-273.15, le=1e4), [-273.1, 20.5]),
    "float of steps": (field(float, multiple_of=0.1), [0.3, 99.9]),
    "float of threes": (field(float, multiple_of=3), [3.0, 6e15]),
    "float of halves": (field(float, multiple_of=0.5), [0.5, 1e6]),
    "Decimal": (Decimal, [Decimal("1.50"), Decimal(0), Decimal("-12345678901234567890.25")]),
    "condecimal": (p.condecimal(max_digits=5, decimal_places=2), [Decimal("999.99"), Decimal(-1)]),
    "price": (field(Decimal, gt=0, decimal_places=2), [Decimal("0.01"), Decimal("19.90")]),
    "decimal digits": (field(Decimal, max_digits=3), [Decimal("0.001"), Decimal("999")]),
    "decimal fraction": (field(Decimal, max_digits=3, decimal_places=3), [Decimal("0.125")]),
    "decimal range": (field(Decimal, ge=Decimal("-0.5"), lt=1), [Decimal("-0.5"), Decimal("0.99")]),
    "decimal steps": (field(Decimal, multiple_of=Decimal("0.01")), [Decimal("5.25")]),
    "decimal quarters": (field(Decimal, multiple_of=Decimal("0.25")), []),
    "Fraction": (Fraction, [Fraction(1, 3)]),
    "complex": (complex, [1 + 2j, -0.5j + 3]),
    "str": (str, ["", 'a "quoted" é', "\n"]),
    "constr": (p.constr(min_length=2, max_length=4), ["ab", "世界世界"]),
    "stripped": (p.constr(strip_whitespace=True, min_length=1, to_lower=True), ["Ab c"]),
    "stripped pattern": (p.constr(strip_whitespace=True, pattern="^a+ b$"), ["aa b"]),
    "pattern": (field(str, pattern=r"^[A-Z]{2}-\d{3}$"), ["AB-123"]),
    "words": (field(str, pattern=r"^\w+(\s\w+)*$"), ["two words", "Zürich", "日本", "a_1"]),
    "no words": (field(str, pattern=r"^\W\S$"), ["-a"]),
    "python pattern": (field(str, pattern=re.compile(r"^(?!x)\w+$")), ["abc"]),
    "bytes": (bytes, [b"", b"abc", "é".encode()]),
    "conbytes": (p.conbytes(min_length=1, max_length=3), [b"abc"]),
    "SecretStr": (p.SecretStr, []),
    "SecretBytes": (p.SecretBytes, []),
    "Base64Bytes": (p.Base64Bytes, [b"\xff\x00a"]),
    "Base64Str": (p.Base64Str, ["hello, world"]),
    "Base64UrlBytes": (p.Base64UrlBytes, [b"\xff\xfe"]),
    "Base64UrlStr": (p.Base64UrlStr, ["hello"]),
    "bounded Base64Bytes": (field(p.Base64Bytes, min_length=2, max_length=7), [b"ab", bytes(7)]),
    "bounded Base64Str": (field(p.Base64Str, max_length=4), ["abcd", ""]),
    "bounded SecretStr": (field(p.SecretStr, min_length=2, max_length=5), []),
    "bounded SecretBytes": (field(p.SecretBytes, max_length=5), []),
    "coded bytes": (Coded, [Coded.model_construct(data=b"ab\xff")]),
    "ByteSize": (p.ByteSize, [p.ByteSize(1000)]),
    "UUID": (UUID, [uuid4()]),
    "UUID1": (p.UUID1, [uuid1()]),
    "UUID3": (p.UUID3, [UUID("6fa459ea-ee8a-3ca4-894e-db77e160355e")]),
    "UUID4": (p.UUID4, [uuid4()]),
    "UUID5": (p.UUID5, [UUID("886313e1-3b8a-5372-9b90-0c9aee199e5d")]),
    "UUID7": (p.UUID7, [UUID("018f4e7c-6e5a-7cc0-8e6e-0123456789ab")]),
    "date": (dt.date, [dt.date(2024, 2, 29), dt.date.min, dt.date.max]),
    "bounded date": (field(dt.date, ge=dt.date(2020, 5, 17), lt=dt.date(2021, 1, 1)),
        [dt.date(2020, 5, 17), dt.date(2020, 12, 31)]),
    "PastDate": (p.PastDate, [YESTERDAY, dt.date(1999, 12, 31)]),
    "FutureDate": (p.FutureDate, [LATER]),
    "time": (dt.time, [dt.time(9, 30), dt.time(23, 59, 59, 999999), dt.time(1, tzinfo=EAST)]),
    "office hours": (field(dt.time, ge=dt.time(9), lt=dt.time(17, 30)), [dt.time(9), dt.time(17)]),
    "datetime": (dt.datetime, [NOON, NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=EAST)]),
    "NaiveDatetime": (p.NaiveDatetime, [NOON, NOON.replace(microsecond=5)]),
    "AwareDatetime": (p.AwareDatetime, [NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=EAST)]),
    "PastDatetime": (p.PastDatetime, [NOON, LONG_AGO]),
    "FutureDatetime": (p.FutureDatetime, [dt.datetime(2999, 1, 1), NOON.replace(3001, 3, 1)]),
    "datetime since": (field(dt.datetime, ge=dt.datetime(2020, 1, 1)),
        [dt.datetime(2020, 1, 1), NOON]),
    "datetime until": (field(dt.datetime, lt=dt.datetime(2030, 6, 5, 4, tzinfo=EAST)),
        [NOON.replace(tzinfo=UTC)]),
    "timedelta": (dt.timedelta, [DAY, -HOUR, 400 * DAY + dt.timedelta(microseconds=5)]),
    "positive duration": (field(dt.timedelta, gt=dt.timedelta(0)), [DAY + HOUR]),
    "short duration": (field(dt.timedelta, ge=HOUR / 4, le=36 * HOUR), [HOUR, DAY]),
    "negative duration": (field(dt.timedelta, lt=dt.timedelta(seconds=-1.5)), [-DAY, -2 * HOUR]),
    "IPv4Address": (ipaddress.IPv4Address, [ipaddress.ip_address("10.0.0.1")]),
    "IPv6Address": (ipaddress.IPv6Address, [ipaddress.ip_address("fe80::1")]),
    "IPv4Network": (ipaddress.IPv4Network, [ipaddress.ip_network("10.32.0.0/11")]),
    "IPv6Network": (ipaddress.IPv6Network, [NETWORK, ipaddress.ip_network("fc00::/7")]),
    "IPv4Interface": (ipaddress.IPv4Interface, [ipaddress.ip_interface("10.0.0.1/24")]),
    "IPv6Interface": (ipaddress.IPv6Interface, [ipaddress.ip_interface("fe80::1/64")]),
    "IPvAnyAddress": (p.IPvAnyAddress, [ipaddress.ip_address("10.0.0.1")]),
    "IPvAnyNetwork": (p.IPvAnyNetwork, [NETWORK]),
    "IPvAnyInterface": (p.IPvAnyInterface, [ipaddress.ip_interface("fe80::1/64")]),
    "AnyUrl": (p.AnyUrl, [p.AnyUrl("ftp://a:b@c.d:21/e"), p.AnyUrl("mailto:a@b.c")]),
    "HttpUrl": (p.HttpUrl, [p.HttpUrl("https://example.com/a%20b?c=d#e")]),
    "AnyHttpUrl": (p.AnyHttpUrl, [p.AnyHttpUrl("http://127.0.0.1:8000")]),
    "FileUrl": (p.FileUrl, [p.FileUrl("file:///etc/hosts")]),
    "FtpUrl": (p.FtpUrl, [p.FtpUrl("ftp://a.b/c")]),
    "WebsocketUrl": (p.WebsocketUrl, [p.WebsocketUrl("wss://a.b/c")]),
    "PostgresDsn": (p.PostgresDsn, [p.PostgresDsn("postgresql+asyncpg://u:p@h1:5432,h2/db")]),
    "MySQLDsn": (p.MySQLDsn, [p.MySQLDsn("mysql://u:p@h:3306/db")]),
    "MariaDBDsn": (p.MariaDBDsn, [p.MariaDBDsn("mariadb://u@h/db")]),
    "MongoDsn": (p.MongoDsn, [p.MongoDsn("mongodb://h:27017/db")]),
    "RedisDsn": (p.RedisDsn, [p.RedisDsn("redis://h:6379/0")]),
    "AmqpDsn": (p.AmqpDsn, [p.AmqpDsn("amqp://u:p@h/v")]),
    "KafkaDsn": (p.KafkaDsn, [p.KafkaDsn("kafka://h:9092")]),
    "NatsDsn": (p.NatsDsn, [p.NatsDsn("nats://h:4222")]),
    "CockroachDsn": (p.CockroachDsn, [p.CockroachDsn("cockroachdb://u@h:26257/db")]),
    "ClickHouseDsn": (networks.ClickHouseDsn, []),
    "Path": (Path, [Path("/etc/hosts")]),
    "ZoneInfo": (zoneinfo.ZoneInfo, [zoneinfo.ZoneInfo("Europe/Berlin")]),
    "Pattern": (re.Pattern, [re.compile(r"^[a-z]+(\d{2}|x)*\.txt$")]),
    "Enum": (Colour, [Colour.RED, Colour.TWO]),
    "IntEnum": (Level, [Level.HIGH]),
    "float Enum": (Share, [Share.HALF]),
    "Literal": (Literal["a", 1, True, None], ["a", 1, True, None]),
    "list": (list[int], [[], [1, 2]]),
    "conlist": (p.conlist(float, min_length=1, max_length=3), [[0.5]]),
    "Sequence": (collections.abc.Sequence[int], [[1]]),
    "deque": (collections.deque[int], [collections.deque([1])]),
    "set": (set[int], [{1, 2}]),
    "frozenset": (frozenset[str], [frozenset(["a"])]),
    "set of days": (set[dt.date], [{dt.date(2024, 1, 1)}]),
    "set of two": (field(set[int], min_length=2), [{1, 2}]),
    "tuple": (tuple[int, str], [(1, "a")]),
    "tuple of many": (tuple[Decimal, ...], [(Decimal("0.5"),)]),
    "NamedTuple": (Point, [Point(1, 2.5)]),
    "dict": (dict[str, int], [{"a": 1}]),
    "dict of anything": (dict[str, Any], [{"a": [1.5, None]}]),
    "Dict[int, str]": (dict[int, str], [{1: "a", -20: "b"}]),
    "Dict[conint, str]": (field(dict[p.conint(ge=-5, lt=1000), str], min_length=1),
        [{-5: "", 9: ""}]),
    "Dict[float, int]": (dict[float, int], [{1.5: 1}]),
    "Dict[share, int]": (dict[field(float, gt=0, lt=1), int], [{0.25: 1}]),
    "Dict[Decimal, int]": (dict[Decimal, int], [{Decimal("1.5"): 1}]),
    "Dict[bool, int]": (dict[bool, int], [{True: 1}]),
    "Dict[date, int]": (dict[dt.date, int], [{dt.date(2024, 1, 1): 1}]),
    "Dict[UUID, int]": (dict[UUID, int], [{uuid4(): 1}]),
    "Dict[UUID4, int]": (dict[p.UUID4, int], [{uuid4(): 1}]),
    "Dict[Literal, int]": (dict[Literal["a", "b"], int], [{"b": 1}]),
    "Dict[Enum, int]": (dict[Colour, int], [{Colour.RED: 1}]),
    "Dict[IntEnum, int]": (dict[Level, int], [{Level.HIGH: 1}]),
    "Dict[union, int]": (dict[int | dt.date, int], [{3: 1, dt.date(2024, 1, 1): 2}]),
    "Dict[constr, int]": (dict[p.constr(pattern="^x"), int], [{"xy": 1}]),
    "Dict[HttpUrl, int]": (dict[p.HttpUrl, int], []),
    "Counter": (collections.Counter[str], [collections.Counter("aab")]),
    "defaultdict": (collections.defaultdict[int, list[int]], [{1: [2]}]),
    "OrderedDict": (collections.OrderedDict[str, int], [collections.OrderedDict(a=1)]),
    "Json": (p.Json, []),
    "Json[Any]": (p.Json[Any], []),
    "Json[list[int]]": (p.Json[list[int]], []),
    "Json[Film]": (p.Json[Film], []),
    "Json[Cat]": (p.Json[list[Cat | None]], []),
    "Json of days": (p.Json[dict[dt.date, Decimal]], []),
    "Json[UUID4]": (p.Json[p.UUID4], []),
    "Json[Base64Bytes]": (p.Json[list[p.Base64Bytes | p.AwareDatetime]], []),
    "TypedDict": (Film, [{}, {"year": 1931, "rating": 8.3}]),
    "dataclass": (Order, [Order(1, Decimal("2.50"), ["x"])]),
    "model": (Owner, [
        Owner(pet=Cat(kind="cat", lives=9), fullName="Ann"),
        Owner(pet=Dog(kind="dog", born=dt.date(2020, 1, 1)), fullName="Bo", seen=NOON),
    ]),
    "recursive model": (Tree, [Tree(value=1, below=[Tree(value=2)])]),
    "generic model": (Page[p.UUID4], [Page[p.UUID4](items=[uuid4()], more=False)]),
    "settings": (Settings, [Settings(level=30, lasts=HOUR, data=b"ab", name="ab")]),
    "strict model": (Trimmed, [Trimmed(name="a", count=1, share=0.5)]),
    "RootModel": (p.RootModel[list[p.HttpUrl]], [p.RootModel[list[p.HttpUrl]](["http://a.b"])]),
    "Optional": (p.PositiveInt | None, [None, 1]),
    "Union": (int | dt.date | list[Decimal], [1, dt.date(2024, 1, 1), [Decimal("0.5")]]),
    "Hashable": (collections.abc.Hashable, [1, "a"]),
    "Any": (Any, [[{"a": None}]]),
    "None": (type(None), [None]),
}  # fmt: skip
"""By name: the type, and values of it whose JSON is allowed."""


def _double(rng: Random) -> float:
    (value,) = struct.unpack("d", rng.randbytes(8))
    return float(value) if math.isfinite(value) else 0.0


def _decimal(rng: Random) -> Decimal:
    digits = tuple(rng.randrange(10) for _ in range(rng.randrange(1, 25)))
    return Decimal((rng.randrange(2), digits, rng.randrange(-20, 8)))


def _moment(rng: Random) -> dt.datetime:
    return dt.datetime.min + dt.timedelta(microseconds=rng.randrange(315_537_897_599 * 10**6))


def _offset(rng: Random) -> dt.timezone:
    return dt.timezone(dt.timedelta(minutes=rng.randrange(-1439, 1440)))


def _network(rng: Random, bits: int, kind: Any) -> Any:
    prefix = rng.randrange(bits + 1)
    return kind((rng.getrandbits(bits) >> (bits - prefix) << (bits - prefix), prefix))


def _duration(rng: Random) -> dt.timedelta:
    return dt.timedelta(microseconds=rng.randrange(10 ** rng.randrange(1, 19)))


RANDOM: dict[str, tuple[Any, Callable[[Random], Any]]] = {
    "int": (int, lambda rng: rng.randrange(-(10 ** rng.randrange(1, 30)), 10**30)),
    "float": (float, _double),
    "share": (field(float, gt=0, lt=1), lambda rng: rng.random()),
    "degrees": (field(float, ge=-50, le=50), lambda rng: round(rng.uniform(-50, 50), 3)),
    "Decimal": (Decimal, _decimal),
    "price": (
        p.condecimal(max_digits=8, decimal_places=2, ge=0),
        lambda rng: Decimal(rng.randrange(10**8)) / 100,
    ),
    "datetime": (dt.datetime, _moment),
    "AwareDatetime": (p.AwareDatetime, lambda rng: _moment(rng).replace(tzinfo=_offset(rng))),
    "date": (dt.date, lambda rng: _moment(rng).date()),
    "bounded date": (
        field(dt.date, ge=dt.date(1990, 3, 4), le=dt.date(2031, 10, 30)),
        lambda rng: dt.date(1990, 3, 4) + rng.randrange(15_000) * DAY,
    ),
    "time": (dt.time, lambda rng: _moment(rng).time()),
    "timedelta": (dt.timedelta, lambda rng: rng.choice([-1, 1]) * _duration(rng)),
    "long": (field(dt.timedelta, ge=dt.timedelta(0)), _duration),
    "IPv4Network": (
        ipaddress.IPv4Network,
        lambda rng: _network(rng, 32, ipaddress.IPv4Network),
    ),
    "IPv6Network": (
        ipaddress.IPv6Network,
        lambda rng: _network(rng, 128, ipaddress.IPv6Network),
    ),
    "IPv6Interface": (
        ipaddress.IPv6Interface,
        lambda rng: ipaddress.IPv6Interface((rng.getrandbits(128), rng.randrange(129))),
    ),
    "Base64Bytes": (p.Base64Bytes, lambda rng: rng.randbytes(rng.randrange(20))),
    "keys": (dict[int, float], lambda rng: {rng.randrange(-999, 9999): _double(rng)}),
    "complex": (complex, lambda rng: complex(round(rng.uniform(-9, 9), 3), rng.randrange(-9, 9))),
}
"""By name: a type, and what draws values of it whose JSON is allowed."""

try:
    import email_validator  # noqa: F401
except ImportError:
    pass
else:
    TYPES["EmailStr"] = (p.EmailStr, ["ann.b+c@mail.example.org"])
    TYPES["NameEmail"] = (p.NameEmail, [])
if sys.version_info >= (3, 12):
    TYPES["alias"] = (Page[int], [])
