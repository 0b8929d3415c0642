"""The small artifacts that command-line cases share, and the cases that compile them."""

from __future__ import annotations

from case import Case, Step, jsonl, words

MEMBERS = (
    *("Paris", "Paris, Texas", "Rome", "Oslo", "New York", "London", "Berlin"),
    "S\u00e3o Paulo",
)
CITIES = jsonl({"id": f"Q{i}", "name": text} for i, text in enumerate(MEMBERS))
WORD = rb"""start: /[ ]?[A-Z][a-z]{1,7}( [A-Z][a-z]{1,5})?/
"""
SHAPE = rb"""start: "{\"name\": \"" /[a-z]{1,4}/ "\", \"age\": " /[1-9]/ "}"
"""
AMBIGUOUS = rb"""start: start start | "a" | "bc"
"""

GRAMMARS = {"word": WORD, "shape": SHAPE, "ambiguous": AMBIGUOUS}
ARTIFACTS = ("cities.arrow", "fixed.arrow", "json.arrow", *(f"{name}.arrow" for name in GRAMMARS))
"""Files that a command line may name: each case that does finds them in its folder."""


def fixture_cases() -> list[Case]:
    """Return the cases whose outputs the other cases use."""
    cities = words("compile-set cities.jsonl --field name --id-field id")
    fixed = words("compile-set cities.txt -o fixed.arrow", ("--prefix", " <", "--suffix", ">"))
    json = Step(words("compile-grammar json"))
    found = [
        Case("fixture-cities", "fixture", (Step(cities),), {"cities.jsonl": CITIES}),
        Case("fixture-fixed", "fixture", (Step(fixed),), {"cities.txt": b"Paris\nRome\nOslo\n"}),
        Case("fixture-json", "fixture", (json,), needs_compiler=True),
    ]
    for name, text in GRAMMARS.items():
        step = Step(words("compile-grammar", f"{name}.lark"))
        files = {f"{name}.lark": text}
        found.append(Case(f"fixture-{name}", "fixture", (step,), files, needs_compiler=True))
    return found
