"""JSON on a terminal: the same values, and no character that moves or hides what is shown."""

from __future__ import annotations

import io
import json

from cdec.data.output.terminal import escape_json
from cdec.data.output.writer import RecordWriter

TEXT = "a\x7f\x9b31m\u202eb\u2028c\U000e0001\ufeff \u00e9\u4e2d"


class Stream(io.BytesIO):
    """A stream that may be a terminal."""

    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal


class Terminal(Stream):
    is_terminal = True


def test_escaped_json_means_the_same() -> None:
    written = json.dumps({"text": TEXT}, ensure_ascii=False) + "\n"
    shown = escape_json(written)
    assert json.loads(shown) == {"text": TEXT}
    assert not set("\x7f\x9b\u202e\u2028\U000e0001\ufeff") & set(shown)
    assert "\u00e9\u4e2d" in shown
    assert shown.endswith("}\n")


def test_a_terminal_gets_escapes_and_a_pipe_the_characters() -> None:
    shown = {}
    for kind in (Stream, Terminal):
        stream = kind()
        RecordWriter(stream, "stdout").write({"text": TEXT})
        shown[kind] = stream.getvalue().decode()
        assert json.loads(shown[kind]) == {"text": TEXT}
    assert "\x9b" in shown[Stream]
    assert "\u202e" in shown[Stream]
    assert "\x9b" not in shown[Terminal]
    assert "\u202e" not in shown[Terminal]
