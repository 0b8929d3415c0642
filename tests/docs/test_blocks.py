"""How pages are read: blocks, commands and what counts as the same output."""

from __future__ import annotations

import pytest

from tests.docs.blocks import agrees, blocks_of, steps_of

PAGE = """Text.

```console
$ cdec check a.arrow |
>   wc -l
3
$ true
```

- A list:

    ```json title="p.jsonl"
    {"a": 1}
    ```
"""


def test_blocks_and_their_files_are_found() -> None:
    console, file = blocks_of(PAGE)
    assert (console.language, console.first, console.title) == ("console", 3, "")
    assert (file.language, file.title, list(file.lines)) == ("json", "p.jsonl", ['{"a": 1}'])


def test_commands_are_joined_and_keep_their_output() -> None:
    first, second = steps_of(blocks_of(PAGE)[0])
    assert (first.command, first.shown, first.first) == ("cdec check a.arrow |\n  wc -l", ["3"], 5)
    assert (second.command, second.shown) == ("true", [])


def test_a_block_that_never_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="never ends"):
        blocks_of("```sh\nls\n")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["a"], ["a"], True),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b", "c"], True),
        (["took ... s"], ["took 12.5 s"], True),
        (["mass 0.951"], ["mass 0.952"], True),
        (["mass 0.951"], ["mass 0.851"], False),
        (["Lyon  1.104e-11    -25.36"], ["Lyon  1.10401e-11  -25.36"], True),
        (["a  b"], ["a   b"], False),
        (["3 of 4"], ["3 of 5"], False),
        ([], ["a"], False),
        (["..."], [], True),
    ],
)
def test_what_is_shown_agrees_with_what_is_printed(
    shown: list[str], printed: list[str], same: bool
) -> None:
    assert agrees(shown, printed) is same
