"""Lark's templates: every use with other arguments is a rule of its own, within limits."""

from __future__ import annotations

from typing import Any

from lark.grammar import NonTerminal
from lark.load_grammar import ApplyTemplates, nr_deepcopy_tree

from cdec.compilers.grammars.definition import GrammarLimits
from cdec.compilers.grammars.lark.limits import too_many_rules
from cdec.core.errors import LimitError

_MAX_NAME = 10_000
"""Characters of a use's name: arguments within arguments that grow without end pass it."""


class LimitedTemplates(ApplyTemplates):
    """Replaces template uses by nonterminals and appends their rules to ``rule_defs``.

    As Lark's own pass, but a use that makes another use with larger arguments ends at a limit, and
    a template is found by its name without a search.

    Args:
        rule_defs: Lark's rules; grows.
        limits: ``max_rules`` bounds the number of rules, ``max_nesting`` the arguments.
    """

    def __init__(self, rule_defs: list[Any], limits: GrammarLimits) -> None:
        super().__init__(rule_defs)
        self.limits = limits
        self.templates = {name: (params, tree, opts) for name, params, tree, opts in rule_defs}

    def template_usage(self, children: list[Any]) -> Any:
        """Return the nonterminal of one use."""
        name, args = children[0].name, children[1:]
        used = f"{name}{{{','.join(argument.name for argument in args)}}}"
        if used not in self.created_templates:
            self._check(used)
            self.created_templates.add(used)
            params, tree, options = self.templates[name]
            body = nr_deepcopy_tree(tree)
            self.replacer.names = dict(zip(params, args, strict=True))
            self.replacer.transform(body)
            self.rule_defs.append((used, [], body, options))
        return NonTerminal(used)

    def _check(self, used: str) -> None:
        if len(self.rule_defs) >= self.limits.max_rules:
            raise too_many_rules(len(self.rule_defs) + 1, self.limits)
        if len(used) > _MAX_NAME:
            raise LimitError(
                f"the arguments of template {used.partition('{')[0]} nest without end",
                hint="a template must not use itself with larger arguments",
                limit="max_nesting",
            )
