"""Cards: what is written of a trained model, as JSON and for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

CARD = "card.json"


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Write ``card.json`` and ``README.md`` into a model's folder."""
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
    (folder / CARD).write_text(text, encoding="utf-8")
    (folder / "README.md").write_text("\n".join(_card_lines(card)) + "\n", encoding="utf-8")


def write_summary(out: Path) -> str:
    """Write ``README.md``, a table of the cards below a folder, and return it."""
    paths = sorted(out.glob(f"*/{CARD}"))
    cards = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    text = "\n".join(summary_lines(cards)) + "\n"
    (out / "README.md").write_text(text, encoding="utf-8")
    return text


def summary_lines(cards: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table: a model a line."""
    heads = (
        *("task", "parameters", "minutes", "tokens seen", "held-out loss", "before", "metric"),
        *("free", "masked", "disc, K=4", "exact"),
    )
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for card in cards:
        name = card["metrics"][0]
        cells = [
            card["task"],
            f"{card['parameters'] / 1e6:.1f} M",
            f"{card['processor_seconds'] / 60:.1f}",
            f"{card['tokens'] / 1e6:.2f} M",
            f"{card['held_out_loss']:.2f}",
            f"{card['curve'][0]['loss']:.2f}",
            name,
            *(_shown(card["measured"].get(title, {}).get(name)) for title in heads[-4:]),
        ]
        yield f"| {' | '.join(cells)} |"


def _card_lines(card: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {card['task']}\n"
    yield (
        f"{card['parameters']:,} parameters, begun from the {card['start']} weights, "
        f"{card['processor_seconds'] / 60:.1f} minutes of one processor, {card['tokens']:,} tokens "
        f"seen in {card['steps']} steps. Data: {card['licence']}. Never shipped.\n"
    )
    yield (
        f"Held-out loss {card['held_out_loss']:.4f} nats a token of the completion "
        f"({card['held_out_rows']} of {card['held_out_questions']} rows that were held out; "
        "none of their questions was learnt from).\n"
    )
    yield "| tokens seen | processor seconds | held-out loss |\n|---|---|---|"
    for point in card["curve"]:
        yield f"| {point['tokens']:,} | {point['seconds']:.0f} | {point['loss']:.4f} |"
    yield ""
    yield (
        f"Measured on {card['measured_rows']} rows; the constraint: {card['constraint']}. "
        "`free` has none.\n"
    )
    yield f"| method | {' | '.join(card['metrics'])} |"
    yield "|---" * (1 + len(card["metrics"])) + "|"
    for method, row in card["measured"].items():
        yield f"| {method} | {' | '.join(_shown(row[name]) for name in card['metrics'])} |"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
