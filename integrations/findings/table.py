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
_CDSL = "CDSL, Nakshatri et al. 2025"
_MODEL = ("model", "device", "dtype")
_PAIR = (*_MODEL, "draft")
_SOME = (*_PAIR, "all_data")
_CONCEPTS = ("concepts-large", "concepts-small")
_GIVEN = ("reward", "judge")

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
            "disc-disambiguation",
            _DISC,
            "Tables 2 and 6",
            "DISC with K = 4 names the right article more often than masked decoding; its law "
            "comes nearer to Q with every K, and drawn shares are those of the laws.",
            "60 mentions of three sources with 16 candidates a record, 4 draws each, where the "
            "paper has six sources and all of six million articles; without a model that was "
            "trained for it, one of 5 million parameters. 'All' pools what 'Avg.' averages.",
            "disambiguation:disambiguation",
            needs=("entity_disambiguation", "entity_sets"),
            uses=_MODEL,
            tasks=("mention-title",),
        ),
        Finding(
            "disc-questions",
            _DISC,
            "Table 3",
            "Draws from Q are expected to have a higher R-precision than masked ones, and the law "
            "of DISC comes nearer to Q with every K; what topn proves is what an enumeration "
            "finds, and no method finds a more probable text.",
            "189 questions of WebQuestions over all of its 5,543 answers, in the place of eleven "
            "sources over all articles. The embedded model knows a few of the answers: R-precision "
            "is computed from their probabilities and the certified bounds of P(S), and draws for "
            "24 questions show nothing of it. Laws over all answers are those of two questions.",
            "retrieval:questions",
            needs=("webquestions",),
            uses=_MODEL,
        ),
        Finding(
            "disc-retrieval",
            _DISC,
            "Table 4",
            "After three examples, the law of DISC comes nearer to Q with every K, and titles that "
            "it writes are not graded lower than those of masked decoding by more than error.",
            "16 queries a data set, a model of 5 million parameters in the place of one of 3 "
            "billion. It gives right titles so little that no draw over all 91,087 is one; what is "
            "expected is computed over at most 40 titles of each query, of DBpedia-Entity half of "
            "them right as far as there are so many. The paper's gain is not seen under the "
            "embedded model, whose differences are within their errors; it is under one that was "
            "trained for titles and is asked as it was trained. The queries are none of its own.",
            "retrieval:retrieval",
            needs=("dbpedia_entity", "climate_fever", "entity_sets"),
            uses=_MODEL,
            tasks=("query-title",),
        ),
        Finding(
            "disc-samples",
            _DISC,
            "Table 5",
            "Verifying the 50 most probable tokens alone changes accuracy little, whatever K; with "
            "1000 the law is nearer to that of full masks; drawn shares are those of the laws.",
            "24 mentions with 16 candidates each. A law with M is enumerated from the model's "
            "distributions, under masks that fall back on all tokens where none of the M is valid.",
            "top_m:samples",
            needs=("entity_disambiguation", "entity_sets"),
            uses=_MODEL,
            tasks=("mention-title",),
        ),
        Finding(
            "disc-trie",
            _DISC,
            "Figure 3",
            "Greedy titles are those of transformers with a trie of dicts, and every prefix on the "
            "way allows the same tokens, whatever the size of the catalogue.",
            "Times stand beside, and decide nothing: up to 91,087 titles, a small model on a "
            "processor, where no token has to travel to a device and back.",
            "trie:generation",
            needs=("dbpedia_entity", "entity_sets"),
            uses=_MODEL,
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
            "asap-constituency",
            _ASAP,
            "Figures 4 to 6, constituency trees",
            "Under a grammar of each sentence's trees ASAp's windows come nearer to Q's with its "
            "draws, and end nearer than those of masked decoding; its bound of P(S) stays above "
            "what was found, and comes further down than that of masked draws.",
            "Four sentences of GUM in the place of six of the Penn Treebank, under a small model "
            "that was trained on other documents' trees, without examples in the prompt; 400 draws "
            "in rounds of 16. Expectations are shown and not held to anything: in the paper, too, "
            "ASAp's are further from Q's here. The embedded model has never seen a tree, and "
            "without the trained one nothing is claimed.",
            "asap:trees",
            needs=("constituency",),
            uses=("device", "dtype"),
            given=("tasks",),
            tasks=("constituency",),
        ),
        Finding(
            "domino-invasiveness",
            _DOMINO,
            "Tables 2 and 4",
            "A mask that lets tokens run across terminals changes no text that was well-formed "
            "anyway; one that ends each token with its terminal (k = 0) makes other texts, and "
            "accuracy falls; a template, whose fixed parts are spelled apart, makes less probable "
            "ones.",
            "60 requests for records as JSON, zero-shot, under a small model that was trained on "
            "such, in the place of GSM8K and CoNLL; from k = 1 on nothing is lost here. The "
            "template masks tokens that close a value and begin what is fixed, which guidance "
            "lets the model write and cuts off: values are hardly ever closed here.",
            "domino:invasiveness",
            uses=_MODEL,
        ),
        Finding(
            "domino-peers",
            _DOMINO,
            "Tables 2 and 4, beside other engines",
            "No engine's masks give texts of JSON that the model finds more probable than cdec's, "
            "whose masks cost no accuracy.",
            "llguidance and xgrammar in the place of guidance and llama.cpp, each with its own "
            "JSON, in generate of transformers over one module; 40 requests, zero-shot, under a "
            "small model.",
            "peers:invasiveness",
            uses=_MODEL,
            packages=("llguidance", "xgrammar"),
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
            "cdsl-concepts",
            _CDSL,
            "Tables 1, 4, 5 and 6 (CommonGen), Figure 1",
            "Lookahead finds concepts that greedy decoding leaves out; a draft that runs ahead and "
            "is verified makes it cheaper, at the price of some of them.",
            "A part of the dev sets (all with all_data) under a model of 5 million parameters, "
            "which names few concepts; prompts without examples, as two of them do not help it. "
            "Drafts are the small one, the target without its last layer and the target itself. "
            "Figure 1 is drawn for these sentences.",
            "cdsl:concepts",
            needs=("commongen",),
            uses=_SOME,
            tasks=_CONCEPTS,
        ),
        Finding(
            "cdsl-tuning",
            _CDSL,
            "Tables 2 and 3",
            "The best of the ten cheapest settings, chosen on the training part, is cheaper than "
            "cdlh and finds more concepts than greedy decoding on other sets, too.",
            "One pair of models, cost at c = .34, and the share of concepts decides, as few "
            "sentences have all of theirs; the paper looks at whole sets. The paper tries d apart "
            "from the rest; here it is an axis of the grid.",
            "cdsl:tuning",
            needs=("commongen",),
            uses=_SOME,
            tasks=_CONCEPTS,
        ),
        Finding(
            "cdsl-thresholds",
            _CDSL,
            "Figures 2, 7 and 8",
            "A higher reward threshold finds more concepts and costs more; more tries of the "
            "target find fewer; the printed ratio test is cheaper than the hard one and no better.",
            "Two drafts of one target in the place of three families, and a sweep over d that the "
            "paper describes in words; the lossless test of a greedy draft stands beside the two "
            "of the paper. Cost falls with both thresholds here: drafts are refused so often that "
            "a round which keeps a token and adds none (S1) costs more a token than one that adds "
            "the reward's choice.",
            "cdsl:thresholds",
            needs=("commongen",),
            uses=_SOME,
            tasks=_CONCEPTS,
        ),
        Finding(
            "cdsl-speculation",
            _CDSL,
            "Table 7",
            "Speculation without a reward saves target calls, the more the draft is accepted; with "
            "the hard test its texts are greedy ones, and with the ratio test they are not the "
            "target's.",
            "Acceptance is the share of the tokens tested, as the paper's calls imply; accepted "
            "tokens a verification stand beside. The lossless test, which the paper does not "
            "have, is a third one.",
            "cdsl:speculation",
            needs=("commongen",),
            uses=_SOME,
            tasks=_CONCEPTS,
        ),
        Finding(
            "cdsl-verification",
            _CDSL,
            "section 3.2.2",
            "No mode of cdsl is lossless: only the test called speculative keeps a greedy draft's "
            "token as often as the target would write it, and what follows a refusal is the "
            "reward's choice.",
            "The paper says that speculative sampling keeps the target's law, prints the ratio "
            "rule and drafts greedily; here laws are enumerated, and drawn.",
            "verification:verification",
        ),
        Finding(
            "cdsl-harmless",
            _CDSL,
            "Tables 1, 6 and 8 (harmless text)",
            "Lookahead for a reward that sees the conversation gives replies that another "
            "judge likes better; speculative lookahead costs less.",
            "Parts of HH-RLHF under small models. A judge must prefer the chosen of held-out pairs "
            "in .8 of them; one that was learnt from this data alone does not, and claims nothing.",
            "judged:harmless",
            needs=("hh_rlhf",),
            uses=(*_SOME, *_GIVEN),
            given=_GIVEN,
        ),
        Finding(
            "cdsl-replies",
            _CDSL,
            "Tables 1, 6 and 8, another judge",
            "Lookahead for a reward that sees the conversation gives replies that a judge, learnt "
            "from other conversations, rather takes for the conversation's own.",
            "Not harmlessness, which no small judge can tell: whether a reply is the "
            "conversation's own or one that the target draws, which one can. Reward and judge are "
            "what a script of the repository trains in minutes, each on half of the pairs.",
            "judged:own",
            needs=("hh_rlhf",),
            uses=(*_SOME, *_GIVEN),
            given=_GIVEN,
        ),
        Finding(
            "cdsl-replies-speculation",
            _CDSL,
            "Table 8, another judge",
            "Speculation without a reward saves target calls, the more the draft is accepted; with "
            "the hard test replies are the greedy ones, and the judge likes them alike.",
            "Replies as of cdsl-replies, not harmless text; d = 5. The lossless test, which the "
            "paper does not have, is a third one.",
            "judged:speculation",
            needs=("hh_rlhf",),
            uses=(*_SOME, *_GIVEN),
            given=_GIVEN,
        ),
        Finding(
            "cdsl-replies-thresholds",
            _CDSL,
            "Figures 9 to 11, another judge",
            "A higher reward threshold costs more, and the judge likes replies better; tries of "
            "the target make them worse; the printed ratio test is cheaper than the hard one and "
            "no better.",
            "Replies as of cdsl-replies, not harmless text: 16 conversations, two drafts of one "
            "target in the place of three families. Thresholds are those of Table 2. What the "
            "lookahead chooses is far above all of them here, so that under the hard test no reply "
            "of the draft changes with them; the ratio test makes other replies, which the judge "
            "likes better.",
            "judged:thresholds",
            needs=("hh_rlhf",),
            uses=(*_SOME, *_GIVEN),
            given=_GIVEN,
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
        Finding(
            "rivals-sygus",
            _RIVALS,
            "distance from Q by calls",
            "Under SyGuS grammars exact has paid for its tree after some hundred calls; its "
            "draws then are independent ones from Q, and all methods end nearer to Q than "
            "masked decoding.",
            "Three of the paper's tasks under a small model, 3 runs of 1,200 calls; Q is P over "
            "all texts that any method found. Of mcmc's proposals one, for time.",
            "rival_tasks:sygus",
            needs=("gad_sygus",),
            uses=_MODEL,
        ),
        Finding(
            "rivals-patterns",
            _RIVALS,
            "distance from Q by calls",
            "Under patterns draws of exact are independent ones from Q, and all other methods "
            "are nearer to it than masked decoding.",
            "The first patterns of genlm-eval's list that compile and whose mass a few draws "
            "know, under a small model; most of the list is written in other dialects. Q is P "
            "over all texts that any method found.",
            "rival_tasks:patterns",
            needs=("regex_patterns",),
            uses=_MODEL,
        ),
        Finding(
            "rivals-schema",
            _RIVALS,
            "distance from Q by calls",
            "Under a schema that forbids what the model would say, draws of exact are "
            "independent ones from Q once it has paid for its tree, and all other methods are "
            "nearer to Q than masked decoding.",
            "One schema, 3 runs of 1,600 calls; Q is P over all texts that any method found.",
            "rival_tasks:schema",
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
            papers = dict.fromkeys(each.partition("-")[0] for each in FINDINGS)
            close = get_close_matches(name, [*papers, *FINDINGS], n=1)
            raise UsageError(
                f"no finding {name!r}",
                hint=f"did you mean {close[0]!r}?" if close else f"findings: {', '.join(FINDINGS)}",
            )
        chosen |= found
    return [finding for name, finding in FINDINGS.items() if name in chosen]
