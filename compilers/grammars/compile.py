"""compile_grammar: source text -> artifact, stage by stage, in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cdec.compilers.grammars.assemble import assemble_grammar, count_parts, grammar_metadata
from cdec.compilers.grammars.definition import Grammar, GrammarLimits, Lexer
from cdec.compilers.grammars.options import UNNAMED, Dialect, GrammarOptions
from cdec.compilers.grammars.parser_choice import choose_parser
from cdec.compilers.grammars.report import GrammarReport, Phase, ProgressCallback
from cdec.compilers.grammars.scanner.contexts import Contexts, find_contexts
from cdec.compilers.grammars.soundness.coverage import check_coverage, require_spellable
from cdec.core.artifacts.write import refuse_existing, write_artifact
from cdec.core.errors import DataError
from cdec.core.grammars.errors import EmptyLanguageError

if TYPE_CHECKING:
    from cdec.compilers.grammars.parser_choice import ParserChoice
    from cdec.compilers.grammars.scanner.build import Scanner
    from cdec.core.tokens.vocabulary import Vocabulary


def compile_grammar(
    source: str | bytes,
    vocabulary: Vocabulary,
    path: str | Path,
    *,
    start: str | None = None,
    lexer: Lexer | None = None,
    dialect: Dialect = "auto",
    limits: GrammarLimits | None = None,
    import_folder: Path | None = None,
    name: str = UNNAMED,
    force: bool = False,
    progress: ProgressCallback | None = None,
) -> GrammarReport:
    """Compile a grammar into an artifact.

    Args:
        source: The grammar's text.
        vocabulary: The tokens; a tokenizer is not needed.
        path: The artifact.
        start: Name of the start rule; None: ``start`` (``root`` in EBNF).
        lexer: None: ``contextual`` where the grammar is LALR(1), else ``dynamic``, with a notice.
        dialect: ``lark``, ``ebnf`` or ``gbnf`` (read alike); ``auto`` is ``lark``.
        limits: What compiling may cost; ``seconds`` and ``megabytes`` hold in a ``ChildCompiler``
            only.
        import_folder: Folder from which Lark files may be imported, besides lark's own.
        name: Name of the source, recorded and shown, never opened.
        force: Replace an existing file.
        progress: Called when a phase begins.

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
        dialect=dialect,
        limits=limits or GrammarLimits(),
        import_folder=import_folder,
        name=name,
    )
    return compile_with(source, vocabulary, path, options, force=force, progress=progress)


def compile_with(
    source: str | bytes,
    vocabulary: Vocabulary,
    path: str | Path,
    options: GrammarOptions,
    *,
    force: bool = False,
    progress: ProgressCallback | None = None,
) -> GrammarReport:
    """Compile as ``compile_grammar`` does, with options as one object."""
    path = Path(path)
    refuse_existing(path, force=force)
    started = time.perf_counter()
    try:
        arrays, metadata, report = build_grammar(source, vocabulary, options, path, progress)
    except DataError as error:
        if options.name != UNNAMED:
            error.message = f"{options.name}: {error.message}"
            error.args = (error.message,)
        raise
    with _Clock(report, progress).phase("write"):
        write_artifact(path, "grammar", arrays, metadata, force=force)
    report.bytes = path.stat().st_size
    report.seconds["total"] = time.perf_counter() - started
    return report


def build_grammar(
    source: str | bytes,
    vocabulary: Vocabulary,
    options: GrammarOptions,
    path: Path,
    progress: ProgressCallback | None = None,
) -> tuple[dict[str, NDArray[Any]], dict[str, str], GrammarReport]:
    """Compile a grammar in memory.

    Returns:
        The columns, the metadata and the report of an artifact that is not written yet; ``path`` is
        only noted in the report.
    """
    report = GrammarReport(path)
    return _Job(vocabulary, options, report, _Clock(report, progress)).run(source)


class _Clock:
    """Measures phases and tells of them."""

    def __init__(self, report: GrammarReport, progress: ProgressCallback | None) -> None:
        self._report = report
        self._progress = progress

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        if self._progress is not None:
            self._progress(name)
        started = time.perf_counter()
        yield
        taken = time.perf_counter() - started
        self._report.seconds[name] = self._report.seconds.get(name, 0.0) + taken


@dataclass(frozen=True, slots=True)
class _Job:
    """One compilation up to the arrays."""

    vocabulary: Vocabulary
    options: GrammarOptions
    report: GrammarReport
    clock: _Clock

    def run(
        self, source: str | bytes
    ) -> tuple[dict[str, NDArray[Any]], dict[str, str], GrammarReport]:
        options, report, limits = self.options, self.report, self.options.limits
        with self.clock.phase("read"):
            grammar = self._read(source)
        with self.clock.phase("tables"):
            parser = choose_parser(grammar, options.lexer or grammar.lexer, limits)
            grammar = parser.grammar
            require_spellable(grammar, parser.automata, self.vocabulary)
        report.lexer, report.lexer_reason = parser.lexer, parser.reason
        report.start = grammar.nonterminals[grammar.start]
        report.dialect = grammar.dialect
        report.notices += [*grammar.notices, *parser.notices]
        contexts = find_contexts(grammar, parser.tables, parser.lexer)
        scanner = self._scanner(grammar, parser, contexts)
        with self.clock.phase("soundness"):
            self._decide(grammar, parser, contexts, scanner)
        trees = self._trees(grammar, parser, contexts, scanner)
        tables = parser.tables
        arrays = assemble_grammar(grammar, contexts, scanner, tables, trees, self.vocabulary)
        report.counts = count_parts(grammar, tables, arrays)
        metadata = grammar_metadata(grammar, tables, self.vocabulary, report, source=options.name)
        if parser.lexer == "dynamic":
            from cdec.compilers.grammars.parser.characters import character_grammar

            metadata["cdec.characters"] = character_grammar(grammar)
        return arrays, metadata, report

    def _read(self, source: str | bytes) -> Grammar:
        from cdec.compilers.grammars.source import read_grammar

        options = self.options
        return read_grammar(
            source,
            start=options.start,
            lexer=options.lexer,
            dialect=options.dialect,
            limits=options.limits,
            import_folder=options.import_folder,
            name=options.name,
        )

    def _scanner(self, grammar: Grammar, parser: ParserChoice, contexts: Contexts) -> Scanner:
        from cdec.compilers.grammars.scanner.build import build_scanner

        with self.clock.phase("scanner"):
            return build_scanner(
                grammar,
                parser.automata,
                contexts.terminals,
                lexer=parser.lexer,
                limits=self.options.limits,
            )

    def _decide(
        self, grammar: Grammar, parser: ParserChoice, contexts: Contexts, scanner: Scanner
    ) -> None:
        """Note whether every allowed token has a completion.

        Raises:
            EmptyLanguageError: No text is in the language.
        """
        from cdec.compilers.grammars.soundness.decide import decide

        found = decide(
            grammar,
            scanner,
            parser.tables,
            lexer=parser.lexer,
            contexts=contexts.terminals,
            lr_context=contexts.of_state,
        )
        if found.empty:
            raise EmptyLanguageError(
                f"no text satisfies the grammar under `lexer` {parser.lexer}: {found.reason}",
                hint="take `lexer` dynamic, or change the terminals that swallow each other",
            )
        lexing = parser.lexer != "dynamic"
        coverage = check_coverage(grammar, scanner, self.vocabulary, lexing=lexing)
        self.report.is_sound = found.is_sound and coverage.is_whole
        self.report.sound_reason = coverage.reason if found.is_sound else found.reason
        self.report.sound_reason = self.report.sound_reason or found.reason
        self.report.notices += coverage.notices

    def _trees(
        self, grammar: Grammar, parser: ParserChoice, contexts: Contexts, scanner: Scanner
    ) -> dict[str, NDArray[Any]]:
        from cdec.compilers.grammars.trees.build import build_trees
        from cdec.compilers.grammars.trees.token_trie import TokenTrie

        lexing = parser.lexer != "dynamic"
        with self.clock.phase("trie"):
            trie = TokenTrie.of(self.vocabulary)
        ignored = np.zeros(len(grammar.terminals), np.bool_)
        ignored[sorted(grammar.ignored)] = True
        with self.clock.phase("trees"):
            return build_trees(
                scanner,
                contexts.after,
                trie,
                self.vocabulary.size,
                lexing=lexing,
                fallback_states=_states_with_fallback(scanner) if lexing else None,
                limits=self.options.limits,
                ignored=ignored,
            )


def _states_with_fallback(scanner: Scanner) -> NDArray[np.bool_]:
    """Return which states can be under way while an earlier end of the terminal is remembered.

    Those are the states that complete a terminal, and all that come after them, bool[C].
    """
    delta = np.asarray(scanner.delta)
    has = np.diff(scanner.match_offsets) > 0
    front: NDArray[Any] = np.flatnonzero(has)
    while len(front):
        reached = np.unique(delta[front])
        front = reached[(reached >= 0) & ~has[reached]]
        has[front] = True
    return has
