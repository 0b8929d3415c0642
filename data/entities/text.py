"""Reads entities from plain text, one a line, a block at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cdec.core.errors import EncodingError
from cdec.core.sets.entities import EntityBatch
from cdec.data.entities.request import EntityRequest
from cdec.data.input.lines import LineBlock, decode_line, numbered_lines

_CSV_SAMPLE_LINES = 20
_HEADER_CELL = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")


def read_text_lines(request: EntityRequest) -> Iterator[EntityBatch]:
    """Yield a batch a block: a newline ends an entity, a CR before it is taken away.

    Whole blocks are decoded and split at once; only a block with invalid UTF-8 is read line by
    line, to name the place.

    Raises:
        EncodingError: Invalid UTF-8 and ``bad_lines`` is not ``skip``.
    """
    stats = request.stats
    for block in request.blocks():
        try:
            text = block.data.decode()
        except UnicodeDecodeError:
            batch = _decodable_lines(block, request)
        else:
            batch = _whole_block(text, block, request)
        if block.line == 1:
            _notice_csv(batch.texts, request)
        stats.lines += len(batch.texts)
        stats.blank += batch.texts.count("")
        yield batch


def _whole_block(text: str, block: LineBlock, request: EntityRequest) -> EntityBatch:
    if "\r\n" in text or text.endswith("\r"):
        text = text.replace("\r\n", "\n").removesuffix("\r")
        request.stats.notice_once(
            "W_CRLF", f"{request.name} has Windows line ends; the CR is no part of an entity"
        )
    texts = text.split("\n")  # subtle: not splitlines, which cuts at U+2028, VT, FF, NEL too
    if block.data.endswith(b"\n"):
        texts.pop()
    return EntityBatch(texts, range(block.line, block.line + len(texts)), None, block.byte_offset)


def _decodable_lines(block: LineBlock, request: EntityRequest) -> EntityBatch:
    texts: list[str] = []
    lines: list[int] = []
    for number, offset, data in numbered_lines(block):
        try:
            text = decode_line(data, request.name, number, offset)
        except EncodingError as error:
            request.stats.lines += 1
            request.refuse(error)
        else:
            texts.append(text)
            lines.append(number)
    return EntityBatch(texts, lines, None, block.byte_offset)


def _notice_csv(texts: Sequence[str], request: EntityRequest) -> None:
    """Warn where the first lines are a header and rows: each line becomes an entity all the same.

    A header's cells look like names of variables, and all rows have as many separators: titles with
    commas do not.
    """
    sample = [text for text in texts[:_CSV_SAMPLE_LINES] if text]
    for separator in ",\t;":
        counts = {text.count(separator) for text in sample}
        if len(sample) < 2 or len(counts) != 1 or counts == {0}:
            continue
        if all(_HEADER_CELL.fullmatch(cell) for cell in sample[0].split(separator)):
            request.stats.notice_once(
                "W_LOOKS_LIKE_CSV",
                f"{request.name} looks like a table with the columns"
                f" {', '.join(sample[0].split(separator))}; each line is one entity as it is;"
                " `format` csv `field` COLUMN would read one column",
            )
            return
