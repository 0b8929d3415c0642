"""Bytes in and out: entities, prompts, templates, seeds, output records, resume, shipped files.

Names are imported on first use, so that ``import cdec.data`` costs nothing that is not needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdec.data.assets import embedded_model_path as embedded_model_path
    from cdec.data.assets import entity_list as entity_list
    from cdec.data.assets import evaluation_prompts as evaluation_prompts
    from cdec.data.entity_source import read_entities as read_entities
    from cdec.data.entity_source import read_token_rows as read_token_rows
    from cdec.data.prompt_record import BadRecord as BadRecord
    from cdec.data.prompt_record import PromptRecord as PromptRecord
    from cdec.data.prompts import prompts_from_texts as prompts_from_texts
    from cdec.data.prompts import read_prompts as read_prompts
    from cdec.data.resume import FinishedRecords as FinishedRecords
    from cdec.data.seeds import derive_seed as derive_seed
    from cdec.data.source import ENTITY_LIMITS as ENTITY_LIMITS
    from cdec.data.source import PROMPT_LIMITS as PROMPT_LIMITS
    from cdec.data.source import InputLimits as InputLimits
    from cdec.data.source import SourceStats as SourceStats
    from cdec.data.templates import PromptTemplate as PromptTemplate
    from cdec.data.templates import read_template as read_template
    from cdec.data.writer import RecordWriter as RecordWriter
    from cdec.data.writer import open_writer as open_writer

_HOMES = {
    "embedded_model_path": "assets",
    "entity_list": "assets",
    "evaluation_prompts": "assets",
    "read_entities": "entity_source",
    "read_token_rows": "entity_source",
    "BadRecord": "prompt_record",
    "PromptRecord": "prompt_record",
    "prompts_from_texts": "prompts",
    "read_prompts": "prompts",
    "FinishedRecords": "resume",
    "derive_seed": "seeds",
    "ENTITY_LIMITS": "source",
    "InputLimits": "source",
    "PROMPT_LIMITS": "source",
    "SourceStats": "source",
    "PromptTemplate": "templates",
    "read_template": "templates",
    "RecordWriter": "writer",
    "open_writer": "writer",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'cdec.data' has no attribute {name!r}")
    return getattr(import_module(f"cdec.data.{_HOMES[name]}"), name)
