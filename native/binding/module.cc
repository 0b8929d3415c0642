// The module cdec.core._native: the table of what Python may call. A new function is a row here.
#include "calls.h"

namespace binding {

// The fields of each struct, in the order of the header and of the tuples in Python.
#define FIELDS(name, ...)                                   \
  template <>                                               \
  struct Fields<cdec_##name> : FieldList<__VA_ARGS__> {     \
    static constexpr const char *kName = #name;             \
  };
FIELDS(trie, cdec_trie, &cdec_trie::token, &cdec_trie::link, &cdec_trie::degree, &cdec_trie::row,
       &cdec_trie::row_count, &cdec_trie::tokens, &cdec_trie::row_offsets, &cdec_trie::dense_nodes,
       &cdec_trie::dense_masks, &cdec_trie::end_ids, &cdec_trie::kept, &cdec_trie::kept_rank,
       &cdec_trie::hot_masks, &cdec_trie::hot_ready, &cdec_trie::width, &cdec_trie::ends_itself)
FIELDS(spans, cdec_spans, &cdec_spans::data, &cdec_spans::begin, &cdec_spans::length,
       &cdec_spans::least, &cdec_spans::ends, &cdec_spans::is_ordinary, &cdec_spans::flat,
       &cdec_spans::byte_offsets, &cdec_spans::end_ids, &cdec_spans::wide_states,
       &cdec_spans::wide_masks, &cdec_spans::width)
FIELDS(regexes, cdec_regexes, &cdec_regexes::properties, &cdec_regexes::starts,
       &cdec_regexes::continues)
FIELDS(nodes, cdec_nodes, &cdec_nodes::token, &cdec_nodes::link, &cdec_nodes::degree,
       &cdec_nodes::first_row, &cdec_nodes::row_count)
FIELDS(known, cdec_known, &cdec_known::scores, &cdec_known::log_normalizer, &cdec_known::rows)
FIELDS(lists, cdec_lists, &cdec_lists::which, &cdec_lists::lists, &cdec_lists::offsets,
       &cdec_lists::ids)
FIELDS(ends, cdec_ends, &cdec_ends::ids, &cdec_ends::is_end)
FIELDS(draws, cdec_draws, &cdec_draws::walk_starts, &cdec_draws::walk_order, &cdec_draws::uniforms)
FIELDS(drawn, cdec_drawn, &cdec_drawn::tokens, &cdec_drawn::log_p, &cdec_drawn::log_z,
       &cdec_drawn::log_end, &cdec_drawn::log_residual)
FIELDS(happened, cdec_happened, &cdec_happened::tokens, &cdec_happened::log_p,
       &cdec_happened::log_z, &cdec_happened::missed)
FIELDS(sums, cdec_sums, &cdec_sums::log_p, &cdec_sums::log_z, &cdec_sums::log_kept)
FIELDS(best, cdec_best, &cdec_best::tokens, &cdec_best::log_p, &cdec_best::log_end,
       &cdec_best::log_z)
FIELDS(tree, cdec_tree, &cdec_tree::request, &cdec_tree::draw, &cdec_tree::edge, &cdec_tree::mass,
       &cdec_tree::bound, &cdec_tree::flags, &cdec_tree::first_child, &cdec_tree::next_sibling)
FIELDS(arrivals, cdec_arrivals, &cdec_arrivals::context, &cdec_arrivals::parent,
       &cdec_arrivals::request, &cdec_arrivals::draw, &cdec_arrivals::log_edge,
       &cdec_arrivals::log_mass, &cdec_arrivals::flags)
FIELDS(shares, cdec_shares, &cdec_shares::log_prefix, &cdec_shares::log_end,
       &cdec_shares::log_truncated, &cdec_shares::depth, &cdec_shares::log_found,
       &cdec_shares::log_cut, &cdec_shares::deepest)
FIELDS(slots, cdec_slots, &cdec_slots::start, &cdec_slots::length, &cdec_slots::first_block,
       &cdec_slots::shift)
FIELDS(pool, cdec_pool, &cdec_pool::ids, &cdec_pool::masses, &cdec_pool::blocks)
FIELDS(asked, cdec_asked, &cdec_asked::nodes, &cdec_asked::scores, &cdec_asked::log_normalizer,
       &cdec_asked::rows, &cdec_asked::lists, &cdec_asked::offsets, &cdec_asked::allowed)
FIELDS(descending, cdec_descending, &cdec_descending::node, &cdec_descending::depth,
       &cdec_descending::log_p, &cdec_descending::token, &cdec_descending::log_edge,
       &cdec_descending::status)
FIELDS(uniforms, cdec_uniforms, &cdec_uniforms::uniforms, &cdec_uniforms::block_of,
       &cdec_uniforms::width)
FIELDS(law, cdec_law, &cdec_law::scores, &cdec_law::log_normalizer)
FIELDS(allowed_lists, cdec_allowed_lists, &cdec_allowed_lists::offsets, &cdec_allowed_lists::ids,
       &cdec_allowed_lists::end_ids, &cdec_allowed_lists::is_end)
FIELDS(tested_nodes, cdec_tested_nodes, &cdec_tested_nodes::rows, &cdec_tested_nodes::list_of,
       &cdec_tested_nodes::log_end, &cdec_tested_nodes::starts, &cdec_tested_nodes::walks)
FIELDS(proposed, cdec_proposed, &cdec_proposed::laws, &cdec_proposed::events)
FIELDS(numbers, cdec_numbers, &cdec_numbers::tests, &cdec_numbers::picks, &cdec_numbers::limits)
FIELDS(chosen, cdec_chosen, &cdec_chosen::tokens, &cdec_chosen::log_p)
FIELDS(judged, cdec_judged, &cdec_judged::accepted, &cdec_judged::log_ratio, &cdec_judged::spent,
       &cdec_judged::charged)
FIELDS(counts, cdec_counts, &cdec_counts::keys, &cdec_counts::events, &cdec_counts::times)
FIELDS(loops, cdec_loops, &cdec_loops::recent, &cdec_loops::runs, &cdec_loops::seen,
       &cdec_loops::found)
// automata: constructions, spellings, edges
FIELDS(most, cdec_most, &cdec_most::lists, &cdec_most::items, &cdec_most::numbers)
FIELDS(threads, cdec_threads, &cdec_threads::reads, &cdec_threads::follow_of,
       &cdec_threads::follow_offsets, &cdec_threads::follow_nodes, &cdec_threads::charset_offsets,
       &cdec_threads::charset_atoms, &cdec_threads::atoms, &cdec_threads::prioritised)
FIELDS(terminals, cdec_terminals, &cdec_terminals::offsets, &cdec_terminals::kinds,
       &cdec_terminals::targets, &cdec_terminals::accepts, &cdec_terminals::owners,
       &cdec_terminals::keyword_offsets, &cdec_terminals::expressions, &cdec_terminals::classes,
       &cdec_terminals::competing)
FIELDS(pending, cdec_pending, &cdec_pending::delta, &cdec_pending::meaning, &cdec_pending::live_row,
       &cdec_pending::live)
FIELDS(bounds, cdec_bounds, &cdec_bounds::sides, &cdec_bounds::whole, &cdec_bounds::fraction,
       &cdec_bounds::scientific, &cdec_bounds::exponent, &cdec_bounds::digits)
FIELDS(answers, cdec_answers, &cdec_answers::pieces, &cdec_answers::zero, &cdec_answers::off,
       &cdec_answers::gridded, &cdec_answers::following, &cdec_answers::on)
FIELDS(sizes, cdec_sizes, &cdec_sizes::places, &cdec_sizes::most, &cdec_sizes::longest,
       &cdec_sizes::deepest, &cdec_sizes::deep, &cdec_sizes::mantissa, &cdec_sizes::depth,
       &cdec_sizes::far, &cdec_sizes::has_powers, &cdec_sizes::is_any, &cdec_sizes::down,
       &cdec_sizes::up, &cdec_sizes::has_grid)
FIELDS(edges, cdec_edges, &cdec_edges::offsets, &cdec_edges::lows, &cdec_edges::highs,
       &cdec_edges::targets)
// automata: minimisation
FIELDS(copies, cdec_copies, &cdec_copies::copy, &cdec_copies::more, &cdec_copies::following,
       &cdec_copies::cut)
// trees
FIELDS(tree_scanner, cdec_tree_scanner, &cdec_tree_scanner::delta,
       &cdec_tree_scanner::match_offsets, &cdec_tree_scanner::match_terminals,
       &cdec_tree_scanner::live_row, &cdec_tree_scanner::context_start,
       &cdec_tree_scanner::after_offsets, &cdec_tree_scanner::after_contexts,
       &cdec_tree_scanner::ignored, &cdec_tree_scanner::lexing, &cdec_tree_scanner::max_branches,
       &cdec_tree_scanner::max_nodes)
FIELDS(tree_trie, cdec_tree_trie, &cdec_tree_trie::classes, &cdec_tree_trie::depth,
       &cdec_tree_trie::skip, &cdec_tree_trie::token_offsets, &cdec_tree_trie::token_ids)
FIELDS(tree_columns, cdec_tree_columns, &cdec_tree_columns::tree_of_class,
       &cdec_tree_columns::tree_paths, &cdec_tree_columns::path_parent,
       &cdec_tree_columns::path_terminal, &cdec_tree_columns::path_byte,
       &cdec_tree_columns::path_next, &cdec_tree_columns::tree_groups,
       &cdec_tree_columns::group_branches, &cdec_tree_columns::branch_path,
       &cdec_tree_columns::branch_live, &cdec_tree_columns::branch_depth,
       &cdec_tree_columns::group_dense, &cdec_tree_columns::group_tokens,
       &cdec_tree_columns::tokens, &cdec_tree_columns::tree_verify,
       &cdec_tree_columns::verify_tokens, &cdec_tree_columns::tree_taken,
       &cdec_tree_columns::dense_masks)
// schemas
FIELDS(schema, cdec_schema, &cdec_schema::state_edges, &cdec_schema::edge_low,
       &cdec_schema::edge_high, &cdec_schema::edge_target, &cdec_schema::state_label,
       &cdec_schema::state_shortest, &cdec_schema::state_free, &cdec_schema::state_low,
       &cdec_schema::state_high, &cdec_schema::state_open, &cdec_schema::raw_start,
       &cdec_schema::string_offsets, &cdec_schema::string_start, &cdec_schema::string_min,
       &cdec_schema::string_max, &cdec_schema::array_offsets, &cdec_schema::array_ids,
       &cdec_schema::object_offsets, &cdec_schema::object_ids, &cdec_schema::choice_value,
       &cdec_schema::choice_counter_offsets, &cdec_schema::choice_counters, &cdec_schema::array_min,
       &cdec_schema::array_max, &cdec_schema::array_distinct, &cdec_schema::array_position_offsets,
       &cdec_schema::position_choice_offsets, &cdec_schema::array_counter_offsets,
       &cdec_schema::array_counter_min, &cdec_schema::array_counter_max, &cdec_schema::object_min,
       &cdec_schema::object_max, &cdec_schema::object_key, &cdec_schema::object_ordered,
       &cdec_schema::object_distinct, &cdec_schema::object_slot_offsets,
       &cdec_schema::slot_choice_offsets, &cdec_schema::slot_single, &cdec_schema::slot_required,
       &cdec_schema::slot_rank, &cdec_schema::object_counter_offsets,
       &cdec_schema::object_counter_min, &cdec_schema::object_counter_max,
       &cdec_schema::blank_start, &cdec_schema::indent, &cdec_schema::place_offsets,
       &cdec_schema::place_bytes, &cdec_schema::key_offsets, &cdec_schema::key_bytes,
       &cdec_schema::vocabulary_offsets, &cdec_schema::vocabulary_bytes)
FIELDS(token_trie, cdec_token_trie, &cdec_token_trie::node_byte, &cdec_token_trie::depth,
       &cdec_token_trie::skip, &cdec_token_trie::token_offsets, &cdec_token_trie::token_ids)
FIELDS(json_tokens, cdec_json_tokens, &cdec_json_tokens::content, &cdec_json_tokens::run_of,
       &cdec_json_tokens::runs, &cdec_json_tokens::run_offsets, &cdec_json_tokens::blank)
// grammars: the engine
FIELDS(grammar, cdec_grammar, &cdec_grammar::byte_class, &cdec_grammar::delta, &cdec_grammar::match_offsets,
       &cdec_grammar::match_terminals, &cdec_grammar::live_row, &cdec_grammar::live_offsets,
       &cdec_grammar::live_terminals, &cdec_grammar::context_start, &cdec_grammar::loop_row,
       &cdec_grammar::loop_period, &cdec_grammar::loop_copies, &cdec_grammar::lr_context,
       &cdec_grammar::terminal_context, &cdec_grammar::ignored, &cdec_grammar::action_offsets,
       &cdec_grammar::action_terminals, &cdec_grammar::action_values, &cdec_grammar::goto_offsets,
       &cdec_grammar::goto_symbols, &cdec_grammar::goto_states, &cdec_grammar::rule_lhs,
       &cdec_grammar::rule_length, &cdec_grammar::item_offsets, &cdec_grammar::item_rules,
       &cdec_grammar::item_dots, &cdec_grammar::tree_of_state, &cdec_grammar::tree_paths,
       &cdec_grammar::path_parent, &cdec_grammar::path_terminal, &cdec_grammar::path_byte,
       &cdec_grammar::path_next, &cdec_grammar::tree_groups, &cdec_grammar::group_branches,
       &cdec_grammar::branch_path, &cdec_grammar::branch_live, &cdec_grammar::branch_depth,
       &cdec_grammar::group_dense, &cdec_grammar::group_tokens, &cdec_grammar::tokens,
       &cdec_grammar::tree_verify, &cdec_grammar::verify_tokens, &cdec_grammar::tree_taken,
       &cdec_grammar::dense_masks, &cdec_grammar::automaton_offsets,
       &cdec_grammar::automaton_items, &cdec_grammar::automaton_step_offsets,
       &cdec_grammar::automaton_read, &cdec_grammar::automaton_after, &cdec_grammar::indent_roles,
       &cdec_grammar::indent_symbols, &cdec_grammar::state_column, &cdec_grammar::lr_plain,
       &cdec_grammar::vocabulary_offsets, &cdec_grammar::vocabulary_bytes)
FIELDS(grammar_settings, cdec_grammar_settings,
       &cdec_grammar_settings::general, &cdec_grammar_settings::lookahead,
       &cdec_grammar_settings::scanner_states, &cdec_grammar_settings::stored_lists,
       &cdec_grammar_settings::budget, &cdec_grammar_settings::most_bytes,
       &cdec_grammar_settings::pause_at, &cdec_grammar_settings::stop_at,
       &cdec_grammar_settings::at_once)
FIELDS(spelling, cdec_spelling, &cdec_spelling::words, &cdec_spelling::width,
       &cdec_spelling::end_ids, &cdec_spelling::first, &cdec_spelling::within,
       &cdec_spelling::across_offsets, &cdec_spelling::across, &cdec_spelling::may_end,
       &cdec_spelling::shape_offsets, &cdec_spelling::shape_classes, &cdec_spelling::shape_tail,
       &cdec_spelling::tail_offsets, &cdec_spelling::tail_classes, &cdec_spelling::shape_lead,
       &cdec_spelling::shape_of, &cdec_spelling::kind, &cdec_spelling::tail_of,
       &cdec_spelling::pairs, &cdec_spelling::ranks, &cdec_spelling::made, &cdec_spelling::lefts,
       &cdec_spelling::rights, &cdec_spelling::made_at, &cdec_spelling::is_made,
       &cdec_spelling::is_tangled, &cdec_spelling::tangled, &cdec_spelling::symbol_starts,
       &cdec_spelling::symbols, &cdec_spelling::place, &cdec_spelling::token,
       &cdec_spelling::stop, &cdec_spelling::rank)
FIELDS(pieces_settings, cdec_pieces_settings, &cdec_pieces_settings::end_ids,
       &cdec_pieces_settings::byte_offsets, &cdec_pieces_settings::flat_bytes,
       &cdec_pieces_settings::words, &cdec_pieces_settings::most_masks)
FIELDS(product_settings, cdec_product_settings, &cdec_product_settings::looks_ahead,
       &cdec_product_settings::most_states, &cdec_product_settings::most_masks,
       &cdec_product_settings::most_steps)
#undef FIELDS

// What functions make, freed by cdec_NAME_free.
#define OBJECT(name)                                  \
  template <>                                         \
  struct Object<cdec_##name> {                        \
    static constexpr const char *kName = #name;       \
    static constexpr auto free = &cdec_##name##_free; \
  };
OBJECT(memo)
OBJECT(construction)
OBJECT(graph)
// trees
OBJECT(forest)
OBJECT(tree_worker)
OBJECT(schema_engine)
OBJECT(grammar_engine)
OBJECT(grammar_session)
OBJECT(spelled)
OBJECT(product)
OBJECT(pieces)
#undef OBJECT

}  // namespace binding

#define ROW(name, signature) \
  {#name, &binding::call<cdec_##name, #name, signature>, METH_FASTCALL, signature}
#define MAKE(name, signature) \
  {#name, &binding::make<cdec_##name, #name, signature>, METH_FASTCALL, signature}
#define STRUCT(name) {"hold_" #name, &binding::hold<cdec_##name>, METH_FASTCALL, #name}

static PyMethodDef table[] = {
    STRUCT(trie),
    STRUCT(token_trie),
    STRUCT(spans), STRUCT(regexes),
    ROW(trie_advance, "trie states:n token_ids:n out:n"),
    ROW(trie_check, "trie states:n token_ids:n,m out:n,m"),
    ROW(trie_complete, "trie states:n out:n"),
    ROW(trie_fill_mask, "trie states:n mask:n,w"),
    ROW(trie_count_allowed, "trie states:n offsets:n+1"),
    ROW(trie_fill_allowed, "trie states:n offsets:n+1 ids:k"),
    ROW(trie_forced, "trie states:n out:n"),
    ROW(completions_fold, "trie scores:v ends:v best:n choice:n"),
    ROW(completions_totals, "trie scores:v ends:v best:k states:n out:n"),
    ROW(completions_paths, "trie choice:k states:n out:n,m"),
    ROW(spans_sort, "data until begin length"),
    ROW(spans_widest, "spans rows states"),
    ROW(spans_advance, "spans states:n token_ids:n out:n"),
    ROW(spans_check, "spans states:n token_ids:n,m out:n,m"),
    ROW(spans_complete, "spans states:n out:n"),
    ROW(spans_fill_mask, "spans trie deepest states:n mask:n,w"),
    ROW(spans_advance_bytes, "spans states:n flat:b offsets:n+1 out:n"),
    ROW(spans_rows, "spans state range:r"),
    ROW(common_prefixes, "tokens:t row_offsets:r+1 shared:r"),
    ROW(count_nodes, "shared:r"),
    ROW(fill_nodes, "tokens:t row_offsets:r+1 shared:r nodes"),
    ROW(fill_dense_masks, "nodes dense_nodes:d masks:d,w"),
    ROW(hash_texts, "data:b offsets:n+1 hashes:n"),
    ROW(row_spells, "tokens:t start stop flat:b byte_offsets:v text:k"),
    ROW(text_offsets, "data:b characters:n offsets:n+1"),
    ROW(find_blank, "data:b offsets:n+1 blank:n"),
    ROW(check_rows,
        "tokens:t row_offsets:n+1 data:b offsets:n+1 head:h empty_head:e tail:s flat:f byte_offsets:v "
        "verdicts:n"),
    ROW(spelled_offsets, "tokens:t row_offsets:n+1 byte_offsets:v verdicts:n offsets:n+1"),
    ROW(spell_rows, "tokens:t row_offsets:n+1 flat:f byte_offsets:v offsets:n+1 data:b"),
    ROW(mark_distinct, "tokens:t offsets:m order:n first:n"),
    ROW(gather_offsets, "offsets:m picked:n result:n+1"),
    ROW(gather_bytes, "values:v offsets:m picked:n result:r"),
    ROW(gather_i32, "values:v offsets:m picked:n result:r"),
    ROW(gather_i64, "values:v offsets:m picked:n result:r"),
    ROW(shared_prefix, "tokens:t offsets:m"),
    ROW(first_keys, "tokens:t offsets:n+1 depth bits keys:n"),
    ROW(next_keys, "tokens:t offsets:n+1 order:n starts:g stops:g depth bits keys:n"),
    ROW(equal_runs, "keys:n starts:g stops:g bits run_starts:m run_stops:m"),
    ROW(sort_groups, "tokens:t offsets:n+1 order:n starts:g stops:g depth"),
    ROW(merge_runs, "tokens:t offsets:n+1 run_offsets:k order:n"),
    ROW(count_bits, "mask:n,w offsets:n+1"),
    ROW(list_bits, "mask:n,w offsets:n+1 ids:k"),
    ROW(find_only, "mask:n,w end_ids:e out:n"),
    ROW(intern_pairs, "left:n right:n table:t lefts:m rights:m used out:n"),
    ROW(fitted_split, "states:n ahead:a inside:n"),
    ROW(fitted_join, "states:n after:n"),
    MAKE(memo_make, "words most_masks most_steps"),
    ROW(memo_drop, "memo"),
    ROW(memo_fill_mask, "memo states:n mask:n,w missing:k"),
    ROW(memo_advance, "memo states:n tokens:n out:n missing:k"),
    ROW(memo_keep_masks, "memo states:n mask:n,w"),
    ROW(memo_keep_steps, "memo states:n tokens:n after:n"),
    ROW(memo_bytes, "memo"),
    ROW(merge_words, "pairs:m ranks:m made:m symbols:s starts:n+1 lengths:n last:n,k"),
    ROW(follow_row,
        "pairs:m ranks:m spine:k spine_ranks:k place:v token:p stop:p rank:p row:w"),
    ROW(best_ways, "sources:m scores:m offsets:n+1 crossing:n best:n"),
    ROW(fill_pairs, "table:t lefts:m rights:m used"),
    ROW(byte_trie_size, "data:b starts:v ids:n shared:n+1"),
    ROW(byte_trie_fill,
        "data:b starts:v ids:n shared:n+1 open_nodes:o node_byte:k depth:k skip:k token_offsets:k+1"),
    ROW(contexts_lost, "number:c used nodes:n"),
    ROW(contexts_find, "slots:s parent:c token:c number:c used limit above:n tokens:n children:n"),
    ROW(contexts_add,
        "slots:s parent:c token:c depth:c number:c ids:m above:n tokens:n children:n"),
    ROW(contexts_missing, "number:c used held:c nodes:n missing:n"),
    ROW(contexts_lengths, "number:c depth:c starts:r nodes:n lengths:n"),
    ROW(contexts_count, "number:c nodes:n amounts:m counts:r"),
    ROW(slots_rows, "above:s last:n table:n,k"),
    ROW(contexts_path, "slots:s parent:c token:c tokens:n path:n+1"),
    ROW(contexts_insert, "slots:s parent:c token:c nodes:n"),
    ROW(contexts_remove, "slots:s parent:c token:c nodes:n"),
    ROW(contexts_group, "contexts:n request:n draw:n order:n starts:n group:n"),
    ROW(contexts_repeated,
        "contexts:n request:n parent:c token:c depth:c starts:r prompts:p most events:n"),
    ROW(counts_keys, "contexts:n own:n parent:c token:c depth:c keys:n,m"),
    ROW(counts_guess, "counts keys:n,m threshold events:n"),
    ROW(counts_learn, "counts keys:n,m threshold events:n foreseen"),
    ROW(counts_add, "counts key event times"),
    ROW(counts_find, "counts key"),
    ROW(counts_move, "from rows to"),
    ROW(sample_ragged, "known allowed ends draws aborting drawn"),
    ROW(sample_dense, "known which:s ends draws drawn"),
    ROW(fill_uniforms, "seeds:n starts:n rows:n values:w,k"),
    ROW(walks_add, "walks:n node:n happened sums"),
    ROW(best_events, "known allowed ends best"),
    ROW(log_residuals, "known allowed starts:n+1 taken:t residual:n"),
    ROW(exponentiate, "values:n sums:b"),
    ROW(invert, "values:n sums:b target"),
    ROW(gather_exp, "row shift ids:n values:n sums:b"),
    ROW(tree_visit, "arrivals tree shares"),
    ROW(tree_least_masses, "last:n is_whole:n parent:c tree known:d log_z:n place:n"),
    ROW(tree_update, "order:n tree rounding"),
    ROW(tree_with_ancestors, "nodes:n parent:c flags:d found:m"),
    ROW(tree_level_order, "root first_child:c next_sibling:c found:n"),
    ROW(vectors_build, "asked numbers:n tree node_token:c slots pool"),
    ROW(vectors_leave, "nodes:n tokens:n slot:c slots pool"),
    ROW(vectors_sum, "nodes:n slot:c slots pool mass:d is_faint:n"),
    ROW(descend, "rows:n walks numbers tree slot:d slots pool ends"),
    ROW(verify, "target lists nodes draft proposed numbers chosen judged"),
    ROW(mentored_rows, "draft:n,v target:n,v limits:n law:n,v found:n,k"),
    ROW(loops_take, "walks:n tokens:n flat:b offsets:v states needed:p"),
    ROW(loops_find, "text:b state needed:p loops:m,k"),
    // automata: constructions, spellings, edges
    ROW(construction_run, "begun most operations"),
    ROW(construction_sizes, "complete sizes:s"),
    ROW(construction_read, "complete offsets:n+1 items:m numbers:r,w"),
    MAKE(determinise_threads, "program first:f"),
    MAKE(determinise_terminals, "terminals offsets:n+1 starts:s"),
    MAKE(follow_both, "left:n,k right:m,l left_of:c right_of:c kept:f"),
    MAKE(follow_pending, "scanner ends:e,w states:n state_ends:n"),
    MAKE(find_live, "delta:c,k match_offsets:c+1 matches:m terminals"),
    ROW(has_cycle, "delta:n,k"),
    ROW(mark_ahead, "delta:c,k letter:c sources:n stamps:c stamp found:f"),
    MAKE(spell_numbers, "bounds answers sizes"),
    ROW(spelling_ends, "spelling out:n"),
    ROW(spelling_exponents, "spelling letters:m found:m,f"),
    ROW(byte_ranges, "byte_class:b rows:n,k offsets:n+1 lows:e highs:e targets:e"),
    ROW(accepted, "byte_class:b rows:m,k accepts:m texts:t offsets:n+1 found:n"),
    ROW(mark_accepted, "edges labels:n start low high tokens:t row_offsets:r+1 found:r"),
    ROW(shortest_texts, "edges labels:n out:n"),
    ROW(free_states, "edges labels:n universe out:n"),
    ROW(reached_labels, "edges labels:n singles low:n high:n is_open:n"),
    ROW(longest_text, "edges accepts:n"),
    ROW(texts_between, "edges accepts:n low high limit"),
    MAKE(words_beside, "texts:t begins:w+1 word_labels:w edges labels:n"),
    ROW(graph_sizes, "graph sizes:s"),
    ROW(graph_read, "graph offsets:n+1 lows:e highs:e targets:e labels:n"),
    // automata: minimisation
    ROW(merge_states, "delta:n,k labels:n starts:s merged:n,k representative:n number:n"),
    ROW(refine, "delta:n,k blocks:n"),
    ROW(count_rows, "offsets:n+1 members:m items flagged ordered spread found"),
    ROW(count_inside, "rows:n,k states whole"),
    ROW(merge_copies, "copies number:n found"),
    // trees
    STRUCT(tree_scanner),
    STRUCT(tree_trie),
    ROW(state_labels, "scanner labels:c"),
    ROW(longest_inside, "scanner trie longest:k"),
    ROW(classes_within, "scanner labels:c lengths:c classes:c"),
    ROW(alike_but_for_counts, "scanner labels:c trie copies same:c"),
    MAKE(new_forest, "scanner trie roots:r asks_taken:r words dense_from"),
    MAKE(new_tree_worker, "forest"),
    ROW(build_trees, "worker steps"),
    ROW(forest_finish, "forest sizes:s"),
    ROW(forest_write, "forest columns"),
    // schemas
    ROW(json_tokens_classify, "data:b starts:t+1 few characters:t cuts:t ends:t blanks:t"),
    ROW(json_tokens_content, "characters:t rows:r,w"),
    MAKE(schema_engine_make, "schema whole crossing endings behind tokens end_ids:e budget most"),
    ROW(schema_engine_add_set, "engine trie"),
    ROW(schema_engine_add_document, "engine spans"),
    ROW(schema_engine_add_regexes, "engine start regexes"),
    ROW(schema_engine_add_budgets, "engine most:s"),
    ROW(schema_engine_fewest_of_strings, "engine strings:n out:n"),
    ROW(schema_engine_start, "engine"),
    ROW(schema_engine_advance, "engine states:n token_ids:n out:n"),
    ROW(schema_engine_check, "engine states:n token_ids:n,m out:n,m"),
    ROW(schema_engine_fill_mask, "engine states:n mask:n,w"),
    ROW(schema_engine_complete, "engine states:n out:n"),
    ROW(schema_engine_advance_bytes, "engine states:n data:b offsets:n+1 out:n"),
    ROW(schema_engine_speculation_keys, "engine states:n out:n"),
    ROW(schema_engine_fewest, "engine states:n out:n"),
    ROW(schema_engine_ahead, "engine states:n out:n"),
    ROW(schema_engine_level, "engine state outward items:k,f"),
    ROW(schema_engine_progress, "engine progress numbers:k"),
    ROW(schema_engine_fill_fitted, "engine states:n ahead:a mask:n,w"),
    ROW(schema_engine_advance_fitted, "engine states:n ahead:a tokens:n out:n"),
    ROW(schema_engine_drop, "engine"),
    ROW(schema_engine_statistics, "engine counts:c"),
    // grammars: the engine
    MAKE(grammar_engine_make, "grammar settings tree_state:e loop_state:h end_ids:k"),
    ROW(grammar_engine_add_set, "engine terminal trie tokens"),
    ROW(grammar_engine_add_document, "engine terminal spans tokens"),
    ROW(grammar_engine_add_budgets, "engine most:t tokens"),
    ROW(grammar_engine_add_rule_budgets, "engine most:r least:n is_exact tokens"),
    ROW(grammar_fewest_of_terminal, "engine terminal"),
    ROW(grammar_engine_drop, "engine"),
    ROW(grammar_engine_statistics, "engine out:s"),
    ROW(grammar_engine_steps, "engine states:n lr_states:n most_edges out:n first"),
    ROW(grammar_engine_automaton, "engine offsets:o items:m steps:k after:k"),
    MAKE(grammar_session_make, "engine words most_steps"),
    ROW(grammar_start, "session"),
    ROW(grammar_follow_all, "session most_nodes out:k first"),
    ROW(grammar_advance, "session states:n tokens:n out:n first"),
    ROW(grammar_check, "session states:n tokens:n,m out:n,m first"),
    ROW(grammar_fill_mask, "session states:n mask:n,w first"),
    ROW(grammar_complete, "session states:n out:n first"),
    ROW(grammar_count_allowed, "session states:n counts:n only:n first"),
    ROW(grammar_fill_allowed, "session states:n offsets:n+1 ids:k first"),
    ROW(grammar_advance_bytes, "session states:n text:b offsets:n+1 out:n first"),
    ROW(grammar_fewest, "session states:n tokens out:n first"),
    ROW(grammar_ahead, "session states:n tokens out:n first"),
    ROW(grammar_speculation_keys, "session states:n out:n"),
    ROW(grammar_can_shift, "session stack terminal out:b first"),
    ROW(grammar_configurations, "session state out:m,k"),
    ROW(grammar_set_of, "session at"),
    ROW(grammar_stack, "session stack tops:t path:p depth:d"),
    ROW(grammar_fill_fitted, "session states:n ahead:a mask:n,w"),
    ROW(grammar_advance_fitted, "session states:n ahead:a tokens:n out:n"),
    ROW(grammar_statistics, "session out:s"),
    // canonical spellings
    STRUCT(spelling),
    MAKE(spelled_make, "spelling"),
    ROW(spelled_plain, "spelled places:p tail"),
    ROW(spelled_told, "spelled may_end"),
    ROW(spelled_number, "spelled context token"),
    ROW(spelled_read, "spelled state out:k"),
    ROW(spelled_tell_step, "spelled state token after"),
    ROW(spelled_tell_mask, "spelled state mask:w"),
    ROW(spelled_tell_tail, "spelled tail kept:w breaks:w"),
    ROW(spelled_fill_mask, "spelled states:n mask:n,w needed:k"),
    ROW(spelled_advance, "spelled states:n tokens:n out:n needed:k"),
    ROW(spelled_complete, "spelled states:n out:n"),
    ROW(spelled_statistics, "spelled out:k"),
    MAKE(product_of_grammar, "session spelled settings"),
    MAKE(product_of_schema, "engine spelled settings"),
    ROW(product_pair, "product left right"),
    ROW(product_halves, "product states:n left:n right:n"),
    ROW(product_fill_mask, "product states:n mask:n,w needed:k"),
    ROW(product_advance, "product states:n tokens:n out:n needed:k"),
    ROW(product_know, "product states:n stuck:n most_ways"),
    ROW(product_statistics, "product out:k"),
    // fixed parts
    STRUCT(pieces_settings),
    MAKE(pieces_make, "tokens settings"),
    ROW(pieces_number, "pieces inner"),
    ROW(pieces_read, "pieces states:n inner:n"),
    ROW(pieces_tell_rows, "pieces states:n after:n,w may_end:n"),
    ROW(pieces_part, "pieces state bytes:b needed:k"),
    ROW(pieces_tell_part, "pieces state tokens:t"),
    ROW(pieces_fill_mask, "pieces states:n mask:n,w needed:k"),
    ROW(pieces_advance, "pieces states:n tokens:n out:n needed:k"),
    ROW(pieces_follow, "pieces states:n bytes:n out:n needed:k"),
    ROW(pieces_begins, "pieces states:n out:n needed:k"),
    ROW(pieces_complete, "pieces states:n out:n needed:k"),
    ROW(pieces_statistics, "pieces out:k"),
    {nullptr, nullptr, 0, nullptr},
};

static int fill(PyObject *module) {
  return PyModule_AddStringConstant(module, "sources", CDEC_SOURCES);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void *>(&fill)}, {0, nullptr}};

static PyModuleDef definition = {
    {1, nullptr}, nullptr, 0, nullptr, "_native", "cdec's compiled loops: native/include/cdec_native.h.",
    0, table, slots, nullptr, nullptr, nullptr,
};

PYTHON_INIT PyObject *PyInit__native() { return PyModuleDef_Init(&definition); }
