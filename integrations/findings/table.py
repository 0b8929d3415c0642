"""The visible list of findings: a new one is one line here, and its function."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from cdec.core.errors import UsageError
from cdec.integrations.findings.finding import Finding

_DISC = "DISC, arXiv 2504.09135"
_ASAP = "ASAp, arXiv 2405.21047"
_MODEL = ("model", "device", "dtype")

FINDINGS: dict[str, Finding] = {
    finding.name: finding
    for finding in (
        Finding(
            "disc-figure",
            _DISC,
            "Figure 1",
            "Masked decoding recommends the text that the model finds less probable, since it "
            "does not see ahead that what it begins is not on the list; DISC and exact do not.",
            "The figure leaves open what else follows 'used'; here it is one text on the list.",
            "disc:figure",
        ),
        Finding(
            "disc-bias",
            _DISC,
            "Theorem 2.1",
            "For any p_b there are worlds with KL(Q || masked) near ln 1/(1 - p_b), and none "
            "beyond.",
            "The paper hides a constant in Omega; this family has 1 but for one part in 10,000.",
            "disc:bias",
        ),
        Finding(
            "disc-convergence",
            _DISC,
            "Theorem 3.1",
            "DISC tends to Q exponentially in K, within the bound, and E[k] = (1 - p_b^K)/(1 - "
            "p_b) + K p_b^K <= (1 + 1/e)/(1 - p_b).",
            "The paper hides a constant in O; here it is below 1. Its limit of E[k] for large K "
            "is an upper bound: E[k] itself tends to 1/(1 - p_b).",
            "disc:convergence",
        ),
        Finding(
            "asap-toys",
            _ASAP,
            "Example 1 and Figure 3",
            "The law of ASAp's next draw comes to Q within some 75 draws, from as far as masked "
            "decoding is.",
            "The paper draws its example under a real model; here its law is enumerated. Rounds "
            "of 16 (the default of cdec) learn after each sixteenth draw, which makes a "
            "staircase; the paper's curve is that of rounds of 1.",
            "asap:toys",
        ),
        Finding(
            "asap-grammar",
            _ASAP,
            "Figures 4 and 5, Example 1 under a model",
            "Windows of ASAp's draws come as near to P, and its expectation to Q's, as draws from "
            "Q do; masked decoding stays away.",
            "A small model in the place of Mistral 7B, 1,000 draws in rounds of 16; Q is P over "
            "all texts that any method found.",
            "asap:grammar",
            uses=_MODEL,
        ),
        Finding(
            "asap-sygus",
            _ASAP,
            "Figures 4 to 6, SLIA and INV-BV",
            "Summed over tasks ASAp's windows and expectations are nearer to Q's than those of "
            "masked decoding.",
            "Four tasks a family, 600 draws in rounds of 16, prompts with as many of the three "
            "examples as fit the model; the head of the solution is part of the prompt, as a "
            "small model has never seen a program.",
            "asap:sygus",
            needs=("gad_sygus",),
            uses=_MODEL,
        ),
    )
}
"""Every finding by its name, in the order in which they are computed."""


def named_findings(names: Iterable[str]) -> list[Finding]:
    """Return findings by name, or by the beginning of their names up to the first dash.

    Raises:
        UsageError: There is none of a name; the hint has the nearest.
    """
    chosen: dict[str, Finding] = {}
    for name in names:
        found = {n: f for n, f in FINDINGS.items() if name in (n, n.partition("-")[0])}
        if not found:
            close = get_close_matches(name, FINDINGS, n=1)
            raise UsageError(
                f"no finding {name!r}",
                hint=f"did you mean {close[0]!r}?" if close else f"findings: {', '.join(FINDINGS)}",
            )
        chosen |= found
    return [finding for name, finding in FINDINGS.items() if name in chosen]
