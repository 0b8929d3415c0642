"""Cases of ``cdec sample``: every method under every constraint, and the options of each."""

from __future__ import annotations

import json

from case import Case, Step, jsonl, words

ASKED = jsonl(
    [
        {
            "id": "fr",
            "prompt": "Question: What is the capital of France?\nAnswer:",
            "concepts": ["paris", "city"],
            "topic": "kept",
        },
        {"id": "it", "prompt": "The capital of Italy is", "concepts": ["rome"]},
    ]
)
SHORT = {
    "asap": "--burn-in 8 --round 4",
    "exact": "--max-draws 40 --round 4",
    "topn": "--max-evaluations 60 --round 4",
    "smc": "--particles 6",
    "mcmc": "--steps 3",
    "beam": "--beams 3",
    "disc": "--K 3",
}
"""Method -> options that keep its runs short."""
METHODS = (
    *("unconstrained", "greedy", "masked", "beam", "disc", "asap", "exact", "smc", "mcmc", "topn"),
    *("speculative", "mentored", "cdlh", "cdlh-approx", "cdsl"),
)
REWARDED = frozenset({"cdlh", "cdlh-approx", "cdsl"})
CONSTRAINTS = {
    "none": "",
    "set": "-a cities.arrow",
    "grammar": "-a word.arrow",
    "both": "-a word.arrow --and cities.arrow",
}
BASE = "-i p.jsonl --max-new-tokens 12"


def matrix_cases() -> list[Case]:
    """Return every method x constraint x two seeds."""
    found = []
    for method in METHODS:
        for name, constraint in CONSTRAINTS.items():
            for seed in (0, 7):
                reward = ("--reward coverage", "--reward regex:[A-Z][a-z]+s")[seed > 0]
                argv = words(
                    "sample", constraint, BASE, f"--method {method} -n 2 --seed {seed}",
                    SHORT.get(method, ""), reward if method in REWARDED else "",
                )  # fmt: skip
                case = f"sample-{method}-{name}-seed{seed}"
                found.append(Case(case, "sample", (Step(argv),), {"p.jsonl": ASKED}))
    return found


OPTIONS: dict[str, str] = {
    "masked-top-m": "-a cities.arrow --method masked --top-m 4 -n 3",
    "masked-top-m-grammar": "-a word.arrow --method masked --top-m 4 -n 3",
    "masked-opportunistic": "-a word.arrow --method masked --opportunistic -n 3",
    "greedy-opportunistic": "-a word.arrow --method greedy --opportunistic",
    "greedy-speculate": "-a shape.arrow --method greedy --draft counts --gamma 4 "
    "--max-new-tokens 24",
    "masked-speculate": "-a shape.arrow --method masked --draft counts --gamma 4 -n 2 "
    "--max-new-tokens 24",
    "masked-lookahead": "-a shape.arrow --method masked --lookahead 0 --max-new-tokens 30 -n 2",
    "masked-lookahead-3": "-a json.arrow --method masked --lookahead 3 --fields id,text,lookahead",
    "masked-temperature": "-a cities.arrow --method masked --temperature 0.5 -n 3",
    "masked-top-k": "-a word.arrow --method masked --top-k 20 -n 3",
    "masked-top-p": "-a word.arrow --method masked --top-p 0.8 -n 3",
    "masked-fixed": "-a fixed.arrow --method masked -n 3",
    "masked-deny": "-a cities.arrow --method masked --deny deny.txt -n 4",
    "masked-deny-grammar": "-a word.arrow --method masked --deny deny.txt -n 4",
    "masked-deny-and": "-a word.arrow --and cities.arrow --deny deny.txt --method masked -n 4",
    "masked-and-grammars": "-a word.arrow --and ambiguous.arrow --method masked -n 2",
    "masked-json": "-a json.arrow --method masked --max-new-tokens 30",
    "masked-ambiguous": "-a ambiguous.arrow --method masked --max-new-tokens 8 -n 3",
    "masked-batch-1": "-a cities.arrow --method masked --batch-size 1 -n 2",
    "masked-fields": "-a cities.arrow --method masked --fields text,id,seed -n 2",
    "masked-quiet": "-a cities.arrow --method masked --quiet -n 1",
    "masked-progress": "-a cities.arrow --method masked --no-progress -n 1",
    "masked-float64": "-a cities.arrow --method masked --dtype float64 -n 2",
    "masked-eager": "-a cities.arrow --method masked --attn-implementation eager -n 2",
    "disc-defaults": "-a cities.arrow",
    "disc-K-1": "-a cities.arrow --K 1 -n 3",
    "disc-recycle": "-a cities.arrow --recycle -n 4",
    "disc-recycle-grammar": "-a word.arrow --recycle -n 4 --K 2",
    "disc-top-m": "-a cities.arrow --top-m 5 -n 4",
    "disc-beams": "-a cities.arrow --beams 2 -n 2",
    "disc-beams-grammar": "-a word.arrow --beams 2 -n 2",
    "disc-draft": "-a cities.arrow --draft embedded-draft -n 3",
    "disc-draft-lookup": "-a word.arrow --draft prompt-lookup -n 3 --gamma 2",
    "disc-draft-counts": "-a shape.arrow --draft counts -n 2 --max-new-tokens 24",
    "asap-until-converged": "-a cities.arrow --method asap --until-converged 0.05 --burn-in 4 -n 3",
    "asap-round-1": "-a cities.arrow --method asap --round 1 --burn-in 3 -n 3",
    "asap-tree-cache": "-a word.arrow --method asap --tree-cache 1MB --burn-in 4 -n 3",
    "asap-burn-in-0": "-a word.arrow --method asap --burn-in 0 -n 4",
    "exact-abort": "-a cities.arrow --method exact --abort --max-draws 40 -n 3",
    "exact-fallback-none": "-a word.arrow --method exact --max-draws 6 --fallback none -n 3",
    "exact-fallback-asap": "-a word.arrow --method exact --max-draws 6 --fallback asap -n 3",
    "exact-fallback-disc": "-a word.arrow --method exact --max-draws 6 --K 2 -n 3",
    "exact-draft": "-a cities.arrow --method exact --draft embedded-draft --max-draws 40 -n 2",
    "exact-draft-lookup": "-a word.arrow --method exact --draft prompt-lookup --max-draws 10 -n 2",
    "smc-resample": "-a word.arrow --method smc --particles 4 --resample-below 0.9 -n 3",
    "mcmc-prefix": "-a word.arrow --method mcmc --proposal prefix --steps 4 -n 3",
    "topn-by-text": "-a word.arrow --method topn --by text -n 3 --max-evaluations 60",
    "topn-by-text-set": "-a cities.arrow --method topn --by text -n 3",
    "topn-round": "-a cities.arrow --method topn --round 1 -n 4",
    "topn-budget": "-a word.arrow --method topn --max-evaluations 10 -n 3",
    "beam-5": "-a cities.arrow --method beam --beams 5 -n 5",
    "speculative-greedy": "-a word.arrow --method speculative --greedy",
    "speculative-gamma-auto": "--method speculative --gamma auto -n 2",
    "speculative-gamma-8": "-a word.arrow --method speculative --gamma 8 -n 2",
    "speculative-lookup": "-a word.arrow --method speculative --draft prompt-lookup -n 2",
    "speculative-counts": "-a shape.arrow --method speculative --draft counts --gamma 8 -n 2 "
    "--max-new-tokens 24",
    "speculative-speculate": "-a shape.arrow --method speculative --draft counts --gamma 8 -n 2 "
    "--max-new-tokens 24",
    "speculative-draft-temperature": "--method speculative --draft-temperature 0 -n 2",
    "speculative-draft-hot": "--method speculative --draft-temperature 3 -n 2",
    "speculative-draft-dtype": "--method speculative --draft-dtype float64 -n 2",
    "speculative-cost-ratio": "--method speculative --cost-ratio 0.25 -n 2",
    "mentored-0": "--method mentored --divergence 0 -n 2",
    "mentored-0.3": "-a word.arrow --method mentored --divergence 0.3 -n 2",
    "mentored-inf": "-a word.arrow --method mentored --divergence inf -n 2",
    "mentored-total": "--method mentored --divergence-total 0.5 -n 2",
    "mentored-total-set": "-a cities.arrow --method mentored --divergence-total 0.5 -n 2",
    "mentored-lookup": "--method mentored --draft prompt-lookup -n 2",
    "mentored-gamma-auto": "-a cities.arrow --method mentored --gamma auto --cost-ratio 0.5 -n 2",
    "cdlh-branch": "--method cdlh --reward coverage --branch 5 --depth 2",
    "cdlh-past": "-a word.arrow --method cdlh --reward coverage:past",
    "cdlh-approx-options": "--method cdlh-approx --reward regex:s --branch 2 --depth 4 "
    "--cost-ratio 0.3",
    "cdsl-options": "--method cdsl --reward coverage --target-tries 2 --accept-threshold 0.9 "
    "--reward-threshold 0.6",
    "cdsl-no-tries": "--method cdsl --reward coverage --target-tries 0 --cost-ratio 0.26",
    "cdsl-speculative": "--method cdsl --reward coverage --verify speculative -n 3",
    "cdsl-discard": "-a word.arrow --method cdsl --reward regex:e --on-reject discard "
    "--reward-threshold 0.9",
    "fit": "-a cities.arrow --method masked --fit --max-new-tokens 4 -n 4",
    "fit-too-short": "-a cities.arrow --method masked --fit --max-new-tokens 1",
    "fit-word": "-a word.arrow --method masked --fit --max-new-tokens 2 -n 4",
    "fit-nested": "-a json.arrow --method masked --fit",
    "heal": "-a word.arrow --method masked --heal -n 4 --prompt Par",
    "heal-greedy": "-a word.arrow --method greedy --heal --prompt Lon",
    "heal-set": "-a cities.arrow --method masked --heal",
    "allow-special": "-a cities.arrow --method masked --allow-special --prompt <|end|>a",
}


def option_cases() -> list[Case]:
    """Return one case an entry of ``OPTIONS``."""
    files = {"p.jsonl": ASKED, "deny.txt": b"Paris\nRome\n"}
    found = []
    for name, line in OPTIONS.items():
        base = "--max-new-tokens 12" if "--prompt " in line else BASE
        if "--max-new-tokens" in line:
            base = base.replace("--max-new-tokens 12", "")
        step = Step(words("sample", line, base))
        found.append(Case(f"option-{name}", "sample", (step,), files))
    run = Step(words("run cities.arrow --method masked -n 2", BASE))
    found.append(Case("option-run", "sample", (run,), files))
    free = Step(words("sample --method masked -n 2", BASE))
    lone = Step(words("sample --method masked -n 2 -a cities.arrow", BASE))
    found.append(Case("option-only-artifact", "sample", (lone, free), files))
    found.append(Case("option-no-artifact", "sample", (Step(words("sample", BASE)),), files))
    return found


RECORDS = [
    {"id": 1, "prompt": "The capital is", "candidates": ["Paris", "Rome"]},
    {"id": 2, "prompt": "The capital is", "candidates": ["Q3", "Q4"], "n": 3},
    {"id": 3, "prompt": "The capital is", "constraint": "word"},
    {"id": 4, "prompt": "The capital is", "temperature": 0.5, "seed": 9},
    {"id": 5, "prompt": "The capital is", "max_tokens": 2, "n": 4},
    {"id": 6, "prompt": "Say", "grammar": 'start: "yes" | "no"\n'},
    {"id": 7, "prompt": "Say", "grammar": "root ::= [a-c] [a-c]\n", "n": 2},
    {"id": 8, "prompt": "Say", "grammar": "start: nowhere\n"},
    {"id": 9, "prompt": "Say", "candidates": ["nobody"]},
    {"id": 10, "prompt": "Say", "constraint": "nothing"},
    {"id": 11, "messages": [{"role": "user", "content": "What is the capital of France?"}]},
    {"prompt": "no id", "other": {"x": [1.5, None]}},
    {"prompt": "no id", "other": {"x": [1.5, None]}},
    {"id": 12, "prompt": [494, 284, 290]},
    {"id": 13, "prompt": "x", "n": 0},
    {"id": 14, "prompt": "x", "regex": "a"},
    {"id": 15, "prompt": "x", "temperature": 2.0, "candidates": ["Oslo", "London", "Berlin"]},
]


def record_cases() -> list[Case]:
    """Return cases whose records bring their own settings, and long runs."""
    files = {
        "p.jsonl": jsonl(RECORDS),
        "t.txt": b"Question: {topic} of {id}?\nAnswer:",
        "q.jsonl": jsonl(
            [{"id": "a", "topic": "Capital"}, {"id": "b", "topic": "River"}, {"id": 3}]
        ),
        "p.txt": "One city:\nAnother city:\nEine Stadt f\u00fcr dich:\n".encode(),
    }
    found = [_template(files), _text(files), *_resumes(files), *_kept_files(files)]
    base = "-i p.jsonl -a cities.arrow --constraint word=word.arrow --max-new-tokens 8"
    for method in ("masked", "disc", "exact", "greedy", "speculative", "unconstrained", "smc"):
        argv = words("sample", base, f"--method {method}", SHORT.get(method, ""))
        case = Case(f"records-{method}", "sample", (Step(argv),), files, needs_compiler=True)
        found.append(case)
    strict = words("sample", base, "--method masked --strict")
    found.append(Case("records-strict", "sample", (Step(strict),), files, needs_compiler=True))
    limits = words("sample", base, "--method masked --max-n 2 --max-grammar-bytes 12")
    found.append(Case("records-limits", "sample", (Step(limits),), files, needs_compiler=True))
    own = {"id": 0, "prompt": "One wo", "grammar": "start: /[a-z]{1,3}/\n"}
    step = Step(words("sample --heal --method greedy"), jsonl([own, {"prompt": "a"}]))
    found.append(Case("records-heal", "sample", (step,), needs_compiler=True))
    return found


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Paris", "Rome"]}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {"name": "now"},
]
USER = {"role": "user", "content": "What is the capital of Italy?"}
TOLD = [
    {"id": 1, "messages": [USER], "chat_template_kwargs": {"enable_thinking": False}},
    {"id": 2, "messages": [USER], "tools": TOOLS, "tool_choice": "now"},
    {"id": 3, "messages": [USER], "chat_template_kwargs": {"messages": []}},
    {"id": 4, "prompt": "a text", "tools": TOOLS},
    {"id": 5, "messages": [USER, {"role": "assistant", "content": None, "tool_calls": [{}]}]},
]


def chat_cases() -> list[Case]:
    """Return cases of models that think, of chat templates with arguments, of calls of tools."""
    tools = json.dumps(TOOLS).encode()
    files = {
        "p.jsonl": ASKED,
        "told.jsonl": jsonl(TOLD),
        "tools.json": tools,
    }
    lines = {
        "thinking": "-i p.jsonl -a cities.arrow --thinking 4 --thinking-tags <t> </t> -n 2",
        "thinking-unknown": "-i p.jsonl -a cities.arrow --thinking off",
        "template-args": "-i told.jsonl -a cities.arrow --tool-style json "
        "--template-args {'effort':1}".replace("'", '"'),
        "tools": "-i p.jsonl --tools tools.json --tool-style json --parallel-calls",
        "tools-auto": "-i p.jsonl --tools tools.json --tool-style hermes --tool-choice auto "
        "--max-new-tokens 24",
        "tools-refused": "-i p.jsonl --tools tools.json -a cities.arrow",
    }
    return [
        Case(
            f"chat-{name}",
            "sample",
            (Step(words("sample --method greedy", line)),),
            files,
            needs_compiler="tools" in name,
        )
        for name, line in lines.items()
    ]


def _template(files: dict[str, bytes]) -> Case:
    argv = words("sample -a cities.arrow --method masked --template t.txt -i q.jsonl")
    return Case("records-template", "sample", (Step(argv),), files)


def _text(files: dict[str, bytes]) -> Case:
    argv = words("sample -a cities.arrow --method masked -n 2 -i p.txt")
    stdin = words("sample -a cities.arrow --method masked -n 2 --batch-size 2")
    prompts = ("--prompt", "A city:", "--prompt", "B")
    typed = words("sample -a cities.arrow --method masked", prompts)
    steps = (Step(argv), Step(stdin, files["p.txt"]), Step(typed))
    return Case("records-text", "sample", steps, files)


def _resumes(files: dict[str, bytes]) -> list[Case]:
    found = []
    methods = {"masked": "", "exact": SHORT["exact"], "asap": SHORT["asap"], "mentored": ""}
    for method, more in methods.items():
        run = words("sample -a cities.arrow -i p.txt -n 2 -o out.jsonl --method", method, more)
        steps = (
            Step(run),
            Step(("!keep-lines", "out.jsonl", "3")),
            Step(("!append", "out.jsonl"), b'{"schema_version":1,"id":"x","te'),
            Step((*run, "--resume")),
            Step((*run, "--resume")),
            Step((*run, "--resume", "--seed", "2")),
            Step(run),
            Step((*run, "--force", "-n", "1")),
        )
        found.append(Case(f"resume-{method}", "sample", steps, files))
    return found


def _kept_files(files: dict[str, bytes]) -> list[Case]:
    """Return cases of counts and trees that a run leaves for the next one."""
    one = ("--prompt", "The capital of France is")
    shape = words("sample -a shape.arrow --max-new-tokens 24 --method greedy", one)
    shape = (*shape, "--draft", "counts", "--gamma", "6")
    counts = (
        Step((*shape, "--save-counts", "c.json")),
        Step((*shape, "--counts", "c.json", "--save-counts", "c.json")),
        Step((*shape, "--counts", "c.json", "--gamma", "2")),
        Step((*shape, "--save-counts", "c.json")),
        Step((*shape, "--counts", "none.json")),
    )
    found = [Case("kept-counts", "sample", counts, files)]
    for method in ("asap", "exact"):
        run = words("sample -a cities.arrow -n 3 --tree t.arrow --method", method, SHORT[method])
        tree = (*run, *one)
        more = ((), (), ("--seed", "5"), ("--top-k", "9"))
        steps = tuple(Step((*tree, *own)) for own in more)
        found.append(Case(f"kept-tree-{method}", "sample", steps, files))
    found.append(Case("kept-tree-search", "sample", tuple(_searched(one)), files))
    return found


def _searched(prompt: tuple[str, ...]) -> list[Step]:
    """Return runs that share a tree, which a search begins."""
    run = words("sample -a cities.arrow -n 3 --tree t.arrow --method")
    methods = ("topn", "exact", "beam", "asap")
    return [Step((*run, *words(method, SHORT[method]), *prompt)) for method in methods]


def sample_cases() -> list[Case]:
    """Return all of these cases."""
    return [*matrix_cases(), *option_cases(), *record_cases(), *chat_cases()]
