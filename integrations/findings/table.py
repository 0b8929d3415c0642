"""The visible list of findings: a new one is one line here, and its function."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from cdec.core.errors import UsageError
from cdec.integrations.findings.finding import Finding

_DISC = "DISC, arXiv 2504.09135"
_ASAP = "ASAp, arXiv 2405.21047"
_DOMINO = "DOMINO, arXiv 2403.06988"
_MENTORED = "Mentored decoding, Tran-Thien 2023"
_RIVALS = "CARS, MCMC (arXiv 2506.05754), AWRS (arXiv 2504.05410)"
_MODEL = ("model", "device", "dtype")
_PAIR = (*_MODEL, "draft")

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
            "Two tasks a family, 800 draws in rounds of 16, prompts with as many of the three "
            "examples as fit the model; the head of the solution is part of the prompt, as a "
            "small model has never seen a program.",
            "asap:sygus",
            needs=("gad_sygus",),
            uses=_MODEL,
        ),
        Finding(
            "domino-invasiveness",
            _DOMINO,
            "Tables 2 and 4",
            "A mask that lets tokens run across terminals changes no text that was well-formed "
            "anyway; one that ends each token with its terminal (k = 0) makes other texts, and "
            "accuracy falls.",
            "60 requests for records as JSON, zero-shot, under a small model that was trained on "
            "such, in the place of GSM8K and CoNLL; from k = 1 on nothing is lost here.",
            "domino:invasiveness",
            uses=_MODEL,
        ),
        Finding(
            "domino-templates",
            _DOMINO,
            "Figure 2",
            "Fixed parts that a template tokenizes apart from the values between them make tokens "
            "that the model finds less probable.",
            "The right answers of the same requests, scored in both spellings, in the place of "
            "texts that guidance makes.",
            "domino:templates",
            uses=_MODEL,
        ),
        Finding(
            "domino-speculation",
            _DOMINO,
            "Figure 5",
            "Counts of what follows a state, learnt on ten prompts and frozen, save target calls: "
            "more of them where more tokens are proposed and where a schema leaves less open, and "
            "no greedy text changes.",
            "16 other prompts a task, calls in the place of a 7B model's time: a model of 5 "
            "million parameters is so fast that proposals cost more time than they save, as the "
            "table of times says.",
            "domino:speculation",
            uses=_MODEL,
        ),
        Finding(
            "domino-overhead",
            _DOMINO,
            "Table 3",
            "Under every shipped grammar each text that ends is in the language, and counts save "
            "target calls.",
            "The prompts ask for records as JSON whatever the grammar, as the small model knows "
            "no other language; counts are learnt on the same prompts and draws. Times stand "
            "beside, and decide nothing.",
            "domino:overhead",
            uses=_MODEL,
        ),
        Finding(
            "mentored-optimum",
            _MENTORED,
            "sections 4 to 6",
            "No law within the divergence D of the target accepts more of the draft than the "
            "solver's: it spends D whole, accepts more where D grows, as much as lossless "
            "speculation at D = 0, and all at D = KL(q || p).",
            "The paper proves it and measures nothing; here it is computed on random pairs, "
            "against other laws within D. Algorithm 1 as printed does not end, and is not what "
            "runs.",
            "mentored:optimum",
        ),
        Finding(
            "mentored-tradeoff",
            _MENTORED,
            "section 6",
            "Divergence buys target calls, and what is spent a position never exceeds D.",
            "The paper measures nothing. A budget of the whole sequence is cdec's own, and stands "
            "beside that of each position.",
            "mentored:tradeoff",
            uses=_PAIR,
        ),
        Finding(
            "speculation-dyck",
            "Speculation under local masks, arXiv 2605.07698",
            "the experiment on Dyck languages",
            "Speculation that is lossless under local masks draws from the masked law, which is "
            "up to .99 in total variation from Q; a draft below exact draws from Q, and below "
            "disc from its law.",
            "Brackets of up to three pairs under a table, so that laws are enumerated; the paper "
            "draws from models. Their largest distance is .996.",
            "speculation:local_masks",
        ),
        Finding(
            "rivals-toys",
            _RIVALS,
            "distance from Q by calls",
            "At equal numbers of model calls draws of exact come to Q as independent draws from Q "
            "do, masked decoding stays at its bias, and all others are between the two.",
            "Toys of which Q is enumerated; exact with abort is what the paper on CARS has. A call "
            "is an evaluation on the path of any candidate, nothing cached.",
            "rivals:toys",
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
