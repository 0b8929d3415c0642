"""A plain reading of programs: every alternative by itself, a whole stack each, in Python sets.

Nothing is shared with the engine but the columns and what their documentation says. Escapes are
kept as they are spelled and compared with the characters that could still come of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from cdec.core.schemas.program import OWN_STYLE, USUAL_ESCAPES, SchemaArrays
from cdec.core.tokens.vocabulary import Vocabulary

Stack = tuple[tuple[Any, ...], ...]
"""Levels, the innermost last; each begins with what it is."""
Style = tuple[str, str]
"""How a line begins and what a level adds; or nothing and what follows colons and commas."""
Blank = int | tuple[Style, int]
_STYLES: list[Style] = [("", ""), ("", " "), ("\n", "  "), ("\n", "    "), ("\n", "\t")]
_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEXADECIMAL = b"0123456789abcdefABCDEF"


class Reference:
    """The texts of a program.

    Levels are ``("value", v)``, ``("done",)``, ``("object", o, count, rank, seen, counts, stage)``,
    ``("key", state, text, pending)``, ``("array", a, counts, number, texts, stage)``,
    ``("raw", state)`` and ``("string", s, state, length, text, pending)``; behind the outermost
    stands the state of blanks, or a layout and how many of its blanks are written. A text is what
    was spelled where it must be distinct, else None; those of regions are among the slots seen.
    """

    def __init__(self, arrays: SchemaArrays) -> None:
        self.p = arrays
        self.edges: list[list[tuple[int, int, int]]] = []
        for state in range(len(arrays.state_label)):
            first, last = arrays.state_edges[state], arrays.state_edges[state + 1]
            columns = arrays.edge_low, arrays.edge_high, arrays.edge_target
            rows = zip(*(column[first:last].tolist() for column in columns), strict=True)
            self.edges.append(list(rows))
        self.blank = int(arrays.blank_start[0])
        self.characters = cache(self._characters)
        self.after = cache(self._after)
        self.opened = cache(self._opened)

    def start(self) -> frozenset[Any]:
        """Return what is possible before the first byte."""
        layout, root = int(self.p.indent[0]), (("value", 0),)
        if not layout & ~USUAL_ESCAPES:
            return frozenset({(root, self.blank)})
        layout &= ~USUAL_ESCAPES
        # A text whose style is its own is one of any of them.
        found = _STYLES if layout == OWN_STYLE else [("\n", " " * layout)]
        return frozenset((root, (style, 0)) for style in found)

    def follow(self, stacks: frozenset[Any], text: bytes) -> frozenset[Any]:
        """Return what is possible after more bytes; nothing where the text has left the schema."""
        for byte in text:
            stacks = self.after(stacks, byte)
        return stacks

    def may_end(self, stacks: frozenset[Any]) -> bool:
        """Say whether the text may end."""
        return any(self._is_whole(stack, blank) for stack, blank in stacks)

    def mask(self, stacks: frozenset[Any], vocabulary: Vocabulary) -> set[int]:
        """Return the allowed tokens and ends, by trying each."""
        found = {
            token
            for token, text in enumerate(vocabulary.token_bytes)
            if text and self.follow(stacks, text)
        }
        return found | (set(vocabulary.eos_token_ids) if self.may_end(stacks) else set())

    def accepts(self, text: bytes) -> bool:
        """Say whether a text is a member."""
        return self.may_end(self.follow(self.start(), text))

    def _is_whole(self, stack: Stack, blank: Blank) -> bool:
        if len(stack) == 1 and stack[0][0] == "done":
            return isinstance(blank, tuple) or bool(self.p.state_label[blank] >= 0)
        raw = len(stack) == 2 and stack[1][0] == "raw"
        return raw and bool(self.p.state_label[stack[1][1]] >= 0)

    def _after(self, stacks: frozenset[Any], byte: int) -> frozenset[Any]:
        return frozenset(new for stack, blank in stacks for new in self._byte(stack, blank, byte))

    def _step(self, state: int, byte: int) -> int | None:
        edges = self.edges[state]
        return next((after for low, high, after in edges if low <= byte <= high), None)

    def _byte(self, stack: Stack, blank: Blank, byte: int) -> Iterator[tuple[Stack, Blank]]:
        top = stack[-1]
        none = (blank[0], 0) if isinstance(blank, tuple) else self.blank
        if top[0] in ("string", "key"):
            yield from ((new, none) for new in self._content(stack, byte))
            return
        if top[0] == "raw":
            after = self._step(top[1], byte)
            if after is not None:
                yield (*stack[:-1], ("raw", after)), none
            elif self.p.state_label[top[1]] >= 0:
                yield from self._byte(self._closed(stack[:-1]), none, byte)
            return
        if isinstance(blank, tuple):
            yield from self._laid_out(stack, *blank, byte)
        elif byte in b" \t\n\r":
            after = self._step(blank, byte)
            if after is not None:
                yield stack, after
        elif self.p.state_label[blank] >= 0:
            for new in self._structural(stack, chr(byte)):
                yield new, self.blank

    def _laid_out(
        self, stack: Stack, style: Style, done: int, byte: int
    ) -> Iterator[tuple[Stack, Blank]]:
        """Compare with how ``json.dumps`` would go on: with this byte, or a blank before it."""
        depth = sum(level[0] in ("object", "array") for level in stack[:-1])
        top, char = stack[-1], chr(byte)
        stage = top[-1] if top[0] in ("object", "array") else ""
        begin, unit = style
        if begin:
            line, inner, colon = begin + unit * depth, begin + unit * (depth + 1), " "
            item, member = line, inner
        else:
            line, inner, colon, item, member = "", "", unit, unit, unit
        if top[0] == "value":
            holder = stack[-2] if len(stack) > 1 else ("",)
            before = {"object": colon, "array": item}.get(holder[0], "")
        else:
            before = {"comma": member, "open": inner, "next": line}.get(stage, "")
        if char in " \n\t":
            if before[done : done + 1] != char:
                return
            ways = "}]" if stage == "next" else "".join(map(chr, range(256)))
            if stage == "open":
                ways = ways.replace("}", "").replace("]", "")
            if done or any(True for way in ways for _ in self._structural(stack, way)):
                yield stack, (style, done + 1)
            return
        ends = char in "}]"
        at_once = (stage == "next" and not ends) or (stage == "open" and ends)
        if done == (0 if at_once else len(before)):
            for new in self._structural(stack, char):
                yield new, (style, 0)

    def _closed(self, stack: Stack) -> Stack:
        """Return a stack whose innermost awaited value is there."""
        return (("done",),) if len(stack) == 1 else stack[:-1]

    def _structural(self, stack: Stack, char: str) -> Iterator[Stack]:
        top, rest = stack[-1], stack[:-1]
        if top[0] == "value":
            yield from self._value(stack, char)
        elif top[0] == "object":
            yield from self._object(rest, top, char)
        elif top[0] == "array":
            _, a, counts, number, texts, stage = top
            if char == "]" and stage in ("open", "next") and self._array_ends(a, counts, number):
                yield self._closed(rest)
            if char == "," and stage == "next":
                yield from self._elements(rest, a, counts, number, texts)
            if stage == "open":
                for awaiting in self._elements(rest, a, counts, number, texts):
                    yield from self._value(awaiting, char)

    def _value(self, stack: Stack, char: str) -> Iterator[Stack]:
        value, p = stack[-1][1], self.p
        if char == '"':
            outside = stack[-2] if len(stack) > 1 else ("root",)
            text = b"" if outside[0] == "array" and p.array_distinct[outside[1]] else None
            for s in range(p.string_offsets[value], p.string_offsets[value + 1]):
                yield (*stack, ("string", s, int(p.string_start[s]), 0, text, ""))
        elif char == "{":
            for o in p.object_ids[p.object_offsets[value] : p.object_offsets[value + 1]].tolist():
                counts = (0,) * len(self._range("object_counter", o))
                yield (*stack, ("object", o, 0, -1, frozenset(), counts, "open"))
        elif char == "[":
            for a in p.array_ids[p.array_offsets[value] : p.array_offsets[value + 1]].tolist():
                counts = (0,) * len(self._range("array_counter", a))
                yield (*stack, ("array", a, counts, 0, frozenset(), "open"))
        elif p.raw_start[value] >= 0:
            after = self._step(int(p.raw_start[value]), ord(char))
            if after is not None:
                yield (*stack, ("raw", after))

    def _range(self, name: str, of: int) -> range:
        offsets = getattr(self.p, f"{name}_offsets")
        return range(int(offsets[of]), int(offsets[of + 1]))

    # Arrays.

    def _lacks(self, name: str, of: int, counts: tuple[int, ...]) -> int | None:
        """Return what counters lack; None where one is past its maximum."""
        lows, highs = getattr(self.p, f"{name}_min"), getattr(self.p, f"{name}_max")
        total = 0
        for counter, count in zip(self._range(name, of), counts, strict=True):
            if 0 <= highs[counter] < count:
                return None
            total += max(int(lows[counter]) - count, 0)
        return total

    def _counted(self, choice: int, counts: tuple[int, ...]) -> tuple[int, ...]:
        more = self.p.choice_counters[
            self.p.choice_counter_offsets[choice] : self.p.choice_counter_offsets[choice + 1]
        ].tolist()
        return tuple(count + more.count(i) for i, count in enumerate(counts))

    def _array_ends(self, a: int, counts: tuple[int, ...], number: int) -> bool:
        return number >= self.p.array_min[a] and self._lacks("array_counter", a, counts) == 0

    def _elements(
        self, rest: Stack, a: int, counts: tuple[int, ...], number: int, texts: frozenset[bytes]
    ) -> Iterator[Stack]:
        positions = self._range("array_position", a)
        for choice in self._range("position_choice", positions[min(number, len(positions) - 1)]):
            after = self._counted(choice, counts)
            if self._array_lives(a, after, number + 1):
                level = ("array", a, after, number + 1, texts, "next")
                yield (*rest, level, ("value", int(self.p.choice_value[choice])))

    def _array_lives(self, a: int, counts: tuple[int, ...], number: int) -> bool:
        lacking = self._lacks("array_counter", a, counts)
        if lacking is None:
            return False
        positions, most = self._range("array_position", a), float("inf")
        capacity = most
        for i, position in enumerate(positions[:-1]):
            if i >= number and not any(self._uses(a, c, counts) for c in self._of(position)):
                capacity = i - number
                break
        else:
            rest = sum(self._uses(a, choice, counts) for choice in self._of(positions[-1]))
            capacity = max(len(positions) - 1 - number, 0) + rest
        if self.p.array_max[a] >= 0:
            capacity = min(capacity, int(self.p.array_max[a]) - number)
        return 0 <= capacity >= lacking and number + capacity >= self.p.array_min[a]

    def _of(self, position: int) -> range:
        return self._range("position_choice", position)

    def _uses(self, a: int, choice: int, counts: tuple[int, ...]) -> float:
        counters = self._range("array_counter", a)
        left = float("inf")
        for i in range(
            self.p.choice_counter_offsets[choice], self.p.choice_counter_offsets[choice + 1]
        ):
            counter = int(self.p.choice_counters[i])
            high = int(self.p.array_counter_max[counters[counter]])
            if high >= 0:
                left = min(left, high - counts[counter])
        return left

    # Objects.

    def _object(self, rest: Stack, top: tuple[Any, ...], char: str) -> Iterator[Stack]:
        kind, o, count, rank, seen, counts, stage = top
        if char == "}" and stage in ("open", "next"):
            needed = [s for s in self._range("object_slot", o) if self.p.slot_required[s]]
            whole = set(needed) <= seen and count >= self.p.object_min[o]
            if whole and self._lacks("object_counter", o, counts) == 0:
                yield self._closed(rest)
        elif char == "," and stage == "next":
            if self._some_key(top):
                yield (*rest, (kind, o, count, rank, seen, counts, "comma"))
        elif char == '"' and stage in ("open", "comma"):
            if self._some_key(top):
                level = (kind, o, count, rank, seen, counts, "next")
                text = b"" if self.p.object_distinct[o] else None
                yield (*rest, level, ("key", int(self.p.object_key[o]), text, ""))
        elif char == ":" and stage == "colon":
            # The level outside of what is awaited stands ready, with the key counted in.
            yield rest

    def _some_key(self, level: tuple[Any, ...]) -> bool:
        start = int(self.p.object_key[level[1]])
        return start >= 0 and self._reachable(level, start)

    def _reachable(self, level: tuple[Any, ...], state: int) -> bool:
        return any(self._keyed(level, label) for label in self.opened(state))

    def _opened(self, state: int) -> frozenset[int]:
        """Return the labels that can be reached from a state."""
        seen, waiting = {state}, [state]
        while waiting:
            for _, _, after in self.edges[waiting.pop()]:
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
        labels = {int(self.p.state_label[s]) for s in seen}
        return frozenset(labels - {-1})

    def _keyed(
        self, level: tuple[Any, ...], label: int, text: bytes | None = None
    ) -> list[tuple[Any, int]]:
        """Return the levels after a key of a slot, each with the value that is awaited."""
        _, o, count, rank, seen, counts, _ = level
        p, slots = self.p, self._range("object_slot", o)
        slot = slots[label]
        single, place = bool(p.slot_single[slot]), int(p.slot_rank[slot])
        if (single and slot in seen) or (not single and text in seen):
            return []
        after = seen | {slot} if single else seen
        if not single and text is not None:
            after = after | {text}
        singles = [s for s in slots if p.slot_single[s]]
        missing = [s for s in singles if p.slot_required[s] and s not in after]
        left = [s for s in singles if s not in after]
        if p.object_ordered[o]:
            if place < rank or (place == rank and single):
                return []
            if any(p.slot_rank[s] < place for s in missing):
                return []
            left = [s for s in left if p.slot_rank[s] > place]
        found = []
        for choice in self._range("slot_choice", slot):
            more = self._counted(choice, counts)
            lacking = self._lacks("object_counter", o, more)
            if lacking is None:
                continue
            high, has_regions = int(p.object_max[o]), len(singles) < len(slots)
            if 0 <= high < count + 1 + len(missing) + lacking:
                continue
            if not has_regions and count + 1 + len(left) < p.object_min[o]:
                continue
            new = ("object", o, count + 1, place, after, more, "next")
            found.append((new, int(p.choice_value[choice])))
        return found

    # Strings and keys.

    def _content(self, stack: Stack, byte: int) -> Iterator[Stack]:
        top, rest = stack[-1], stack[:-1]
        pending, char = top[-1], chr(byte)
        if pending == "" and char == '"':
            yield from self._string_end(rest, top)
        elif pending == "" and char != "\\":
            if byte >= 0x20:
                after = self._step(self._place(top), byte)
                new = self._moved(rest, top, after, bytes([byte]))
                if new is not None:
                    yield (*rest, new)
        else:
            yield from self._escape(rest, top, pending + char)

    def _place(self, top: tuple[Any, ...]) -> int:
        return int(top[1] if top[0] == "key" else top[2])

    def _moved(self, rest: Stack, top: tuple[Any, ...], after: int | None, more: bytes) -> Any:
        """Return a string's or key's level in another state; None where it cannot go on."""
        if after is None:
            return None
        text = None if top[-2] is None else top[-2] + more
        if top[0] == "key":
            return ("key", after, text, "") if self._reachable(rest[-1], after) else None
        _, s, _, length, _, _ = top
        length += more[0] & 0xC0 != 0x80
        high = self.p.string_max[s]
        if 0 <= high < length + self.p.state_shortest[after]:
            return None
        return ("string", s, after, length, text, "")

    def _string_end(self, rest: Stack, top: tuple[Any, ...]) -> Iterator[Stack]:
        label = int(self.p.state_label[self._place(top)])
        if label < 0:
            return
        if top[0] == "string":
            if top[3] >= self.p.string_min[top[1]]:
                yield from self._distinct(self._closed(rest), top[-2])
            return
        for level, value in self._keyed(rest[-1], label, top[-2]):
            colon = (*level[:-1], "colon")
            yield (*rest[:-1], level, ("value", value), colon)

    def _distinct(self, stack: Stack, text: bytes | None) -> Iterator[Stack]:
        """Yield a stack with a string remembered in its array, where it was not there before."""
        if text is None:
            yield stack
        elif text not in stack[-1][4]:
            kind, a, counts, number, texts, stage = stack[-1]
            yield (*stack[:-1], (kind, a, counts, number, texts | {text}, stage))

    def _escape(self, rest: Stack, top: tuple[Any, ...], spelled: str) -> Iterator[Stack]:
        ranges = _meant(spelled)
        is_whole = any(first == last for first, last in ranges)
        if self.p.indent[0] & USUAL_ESCAPES:
            ranges = [part for pair in ranges for part in _needing(spelled, *pair)]
        for low, high, after in self.characters(self._place(top)):
            for first, last in ranges:
                if max(low, first) > min(high, last):
                    continue
                new = self._moved(rest, top, after, chr(max(low, first)).encode())
                if new is not None:
                    yield (*rest, new if is_whole else (*top[:-1], spelled))

    def _characters(self, state: int) -> list[tuple[int, int, int]]:
        """Return the characters that follow a state, as ranges of code points, and where to."""
        found = [(low, high, after) for low, high, after in self.edges[state] if low < 0x80]
        found = [(low, min(high, 0x7F), after) for low, high, after in found]
        for lead in range(0xC2, 0xF5):
            more = 1 + (lead >= 0xE0) + (lead >= 0xF0)
            after = self._step(state, lead)
            if after is not None:
                found += self._tails(after, lead & (0x3F >> more), more)
        merged: list[tuple[int, int, int]] = []
        for low, high, after in sorted(found):
            if merged and merged[-1][1] == low - 1 and merged[-1][2] == after:
                merged[-1] = merged[-1][0], high, after
            else:
                merged.append((low, high, after))
        return merged

    def _tails(self, state: int, value: int, more: int) -> Iterator[tuple[int, int, int]]:
        for low, high, after in self.edges[state]:
            if more == 1:
                first, last = max(low, 0x80), min(high, 0xBF)
                if first <= last:
                    yield value << 6 | first & 0x3F, value << 6 | last & 0x3F, after
                continue
            for byte in range(max(low, 0x80), min(high, 0xBF) + 1):
                yield from self._tails(after, value << 6 | byte & 0x3F, more - 1)


def _needing(spelled: str, low: int, high: int) -> list[tuple[int, int]]:
    """Return what of a range of characters a writer of JSON escapes in such a way."""
    printable = [] if spelled[1:2] == "u" else [(0x22, 0x22), (0x5C, 0x5C)]
    allowed = [(0, 0x1F), *printable, (0x7F, 0x10FFFF)]
    parts = [(max(low, first), min(high, last)) for first, last in allowed]
    return [(first, last) for first, last in parts if first <= last]


@cache
def _meant(spelled: str) -> list[tuple[int, int]]:
    """Return the characters that an escape may become, as ranges; one alone if it is finished."""
    body = spelled[1:]
    if not body:
        return [(0, 0xD7FF), (0xE000, 0x10FFFF)]
    if body[0] != "u":
        char = _SHORT.get(body)
        return [] if char is None else [(ord(char), ord(char))]
    first = _units(body[1:5])
    if len(body) <= 5:
        plain = [unit for unit in first if not 0xD800 <= unit <= 0xDFFF]
        heads = [unit for unit in first if 0xD800 <= unit <= 0xDBFF]
        if len(body) == 5 and plain:
            return [(plain[0], plain[0])]
        ranges = [(plain[0], min(plain[-1], 0xD7FF))] if plain and plain[0] < 0xD800 else []
        if plain and plain[-1] >= 0xE000:
            ranges.append((max(plain[0], 0xE000), plain[-1]))
        return ranges + _pairs(heads, range(0xDC00, 0xE000))
    tail = body[5:]
    if tail[0] != "\\" or tail[1:2] not in ("", "u"):
        return []
    lows = [unit for unit in _units(tail[2:]) if 0xDC00 <= unit <= 0xDFFF]
    return _pairs(list(first), lows)


def _units(digits: str) -> range:
    if any(ord(digit) not in _HEXADECIMAL for digit in digits):
        return range(0)
    open_bits = 4 * (4 - len(digits))
    value = int(digits or "0", 16) << open_bits
    return range(value, value + (1 << open_bits))


def _pairs(heads: Any, lows: Any) -> list[tuple[int, int]]:
    if not heads or not lows:
        return []
    base = 0x10000 - 0xDC00
    if len(lows) == 0x400:
        return [
            (
                base + (heads[0] - 0xD800 << 10) + lows[0],
                base + (heads[-1] - 0xD800 << 10) + lows[-1],
            )
        ]
    return [
        (base + (head - 0xD800 << 10) + lows[0], base + (head - 0xD800 << 10) + lows[-1])
        for head in heads
    ]
