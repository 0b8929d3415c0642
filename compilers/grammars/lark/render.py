"""A grammar as text of Lark's dialect without imports, templates or helpers: plain rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cdec.compilers.grammars.definition import NOTHING, Rule, Terminal


def render(
    terminals: Sequence[Terminal],
    nonterminals: Sequence[str],
    rules: Sequence[Rule],
    start: str,
    ignored: Collection[int],
    kept: Collection[str] = (),
) -> str:
    """Write a grammar down.

    Names are replaced by numbered ones, since helpers and anonymous terminals have names that may
    not be written; terminals keep the order in which they compete, which ends at the name. Each
    nonterminal's name stands in a comment; the start rule keeps its own.

    Args:
        terminals: In the order of competition.
        nonterminals: Names by number.
        rules: Plain rules.
        start: Name of the start rule.
        ignored: Terminals.
        kept: Names of terminals that stay as they are.

    Returns:
        Text that ``lark.Lark`` loads to the same language.
    """
    names = [terminal.name for terminal in terminals]
    symbols = {t: name if name in kept else f"T{t:06d}" for t, name in enumerate(names)}
    symbols |= {~n: f"n{n}" if f"n{n}" != start else f"n{n}_" for n in range(len(nonterminals))}
    symbols[~list(nonterminals).index(start)] = start
    bodies: dict[int, list[Rule]] = {}
    for rule in rules:
        bodies.setdefault(rule.lhs, []).append(rule)
    lines = []
    for lhs, own in bodies.items():
        alternatives = " | ".join(" ".join(symbols[s] for s in rule.rhs) for rule in own)
        priority = f".{own[0].priority}" if own[0].priority else ""
        lines.append(f"{symbols[~lhs]}{priority}: {alternatives} // {nonterminals[lhs]}")
    for t, terminal in enumerate(terminals):
        if terminal.value == NOTHING:
            lines.append(f"%declare {symbols[t]}")
            continue
        priority = f".{terminal.priority}" if terminal.priority else ""
        lines.append(f"{symbols[t]}{priority}: {_literal(terminal)} // {terminal.name}")
    lines += [f"%ignore {symbols[t]}" for t in sorted(ignored)]
    return "\n".join(lines) + "\n"


def _literal(terminal: Terminal) -> str:
    flags = "".join(sorted(terminal.flags))
    if terminal.is_string:
        return f'"{_escaped(terminal.value, chr(34))}"{flags}'
    return f"/{_regex(terminal.value)}/{flags}"


def _escaped(text: str, quote: str) -> str:
    """Escape a string so that Lark's reader gives it back."""
    text = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)


def _regex(pattern: str) -> str:
    """Escape what may not stand between slashes; ``re`` reads the escapes as the characters."""
    pieces: list[str] = []
    escaped = False
    for character in pattern:
        if not character.isprintable():
            # subtle: Lark resolves the escape itself, and would not after another backslash; that
            # one said nothing, since none of these characters has a meaning of its own.
            pieces[-1:] = [] if escaped else pieces[-1:]
            pieces.append(f"\\U{ord(character):08x}")
        elif character == "/" and not escaped:
            pieces.append("\\/")
        else:
            pieces.append(character)
        escaped = character == "\\" and not escaped
    return "".join(pieces)
