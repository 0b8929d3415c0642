"""Spelling: the token sequences that a tokenizer itself writes, told token by token.

``base`` is what every kind of tokenizer tells, ``kinds`` lists them. Of byte pair encoding
``speller`` has the states and masks; ``reading`` reads a tokenizer's own data and refuses what is
not known exactly. Three parts decide: ``splits``, where its pre-tokenizer cuts a text (``patterns``
reads what it cuts by, ``classes`` asks the library which characters its sets hold, ``shapes`` are
tokens as classes of characters), ``merges``, which tokens byte pair encoding leaves side by side,
and what happens to texts before: ``added`` tokens, and ``composition`` of characters. Of Unigram
models ``unigram`` has the states and masks, ``segments`` the best way to cut a text, and
``charsmap`` what their normaliser leaves as it is.

The library follows byte pair encoding itself (``native/canonical``), as far as no text has to be
looked at; what it lacks it is told from here.
"""
