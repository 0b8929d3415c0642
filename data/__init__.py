"""Bytes in and out: inputs, entity lists, prompt records, output records, shipped files.

Read ``input`` first, which opens and limits every input, ``rows``, which reads every format, then
``entities``, ``prompts`` and ``output``; ``metrics`` evaluates what was written. ``ids`` tells
records apart, ``near`` which name was meant, ``assets`` finds what ships with the package. Names
are imported on first use, so that ``import cdec.data`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdec.core.lazy import exports

if TYPE_CHECKING:
    from cdec.data.assets import embedded_model_path as embedded_model_path
    from cdec.data.assets import entity_list as entity_list
    from cdec.data.assets import evaluation_prompts as evaluation_prompts
    from cdec.data.entities.source import read_entities as read_entities
    from cdec.data.entities.source import read_token_rows as read_token_rows
    from cdec.data.ids import Shard as Shard
    from cdec.data.input.source import ENTITY_LIMITS as ENTITY_LIMITS
    from cdec.data.input.source import PROMPT_LIMITS as PROMPT_LIMITS
    from cdec.data.input.source import InputLimits as InputLimits
    from cdec.data.input.source import SourceStats as SourceStats
    from cdec.data.metrics.evaluation import Evaluation as Evaluation
    from cdec.data.metrics.evaluation import EvaluationSettings as EvaluationSettings
    from cdec.data.metrics.evaluation import evaluate as evaluate
    from cdec.data.output.lines import FinishedRecords as FinishedRecords
    from cdec.data.output.writer import RecordWriter as RecordWriter
    from cdec.data.output.writer import open_writer as open_writer
    from cdec.data.prompts.read import prompts_from_texts as prompts_from_texts
    from cdec.data.prompts.read import read_prompts as read_prompts
    from cdec.data.prompts.record import BadRecord as BadRecord
    from cdec.data.prompts.record import PromptRecord as PromptRecord
    from cdec.data.prompts.templates import PromptTemplate as PromptTemplate
    from cdec.data.prompts.templates import read_template as read_template

__all__ = [
    "ENTITY_LIMITS",
    "PROMPT_LIMITS",
    "BadRecord",
    "Evaluation",
    "EvaluationSettings",
    "FinishedRecords",
    "InputLimits",
    "PromptRecord",
    "PromptTemplate",
    "RecordWriter",
    "Shard",
    "SourceStats",
    "embedded_model_path",
    "entity_list",
    "evaluate",
    "evaluation_prompts",
    "open_writer",
    "prompts_from_texts",
    "read_entities",
    "read_prompts",
    "read_template",
    "read_token_rows",
]

__getattr__ = exports(
    __name__,
    {
        "embedded_model_path": "assets",
        "entity_list": "assets",
        "evaluation_prompts": "assets",
        "read_entities": "entities.source",
        "read_token_rows": "entities.source",
        "BadRecord": "prompts.record",
        "PromptRecord": "prompts.record",
        "prompts_from_texts": "prompts.read",
        "read_prompts": "prompts.read",
        "Evaluation": "metrics.evaluation",
        "EvaluationSettings": "metrics.evaluation",
        "evaluate": "metrics.evaluation",
        "FinishedRecords": "output.lines",
        "ENTITY_LIMITS": "input.source",
        "InputLimits": "input.source",
        "PROMPT_LIMITS": "input.source",
        "SourceStats": "input.source",
        "Shard": "ids",
        "PromptTemplate": "prompts.templates",
        "read_template": "prompts.templates",
        "RecordWriter": "output.writer",
        "open_writer": "output.writer",
    },
)
