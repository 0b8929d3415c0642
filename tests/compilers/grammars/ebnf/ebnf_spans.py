"""Second reading of `::=` grammars for tests: the spans that each expression covers."""

from __future__ import annotations

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.ebnf.lex import Source
from cdec.compilers.grammars.ebnf.parse import Node, parse_rules

Spans = frozenset[tuple[int, int]]


def covers(source: str, start: str, text: str) -> bool:
    """Return whether the rule ``start`` of a grammar covers all of ``text``.

    Works on the expressions as parsed, without terminals, BNF or regular expressions: what an
    expression covers is a set of spans, found by going round until nothing changes.
    """
    rules, nodes = parse_rules(Source.of(source), GrammarLimits())
    body_of = {rule.name: rule.body for rule in rules}
    spans: list[Spans] = [frozenset()] * len(nodes)
    while True:
        before = list(spans)
        for number, node in enumerate(nodes):
            spans[number] = _spans(node, spans, body_of, text)
        if spans == before:
            return (0, len(text)) in spans[body_of[start]]


def _spans(node: Node, spans: list[Spans], body_of: dict[str, int], text: str) -> Spans:
    places = range(len(text) + 1)
    if node.kind == "literal":
        size = len(node.text)
        return frozenset((i, i + size) for i in places if text[i : i + size] == node.text)
    if node.kind == "class":
        return frozenset(
            (i, i + 1)
            for i in places[:-1]
            if any(low <= ord(text[i]) <= high for low, high in node.ranges)
        )
    if node.kind == "reference":
        return spans[body_of[node.text]]
    if node.kind == "choice":
        return frozenset().union(*(spans[part] for part in node.parts))
    nothing = frozenset((i, i) for i in places)
    if node.kind == "sequence":
        made = nothing
        for part in node.parts:
            made = _compose(made, spans[part])
        return made
    return _repeated(spans[node.parts[0]], node.least, node.most, nothing)


def _repeated(part: Spans, least: int, most: int | None, nothing: Spans) -> Spans:
    made = nothing
    for _ in range(least):
        made = _compose(made, part)
    found, rounds = made, 0
    while most is None or rounds < most - least:
        made = _compose(made, part)
        if made <= found:
            break
        found, rounds = found | made, rounds + 1
    return found


def _compose(left: Spans, right: Spans) -> Spans:
    return frozenset((a, d) for a, b in left for c, d in right if b == c)
