"""Draws the pictures of the pages about methods, from one small world that is computed here.

``python docs/method_pictures.py`` writes ``docs/assets/NAME.svg`` for each of ``PICTURES``. The
question is for a capital, the constraint a list of three cities; a token is a part of a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from svg import ASSETS, BLUE, GREEN, INK, PALE, RED, bar, box, line, picture, text

STEPS: Mapping[str, tuple[float, Mapping[str, float]]] = {
    "R": (0.3, {"ome": 0.9}),
    "N": (0.5, {"aples": 0.1}),
    "M": (0.1, {"ilan": 1.0}),
}
"""First token -> its P, and what the list allows behind it; the rest of the mass is forbidden."""

_ROOT_Z = sum(p for p, _ in STEPS.values())
_NAMES = {a + b: (p, q) for a, (p, after) in STEPS.items() for b, q in after.items()}
P = {name: p * q for name, (p, q) in _NAMES.items()}
MASKED = {name: p / _ROOT_Z for name, (p, _) in _NAMES.items()}
"""Behind a first token one token alone is allowed, so its Z divides it out."""
Q = {name: p / sum(P.values()) for name, p in P.items()}
WEIGHT = {name: _ROOT_Z * q for name, (_, q) in _NAMES.items()}
"""The product of Z, with which a masked text is accepted."""

_WIDTH, _TOP, _ROW = 640, 70, 56


def tree(title: str, heading: str, told: Mapping[str, str], order: Mapping[str, int]) -> str:
    """Return the tree of prefixes, with what is told of each name beside its end.

    Args:
        title: Of the whole picture.
        heading: Above what is told.
        told: Name -> a line.
        order: Prefix -> when it was asked for; empty where that is not shown.
    """
    middle = _TOP + _ROW + 14
    parts = [
        text(20, 28, "P of a token", size=13, weight=600),
        text(390, 28, heading, size=13, weight=600, fill=GREEN),
        box(20, middle - 14, 96, "capital?", colour=INK),
    ]
    for row, (first, (p, after)) in enumerate(STEPS.items()):
        y = _TOP + row * _ROW
        (rest, q), *_ = after.items()
        parts += [
            line(116, middle, 176, y + 14, colour=PALE),
            box(176, y, 40, first, colour=INK),
            text(148, (middle + y + 14) / 2 - 4, f"{p:g}", size=12, fill=PALE, anchor="middle"),
            line(216, y + 14, 290, y + 14, colour=PALE),
            text(253, y + 9, f"{q:g}", size=12, fill=PALE, anchor="middle"),
            box(290, y, 70, rest, colour=GREEN),
            text(390, y + 19, told[first + rest], size=13),
        ]
    below = _TOP + 3 * _ROW
    for x, y, asked in (
        (68, middle - 20, ""),
        *((196, _TOP + i * _ROW - 6, a) for i, a in _asked()),
    ):
        if asked in order:
            parts.append(
                text(x, y, f"{order[asked]}.", size=12, weight=600, fill=RED, anchor="middle")
            )
    forbidden = f"struck out: {1 - _ROOT_Z:.1f} at first, 0.1 behind R, 0.9 behind N"
    parts.append(text(20, below + 8, forbidden, size=12, fill=RED))
    return picture(_WIDTH, below + 24, title, parts)


def _asked() -> list[tuple[int, str]]:
    return list(enumerate(STEPS))


def bars(title: str, panels: Mapping[str, tuple[Mapping[str, float], str]]) -> str:
    """Return a row for each name and a bar in each panel: heading -> shares, colour."""
    names, panel = [*P, "others"], (_WIDTH - 90) / len(panels)
    parts = [text(80, 60 + 30 * row, name, anchor="end") for row, name in enumerate(names)]
    for column, (heading, (shares, colour)) in enumerate(panels.items()):
        left = 92 + column * panel
        parts.append(text(left, 28, heading, size=13, weight=600, fill=colour))
        for row, name in enumerate(names):
            share = shares.get(name, 0.0)
            parts.append(bar(left, 46 + 30 * row, share * (panel - 62), 18, colour))
            parts.append(
                text(left + share * (panel - 62) + 6, 60 + 30 * row, f"{share:.0%}", size=12)
            )
    return picture(_WIDTH, 60 + 30 * len(names), title, parts)


def strips(title: str, rows: Mapping[str, list[tuple[str, str, bool]]], said: str) -> str:
    """Return rows of tokens, each a word, a colour and whether its frame is dashed."""
    parts = []
    for row, (heading, tokens) in enumerate(rows.items()):
        y, x = 20 + 44 * row, 170.0
        parts.append(text(160, y + 19, heading, size=13, anchor="end"))
        for word, colour, dashed in tokens:
            width = 20 + 7.5 * len(word)
            parts.append(box(x, y, width, word, colour=colour, dashed=dashed))
            x += width + 6
    height = 20 + 44 * len(rows)
    return picture(
        _WIDTH, height + 24, title, [*parts, text(20, height + 8, said, size=12, fill=PALE)]
    )


def _methods() -> str:
    told = {
        name: f"{masked:.2f} masked, kept with ∏ Z {WEIGHT[name]:.2f}, Q {Q[name]:.2f}"
        for name, masked in MASKED.items()
    }
    return tree(
        "One tree of prefixes: what masks draw, and how often it is accepted", "each text", told, {}
    )


def _search() -> str:
    order = {"": 1, "N": 2, "R": 3}
    told = {
        "Rome": f"P {P['Rome']:.2f}, more than any other can have",
        "Naples": f"P {P['Naples']:.2f}",
        "Milan": f"P at most {STEPS['M'][0]:.1f}: need not be asked for",
    }
    return tree("A best-first search asks for the likeliest prefix next", "topn -n 1", told, order)


def _classes() -> str:
    told = {name: f"{name}: P {P[name]:.2f}, probability {Q[name]:.2f}" for name in P}
    return tree("Labels that begin alike share the model's work", "classify", told, {})


def _laws() -> str:
    everything = {**P, "others": 1 - sum(P.values())}
    return bars(
        "P of all texts, what masked decoding draws, and Q",
        {
            "P, the model alone": (everything, PALE),
            "masked": (MASKED, RED),
            "Q, as exact": (Q, GREEN),
        },
    )


def _compared() -> str:
    best = {max(MASKED, key=MASKED.__getitem__): 1.0}
    everything = {**P, "others": 1 - sum(P.values())}
    return bars(
        "How often four methods give each answer",
        {
            "unconstrained": (everything, PALE),
            "greedy": (best, BLUE),
            "masked": (MASKED, RED),
            "exact": (Q, GREEN),
        },
    )


def _drafts() -> str:
    return strips(
        "A draft proposes, one pass of the model verifies",
        {
            "the draft proposes": [
                (w, PALE, True) for w in ("The", "capital", "is", "Naples", ".")
            ],
            "the model verifies": [
                *((w, GREEN, False) for w in ("The", "capital", "is")),
                ("Naples", RED, True),
            ],
            "what is written": [(w, INK, False) for w in ("The", "capital", "is", "Rome")],
        },
        "Four tokens by one pass: three kept, and what was refused is drawn by the model.",
    )


def _lookahead() -> str:
    def tried(word: str, *after: str, colour: str = PALE) -> list[tuple[str, str, bool]]:
        return [(word, colour, False), *((w, colour, True) for w in after)]

    return strips(
        "Each of the best tokens is tried, and the one whose future is liked best stays",
        {
            "reward 0.2": tried("sea", "water", "that", "is"),
            "reward 1.0": tried("water", "end", colour=GREEN),
            "reward 0.5": tried("a", "lake", "end"),
        },
        "Solid: the token in question. Dashed: how the text would go on, for --depth tokens.",
    )


def _free() -> str:
    return strips(
        "Free text, a marker, then the constraint",
        {
            "--after 'answer:'": [
                *((w, PALE, True) for w in ("It", "is", "in", "Italy", ",")),
                ("answer:", BLUE, False),
                *((w, GREEN, False) for w in ("R", "ome")),
            ],
            "--between <c> </c>": [
                ("I", PALE, True),
                ("like", PALE, True),
                ("<c>", BLUE, False),
                *((w, GREEN, False) for w in ("R", "ome")),
                ("</c>", BLUE, False),
                ("best", PALE, True),
            ],
        },
        "Dashed: free. Green: held to the constraint.",
    )


PICTURES: Mapping[str, Callable[[], str]] = {
    "methods": _methods,
    "search": _search,
    "classes": _classes,
    "laws": _laws,
    "compared": _compared,
    "drafts": _drafts,
    "lookahead": _lookahead,
    "free": _free,
}
"""Name of the file -> what draws it."""


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (ASSETS / f"{name}.svg").write_text(draw(), encoding="utf-8")
