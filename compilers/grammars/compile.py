"""The text of a grammar -> an artifact or a constraint, stage by stage, in this process.

``build_grammar`` is the table of contents: every stage is one call, and its room is named by the
import.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.assemble import (
    assemble_grammar,
    count_parts,
    grammar_metadata,
    precompute_masks,
)
from cdec.compilers.grammars.attributes import (
    Held,
    budget_metadata,
    with_budgets,
    without_attributes,
)
from cdec.compilers.grammars.automata.program import Counting
from cdec.compilers.grammars.blanks import bound_blanks
from cdec.compilers.grammars.definition import GrammarLimits, Lexer
from cdec.compilers.grammars.indentation import Indented, follow_blocks, lay_out
from cdec.compilers.grammars.options import (
    MAX_WHITESPACE,
    PHASES,
    PRECOMPUTE,
    UNNAMED,
    Dialect,
    GrammarOptions,
    GrammarReport,
)
from cdec.compilers.grammars.parser.characters import character_grammar
from cdec.compilers.grammars.parser_choice import ParserChoice, choose_parser
from cdec.compilers.grammars.regex import require_texts
from cdec.compilers.grammars.scanner.build import Parts, build_scanner, states_with_fallback
from cdec.compilers.grammars.scanner.competition import find_contexts
from cdec.compilers.grammars.scanner.loops import expand_repetitions
from cdec.compilers.grammars.soundness.coverage import Alphabet, require_spellable
from cdec.compilers.grammars.soundness.prove import prove
from cdec.compilers.grammars.source import naming_source, read_grammar
from cdec.compilers.grammars.special import with_stand_ins
from cdec.compilers.grammars.states import UncountableError, lacks_some
from cdec.compilers.grammars.trees import build_trees
from cdec.compilers.report import Clock
from cdec.compilers.written import writer
from cdec.core.artifacts.opened import bind_arrays
from cdec.core.artifacts.read import UNNAMED as NO_FILE
from cdec.core.artifacts.write import MADE_FROM_KEY
from cdec.core.grammars.budgets import FOLLOWED_KEY, are_followed, require_budgets
from cdec.core.grammars.columns import MARKER, SET_TERMINALS_KEY, SETS_KEY, arrays_from
from cdec.core.grammars.errors import EmptyLanguageError, GrammarUnsupportedError
from cdec.core.grammars.special import SpecialTokens
from cdec.core.progress import Progress, silent
from cdec.core.sets.within import digests_of, pinned_metadata
from cdec.core.tokens.token_trie import TokenTrie

if TYPE_CHECKING:
    from cdec.core.artifacts.opened import StoredConstraint
    from cdec.core.tokens.vocabulary import Vocabulary


def compile_grammar(
    source: str | bytes,
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    start: str | None = None,
    lexer: Lexer | None = None,
    format: Dialect = "auto",
    limits: GrammarLimits | None = None,
    allow_imports: Path | None = None,
    name: str = UNNAMED,
    max_whitespace: int | None = MAX_WHITESPACE,
    indenter: str | None = None,
    precompute: int = PRECOMPUTE,
    sets: Mapping[str, Any] = MappingProxyType({}),
    force: bool = False,
    progress: Progress = silent,
) -> GrammarReport:
    """Compile a grammar into an artifact.

    Args:
        source: The grammar's text.
        vocabulary: The tokens; a tokenizer is not needed.
        path: The artifact.
        start: Name of the start rule; None: ``start`` (``root`` in EBNF).
        lexer: None: ``contextual`` where LALR(1) tables lose no text and some is left, else
            ``dynamic``, with a notice.
        format: ``lark``, ``ebnf`` or ``gbnf`` (read alike); ``auto`` is ``lark``.
        limits: What compiling may cost; ``compile_seconds`` and ``compile_megabytes`` hold in a
            ``ChildCompiler`` only.
        allow_imports: Folder from which Lark files may be imported, besides lark's own.
        name: Name of the source, recorded and shown, never opened.
        max_whitespace: Longest run of blanks that the grammar ignores, recorded as part of the
            constraint: as many on a line, line breaks, and four times as many of indentation; 0
            for no blank, None for any number.
        indenter: How indentation becomes terminals, as lark's ``PythonIndenter`` does it:
            ``python``, or what differs from it: ``NL_type=_NL,OPEN_PAREN_types=,tab_len=4``; in
            texts no line is indented further than its ``columns``, 100. None: it means nothing.
        precompute: Steps of the automaton of masks that are made now; the others while decoding.
        sets: Artifacts of sets, opened or by their paths, that alone are to stand within it by
            these names: their digests are recorded. Of other names any set may be given.
        force: Replace an existing file.
        progress: Told when a phase begins.

    Returns:
        What was done. Cost: some 0.3 seconds for JSON and 131,072 tokens, seconds for C; all cores
        work on the trees.

    Raises:
        GrammarError: What is wrong with the grammar, with line and column.
        EncodingError: It is no UTF-8.
        UntokenizableError: The vocabulary cannot spell one of its terminals.
        LimitError: A limit is passed; ``limit`` names it.
        OutputExistsError, OutputError: The artifact cannot be written.
        UsageError: A lexer or dialect that does not exist.
    """
    options = GrammarOptions(
        start=start,
        lexer=lexer,
        format=format,
        limits=limits or GrammarLimits(),
        allow_imports=allow_imports,
        name=name,
        max_whitespace=max_whitespace,
        indenter=indenter,
        precompute=precompute,
        set_digests=digests_of(sets),
    )
    return compile_with(source, vocabulary, path, options, force=force, progress=progress)


def grammar_constraint(
    source: str | bytes,
    vocabulary: Vocabulary,
    *,
    start: str | None = None,
    lexer: Lexer | None = None,
    format: Dialect = "auto",
    limits: GrammarLimits | None = None,
    allow_imports: Path | None = None,
    max_whitespace: int | None = MAX_WHITESPACE,
    indenter: str | None = None,
) -> StoredConstraint:
    """Make a constraint of a grammar, in memory: what ``compile_grammar`` would write, opened.

        model = load_model("gpt2")
        answer = grammar_constraint('start: "yes" | "no"', model.vocabulary)

    Args:
        source: The grammar's text.
        vocabulary: Of the model that will draw.
        start, lexer, format, limits, allow_imports, max_whitespace, indenter: As in
            ``compile_grammar``.

    Returns:
        The constraint of that vocabulary. Cost: as ``compile_grammar``; keep it for all prompts.

    Raises:
        CdecError: As ``compile_grammar``, but for the file.
    """
    options = GrammarOptions(
        start=start,
        lexer=lexer,
        format=format,
        limits=limits or GrammarLimits(),
        allow_imports=allow_imports,
        max_whitespace=max_whitespace,
        indenter=indenter,
        precompute=0,
    )
    arrays, metadata, _ = build_grammar(source, vocabulary, options, NO_FILE)
    return bind_arrays("grammar", arrays, metadata, vocabulary)


def build_grammar(
    source: str | bytes,
    vocabulary: Vocabulary,
    options: GrammarOptions,
    path: Path,
    progress: Progress = silent,
) -> tuple[dict[str, NDArray[Any]], dict[str, str], GrammarReport]:
    """Compile a grammar in memory.

    Returns:
        The columns, the metadata and the report of an artifact that is not written yet; ``path`` is
        only noted in the report.

    Raises:
        GrammarError, EncodingError, UntokenizableError, LimitError: As ``compile_grammar``.
    """
    counts, emptied = True, None
    named = _named(source, vocabulary, options)
    while True:
        clock = Clock(GrammarReport(path), PHASES, progress)
        try:
            return _build(named, vocabulary, options, clock, counts, emptied)
        except UncountableError:
            counts = False
        except EmptyLanguageError as error:
            # Only a lexer that nobody asked for is given up, and only once.
            given_up = error.details.get("lexer", "dynamic")
            if emptied is not None or options.lexer is not None or given_up == "dynamic":
                raise emptied or error from None
            counts, emptied = True, error


compile_with = writer("grammar", build_grammar, PHASES)


class Named(NamedTuple):
    """A source without what Lark does not read.

    Attributes:
        source: The rest. special: Special tokens that it has characters for.
        held: How many tokens definitions may have.
    """

    source: str | bytes
    special: SpecialTokens = SpecialTokens({}, {})
    held: Mapping[str, Held] = MappingProxyType({})


def _named(source: str | bytes, vocabulary: Vocabulary, options: GrammarOptions) -> Named:
    """Return a source without the special tokens and the numbers of tokens that it names.

    Raises:
        GrammarError: One cannot be; or special tokens stand beside an indenter.
    """
    named = Named(source)
    with naming_source(options):
        if options.format in ("auto", "lark"):
            plain, held = without_attributes(source, options.limits)
            named = Named(*with_stand_ins(plain, vocabulary, options.limits), held)
        elif options.format in ("ebnf", "gbnf"):
            plain, held = without_attributes(source, options.limits, is_ebnf=True)
            named = Named(*with_stand_ins(plain, vocabulary, options.limits, is_ebnf=True), held)
        if named.special and options.indenter:
            raise GrammarUnsupportedError(
                "a grammar with an indenter names special tokens", hint="leave one of the two out"
            )
    return named


def _build(
    named: Named,
    model: Vocabulary,
    options: GrammarOptions,
    clock: Clock[GrammarReport],
    counts: bool,
    emptied: EmptyLanguageError | None,
) -> tuple[dict[str, NDArray[Any]], dict[str, str], GrammarReport]:
    """Compile in memory; ``counts``: copies of counted repetitions may be left out for a while,
    ``emptied``: what the lexer that would be chosen did to the language.

    Raises:
        UncountableError: They cannot be put in afterwards.
    """
    report, limits, special = clock.report, options.limits, named.special
    vocabulary = special.image(model) if special else model
    parser = _read(named, vocabulary, options, clock, counts, emptied)
    grammar, lexing = parser.grammar, parser.lexer != "dynamic"
    laid = _parts(parser, vocabulary, limits, report, clock)
    made = laid.parts
    sets = [number for number, t in enumerate(made.grammar.terminals) if t.is_set]
    with clock.phase("trie"):
        trie = TokenTrie.of(vocabulary)
        if sets:
            trie = trie.without(~_with_markers(model))
    with clock.phase("trees"):
        trees = build_trees(
            made.scanner,
            made.contexts.after,
            trie,
            vocabulary.size,
            lexing=lexing,
            fallback_states=states_with_fallback(made.scanner.delta, made.scanner.match_offsets)
            if lexing
            else None,
            limits=limits,
            ignored=np.isin(np.arange(len(made.grammar.terminals)), sorted(made.grammar.ignored)),
            same_tree=laid.same_tree,
            copies=made.scanner.copies,
        )
    arrays = assemble_grammar(made, trees, vocabulary, laid.columns)
    with clock.phase("masks"):
        # What blocks are open decides masks with an indenter, and they are many.
        steps = 0 if options.indenter else options.precompute
        arrays |= precompute_masks(arrays, general=not lexing, steps=steps)
    if made.scanner.copies is not None and lacks_some(made.scanner.copies):
        arrays = expand_repetitions(arrays, made.scanner.copies)
    report.counts = count_parts(grammar, made.tables, arrays)
    report.precompute = options.precompute
    metadata = grammar_metadata(made.grammar, made.tables, model, report, source=options.name)
    metadata |= special.to_metadata(metadata["cdec.names"])
    if not lexing and grammar.dialect != "regex":
        metadata["cdec.characters"] = character_grammar(parser.written)
    elif grammar.plain:
        metadata["cdec.plain"] = grammar.plain
    if options.made_from:
        metadata[MADE_FROM_KEY] = options.made_from
    metadata |= _budgets(made, named.held, arrays, metadata, vocabulary)
    names = [made.grammar.terminals[number].name for number in sets]
    metadata |= pinned_metadata(options.set_digests, names)
    if sets:
        metadata[SETS_KEY] = json.dumps(names)
        metadata[SET_TERMINALS_KEY] = json.dumps(sets)
    return arrays, metadata, report


def _budgets(
    made: Parts,
    held: Mapping[str, Held],
    arrays: Mapping[str, NDArray[Any]],
    metadata: dict[str, str],
    vocabulary: Vocabulary,
) -> dict[str, str]:
    """Return what is recorded of how many tokens parts may have, which can be kept."""
    found = budget_metadata(made.grammar, made.tables, held)
    compiled = arrays_from(arrays) if found else None
    if compiled is not None:
        if are_followed(compiled, metadata | found, vocabulary):
            found[FOLLOWED_KEY] = "1"
        require_budgets(compiled, metadata | found, vocabulary)
    return found


def _with_markers(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Return which tokens have the byte that stands for members of sets, bool[V]."""
    counts = np.concatenate(([0], np.cumsum(vocabulary.flat_bytes == MARKER)))
    found: NDArray[np.bool_] = np.diff(counts[vocabulary.byte_offsets]) > 0
    return found


def _read(
    named: Named,
    vocabulary: Vocabulary,
    options: GrammarOptions,
    clock: Clock[GrammarReport],
    counts: bool,
    emptied: EmptyLanguageError | None,
) -> ParserChoice:
    """Return the grammar with its lexer, tables and automata; note in the report what they are."""
    report, limits = clock.report, options.limits
    with clock.phase("read"):
        written = with_budgets(read_grammar(named.source, options, named.held), named.held)
        written, blanks, unbounded = bound_blanks(written, options.max_whitespace, limits)
    with clock.phase("tables"):
        # subtle: line breaks are cut by their columns, which are counts as well.
        counts = counts and written.indenter is None
        counting = Counting.of(written.terminals, vocabulary) if counts else None
        alphabet = Alphabet.of(vocabulary)
        parser = choose_parser(
            written, written.lexer, limits, counting, alphabet=alphabet, emptied=emptied
        )
        own = parser.automata[: len(parser.written.terminals)]
        require_spellable(parser.written, own, vocabulary)
    said = (*unbounded, *parser.notices, *require_texts(parser.written, own))
    said += alphabet.notices() if alphabet else ()
    report.describe(parser.grammar, parser.lexer, parser.reason, said)
    report.bound(blanks, options.max_whitespace)
    report.indenter = options.indenter
    return parser


def _parts(
    parser: ParserChoice,
    vocabulary: Vocabulary,
    limits: GrammarLimits,
    report: GrammarReport,
    clock: Clock[GrammarReport],
) -> Indented:
    """Return grammar, contexts, scanner and tables; note in the report whether they are sound."""
    grammar, tables, indenter = parser.grammar, parser.tables, parser.grammar.indenter
    contexts = find_contexts(grammar, tables, parser.lexer)
    looks_around = any(automaton.is_open for automaton in parser.automata)
    if looks_around and any(lacks_some(automaton.copies) for automaton in parser.automata):
        raise UncountableError
    plain: list[NDArray[np.int32]] = []
    with clock.phase("scanner"):
        if looks_around and grammar.rule_tokens:
            raise GrammarUnsupportedError(
                f"terminals look at what stands around them, and tokens are counted of the rule "
                f"{grammar.rule_tokens[0][0]}",
                hint="give the number to terminals within it",
            )
        if looks_around:
            from cdec.compilers.grammars.lookaround.refine import refine

            if indenter is not None:
                tables = follow_blocks(tables, grammar, indenter)
            grammar, tables, contexts, scanner, *plain = refine(
                grammar, parser.automata, tables, contexts, limits
            )
        else:
            scanner = build_scanner(
                grammar, parser.automata, contexts.terminals, lexer=parser.lexer, limits=limits
            )
        made = Parts(grammar, contexts, scanner, tables)
        laid = Indented(made) if indenter is None else lay_out(made, indenter, *plain)
    with clock.phase("soundness"):
        if looks_around:
            report.sound_reason = "terminals look at what stands behind them, which may never come"
        elif indenter is not None:
            report.sound_reason = "the proof does not follow blocks that indentation opens"
        else:
            laid = Indented(prove(made, parser.lexer, vocabulary, report))
    return laid
