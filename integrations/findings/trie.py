"""DISC's Figure 3: constrained generation beside transformers' own, which walks a trie of dicts.

Paper: arXiv 2504.09135. What is written must be the same; what it costs is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cdec.compilers import compile_set
from cdec.core import open_artifact
from cdec.core.mask import apply_mask
from cdec.integrations.findings.answers import Record, Way, drawn, spread
from cdec.integrations.findings.finding import Check, Found, Table
from cdec.integrations.findings.laboratory import Laboratory, one_thread
from cdec.integrations.findings.mentions import TITLES

SIZES = (1_000, 10_000, 100_000)
"""Titles; the last is more than there are."""
PROMPTS = 12
_BATCH = 128
"""Prefixes masked together, as the paper does."""
_STEPS = 5
_SEED = 2504
_GREEDY = Way("greedy", "greedy")


class DictTrie:
    """Nested dicts, as generative retrieval has them (GENRE, arXiv 2010.00904).

    Args:
        rows: Token rows. ends: End-of-sequence ids.

    Attributes:
        nodes: How many dicts there are.
        met: Allowed tokens by prefix, of every prefix that was asked for.
    """

    def __init__(self, rows: Sequence[Sequence[int]], ends: Sequence[int]) -> None:
        self._root: dict[int, Any] = {}
        self.nodes = 1
        self.met: dict[tuple[int, ...], list[int]] = {}
        for row in rows:
            node = self._root
            for token in row:
                if token not in node:
                    node[token] = {}
                    self.nodes += 1
                node = node[token]
            node.update((end, {}) for end in ends)

    def allowed(self, prefix: Sequence[int]) -> list[int]:
        """Return the tokens that may follow."""
        node = self._root
        for token in prefix:
            node = node[token]
        self.met[tuple(prefix)] = found = list(node)
        return found


@dataclass
class Catalogue:
    """One size: what each way wrote, what was counted, and seconds.

    Attributes:
        size: Titles.
        texts: Token ids of each prompt, by way.
        counts: By name.
        times: Seconds by name.
    """

    size: int
    texts: dict[str, list[list[int]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)


def generation(laboratory: Laboratory) -> Found:
    """Compute Figure 3: greedy titles by three ways, by the size of the catalogue."""
    one_thread()
    titles = laboratory.lines(TITLES)
    queries = spread(list(laboratory.rows("dbpedia_entity/queries_qrels.jsonl.xz")), PROMPTS)
    records = [{"id": q["id"], "prompt": f"Question: {q['query']}\nAnswer:"} for q in queries]
    module = _module(laboratory)
    sizes = [_measured(laboratory, module, records, spread(titles, size)) for size in SIZES]
    return Found(_checks(sizes), [_counts(sizes)], times=[_times(sizes)])


def _module(laboratory: Laboratory) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    dtype = laboratory.dtype or ("float32" if laboratory.device == "cpu" else "auto")
    module = AutoModelForCausalLM.from_pretrained(laboratory.model_path, dtype=dtype)
    return module.to(torch.device(laboratory.device)).eval()


def _measured(
    laboratory: Laboratory, module: Any, records: Sequence[Record], titles: Sequence[str]
) -> Catalogue:
    found = Catalogue(len(titles))
    vocabulary = laboratory.target().vocabulary

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        begin = laboratory.seconds()
        yield
        found.times[name] = laboratory.seconds() - begin

    with TemporaryDirectory() as folder:
        artifact = Path(folder) / "titles.arrow"
        with timed("compiled"):
            compile_set(titles, vocabulary, artifact)
        with timed("opened"):
            constraint: Any = open_artifact(artifact, vocabulary=vocabulary)
        found.counts["artifact"] = artifact.stat().st_size
        rows = np.split(constraint.arrays.tokens, constraint.arrays.row_offsets[1:-1])
        with timed("dicts"):
            trie = DictTrie([row.tolist() for row in rows], vocabulary.eos_token_ids)
        _generate(found, timed, (laboratory, module, records), (trie, constraint))
        drawn(laboratory.target(), _GREEDY, records[:1], artifact)
        with timed("cdec"):
            samples = drawn(laboratory.target(), _GREEDY, records, artifact)
    found.texts["cdec"] = [list(sample["token_ids"]) for sample in samples]
    found.counts["nodes"] = trie.nodes
    found.counts["prefixes"] = len(trie.met)
    found.counts["most allowed"] = max(map(len, trie.met.values()))
    found.counts["differ"] = _differing(constraint, trie)
    _step(found, timed, trie, constraint)
    return found


def _step(found: Catalogue, timed: Callable[[str], Any], trie: DictTrie, constraint: Any) -> None:
    """Let both mask the scores of a batch of prefixes, drawn from those that were met."""
    import torch
    from transformers import PrefixConstrainedLogitsProcessor

    met = list(trie.met)
    prefixes = [met[at] for at in np.random.default_rng(_SEED).integers(len(met), size=_BATCH)]
    scores = torch.zeros((_BATCH, constraint.vocabulary.size))
    process = PrefixConstrainedLogitsProcessor(lambda row, _: trie.allowed(prefixes[row]), 1)
    session = constraint.session("cpu")
    states = np.concatenate([_state(session, prefix) for prefix in prefixes])
    mask = np.empty((_BATCH, session.words), np.int32)
    with timed("step, dicts"):
        for _ in range(_STEPS):
            process(torch.zeros((_BATCH, 1), dtype=torch.long), scores)
    with timed("step, cdec"):
        for _ in range(_STEPS):
            session.fill_mask(states, mask)
            apply_mask(scores.clone(), mask)


def _state(session: Any, prefix: Sequence[int]) -> Any:
    state = session.start(1)
    for token in prefix:
        state = session.advance(state, np.array([token]))
    return state


def _generate(
    found: Catalogue,
    timed: Callable[[str], Any],
    asked: tuple[Laboratory, Any, Sequence[Record]],
    constraints: tuple[DictTrie, Any],
) -> None:
    """Let transformers write with each of its own way, cdec's processor, and freely."""
    import torch

    from cdec.integrations.transformers import ConstraintProcessor

    laboratory, module, records = asked
    trie, constraint = constraints
    model = laboratory.target()
    prompts = [model.encode_prompt(record["prompt"]) for record in records]
    most = constraint.max_tokens + 1

    def written(ids: Sequence[int], **options: Any) -> list[int]:
        given = torch.tensor([ids], device=module.device)
        text = module.generate(
            given, attention_mask=torch.ones_like(given), do_sample=False, pad_token_id=0, **options
        )[0, len(ids) :].tolist()
        return [token for token in text if token not in model.vocabulary.eos_token_ids]

    ways: dict[str, Callable[[int], dict[str, Any]]] = {
        "trie of dicts": lambda n: {
            "prefix_allowed_tokens_fn": lambda _, ids: trie.allowed(ids.tolist()[n:]),
            "max_new_tokens": most,
        },
        "processor": lambda n: {
            "logits_processor": [ConstraintProcessor(constraint, prompt_length=n)],
            "max_new_tokens": most,
        },
    }
    written(prompts[0], max_new_tokens=1)
    for name, options in ways.items():
        with timed(name):
            found.texts[name] = [written(ids, **options(len(ids))) for ids in prompts]
    lengths = [len(text) + 1 for text in found.texts["processor"]]
    with timed("free"):
        for ids, length in zip(prompts, lengths, strict=True):
            written(ids, max_new_tokens=length, min_new_tokens=length)


def _differing(constraint: Any, trie: DictTrie) -> int:
    """Return how many of the prefixes that were met allow other tokens in the artifact."""
    session = constraint.session("cpu")
    differing = 0
    for prefix, allowed in trie.met.items():
        differing += session.allowed(_state(session, prefix))[1].tolist() != sorted(allowed)
    return differing


def _checks(sizes: Sequence[Catalogue]) -> list[Check]:
    def unlike(way: str) -> int:
        return sum(
            text != other
            for found in sizes
            for text, other in zip(found.texts["trie of dicts"], found.texts[way], strict=True)
        )

    return [
        Check("texts of cdec's greedy unlike those of transformers", unlike("cdec"), at_most=0),
        Check("texts of cdec's processor unlike them", unlike("processor"), at_most=0),
        Check(
            "prefixes on the way whose allowed tokens differ from the trie's",
            sum(found.counts["differ"] for found in sizes),
            at_most=0,
        ),
        Check("prefixes compared", sum(found.counts["prefixes"] for found in sizes), at_least=100),
    ]


def _counts(sizes: Sequence[Catalogue]) -> Table:
    heads = ("titles", "dicts", "artifact, bytes", "prefixes met", "most allowed at one", "tokens")
    rows = [
        (
            found.size,
            *(found.counts[name] for name in ("nodes", "artifact", "prefixes", "most allowed")),
            sum(len(text) + 1 for text in found.texts["cdec"]),
        )
        for found in sizes
    ]
    return Table(f"{PROMPTS} greedy titles; tokens count the ends", heads, rows)


def _times(sizes: Sequence[Catalogue]) -> Table:
    ways = ("trie of dicts", "processor", "free", "cdec")
    heads = (
        "titles",
        "dicts made, s",
        "compiled, s",
        "opened, s",
        *(f"{way}, ms a token" for way in ways),
        *(f"masks of {_BATCH} prefixes by {way}, ms" for way in ("dicts", "cdec")),
    )
    rows = [
        (
            found.size,
            *(found.times[name] for name in ("dicts", "compiled", "opened")),
            *(1000 * found.times[way] / _tokens(found) for way in ways),
            *(1000 * found.times[f"step, {way}"] / _STEPS for way in ("dicts", "cdec")),
        )
        for found in sizes
    ]
    return Table("Times; those of cdec with all prompts in one batch", heads, rows)


def _tokens(found: Catalogue) -> int:
    return sum(len(text) + 1 for text in found.texts["trie of dicts"])
