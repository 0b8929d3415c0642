"""Whether what masks let through is valid, and what others make up is let through.

    python -m tools.benchmarks.schemas.generated [walks|hypothesis] [--each 10] [--only TEXT ...]

``walks``: texts drawn with random logits under the masks of each schema of the benchmark (with
``--suite``: of the official cases); the jsonschema package must find all valid, with its own checks
of formats as well. ``hypothesis``: instances that hypothesis-jsonschema makes up; those that
jsonschema finds valid must be accepted. Prints what is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from cdec.compilers.schemas.opened import schema_constraint
from cdec.compilers.schemas.options import SchemaOptions
from cdec.core.errors import CdecError
from cdec.core.schemas.validity import load, parser_of
from tools.benchmarks.schemas.cases import Case, benchmark, official
from tools.benchmarks.schemas.outcomes import Late, at_most, follows
from tools.benchmarks.schemas.random_walks import Walker, walking_vocabulary


def walked(case: Case, each: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield what becomes of each text that is drawn: ``valid``, ``invalid``, and so on."""
    vocabulary = walking_vocabulary(case.source)
    constraint = schema_constraint(case.source, vocabulary, _options(case))
    if json.loads(constraint.metadata.get("cdec.unenforced", "[]")):
        return
    validates = parser_of(case.source, case.formats)
    walker = Walker(vocabulary, np.random.default_rng(seed))
    session = constraint.session()
    for _ in range(each):
        drawn = walker.draw(session)
        if drawn is None:
            yield "unfinished", ""
            continue
        text = drawn.decode()
        verdict = None if validates is None else validates(text, 0.0)
        if verdict and not package_agrees(case, text):
            verdict = False
        yield {True: "valid", False: "invalid", None: "undecided"}[verdict], text


def package_agrees(case: Case, text: str) -> bool:
    """Say whether jsonschema finds a text valid with its own checks of formats alone."""
    import jsonschema
    from jsonschema_specifications import REGISTRY

    schema = json.loads(case.source)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    checker = kind.FORMAT_CHECKER if case.formats == "enforce" else None
    validator = kind(schema, registry=REGISTRY, format_checker=checker)
    try:
        errors = list(validator.iter_errors(json.loads(text)))
    except Exception:
        return True
    # Floats are not exact: only what formats say counts here.
    return all(error.validator != "format" for error in errors)


def made_up(case: Case, each: int) -> list[tuple[str, str]]:
    """Return what becomes of instances that hypothesis-jsonschema makes up."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis_jsonschema import from_schema

    mend_hypothesis_jsonschema()
    vocabulary = walking_vocabulary()
    session = schema_constraint(case.source, vocabulary, _options(case)).session()
    validates = parser_of(case.source, case.formats)
    found: list[tuple[str, str]] = []

    @settings(
        max_examples=each,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(from_schema(json.loads(case.source)))
    def run(value: Any) -> None:
        text = json.dumps(value, ensure_ascii=False)
        if not _has_text(value) or validates is None or validates(text, 0.0) is not True:
            return
        found.append(("valid" if follows(session, text) else "refused", text))

    run()
    return found


def mend_hypothesis_jsonschema() -> None:
    """Give hypothesis the call back that hypothesis-jsonschema 0.23 makes, where it is gone."""
    from hypothesis.internal.conjecture.utils import many

    def more(elements: Any) -> bool:
        if elements._depth is None:
            elements.__enter__()
            elements.drawn = iter(elements)
        if next(elements.drawn, elements) is None:
            return True
        elements.__exit__(None)
        return False

    if not hasattr(many, "more"):
        many.more = more


def _has_text(value: Any) -> bool:
    """Whether a value has a JSON text: no infinities, no half of a surrogate pair."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return not any(0xD800 <= ord(character) < 0xE000 for character in value)
    if isinstance(value, dict):
        return all(map(_has_text, chain(value, value.values())))
    return all(map(_has_text, value)) if isinstance(value, list) else True


def _options(case: Case) -> SchemaOptions:
    return SchemaOptions(formats=case.formats)  # type: ignore[arg-type]


def main() -> None:
    """Draw, and print counts and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=["walks", "hypothesis"], nargs="?", default="walks")
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--suite", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="of so many schemas, one")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names")
    parser.add_argument("--seconds", type=int, default=60, help="for one schema")
    parser.add_argument("--shown", type=int, default=60)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    load()
    counts: Counter[str] = Counter()
    shown = arguments.shown
    cases = official() if arguments.suite else benchmark()
    for case in islice(cases, 0, None, arguments.every):
        if not any(part in case.name for part in arguments.only):
            continue
        found: list[tuple[str, str]] = []
        try:
            with at_most(arguments.seconds):
                if arguments.way == "walks":
                    found.extend(walked(case, arguments.each, arguments.seed))
                else:
                    found.extend(made_up(case, arguments.each))
        except CdecError:
            counts["schemas refused"] += 1
            continue
        except (Late, SystemError):
            # subtle: compiled code that is interrupted raises a SystemError.
            counts["schemas without an end"] += 1
            print(f"late {case.name}")
        except AssertionError as error:
            found.append(("broken", str(error)[:300]))
        except Exception as error:
            # What hypothesis-jsonschema cannot read.
            counts[f"schemas: {type(error).__name__}"] += 1
            if arguments.way == "walks":
                print(f"{type(error).__name__} {case.name}: {str(error)[:200]}")
        counts["schemas"] += 1
        counts.update(status for status, _ in found)
        wrong = [(s, t) for s, t in found if s in ("invalid", "refused", "broken")]
        if wrong and shown:
            shown -= 1
            print(f"{wrong[0][0]} ({len(wrong)} of {len(found)}) {case.name} {wrong[0][1][:300]}")
            print(f"    schema {case.source[:300]}")
    print(dict(counts))


if __name__ == "__main__":
    main()
