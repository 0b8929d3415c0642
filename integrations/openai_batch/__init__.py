"""OpenAI batch files: lines that are requests of a server become lines that are its responses.

``answer_batch`` of ``answering`` is the way in; the command line has another. Read ``body`` (what a
request may say, and what is refused by name) first, then ``reading`` (a line becomes a record, or
its error) and ``answering`` (records to draws, several prompts in one; samples to a line). A line
never names a file: artifacts come by registered names, and what it brings is compiled only if that
was allowed, in the limited child.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.lazy import exports

if TYPE_CHECKING:
    from cdec.integrations.openai_batch.answering import answer_batch as answer_batch

__all__ = ["answer_batch"]

__getattr__ = exports(__name__, {"answer_batch": "answering"})
