"""Verdicts on finished texts, in a process that can be killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdec.core.child.judge import Judge, TextChecker
from cdec.core.child.readers import Language
from cdec.core.grammars.validity import grammar_language
from cdec.core.schemas.formats import FORMATS
from cdec.core.schemas.validity import (
    is_multiple,
    parser_of,
    read_json,
    schema_language,
    stored_language,
)
from tests.shared import shared_folder
from tools.benchmarks.files import read_jsonl

# --- Verdicts from a process that can be killed: its limits, its end, what is not tried again.

WORDS = 'start: "yes" | "no"\n'
SLOW_MATCH = "start: A\nA: /(?:a|a){40}b|a{40}[c-z0-9A-Z]/\n"
SLOW_TEXT = b"a" * 40 + b"c"
SLOW_BUILD = "".join(
    ["start: ", " | ".join(f"r{i}" for i in range(1000)), "\n"]
    + [f'r{i}: "{i}" r{(i + 1) % 1000}? "x"\n' for i in range(1000)]
)


def lexed(source: str) -> Language:
    options = json.dumps({"lexer": "contextual", "start": "start"})
    return grammar_language(options, source)


@pytest.fixture(scope="module")
def shared() -> Iterator[Judge]:
    judge = Judge()
    yield judge
    judge.close()


@pytest.fixture
def judge(shared: Judge) -> Iterator[Judge]:
    shared.take_notices()
    yield shared


def _is_gone(pid: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_an_expression_that_goes_back_for_ever_is_cut_off(judge: Judge) -> None:
    slow = TextChecker(lexed(SLOW_MATCH), seconds=0.3, judge=judge)
    words = TextChecker(lexed(WORDS), seconds=2.0, judge=judge)
    assert [words(b"yes"), slow(SLOW_TEXT), words(b"no"), words(b"on")] == [True, None, True, False]
    (notice,) = judge.take_notices()
    assert notice.code == "W_UNDECIDED" and "0.3 seconds" in notice.message
    # Texts that it does not go back over are judged all the same.
    assert slow(b"a" * 40 + b"b") is True and slow(b"b") is False
    assert judge.take_notices() == []


def test_a_grammar_whose_parser_takes_too_long_is_tried_once(judge: Judge) -> None:
    check = TextChecker(lexed(SLOW_BUILD), seconds=0.3, judge=judge)
    assert check(b"1x") is None
    # The process ended with that text, and no other text starts another.
    assert judge.pid is None
    assert [check(b"%dx" % i) for i in range(100)] == [None] * 100
    assert judge.pid is None
    (notice,) = judge.take_notices()
    assert "(and 100 more texts)" in notice.message


@pytest.mark.slow
def test_a_grammar_most_of_whose_texts_are_lost_is_given_up(judge: Judge) -> None:
    check = TextChecker(lexed(SLOW_MATCH), seconds=0.2, judge=judge)
    assert check(b"a" * 40 + b"b") is True
    assert [check(b"a" * 40 + letter) for letter in (b"c", b"d", b"e")] == [None] * 3
    assert judge.pid is None
    # Not even a text that would be judged at once.
    assert check(b"a" * 40 + b"b") is None
    assert judge.pid is None


def test_a_text_that_takes_all_memory_is_unknown_and_the_next_is_judged() -> None:
    judge = Judge(megabytes=24)
    try:
        check = TextChecker(lexed('start: "a"*\n'), judge=judge)
        assert check(b"aaa") is True
        assert check(b"a" * 20_000_000) is None
        assert "24 megabytes" in judge.take_notices()[0].message
        assert check(b"aab") is False
    finally:
        judge.close()


def test_bytes_that_are_no_utf8_are_in_no_language(judge: Judge) -> None:
    check = TextChecker(lexed("start: /.*a.*/\n"), judge=judge)
    assert [check(text) for text in (b"\xff", b"a\xc3", b"\xed\xa0\x80")] == [False] * 3


def test_what_lark_cannot_read_is_unknown_without_a_warning(judge: Judge) -> None:
    check = TextChecker(lexed('root ::= "a"\n'), judge=judge)
    assert [check(b"a"), check(b"b")] == [None, None]
    assert judge.take_notices() == []


def test_more_grammars_than_are_kept_are_all_judged(judge: Judge) -> None:
    checks = [TextChecker(lexed(f'start: "{i}"\n'), seconds=20, judge=judge) for i in range(40)]
    for _ in range(2):
        for i, check in enumerate(checks):
            assert (check(b"%d" % i), check(b"x")) == (True, False)


def test_long_texts_are_judged(judge: Judge) -> None:
    check = TextChecker(lexed("start: /[a-z]+/\n"), judge=judge)
    assert check(b"a" * 5_000_000) is True
    assert check(b"a" * 5_000_000 + b"0") is False


def test_a_process_that_was_killed_is_started_again(judge: Judge) -> None:
    check = TextChecker(lexed(WORDS), seconds=20, judge=judge)
    assert check(b"yes") is True
    assert judge.pid is not None
    os.kill(judge.pid, signal.SIGKILL)
    assert check(b"no") is True


@pytest.mark.slow
def test_a_process_killed_over_a_text_is_asked_again(judge: Judge) -> None:
    check = TextChecker(lexed(SLOW_MATCH), seconds=0.5, judge=judge)
    assert check(b"b") is False
    first = judge.pid
    assert first is not None
    threading.Timer(0.2, os.kill, (first, signal.SIGKILL)).start()
    assert check(SLOW_TEXT) is None
    assert judge.pid != first
    assert "0.5 seconds" in judge.take_notices()[0].message


def test_a_process_that_stands_still_is_ended(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = TextChecker(lexed(WORDS), seconds=-2.0, judge=judge)
    other = TextChecker(lexed(WORDS), seconds=20, judge=judge)
    assert other(b"yes") is True
    assert judge.pid is not None
    os.kill(judge.pid, signal.SIGSTOP)
    # Twice minus two seconds and five by the clock; a text that no pipe takes.
    assert check(b"a" * 1_000_000) is None
    assert other(b"no") is True


@pytest.mark.slow
def test_threads_share_the_process(judge: Judge) -> None:
    checks = [TextChecker(lexed(f'start: "{i}"\n'), seconds=20, judge=judge) for i in range(4)]
    found: dict[int, list[bool | None]] = {}

    def work(i: int) -> None:
        found[i] = [checks[i](text) for _ in range(50) for text in (b"%d" % i, b"x")]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[i] == [True, False] * 50 for i in range(4))


def test_a_process_outlives_the_thread_that_started_it() -> None:
    judge = Judge()
    try:
        check = TextChecker(lexed(WORDS), seconds=20, judge=judge)
        thread = threading.Thread(target=check, args=(b"yes",))
        thread.start()
        thread.join()
        pid = judge.pid
        assert pid is not None and not _is_gone(pid, 0.2)
        assert check(b"no") is True and judge.pid == pid
    finally:
        judge.close()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT raise: it is ignored where tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_neither_process_nor_answer_behind(judge: Judge) -> None:
    check = TextChecker(lexed(SLOW_MATCH), seconds=30, judge=judge)
    assert check(b"b") is False
    pid = judge.pid
    assert pid is not None
    here = threading.get_ident()
    threading.Timer(0.2, signal.pthread_kill, (here, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        check(SLOW_TEXT)
    assert _is_gone(pid)
    assert check(b"b") is False


PARENT = """
import json, os, sys, time
from cdec.core.child.judge import TextChecker
from cdec.core.child.judge import JUDGE
from cdec.core.grammars.validity import grammar_language
def check(source, seconds=60.0):
    options = json.dumps({"lexer": "contextual", "start": "start"})
    return TextChecker(grammar_language(options, source), seconds=seconds)
words = check('start: "yes"\\n')
assert words(b"yes") is True
print(JUDGE.pid, flush=True)
"""


@pytest.mark.parametrize(
    "busy",
    ["time.sleep(60)", f"check({SLOW_MATCH!r})({SLOW_TEXT!r})"],
    ids=["while idle", "over a text"],
)
def test_a_parent_that_is_killed_leaves_no_process_behind(busy: str, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT + busy], stdout=subprocess.PIPE, cwd=tmp_path
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.3)
        parent.kill()
    assert _is_gone(pid)


def test_a_fork_asks_a_process_of_its_own(tmp_path: Path) -> None:
    code = PARENT + (
        "pid = JUDGE.pid\n"
        "if os.fork() == 0:\n"
        "    assert [words(b'yes'), words(b'no')] == [True, False] and JUDGE.pid != pid\n"
        "    print('forked', flush=True); JUDGE.close(); os._exit(0)\n"
        "found = [words(b'yes') for _ in range(2000)]\n"
        "assert os.wait()[1] == 0 and all(found) and JUDGE.pid == pid\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr, b"forked" in done.stdout) == (0, b"", True)


@pytest.mark.share(2)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_matter(closed: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        PARENT.replace("print(", "str(").replace(", flush=True", "")
        + ("import pathlib; pathlib.Path('out').write_text(str([words(b'yes'), words(b'no')]))\n")
    )
    subprocess.run(
        ["sh", "-c", f'exec "$0" "$1" {closed}', sys.executable, script], cwd=tmp_path, timeout=60
    )
    assert (tmp_path / "out").read_text() == "[True, False]"


def test_signals_that_the_caller_ignores_do_not_matter(tmp_path: Path) -> None:
    code = PARENT + (
        "import signal; JUDGE.close()\n"
        "signal.signal(signal.SIGPROF, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"assert check({SLOW_MATCH!r}, 0.2)({SLOW_TEXT!r}) is None\n"
        "print(JUDGE.take_notices()[0].message)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert b"0.2 seconds" in done.stdout, done.stderr


# --- Whether a text is an instance: exact numbers, formats, drafts, no network, in a process.


def verdict(schema: object, text: str, formats: str = "enforce") -> bool | None:
    parse = parser_of(schema if isinstance(schema, str) else json.dumps(schema), formats)
    assert parse is not None
    return parse(text, 0.0)


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ('{"multipleOf": 0.01}', "19.99", True),
        ('{"multipleOf": 0.01}', "19.999", False),
        ('{"multipleOf": 0.1}', "0.3", True),
        ('{"multipleOf": 1e-8}', "12391239123", True),
        ('{"multipleOf": 3}', "1e100", False),
        ('{"multipleOf": 3}', "3e100", True),
        ('{"multipleOf": 5}', "1e999999999999", True),
        ('{"multipleOf": 3}', "-0.0", True),
        ('{"maximum": 9007199254740992}', "9007199254740993", False),
        ('{"const": 0.1}', "0.1000000000000000000001", False),
        ('{"const": 0.1}', "1e-1", True),
        ('{"type": "integer"}', "1.0", True),
        ('{"type": "integer"}', "1.5e1", True),
        ('{"type": "integer"}', "1e-1", False),
        ('{"type": "integer"}', "1e99999999999999999999", True),
        ('{"type": "integer"}', "9" * 5000, True),
        ('{"type": "integer"}', "true", False),
        ('{"enum": [1]}', "true", False),
        ('{"uniqueItems": true}', "[1, 1.0]", False),
        ('{"uniqueItems": true}', "[1, true]", True),
    ],
)
def test_numbers_are_exact(schema: str, text: str, expected: bool) -> None:
    assert verdict(schema, text) is expected


@pytest.mark.parametrize(
    "text", ["NaN", "-Infinity", '"\t"', "[1,]", "01", "", '"\\ud800"', '{"\\udc00": 1}', "1 1"]
)
def test_what_is_no_json_is_no_instance(text: str) -> None:
    assert verdict({}, text) is False


def test_escaped_pairs_are_one_character() -> None:
    assert verdict({"maxLength": 1}, '"\\ud83d\\ude00"') is True


def test_names_that_stand_twice_count_once() -> None:
    assert read_json('{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, "1.0", False),
        ({"minimum": 3, "exclusiveMinimum": True}, "3", False),
        ({"items": [{"type": "null"}], "additionalItems": False}, "[null, 1]", False),
        ({"dependencies": {"a": ["b"]}}, '{"a": 1}', False),
        ({"dependentRequired": {"a": ["b"]}}, '{"a": 1}', False),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$ref": "#/x",
                "x": {},
                "not": {},
            },
            "1",
            True,
        ),
        ({"prefixItems": [{"type": "null"}], "items": False}, "[null]", True),
        (True, "[]", True),
        (False, "[]", False),
    ],
)
def test_a_schema_means_what_its_draft_says(schema: object, text: str, expected: bool) -> None:
    assert verdict(schema, text) is expected


def test_formats_are_checked_unless_they_are_annotations() -> None:
    assert verdict({"format": "ipv4"}, '"1.2.3.256"') is False
    assert verdict({"format": "ipv4"}, '"1.2.3.256"', "annotate") is True
    assert verdict({"format": "nowhere"}, '"x"') is True


def test_no_other_document_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert verdict({"$ref": "http://127.0.0.1:9/x.json"}, "1") is None
    meta = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert verdict(meta, '{"type": "text"}') is False


@pytest.mark.parametrize("source", ["{", "3", '{"type": "text"}', '{"$schema": 3, "type": 3}'])
def test_what_is_no_schema_has_no_parser(source: str) -> None:
    assert parser_of(source) is None


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"$ref": "#/nowhere"}, {"pattern": "\\p{L}"}])
def test_what_the_package_cannot_decide_is_unknown(schema: object) -> None:
    assert verdict(schema, '"x"') is None


@pytest.mark.parametrize(
    ("value", "of", "expected"),
    [("0", "0.5", True), ("0.25", "0.5", False), ("-2.5", "0.5", True), ("1e3", "1e5", False)],
)
def test_multiples_of_decimals(value: str, of: str, expected: bool) -> None:
    assert is_multiple(read_json(value), read_json(of)) is expected


def test_the_official_cases_of_formats_are_judged_as_they_say() -> None:
    path = shared_folder() / "data/json_schema_test_suite/cases.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"no shared data at {shared_folder()}")
    seen = 0
    for case in read_jsonl(path):
        room, _, name = case["file"].rpartition("/")
        if room != "optional/format" or name not in FORMATS or name == "hostname":
            continue
        for test in case["tests"]:
            if isinstance(test["data"], str):
                seen += 1
                assert FORMATS[name](test["data"]) is test["valid"], (name, test)
    assert seen > 600


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a-b.example", True),
        ("-a", False),
        ("a" * 64, False),
        ("a.", False),
        ("xn--ihqwcrb4cv8a8dqg056pqjye", True),
        ("ab--c", False),
    ],
)
def test_hosts(text: str, expected: bool) -> None:
    assert FORMATS["hostname"](text) is expected


@pytest.mark.slow
def test_the_process_judges_instances_under_limits() -> None:
    judge = Judge()
    try:
        metadata = {"cdec.schema": '{"type": "string"}', "cdec.options": '{"formats": "enforce"}'}
        check = TextChecker(stored_language(metadata), judge=judge)
        assert [check(text) for text in (b'"a"', b"1", b"\xff")] == [True, False, False]
        slow = TextChecker(schema_language('{"pattern": "^(a|a)*$"}'), seconds=0.3, judge=judge)
        assert slow(b'"%sb"' % (b"a" * 60)) is None
        assert "0.3 seconds" in judge.take_notices()[0].message
        assert check(b'"b"') is True
        deep = b"[" * 500 + b"]" * 500
        nested = '{"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}'
        assert TextChecker(schema_language(nested), judge=judge)(deep) is True
        assert judge.take_notices() == []
    finally:
        judge.close()
