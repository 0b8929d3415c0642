"""Cases of the other commands: compiling, inspecting, checking, measuring, help, refusals."""

from __future__ import annotations

import json
from pathlib import Path

from case import Case, Step, Words, jsonl, words
from fixtures import CITIES, MEMBERS
from samples import ASKED, METHODS, TOOLS

from cdec.cli.frame.registry import COMMANDS

GRAMMARS = ("arithmetic", "c", "csv", "json", "jsonl", "sexpr", "sql", "toy_asap", "xml")
SETS = ("facts", "unicode_names")


def _data() -> Path:
    import cdec.data

    return Path(next(iter(cdec.data.__path__)))


def _bring(work: Path, *names: str) -> None:
    for name in names:
        (work / Path(name).name).write_bytes((_data() / name).read_bytes())


def compile_cases() -> list[Case]:
    """Return compilations of what ships, and of small lists with each option."""
    found = []
    for name in SETS:
        steps = (
            Step(words(f"compile-set {name}.txt")),
            Step(words(f"compile-set {name}.txt -o again.arrow --json")),
            Step(words(f"inspect {name}.arrow")),
            Step(words(f"inspect {name}.arrow --json")),
            Step(words(f"inspect {name}.arrow --tree --depth 2 --width 4")),
        )
        source = f"embedded/entities/{name}.txt"
        found.append(
            Case(f"compile-{name}", "compile", steps, prepare=lambda w, s=source: _bring(w, s))
        )
    for name in GRAMMARS:
        steps = (
            Step(words(f"compile-grammar {name}")),
            Step(words(f"compile-grammar {name} -o again.arrow --json")),
            Step(words(f"inspect {name}.arrow")),
            Step(words(f"inspect {name}.arrow --json")),
            Step(words(f"inspect {name}.arrow --tree --width 4")),
        )
        found.append(Case(f"compile-{name}", "compile", steps, needs_compiler=True))
    return [*found, *_set_options(), *_grammar_options(), _references(), _corpus()]


def _corpus() -> Case:
    """Return the case of a corpus whose pieces are texts."""
    files = {"c.jsonl": CITIES, "t.txt": b"New York\nork C\nNew Paris\n"}
    steps = (
        Step(words("compile-spans c.jsonl --field name --id-field id --json")),
        Step(words("compile-spans c.jsonl --field name --id-field id")),
        Step(words("compile-spans c.jsonl --field name -o w.arrow --span-whole words")),
        Step(words("inspect c.arrow")),
        Step(words("inspect c.arrow --json --verify")),
        Step(words("check c.arrow -i t.txt")),
        Step(words("sample -a w.arrow --method topn -n 3 --prompt A")),
    )
    return Case("compile-corpus", "compile", steps, files)


def _references() -> Case:
    """Return the case of a schema that refers to another document."""

    def prepare(work: Path) -> None:
        (work / "car.json").write_text('{"items": {"$ref": "https://x.org/colour.json"}}')
        (work / "colour.json").write_text('{"enum": ["red", "blue"]}')
        (work / "refs").mkdir()
        (work / "refs" / "colour.json").write_text('{"enum": ["red", "green"]}')

    steps = (
        Step(words("compile-schema car.json")),
        Step(words("compile-schema car.json --ref https://x.org/colour.json=colour.json")),
        Step(words("inspect car.arrow")),
        Step(words("compile-schema car.json --ref-dir refs")),
        Step(words("compile-schema car.json --ref-dir refs --force")),
        Step(words("check car.arrow"), b'["red"]\n["blue"]\n'),
    )
    return Case("compile-references", "compile", steps, prepare=prepare, needs_compiler=True)


SET_OPTIONS: dict[str, str] = {
    "plain": "c.txt",
    "force": "c.txt -o there.arrow --force",
    "exists": "c.txt -o there.arrow",
    "deny": "c.txt --deny deny.txt",
    "suffix": "c.txt --prefix < --suffix >",
    "space-always": "c.txt --leading-space always",
    "space-never": "c.txt --leading-space never",
    "space-both": "c.txt --leading-space both",
    "nfc": "u.txt --normalize nfc",
    "nfkc": "u.txt --normalize nfkc",
    "keep-empty": "e.txt --keep-empty",
    "json": "c.txt --json",
    "quiet": "c.txt --quiet",
    "jsonl": "c.jsonl --field name --id-field id",
    "jsonl-no-field": "c.jsonl --field nothing",
    "csv": "c.csv --format csv --field name --id-field id",
    "token-ids": "ids.txt --token-ids",
    "token-ids-bad": "bad-ids.txt --token-ids",
    "token-ids-skip": "bad-ids.txt --token-ids --bad-lines skip",
    "token-ids-unused": "ids.txt --token-ids --prefix a",
    "max-entities": "c.txt --max-entities 2",
    "max-entry-tokens": "c.txt --max-entry-tokens 1",
    "max-line-bytes": "c.txt --max-line-bytes 4",
    "max-input-bytes": "c.txt --max-input-bytes 9",
    "memory-limit": "c.txt --memory-limit 64MB",
    "memory-limit-bad": "c.txt --memory-limit much",
    "stdin-no-output": "-",
    "missing": "none.txt",
    "folder": ".",
    "tokenizer-missing": "c.txt --tokenizer no/such",
    "both-names": "c.txt --tokenizer a --model b",
    "revision": "c.txt --revision v2",
}


def _set_options() -> list[Case]:
    text = "\n".join([*MEMBERS, "Paris", "New York City"]) + "\n"
    files = {
        "c.txt": text.encode(),
        "u.txt": "e\u0301a\n\ufb01x\n\u00e9a\n".encode(),
        "e.txt": b"\na\n\nb\n",
        "c.jsonl": CITIES,
        "c.csv": b'id,name\n1,Paris\n2,"Paris, Texas"\n',
        "ids.txt": b"[494,284,290]\n[494,284]\n[570]\n",
        "bad-ids.txt": b"[494]\n[99999999]\n[570]\n",
        "deny.txt": b"Paris\nOslo\n",
        "there.arrow": b"x",
    }
    return [
        Case(f"compile-set-{name}", "compile", (Step(words("compile-set", line)),), files)
        for name, line in SET_OPTIONS.items()
    ]


GRAMMAR_OPTIONS: dict[str, str] = {
    "basic": "g.lark --lexer basic",
    "dynamic": "g.lark --lexer dynamic",
    "contextual": "g.lark --lexer contextual",
    "not-lalr": "a.lark",
    "not-lalr-contextual": "a.lark --lexer contextual",
    "start": "g.lark --start item",
    "start-none": "g.lark --start nowhere",
    "gbnf": "g.gbnf",
    "ebnf": "g.txt --format ebnf",
    "imports": "i.lark --allow-imports .",
    "imports-refused": "i.lark",
    "json": "g.lark --json",
    "quiet": "g.lark --quiet",
    "exists": "g.lark -o there.arrow",
    "max-rules": "g.lark --max-rules 1",
    "max-nesting": "n.lark --max-nesting 3",
    "max-repeat": "r.lark --max-repeat 5",
    "max-states": "r.lark --max-states 3",
    "max-ambiguity": "a.lark --lexer dynamic --max-ambiguity 1",
    "max-tree-nodes": "g.lark --max-tree-nodes 2",
    "max-bytes": "g.lark --max-grammar-bytes 9",
    "missing": "none.lark",
    "stdin-no-output": "-",
}


def _grammar_options() -> list[Case]:
    files = {
        "g.lark": b'start: "[" [item ("," item)*] "]"\nitem: NAME | start\n'
        b'NAME: /[a-z]+/\n%ignore " "\n',
        "a.lark": b'start: start start | "a"\n',
        "i.lark": b"%import .names.NAME\nstart: NAME\n",
        "names.lark": b"NAME: /[a-c]{2}/\n",
        "n.lark": b'start: (((((("a"))))))\n',
        "r.lark": b'start: "ab"~20\n',
        "g.gbnf": b'root ::= item ("," item)*\nitem ::= [a-z]{2,4}\n',
        "g.txt": b'root ::= "x" root | ""\n',
        "there.arrow": b"x",
    }
    return [
        Case(
            f"compile-grammar-{name}", "compile",
            (Step(words("compile-grammar", line)),), files, needs_compiler=True,
        )
        for name, line in GRAMMAR_OPTIONS.items()
    ]  # fmt: skip


TEXTS = "Paris\nParys\nNew York\nNew\n\nOslo \n Rome\nZ\u00fcrich\n".encode()
JSON_TEXT = b'{"a": [1, 2, {"b": null}], "c": "d"}\n'
CHECKS: dict[str, tuple[str, bytes]] = {
    "set": ("check cities.arrow", TEXTS),
    "set-fixed": ("check fixed.arrow", TEXTS),
    "set-allowed-0": ("check cities.arrow --allowed 0", TEXTS),
    "set-jsonl": ("check cities.arrow --format jsonl --field name", CITIES),
    "set-token-ids": ("check cities.arrow --token-ids", b"[494,284,290]\n[494]\n[1,2]\n[]\n"),
    "set-token-ids-bad": ("check cities.arrow --token-ids", b"[494,284,290]\nx\n"),
    "set-whole": ("check cities.arrow --whole", b"Paris\n"),
    "set-explain": ("check cities.arrow --explain", b"Paris\n"),
    "grammar": ("check word.arrow", TEXTS),
    "grammar-token-ids": ("check word.arrow --token-ids", b"[494,284,290]\n[494]\n[1,2]\n[]\n"),
    "grammar-lookahead": ("check shape.arrow --lookahead 0", b'{"name": "ab", "age": 3}\n{"nam\n'),
    "json-whole": ("check json.arrow --whole", JSON_TEXT),
    "json-refused": ("check json.arrow --allowed 3", b'{"a": [1, 2}\n[1,]\n{"a" 1}\n[tru]\n'),
    "json-explain": ("check json.arrow --explain", JSON_TEXT),
    "json-explain-json": ("check json.arrow --explain --json", b'{"a": [1, 2}\n'),
    "json-explain-tokenizer": ("check json.arrow --explain --tokenizer no/such", JSON_TEXT),
    "json-explain-token-ids": ("check json.arrow --explain --token-ids", b"[91, 93]\n"),
    "ambiguous": ("check ambiguous.arrow", b"abca\nabb\n\nbcbc\n"),
    "ambiguous-explain": ("check ambiguous.arrow --explain", b"abca\n"),
    "unused": ("check cities.arrow --token-ids --whole", b""),
    "unused-json": ("check cities.arrow --json", b""),
    "missing": ("check none.arrow", b""),
    "allowed-negative": ("check cities.arrow --allowed -1", b""),
}
INSPECTS = ("cities", "fixed", "word", "shape", "json", "ambiguous")


def sets_within_case() -> Case:
    """Return the case of a set within a schema and a grammar."""
    city = {"type": "string", "x-cdec-set": "cities"}
    schema = {"type": "object", "properties": {"c": city}, "required": ["c"]}
    given = "--set cities=cities.arrow"
    record = b'{"prompt": "A:", "candidates": {"cities": ["Paris", "Rome"]}}\n'
    steps = (
        Step(words("compile-schema within.json -o s.arrow")),
        Step(words(f"check s.arrow {given}"), b'{"c": "Paris"}\n{"c": "Pari_"}\n{"c": "Rome"}\n'),
        Step(words(f"sample -a s.arrow {given} --method masked -n 2"), record),
        Step(words("sample -a s.arrow --method masked"), record),
        Step(words("compile-grammar within.lark -o g.arrow")),
        Step(words("check g.arrow --set CITY=cities.arrow"), b"in Paris\nin Parma\n"),
    )
    files = {
        "within.json": json.dumps(schema | {"additionalProperties": False}).encode(),
        "within.lark": b'start: "in " CITY\n%declare CITY\n',
    }
    return Case("check-sets-within", "check", steps, files)


def check_cases() -> list[Case]:
    """Return cases of ``check`` and ``inspect``."""
    found = [
        Case(f"check-{name}", "check", (Step(words(line), stdin),))
        for name, (line, stdin) in CHECKS.items()
    ]
    for name in INSPECTS:
        lines = ("", "--json", "--tree", "--tree --depth 2 --width 3", "--tree --state 1")
        steps = tuple(Step(words(f"inspect {name}.arrow", line)) for line in lines)
        found.append(Case(f"inspect-{name}", "inspect", steps))
    found.append(sets_within_case())
    wrong = ("inspect .", "inspect none.arrow", "inspect x.txt", "inspect cities.arrow --depth 0")
    steps = tuple(Step(words(line)) for line in wrong)
    return [*found, Case("inspect-wrong", "inspect", steps, {"x.txt": b"hello" * 99})]


MASSES: dict[str, str] = {
    "set": "-a cities.arrow --candidates 24",
    "grammar": "-a word.arrow --candidates 16",
    "both": "-a word.arrow --and cities.arrow --candidates 16",
    "until-converged": "-a cities.arrow --candidates 64 --until-converged 0.05 --round 8",
    "round-1": "-a word.arrow --candidates 8 --round 1",
    "no-remember": "-a word.arrow --candidates 16 --no-remember",
    "no-remember-set": "-a cities.arrow --candidates 16 --no-remember --seed 5",
    "deny": "-a cities.arrow --candidates 16 --deny deny.txt",
    "warped": "-a cities.arrow --candidates 16 --temperature 0.7 --top-k 50",
    "fit": "-a cities.arrow --candidates 12 --fit --max-new-tokens 4",
    "heal": "-a word.arrow --candidates 12 --heal",
    "json": "-a cities.arrow --candidates 8 --json",
    "none": "--candidates 8",
    "bad-candidates": "-a cities.arrow --candidates 0",
    "bad-converged": "-a cities.arrow --until-converged 0",
}
SCORES: dict[str, str] = {
    "free": "-i t.txt --prompt A:",
    "free-no-end": "-i t.txt --prompt A: --no-end",
    "set": "-a cities.arrow -i t.txt --prompt A:",
    "set-candidates": "-a cities.arrow -i t.txt --prompt A: --candidates 12 --seed 3",
    "grammar": "-a word.arrow -i t.txt --prompt A:",
    "both": "-a word.arrow --and cities.arrow -i t.txt --prompt A:",
    "fields": "-a cities.arrow -i t.txt --prompt A: --fields text,logprob",
    "records": "-a cities.arrow -i s.jsonl --prompts p.jsonl",
    "records-strict": "-a cities.arrow -i s.jsonl --strict",
    "records-batch": "-a cities.arrow -i s.jsonl --prompts p.jsonl --batch-size 2",
    "warped": "-a cities.arrow -i t.txt --prompt A: --temperature 0.7 --top-p 0.9",
    "fit": "-a cities.arrow -i t.txt --prompt A: --fit --max-new-tokens 4",
    "heal": "-a word.arrow -i t.txt --prompt Par --heal",
    "deny": "-a cities.arrow -i t.txt --prompt A: --deny deny.txt",
    "length": "-a word.arrow -i t.txt --prompt A: --max-new-tokens 2",
    "no-input": "-i none.txt",
    "bad-field": "-i t.txt --fields nothing",
}
RETOKENIZES: dict[str, str] = {
    "plain": "-i t.txt",
    "prompt": "-i t.txt --prompt A:",
    "end": "-i t.txt --end",
    "batch": "-i t.txt --batch-size 2",
    "records": "-i s.jsonl",
    "strict": "-i s.jsonl --strict",
    "bad-batch": "-i t.txt --batch-size 0",
}
SAMPLES = jsonl(
    [
        {"id": "fr", "text": "Paris"},
        {"id": "it", "token_ids": [494, 284, 290]},
        {"id": "it", "text": 5},
        {"id": "xx", "text": "Oslo"},
        {"id": "fr", "text": "London", "prompt": "A city:"},
        {"token_ids": [9999999], "id": "fr"},
    ]
)


def measure_cases() -> list[Case]:
    """Return cases of ``mass``, ``score`` and ``retokenize``."""
    files = {"t.txt": TEXTS, "s.jsonl": SAMPLES, "p.jsonl": ASKED, "deny.txt": b"Paris\n"}
    found = [
        Case(
            f"mass-{name}", "mass",
            (Step(words("mass --max-new-tokens 10 -i p.jsonl", line)),), files,
        )
        for name, line in MASSES.items()
    ]  # fmt: skip
    tree = Step(
        words("mass -a cities.arrow --candidates 8 --tree t.arrow", ("--prompt", "A city:"))
    )
    found.append(Case("mass-tree", "mass", (tree, tree), files))
    called = {"p.jsonl": ASKED, "tools.json": json.dumps(TOOLS).encode()}
    asked = "--tools tools.json --tool-style hermes"
    steps = (
        Step(words("sample --method masked -o calls.jsonl -i p.jsonl --tool-choice now", asked)),
        Step(words("score -i calls.jsonl --prompts p.jsonl", asked)),
        Step(words("check -i calls.jsonl --field text", asked)),
        Step(words("mass --candidates 8 -i p.jsonl", asked)),
        Step(words("mass -i p.jsonl --tool-choice auto", asked)),
    )
    found.append(Case("calls-measured", "mass", steps, called, needs_compiler=True))
    for command, lines in (("score", SCORES), ("retokenize", RETOKENIZES)):
        found += [
            Case(f"{command}-{name}", command, (Step(words(command, line)),), files)
            for name, line in lines.items()
        ]
    return found


def help_cases() -> list[Case]:
    """Return help, version, doctor and demo."""
    found = [Case(f"help-{name}", "help", (Step((name, "--help")),)) for name in COMMANDS]
    found.append(Case("help-top", "help", (Step(("--help",)), Step(("-h",)), Step(()))))
    found.append(Case("version", "help", (Step(("--version",)),)))
    demo = (Step(words("demo --prompts 3 -n 3 --json")), Step(words("demo --prompts 2 -n 2 -q")))
    wrong = (Step(words("demo --prompts 0")), Step(words("demo -n 0")))
    found.append(Case("demo", "demo", (*demo, *wrong)))
    return found


VALUES: dict[str, str] = {
    "K": "3",
    "recycle": "",
    "top-m": "3",
    "beams": "3",
    "length-penalty": "0.5",
    "opportunistic": "",
    "round": "4",
    "burn-in": "4",
    "until-converged": "0.1",
    "max-draws": "9",
    "fallback": "none",
    "abort": "",
    "particles": "3",
    "resample-below": "0.4",
    "tree-cache": "1MB",
    "by": "text",
    "max-evaluations": "9",
    "tree": "t.arrow",
    "draft": "prompt-lookup",
    "gamma": "2",
    "draft-temperature": "0.5",
    "greedy": "",
    "ratio": "",
    "divergence": "0.2",
    "divergence-total": "1",
    "cost-ratio": "0.5",
    "reward": "regex:a",
    "branch": "2",
    "depth": "2",
    "target-tries": "2",
    "accept-threshold": "0.5",
    "reward-threshold": "0.5",
    "verify": "hard",
    "on-reject": "keep",
    "counts": "c.json",
    "save-counts": "c.json",
    "draft-revision": "v2",
    "draft-dtype": "float32",
    "lookahead": "1",
    "heal": "",
}
"""Option of a method -> a sensible value; empty for a flag."""
NUMBERS: dict[str, tuple[str, ...]] = {
    "disc": ("K", "top-m", "beams", "gamma"),
    "masked": ("top-m", "lookahead"),
    "asap": ("round", "burn-in", "until-converged", "max-draws", "tree-cache"),
    "exact": ("K", "round", "max-draws", "fallback", "gamma", "tree-cache"),
    "smc": ("particles", "resample-below"),
    "mcmc": ("steps", "proposal"),
    "topn": ("round", "by", "max-evaluations"),
    "beam": ("beams", "length-penalty"),
    "speculative": ("gamma", "draft-temperature", "cost-ratio", "draft", "draft-dtype"),
    "mentored": ("divergence", "divergence-total", "gamma", "cost-ratio"),
    "cdsl": (
        *("branch", "depth", "target-tries", "accept-threshold", "reward-threshold", "verify"),
        *("on-reject", "reward", "cost-ratio"),
    ),
}
WRONG = ("-1", "0", "nan", "inf", "2.5", "99999999999", "x", "")
SHARED = ("n", "max-n", "seed", "temperature", "top-k", "top-p", "max-new-tokens", "batch-size")
CONTRADICTIONS: tuple[str, ...] = (
    *("--resume", "--resume --force -o out.jsonl", "-o p.jsonl", "-o there.jsonl"),
    *("--fields nothing", "--resume -o out.jsonl --fields text", "--prompt a -i p.jsonl"),
    *("--method nothing", "--method dics", "--metod disc"),
    "--method masked --top-m 2 --opportunistic",
    *("--method beam --beams 2 -n 3", "--method mentored --divergence 1 --divergence-total 1"),
    *("--method mentored --draft counts", "--method speculative --draft nothing/such"),
    *(
        "--method exact --abort --draft embedded-draft",
        "--method disc --draft embedded-draft --top-m 2",
    ),
    *("--method cdlh", "--method cdsl --reward nothing:x", "--method cdsl --reward regex:("),
    *("--method speculative --draft counts", "--method masked --draft counts", "--constraint x"),
    *("--constraint x=none.arrow", "--and none.arrow", "--deny none.txt", "--template none.txt"),
    *("-i none.jsonl", "--revision v2", "--model no/such", "--device nowhere", "--dtype int8"),
    *("--max-n 2 -n 3", "--tree t.arrow --method asap", "--trust-remote-code", "--engine ray"),
    *("--quantization 8bit", "--device-map nothing", "--grammar-cache 0", "--max-line-bytes 0"),
    *("--gamma 2 --method masked", "extra words", "--lookahead 1", "--heal"),
    *("--reward regex:a", "--cost-ratio measure -o out.jsonl --resume --method speculative"),
)


def refusal_cases() -> list[Case]:
    """Return what ``cdec sample`` refuses, and what it takes until it misses the artifact."""
    found = []
    base = words("sample -a none.arrow --prompt abc --max-new-tokens 4")
    for number, (option, value) in enumerate(VALUES.items()):
        typed = (f"--{option}", value) if value else (f"--{option}",)
        chosen = [METHODS[(number + 3 * i) % len(METHODS)] for i in range(4)]
        steps = tuple(Step((*base, *_of(method), *typed)) for method in chosen)
        found.append(Case(f"unused-{option}", "refusal", steps))
    for method, options in NUMBERS.items():
        for option in options:
            steps = tuple(Step((*base, *_of(method), f"--{option}", bad)) for bad in WRONG[:6])
            found.append(Case(f"range-{method}-{option}", "refusal", steps))
    for option in SHARED:
        flag = "-n" if option == "n" else f"--{option}"
        steps = tuple(
            Step((command, *base[1:], flag, bad))
            for command, values in (("sample", WRONG), ("mass", WRONG[:2]))
            for bad in values
        )
        found.append(Case(f"range-{option}", "refusal", steps))
    files = {"p.jsonl": ASKED, "there.jsonl": b"x\n"}
    for number, line in enumerate(CONTRADICTIONS):
        more = () if "--prompt" in line or "-i " in line else ("-i", "p.jsonl")
        step = Step((*words("sample -a cities.arrow --max-new-tokens 4", line), *more))
        name = "".join(c if c.isalnum() else "-" for c in line).strip("-")
        found.append(Case(f"refused-{number:02}-{name[:60]}", "refusal", (step,), files))
    return found


def _of(method: str) -> Words:
    reward = ("--reward", "regex:a") if method in ("cdlh", "cdlh-approx", "cdsl") else ()
    return ("--method", method, *reward)


CONFIGS: dict[str, tuple[str, str]] = {
    "unknown": ("temprature = 1\n", ""),
    "unknown-table": ("[smaple]\nseed = 1\n", ""),
    "unknown-in-table": ("[sample]\nsede = 1\n", ""),
    "wrong-type": ('seed = "one"\n', ""),
    "wrong-bool": ("recycle = 1\n", ""),
    "wrong-number": ('temperature = "hot"\n', ""),
    "wrong-choice": ('verify = "soft"\n', ""),
    "wrong-list": ("constraint = [1]\n", ""),
    "no-toml": ("seed = = 1\n", ""),
    "not-utf8": ("\udcff = 1\n", ""),
    "forbidden": ("trust-remote-code = true\n", ""),
    "forbidden-debug": ("[sample]\ndebug = true\n", ""),
    "other-command": ("[mass]\ncandidates = 3\n", ""),
    "out-of-range": ("temperature = -1\n", ""),
    "K-zero": ("K = 0\n", ""),
    "method": ('method = "masked"\nn = 2\nseed = 4\n', ""),
    "method-other-options": ('method = "masked"\nK = 7\nbeams = 2\nround = 3\ngamma = 2\n', ""),
    "underscores": ("[sample]\nmax_new_tokens = 3\nbatch_size = 1\n", "--method masked"),
    "typed-wins": ("[sample]\nseed = 4\nn = 3\n", "--method masked -n 1 --seed 7"),
    "table-wins": ("seed = 4\n[sample]\nseed = 5\n", "--method masked"),
    "quiet": ("quiet = true\n", "--method masked"),
    "gamma": ('gamma = "auto"\n', "--method speculative"),
    "draft": ('draft = "prompt-lookup"\n', "--method speculative"),
    "fields": ('fields = "id,text"\n', "--method masked"),
    "reward": ('reward = "regex:a"\nmethod = "cdlh"\n', ""),
    "artifact": ('artifact = "cities.arrow"\n', "--method masked"),
    "output": ('output = "out.jsonl"\n', "--method masked"),
    "revision": ('revision = "v2"\ndraft-revision = "v3"\n', "--method speculative"),
}


def config_cases() -> list[Case]:
    """Return runs beside a ``cdec.toml``."""
    found = []
    for name, (text, line) in CONFIGS.items():
        files = {"p.jsonl": ASKED, "cdec.toml": text.encode(errors="surrogateescape")}
        step = Step(words("sample -a cities.arrow -i p.jsonl", line))
        found.append(Case(f"config-{name}", "config", (step,), files))
    files = {"cdec.toml": b"temprature = 1\n", "c.txt": b"a\n"}
    steps = tuple(Step((name,)) for name in COMMANDS)
    return [*found, Case("config-every-command", "config", steps, files)]


def wrong_cases() -> list[Case]:
    """Return misuse of the other commands."""
    lines = [f"{name} --nothing" for name in COMMANDS]
    lines += ["nothing", "smple", "check", "inspect", "compile-set", "compile-grammar", "run"]
    lines += [f"{name} -a cities.arrow --revision v2" for name in ("score", "mass")]
    lines += ["retokenize --revision v2", "run none.arrow --prompt a", "run x.toml"]
    steps = tuple(Step(words(line), b"a\n") for line in lines)
    return [Case("wrong-words", "refusal", steps)]


def command_cases() -> list[Case]:
    """Return all of these cases."""
    return [
        *compile_cases(), *check_cases(), *measure_cases(), *help_cases(), *refusal_cases(),
        *config_cases(), *wrong_cases(),
    ]  # fmt: skip
