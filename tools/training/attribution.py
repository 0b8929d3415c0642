"""Writes ATTRIBUTION.md: the works behind the training text and who made them."""

from __future__ import annotations

from pathlib import Path

from tools.training import corpora

_HEAD = """# Attribution

The embedded models were trained on the works below; `eval/glosses.jsonl` quotes definitions from
the first. None of the training text is in this folder otherwise.

- **Open English WordNet**, github.com/globalwordnet/english-wordnet, by the Open English WordNet
  team, CC BY 4.0; derived from Princeton WordNet (licence at the end).
- **CommonGen** (training part), github.com/INK-USC/CommonGen, MIT.
- **GSM8K** (training part), github.com/openai/grade-school-math, MIT, Copyright 2021 OpenAI.
- **Standard Ebooks** editions, github.com/standardebooks, CC0; the texts are in the public domain.
- **Shakespeare's plays**, the selection of github.com/karpathy/char-rnn; public domain.
- The tables of facts, the problems with small numbers and the entity lists are part of this
  project. Character names come from the Unicode Character Database (Unicode licence).

## Books (Standard Ebooks)

"""

_STORIES = """
## Children's stories

github.com/global-asp/asp-source and github.com/global-asp/pb-source (African Storybook and Pratham
Books), with the licence of each story.

"""

_LICENCE = """

## WordNet licence

"""


def attribution(shared: Path) -> str:
    """Return the text of ATTRIBUTION.md.

    Args:
        shared: Folder that holds ``data/``.
    """
    folder = shared / "data/text_lm"
    books = sorted(path.name.split(".")[0] for path in (folder / "standard_ebooks").glob("*.xz"))
    stories = sorted(
        {
            f"- {s['title']}, {s.get('author') or 'author unknown'} ({s['license']})"
            for s in corpora.read_records(folder / "childrens_stories_ccby.jsonl.xz")
        }
    )
    listed = "\n".join(f"- {book.replace('_', ': ').replace('-', ' ').title()}" for book in books)
    licence = (shared / "data/wordnet/WNDB_License.txt").read_text(encoding="utf-8")
    # The file numbers its lines.
    words = "\n".join(line.lstrip(" 0123456789").rstrip() for line in licence.splitlines())
    parts = [_HEAD, listed, "\n", _STORIES, "\n".join(stories), _LICENCE, words]
    return "".join(parts).rstrip() + "\n"
