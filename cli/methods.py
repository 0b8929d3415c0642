"""``cdec methods``: every method with its law, weight, needs and cost; everything about one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cdec.cli.frame.command import Run
from cdec.cli.frame.declaration import CommonOptions, option, words_of
from cdec.cli.frame.tables import print_json, print_wrapped
from cdec.cli.options.methods import (
    facts_of,
    in_option_words,
    method_parameters,
    named_method,
    options_said,
)
from cdec.samplers.facts import ABOUT
from cdec.samplers.method import Method
from cdec.samplers.registry import METHODS

EXAMPLES = {
    "unconstrained": "cdec sample -a titles.arrow --method unconstrained -n 16 -i prompts.jsonl",
    "greedy": "cdec sample -a json.arrow --method greedy --draft counts -i prompts.jsonl",
    "masked": "cdec sample -a titles.arrow --method masked -n 8 -i prompts.jsonl",
    "beam": "cdec sample -a titles.arrow --method beam --beams 8 -n 3 -i prompts.jsonl",
    "disc": "cdec sample -a titles.arrow --method disc --K 8 -n 4 -i prompts.jsonl",
    "asap": "cdec sample -a json.arrow --method asap --burn-in 200 -n 64 -i prompts.jsonl",
    "exact": "cdec sample -a titles.arrow --method exact -n 8 -i prompts.jsonl",
    "smc": "cdec sample -a json.arrow --method smc --particles 64 -i prompts.jsonl",
    "mcmc": "cdec sample -a json.arrow --method mcmc --steps 20 -n 4 -i prompts.jsonl",
    "topn": "cdec sample -a products.arrow --method topn -n 3 -i queries.jsonl",
    "speculative": "cdec sample -a json.arrow --method speculative --draft embedded -i prompts.txt",
    "mentored": "cdec sample --method mentored --divergence 0.1 -i prompts.txt",
    "cdlh": "cdec sample --method cdlh --reward coverage -i concepts.jsonl",
    "cdlh-approx": "cdec sample --method cdlh-approx --reward coverage -i concepts.jsonl",
    "cdsl": "cdec sample --method cdsl --reward coverage -i concepts.jsonl",
}
"""A command line for each method."""

_NAMES = 13
"""Columns of the longest name."""
_TERMS = """P is the model's law over sequences of tokens, S those that are allowed (of a
set one a member, else all tokenisations), Q = P given S, Z the model's mass on
what is allowed at a step. A pass: one call for one token."""


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of ``cdec methods``; the documented defaults stand here."""

    name: str | None = option(
        None, "Say everything about this method.", metavar="NAME", positional=True
    )
    json: bool = option(False, "Print JSON lines, one a method.", common=True)


def execute(options: Options, run: Run) -> int:
    """Say what each method draws: its law, weight and cost.

    The table has a method in two lines: what it draws; then its law, its log_weight, what it needs
    and what it costs. With a name: everything about that method, its options with their defaults,
    its paper, when to take it, and an example.

    \b
    Examples:
      cdec methods
      cdec methods exact
      cdec methods --json | jq -r 'select(.needs == ["constraint"]).name'
    """
    methods = list(METHODS.values()) if options.name is None else [named_method(options.name)]
    if options.json:
        for method in methods:
            print_json(run.console, method_json(method))
    elif options.name is None:
        for line in table_lines(methods):
            run.console.data(line)
    else:
        print_wrapped(run.console, _rows(methods[0]))
        run.console.data(f"\nOptions of {methods[0].name}, beside those of every method:")
        print_wrapped(run.console, _option_rows(methods[0]))
        run.console.data(f"\nExample:\n  {EXAMPLES[methods[0].name]}")
    return 0


def table_lines(methods: list[Method]) -> Iterator[str]:
    """Yield the table of methods, at most 80 columns wide."""
    yield f"{'method':<{_NAMES}}  what it draws"
    yield _columns("law", "log_weight", "needs", "cost")
    for method in methods:
        about = ABOUT[method.name]
        yield ""
        yield f"{method.name:<{_NAMES}}  {about.summary}"
        yield _columns(about.law, about.weight, ", ".join(method.needs) or "-", about.cost)
    yield ""
    yield _TERMS
    yield "`cdec methods NAME` says everything about one."


def _columns(law: str, weight: str, needs: str, cost: str) -> str:
    return f"{'':<{_NAMES}}  {law:<15} {weight:<16} {needs:<13} {cost}".rstrip()


def method_json(method: Method) -> dict[str, object]:
    """Return everything about a method, JSON-ready."""
    facts = dict(facts_of(method))
    about = ABOUT[method.name]
    return {
        "name": method.name,
        "summary": about.summary,
        "law": facts["law"],
        "log_weight": facts["log_weight"],
        "needs": list(method.needs),
        "cost": facts["cost"],
        "source": in_option_words(about.source),
        "when": in_option_words(about.when),
        "options": [
            {
                "name": option.name,
                "words": list(words_of(option.name)),
                "default": None if option.default is None else option.default,
                "unit": option.unit,
                "help": in_option_words(option.help),
            }
            for option in method.options
            if not option.python_only
        ],
        "example": EXAMPLES[method.name],
    }


def _rows(method: Method) -> list[tuple[str, str]]:
    about = ABOUT[method.name]
    return [
        (method.name, about.summary),
        *facts_of(method),
        ("when", in_option_words(about.when)),
        ("source", in_option_words(about.source)),
    ]


def _option_rows(method: Method) -> list[tuple[str, str]]:
    parameters = method_parameters()
    return [
        (" ".join(filter(None, (words_of(name)[0], parameters[name].metavar))), said)
        for name, said in options_said(method).items()
    ]
