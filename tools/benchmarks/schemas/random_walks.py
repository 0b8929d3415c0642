"""Texts that masks let through: tokens drawn by random logits, which know nothing of JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from cdec.core.mask import allocate_mask
from cdec.core.session import DONE
from cdec.core.tokens.vocabulary import Vocabulary

WORDS = [
    *("true", "false", "null", "the", "and", "of", "in", "one", "two", "name", "id", "type", "a"),
    *("http://", "https://", ".com", "www.", "2024-", "2025-", "-01-", "T12:", ":30:", "00Z"),
    *("10", "99", "123", "0.5", "e+", "\\u00", "\\n", "\\\\", "é", "世", "界", "😀", "ß"),
]
BRIDGES = [
    *('{"', '"}', '":', '": ', '",', '", "', '": "', '":"', "},", "}]", "[{", '["', '"]', "]}"),
    *("[]", "{}", '""', ": [", ": {", ", ", "  ", "\n", "\n  ", " \t", ': "', '"]}', "}}"),
]


def walking_vocabulary(source: str = "{}") -> Vocabulary:
    """Return all single bytes, tokens that bridge what JSON is made of, and a schema's names."""
    words = [word.encode() for word in [*WORDS, *BRIDGES]]
    cut = ["é".encode()[:1], "世".encode()[:2], "😀".encode()[:3], "😀".encode()[1:]]
    names = [json.dumps(name, ensure_ascii=False).encode() + b":" for name in names_of(source)]
    names += [name[1:] for name in names]
    tokens = [*(bytes([byte]) for byte in range(256)), *words, *cut, *names, b"a", b""]
    return Vocabulary(tokens, [len(tokens) - 1], [len(tokens) - 1], name="walks")


def names_of(source: str) -> list[str]:
    """Return the names of properties that a schema speaks of, 300 at most."""
    found: dict[str, None] = {}
    pending = [json.loads(source)]
    while pending and len(found) < 300:
        value = pending.pop()
        if isinstance(value, dict):
            required = value.get("required")
            named = [*(value.get("properties") or ()), *(required or ())]
            found |= dict.fromkeys(name for name in named if isinstance(name, str))
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return [name for name in found if name.isprintable()]


class Walker:
    """Draws texts of one session at a time.

    The logits are standard normal; tokens that close something gain with every token, so that
    texts end. Past ``patience`` tokens an end is taken where there is one.

    Args:
        vocabulary: Of the sessions.
        random: Where draws come from.
        patience: Tokens.
        most: Tokens at which a text is given up.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        random: np.random.Generator,
        *,
        patience: int = 60,
        most: int = 1500,
    ) -> None:
        self._vocabulary = vocabulary
        self._random = random
        self._patience = patience
        self._most = most
        self._mask = allocate_mask(1, vocabulary.width)
        texts = vocabulary.token_bytes
        # Names of the schema's own count as much as what closes: some are required.
        named = [len(text) > 2 and text[-2:] == b'":' and text != b'":' for text in texts]
        closing = [
            2.0 * (text[-1:] in (b"}", b"]") or name) + (text[:1] == b'"' and not name)
            for text, name in zip(texts, named, strict=True)
        ]
        opening = [1.0 * (b"{" in text or b"[" in text or b"," in text) for text in texts]
        blank = [1.0 * text.isspace() for text in texts]
        self._outside = np.array(closing) - np.array(opening) - np.array(blank)
        # Within a string that may hold anything, a quote closes; in a name, the schema's own.
        self._inside = np.array([3.0 * text.startswith(b'"') for text in texts])
        self._inside[named] = 4
        self._end = vocabulary.eos_token_ids[0]

    def draw(self, session: Any) -> bytes | None:
        """Return one text; None where it did not end.

        Raises:
            AssertionError: A mask is empty before the end, or the end is not taken.
        """
        states, text = session.start(1), b""
        for step in range(self._most):
            session.fill_mask(states, self._mask)
            bits = np.unpackbits(self._mask[0].view(np.uint8), bitorder="little")
            allowed = np.flatnonzero(bits)
            assert len(allowed), f"an empty mask after {text!r}"
            haste = max(step - self._patience, 0) / 10
            is_over = haste > 0 and bits[self._end]
            is_inside = bits[ord("a")] and bits[ord("}")]
            bias = self._inside if is_inside else self._outside
            logits = self._random.standard_normal(len(allowed))
            logits += (0.3 + haste) * bias[allowed]
            token = self._end if is_over else int(allowed[np.argmax(logits)])
            states = session.advance(states, np.array([token]))
            if token == self._end:
                assert states[0] == DONE, f"the end is not taken after {text!r}"
                return text
            assert states[0] >= 0, f"an allowed token is not taken after {text!r}"
            text += self._vocabulary.token_bytes[token]
        return None
