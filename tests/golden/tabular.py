"""Cases of the Python surface: every law on tabular models, numbers with all their digits."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from case import Case

SIZE = 4
WORDS = ("a", "ab", "abc", "bac", "cb", "cbb", "cccc")
GRAMMARS = {
    "regular": 'start: /[ab]{1,3}c?/ | "cb"\n',
    "nested": 'start: "a" start "b" | "c"\n',
}
DRAFTED = {"speculative", "mentored", "cdlh-approx", "cdsl"}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "unconstrained": [{}],
    "greedy": [{}, {"opportunistic": True}, {"draft": "counts", "gamma": 3}],
    "masked": [
        {},
        {"top_m": 2},
        {"opportunistic": True},
        {"draft": "counts", "gamma": 3},
        {"max_walks": 3},
    ],
    "beam": [{"beams": 20}, {"beams": 24, "length_penalty": 0.5}],
    "disc": [
        *({}, {"K": 1}, {"K": 16, "max_walks": 7}, {"recycle": True}),
        *({"top_m": 2}, {"beams": 2}, {"draft": "model"}, {"draft": "prompt-lookup"}),
    ],
    "asap": [
        {"burn_in": 10},
        {"burn_in": 0, "round": 1},
        {"burn_in": 5, "until_converged": 0.01, "round": 4},
    ],
    "exact": [
        *({}, {"abort": True}, {"round": 1}, {"max_draws": 2}, {"draft": "model"}),
        *({"max_draws": 2, "fallback": "none"}, {"max_draws": 2, "fallback": "asap"}),
    ],
    "smc": [{}, {"particles": 5, "resample_below": 0.9}],
    "mcmc": [{"steps": 3}, {"steps": 2, "proposal": "prefix"}, {"proposal": "restart"}],
    "topn": [{}, {"by": "text"}, {"round": 1}, {"max_evaluations": 6}],
    "speculative": [
        *({"draft": "model"}, {"draft": "model", "gamma": "auto", "cost_ratio": 0.3}),
        *({"draft": "prompt-lookup"}, {"draft": "model", "greedy": True}, {"draft": "counts"}),
    ],
    "mentored": [
        *({"draft": "model"}, {"draft": "model", "divergence": 0.0}),
        *({"draft": "model", "divergence": 0.5}, {"draft": "model", "divergence_total": 0.7}),
        *({"draft": "model", "divergence": float("inf")}, {"draft": "prompt-lookup"}),
    ],
    "cdlh": [{}, {"branch": 2, "depth": 1}],
    "cdlh-approx": [{"draft": "model"}, {"draft": "model", "branch": 2, "depth": 4}],
    "cdsl": [
        *({"draft": "model"}, {"draft": "model", "verify": "speculative"}),
        *({"draft": "model", "on_reject": "discard", "target_tries": 0},),
    ],
}
"""Method -> keyword arguments of its runs; ``model`` stands for a draft model."""


def vocabulary() -> Any:
    """Return the letters a, b, c and an end token."""
    from cdec.core import Vocabulary

    return Vocabulary([b"a", b"b", b"c", b""], eos_token_ids=[3], special_token_ids=[3])


def law(salt: int) -> Callable[[tuple[int, ...]], Any]:
    """Return a law of next tokens that looks random and is a function of the prefix."""
    import numpy as np

    def probabilities(prefix: tuple[int, ...]) -> Any:
        h = salt
        for token in prefix:
            h = (5 * h + token + 1) % 23
        weights = np.array([1.0 + ((h * (t + 2) + 3 * t) % 7) for t in range(SIZE)])
        weights[3] += len(prefix) ** 2 / 4
        return weights / weights.sum()

    return probabilities


def model(salt: int = 0) -> Any:
    """Return a fresh tabular model."""
    from cdec.core import TabularModel

    return TabularModel(law(salt), vocabulary())


def constraint(name: str, folder: Path) -> Any:
    """Compile and open a set or a grammar; None for no constraint."""
    from cdec.compilers import compile_grammar, compile_token_set
    from cdec.core import open_artifact

    if name == "none":
        return None
    path = folder / f"{name}.arrow"
    if name == "set":
        rows = [["abc".index(letter) for letter in word] for word in WORDS]
        compile_token_set(rows, vocabulary(), path)
    else:
        compile_grammar(GRAMMARS[name], vocabulary(), path)
    return open_artifact(path, vocabulary=vocabulary())


def plain(value: Any) -> Any:
    """Return a value as JSON has it, floats by their ``repr``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Sequence):
        return [plain(part) for part in value]
    return repr(value)


def _sampler(method: str, options: Mapping[str, Any]) -> Any:
    from cdec.samplers import SAMPLERS, build_reward

    own = dict(options)
    if own.get("draft") == "model":
        own["draft"] = model(11)
    if method in ("cdlh", "cdlh-approx", "cdsl"):
        own["reward"] = build_reward("regex:(ab|cc).*b")
    sampler: Any = SAMPLERS[method]
    return sampler(**own)


def _result(found: Any) -> Any:
    from cdec.core import CdecError

    if isinstance(found, CdecError):
        return {"error": found.code, "message": str(found), "hint": found.hint}
    return plain(found)


def drawn(method: str, name: str, work: Path) -> list[Any]:
    """Return the samples of every run of a method under one constraint."""
    import numpy as np

    from cdec.core import CdecError

    held = constraint(name, work)
    out = []
    for options, seed in itertools.product(OPTIONS[method], (0, 1)):
        rng = np.random.default_rng(seed)
        settings = {"options": plain(options), "seed": seed}
        try:
            samples = _sampler(method, options).draw(
                model(seed), held, "prompt", n=20, rng=rng, max_new_tokens=5, id=seed
            )
        except CdecError as error:
            samples = error
        out.append(settings | {"samples": _result(samples)})
    return out


def batched(method: str, work: Path) -> list[Any]:
    """Return what one batch of requests under different constraints gives."""
    from cdec.samplers import Request

    names = ("set", "regular", "nested", "set") if method != "unconstrained" else ("none", "set")
    held = {name: constraint(name, work) for name in dict.fromkeys(names)}
    requests = [
        Request(
            [i, 0, 1], held[name], [5 * i, 5 * i + 1, 77], id=f"r{i}", indices=[2, 3, 9],
            max_new_tokens=4 + i, input={"x": i},
        )
        for i, name in enumerate(names)
    ]  # fmt: skip
    options = OPTIONS[method][0]
    return [_result(found) for found in _sampler(method, options).draw_batch(model(), requests)]


def mentored(work: Path) -> Any:
    """Return the solver's laws for a few pairs and budgets."""
    import numpy as np

    from cdec.samplers import mentored_distribution

    assert work
    rng = np.random.default_rng(0)
    draft, target = rng.dirichlet(np.ones(6), 8), rng.dirichlet(np.ones(6), 8)
    target[:3, 1] = 0
    target /= target.sum(1, keepdims=True)
    return [plain(mentored_distribution(draft, target, d)) for d in (0.0, 0.05, 0.4, float("inf"))]


def sessions(name: str, work: Path) -> Any:
    """Return what a session says along every short walk."""
    import numpy as np

    from cdec.core import allocate_mask

    held = constraint(name, work)
    session = held.session("cpu")
    states, walks = session.start(1), [()]
    out = []
    for _ in range(4):
        mask = allocate_mask(len(states), SIZE)
        session.fill_mask(states, mask)
        offsets, ids = session.allowed(states)
        forced = session.forced(states)
        proposed = np.tile(np.arange(SIZE), (len(states), 1))
        row = {
            "walks": walks, "mask": mask, "allowed": [offsets, ids], "forced": list(forced),
            "complete": session.is_complete(states), "check": session.check(states, proposed),
        }  # fmt: skip
        out.append(plain(row))
        walks = [(*walk, token) for walk in walks for token in range(SIZE)]
        grown = session.advance(np.repeat(states, SIZE), np.tile(np.arange(SIZE), len(states)))
        alive = np.flatnonzero(grown >= 0)
        states, walks = grown[alive], [walks[i] for i in alive]
        if not walks:
            break
    return out


def tabular_cases() -> list[Case]:
    """Return all of these cases."""
    found = []
    for method in OPTIONS:
        for name in ("none", "set", *GRAMMARS):
            call = lambda work, m=method, n=name: drawn(m, n, work)  # noqa: E731
            found.append(Case(f"tabular-{method}-{name}", "tabular", call=call))
        call = lambda work, m=method: batched(m, work)  # noqa: E731
        found.append(Case(f"tabular-{method}-batch", "tabular", call=call))
    found.append(Case("tabular-mentored-distribution", "tabular", call=mentored))
    for name in ("set", *GRAMMARS):
        call = lambda work, n=name: sessions(n, work)  # noqa: E731
        found.append(Case(f"session-{name}", "tabular", call=call))
    return found
