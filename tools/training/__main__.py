"""Trains the embedded models: ``python -m tools.training --shared ../shared --out FOLDER``."""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from pathlib import Path
from typing import Any

from tools.training.mixture import TokenStream, build_sources, sample_texts, with_facts_share
from tools.training.model import CONTEXT, VOCABULARY, build_model
from tools.training.outputs import measure, write_data
from tools.training.tokenizer import save_tokenizer, train_tokenizer
from tools.training.training import Plan, Trainer, load_model, save_model

DRAFT_SHARE = 0.15  # of the time


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.training", description=__doc__)
    parser.add_argument("--shared", type=Path, help="folder that holds data/ with the corpora")
    parser.add_argument("--tables-only", action="store_true", help="train without the corpora")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--minutes", type=float, default=60.0, help="time for both models")
    parser.add_argument("--max-steps", type=int, help="steps a model; then runs repeat exactly")
    parser.add_argument("--models", nargs="+", default=["target", "draft"])
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--batch-tokens", type=int, default=Plan.batch_tokens)
    parser.add_argument("--learning-rate", type=float, default=Plan.learning_rate)
    parser.add_argument("--facts-share", type=float, default=0.5, help="part of the tokens")
    parser.add_argument("--length", type=int, default=Plan.length)
    parser.add_argument("--long-share", type=float, default=Plan.long_share)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="needs a C++ compiler")
    parser.add_argument("--keep-tokenizer", action="store_true", help="use the one in --out")
    parser.add_argument("--start", type=Path, help="folder of models to continue from")
    parser.add_argument("--no-measure", action="store_true", help="do not score the models")
    options = parser.parse_args(arguments)
    if (options.shared is None) != options.tables_only:
        parser.error("give either --shared FOLDER or --tables-only")
    return options


def keep_freed_memory() -> None:
    """Ask the C library to keep large freed blocks: paging them in again costs more than a step."""
    if sys.platform == "linux":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD


def main(arguments: list[str] | None = None) -> int:
    """Train the tokenizer and the models, and write everything under ``--out``.

    Args:
        arguments: Command line without the program's name; None reads ``sys.argv``.

    Returns:
        Exit status.
    """
    import torch

    options = parse(arguments)
    keep_freed_memory()
    torch.set_num_threads(options.threads)
    tokenizer = _tokenizer(options)
    write_data(options.out, options.shared)
    report: dict[str, Any] = {}
    for name in options.models:
        report[name] = _train(name, tokenizer, options)
        if not options.no_measure:
            report[name] |= measure(options.out, name)
    text = json.dumps(report, indent=2) + "\n"
    (options.out / "training.json").write_text(text, encoding="utf-8")
    return 0


def _tokenizer(options: argparse.Namespace) -> Any:
    from tokenizers import Tokenizer

    if options.keep_tokenizer:
        return Tokenizer.from_file(str(options.out / options.models[0] / "tokenizer.json"))
    texts = sample_texts(build_sources(options.shared), options.seed, 20_000_000)
    return train_tokenizer(texts, options.vocabulary)


def _train(name: str, tokenizer: Any, options: argparse.Namespace) -> dict[str, Any]:
    folder: Path = options.out / name
    save_tokenizer(tokenizer, folder, CONTEXT)
    share = 1.0
    if len(options.models) > 1:
        share = DRAFT_SHARE if name == "draft" else 1.0 - DRAFT_SHARE
    plan = Plan(
        seconds=options.minutes * 60 * share,
        max_steps=options.max_steps,
        batch_tokens=options.batch_tokens,
        learning_rate=options.learning_rate,
        length=options.length,
        long_share=options.long_share,
        compile=options.compile,
    )
    sources = with_facts_share(build_sources(options.shared), options.facts_share)
    stream = TokenStream(sources, tokenizer, options.seed)
    model = build_model(name, tokenizer.get_vocab_size(), options.seed)
    if options.start is not None:
        model.load_state_dict(load_model(options.start / name).state_dict())
    trainer = Trainer(model, stream, plan)
    progress = trainer.run(
        lambda: save_model(trainer, folder), lambda line: print(line, flush=True)
    )
    return {
        **progress.as_dict(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "epochs": {s.name: s.epochs for s in stream.sources},
        "source_tokens": {s.name: s.tokens for s in stream.sources},
    }


if __name__ == "__main__":
    raise SystemExit(main())
