// Decoding states of a session: lists of configurations, interned; their steps, masks and ends.
#include "budgets.h"
#include "endings.h"
#include "fitted.h"

using namespace cdec;
using namespace cdec::grammars;

namespace cdec::grammars {

bool operator==(const Configuration &a, const Configuration &b) {
  return a.at == b.at && a.stack == b.stack && a.tokens == b.tokens && a.since == b.since;
}
int64_t hash_of(const Configuration &configuration) {
  return mixed(pack(configuration.at, configuration.stack)) ^
         mixed(pack(configuration.since, configuration.tokens));
}

}  // namespace cdec::grammars

// Steps of the automaton of masks that are looked up ahead.
constexpr int64_t kPrefetch = 16;

struct cdec_grammar_engine : Engine {
  using Engine::Engine;
};

struct cdec_grammar_session {
  cdec_grammar_session(cdec_grammar_engine &engine, int64_t words, int64_t most_steps)
      : engine(engine), words(words), most_steps(most_steps) {}

  // Does rows of a call.
  template <class Body>
  int64_t each_row(int64_t first, int64_t stop, Body &&body) {
    return engine.each_row(resumption, first, stop, body);
  }

  bool is_state(int64_t state) const { return states.holds(state); }
  int64_t intern(const std::vector<Configuration> &configurations);
  void load(int64_t state);
  bool is_end(int64_t token) const { return contains(engine.end_ids, token); }
  bool may_end(int64_t state);
  bool allows(int64_t state, int64_t token);
  int64_t next(int64_t state, int64_t token);
  int64_t compute_next(int64_t state, int64_t token);
  int64_t after(int64_t state, Recogniser::Text text);
  int64_t read(int64_t state, Recogniser::Text text);
  // The same, of rules; and where terminals alone have numbers, one that leads on.
  int64_t next_counted(int64_t state, Recogniser::Text text) {
    const int64_t after = read(state, text);
    return engine.grammar.counts_rules() ? after : held().settle(after);
  }
  int64_t mask_of(int64_t state);
  int64_t speculation_key(int64_t state) const;
  // How the ends of texts are come to; made where they are asked for.
  Endings<cdec_grammar_session> &ends(const cdec_token_trie &tokens) {
    if (!endings) endings.emplace(*this, tokens);
    return *endings;
  }

  // Which states lead on where terminals may have so many tokens.
  Budgets<cdec_grammar_session> &held() {
    if (!budgets) budgets.emplace(*this);
    return *budgets;
  }

  struct Known {
    int64_t epoch = -1;    // of the mask
    int32_t mask = -1;
    int8_t may_end = -1;
  };

  cdec_grammar_engine &engine;
  const int64_t words;       // of a mask
  const int64_t most_steps;  // places of the table of steps; a full one is emptied
  Lists<Configuration> states{std::pmr::new_delete_resource()};
  std::vector<Known> known;
  Table steps{std::pmr::new_delete_resource()};  // (state, token) -> state
  Resumption resumption;
  std::optional<Endings<cdec_grammar_session>> endings;
  std::optional<Budgets<cdec_grammar_session>> budgets;
};

int64_t cdec_grammar_session::intern(const std::vector<Configuration> &configurations) {
  if (configurations.empty()) return CDEC_DEAD;
  known.resize(std::max<size_t>(known.size(), states.size() + 1));
  return states.intern(configurations);
}

void cdec_grammar_session::load(int64_t state) {
  const auto configurations = states[state];
  engine.memos->recogniser.configurations.assign(configurations.begin(), configurations.end());
}

// A configuration is between terminals and its stack takes the end.
bool cdec_grammar_session::may_end(int64_t state) {
  int8_t &known_end = known[state].may_end;
  if (known_end >= 0) return known_end == 1;
  bool result = false;
  for (const Configuration &configuration : states[state])
    result |= engine.grammar.is_start(configuration.at) &&
              engine.memos->parser.can_shift(configuration.stack, engine.grammar.terminals);
  known_end = result;
  return result;
}

// Ends, and ids without bytes, are not allowed here; nothing that is made is kept.
bool cdec_grammar_session::allows(int64_t state, int64_t token) {
  if (engine.grammar.counts_tokens()) return next(state, token) >= 0;
  const auto text = engine.grammar.text_of(token);
  if (text.empty()) return false;
  const Trial trial(engine.stacks, engine.work, &resumption.level);
  load(state);
  return engine.memos->recogniser.allows(text);
}

// The state after a token, CDEC_DEAD or CDEC_DONE; remembered.
int64_t cdec_grammar_session::next(int64_t state, int64_t token) {
  if (!is_state(state) || token < 0) return CDEC_DEAD;
  if (token < engine.grammar.vocabulary) {
    const int64_t after = steps.find(pack(state, token));
    if (after != Table::kAbsent) return after;
  }
  return compute_next(state, token);
}

int64_t cdec_grammar_session::compute_next(int64_t state, int64_t token) {
  if (is_end(token)) return may_end(state) ? CDEC_DONE : CDEC_DEAD;
  if (token >= engine.grammar.vocabulary || state > INT32_MAX) return CDEC_DEAD;
  int64_t after = CDEC_DEAD;
  if (const auto text = engine.grammar.text_of(token); !text.empty()) {
    after = read(state, text);
    if (engine.grammar.counts_tokens()) after = held().settle(after);
  }
  const int64_t places = steps.bytes() / 16;
  if (2 * static_cast<int64_t>(steps.size() + 1) > places && 2 * places > most_steps) steps.clear();
  steps.set(pack(state, token), after);
  return after;
}

// The state after the bytes of a token, whether or not it leads on.
int64_t cdec_grammar_session::read(int64_t state, Recogniser::Text text) {
  load(state);
  engine.memos->recogniser.read(text, engine.grammar.lookahead);
  return intern(engine.memos->recogniser.configurations);
}

// The state after some bytes, or CDEC_DEAD, whatever the lookahead; not remembered.
int64_t cdec_grammar_session::after(int64_t state, Recogniser::Text text) {
  load(state);
  engine.memos->recogniser.read(text, Grammar::kUnlimited);
  return intern(engine.memos->recogniser.configurations);
}

// The mask of a state, without its ends.
int64_t cdec_grammar_session::mask_of(int64_t state) {
  if (known[state].epoch == engine.epoch) {
    ++engine.hits;
    return known[state].mask;
  }
  const int64_t mask =
      engine.grammar.counts_tokens() ? held().mask_of(state) : engine.mask_of(states[state]);
  // subtle: more states may have been met meanwhile.
  Known &own = known[state];
  own.mask = static_cast<int32_t>(mask), own.epoch = engine.epoch;
  return mask;
}

// A hash of the scanner state and the three topmost LR states of the first configuration.
int64_t cdec_grammar_session::speculation_key(int64_t state) const {
  const Configuration &first = states[state][0];
  Stack stack = engine.indents.parser_stack(first.stack);
  int64_t key = mixed(int64_t{first.at} + 1);
  // Places are numbered as they are met.
  if (engine.grammar.is_place(first.at))
    key = mixed(engine.grammar.sets.set(first.at) ^ mixed(engine.grammar.sets.state(first.at)));
  for (int depth = 0; depth < 3; ++depth) {
    const int64_t count = engine.stacks.count(stack);
    for (int64_t i = 0; i < count; ++i)
      key = mixed(key ^ (engine.lr_state(engine.stacks.member(stack, i)) + 1));
    if (count != 1) break;
    stack = engine.stacks[engine.stacks.member(stack, 0)].below;
  }
  return key & INT64_MAX;
}

namespace {

int64_t most_of(cdec_i32 numbers) {
  int64_t most = 0;
  for (int64_t i = 0; i < numbers.size; ++i) most = std::max<int64_t>(most, numbers[i]);
  return most;
}

// By LR state, the most tokens of the rules that are under way there; INT32_MAX where one has any.
std::vector<int32_t> most_of_states(const Grammar &grammar) {
  const cdec_grammar &columns = grammar.columns;
  std::vector<int32_t> found(grammar.lr_states, INT32_MAX);
  for (int64_t state = 0; state < grammar.lr_states; ++state) {
    int32_t most = -1;
    const Range items = range_of(columns.item_offsets, state, columns.item_rules.size);
    for (int64_t item = items.begin; item < items.end && most < INT32_MAX; ++item) {
      const int64_t rule = columns.item_rules[item];
      const bool is_rule = 0 <= rule && rule < grammar.rules;
      const int32_t own = is_rule ? grammar.rule_tokens[rule] : -1;
      most = own < 0 ? INT32_MAX : std::max(most, own);
    }
    if (most >= 0) found[state] = most;
  }
  return found;
}

template <class Listed>
int64_t add_members(cdec_grammar_engine *engine, int64_t terminal, const Listed &members,
                    const cdec_token_trie *tokens) {
  const std::lock_guard lock(engine->mutex);
  return guarded([&]() -> int64_t {
    engine->grammar.sets.add(members);
    engine->grammar.set_terminals.push_back(static_cast<int32_t>(terminal));
    engine->tokens = *tokens;
    engine->drop();
    return 0;
  });
}

}  // namespace

extern "C" {

cdec_grammar_engine *cdec_grammar_engine_make(const cdec_grammar *grammar,
                                              const cdec_grammar_settings *settings,
                                              cdec_i32 tree_state, cdec_i64 loop_state,
                                              cdec_i64 end_ids) {
  return made<cdec_grammar_engine>(*grammar, *settings, tree_state, loop_state, end_ids);
}

void cdec_grammar_engine_free(cdec_grammar_engine *engine) { delete engine; }

int64_t cdec_grammar_engine_add_set(cdec_grammar_engine *engine, int64_t terminal,
                                    const cdec_trie *trie, const cdec_token_trie *tokens) {
  return add_members(engine, terminal, *trie, tokens);
}

int64_t cdec_grammar_engine_add_document(cdec_grammar_engine *engine, int64_t terminal,
                                         const cdec_spans *spans, const cdec_token_trie *tokens) {
  return add_members(engine, terminal, *spans, tokens);
}

int64_t cdec_grammar_engine_add_budgets(cdec_grammar_engine *engine, cdec_i32 most,
                                        const cdec_token_trie *tokens) {
  const std::lock_guard lock(engine->mutex);
  return guarded([&]() -> int64_t {
    const Grammar &grammar = engine->grammar;
    if (most.size != grammar.terminals) return -1;
    grammar.terminal_tokens.assign(most.at, most.at + most.size);
    grammar.most_counted = std::max(grammar.most_counted, most_of(most) + 1);
    engine->tokens = *tokens;
    return 0;
  });
}

int64_t cdec_grammar_engine_add_rule_budgets(cdec_grammar_engine *engine, cdec_i32 most,
                                             cdec_i32 least, int64_t is_exact,
                                             const cdec_token_trie *tokens) {
  const std::lock_guard lock(engine->mutex);
  return guarded([&]() -> int64_t {
    const Grammar &grammar = engine->grammar;
    const int64_t highest = most_of(most) + 1;
    const bool is_fitting = highest < INT32_MAX / (2 * (grammar.lr_states + 2));
    if (most.size != grammar.rules || least.size != grammar.lr_states || !is_fitting) return -1;
    if (grammar.is_indented) return -1;
    grammar.rule_tokens.assign(most.at, most.at + most.size);
    grammar.state_tokens.assign(least.at, least.at + least.size);
    grammar.state_most = most_of_states(grammar);
    grammar.oldest = highest;
    grammar.most_counted = std::max(grammar.most_counted, highest);
    grammar.is_exact = is_exact != 0;
    engine->tokens = *tokens;
    return 0;
  });
}

int64_t cdec_grammar_follow_all(cdec_grammar_session *session, int64_t most_nodes,
                                cdec_i64_out out, int64_t first) {
  return session->each_row(first, out.size,
                           [&](int64_t i) { out[i] = session->held().follow_all(most_nodes); });
}

int64_t cdec_grammar_fewest_of_terminal(cdec_grammar_engine *engine, int64_t terminal) {
  const std::lock_guard lock(engine->mutex);
  return guarded([&]() -> int64_t {
    if (!engine->grammar.is_terminal(terminal)) return -1;
    return fewest_of(engine->grammar, engine->tokens, static_cast<int32_t>(terminal));
  });
}

int64_t cdec_grammar_set_of(cdec_grammar_session *session, int64_t at) {
  const std::lock_guard lock(session->engine.mutex);
  const Grammar &grammar = session->engine.grammar;
  const bool is_known = grammar.is_place(at) && grammar.sets.holds(at);
  return is_known ? grammar.sets.set(static_cast<int32_t>(at)) : -1;
}

int64_t cdec_grammar_engine_drop(cdec_grammar_engine *engine) {
  const std::lock_guard lock(engine->mutex);
  return guarded([&]() -> int64_t {
    engine->drop();
    return 0;
  });
}

int64_t cdec_grammar_engine_statistics(cdec_grammar_engine *engine, cdec_i64_out out) {
  const std::lock_guard lock(engine->mutex);
  const Memos &memos = *engine->memos;
  const int64_t found[CDEC_GRAMMAR_STATISTICS] = {
      engine->hits,
      engine->misses,
      memos.masks.store.size(),
      engine->stacks.vertex_count(),
      engine->stacks.set_count(),
      memos.parser.shift_count(),
      engine->epoch,
      engine->memo_bytes(),
      engine->memory.all.bytes(),
      engine->memory.stacks.bytes(),
      engine->work.edges,
      memos.lists.made().size(),
      memos.lists.made().item_count(),
      static_cast<int64_t>(memos.automaton.steps().size()),
  };
  std::copy_n(found, std::min<int64_t>(out.size, CDEC_GRAMMAR_STATISTICS), out.at);
  return 0;
}

int64_t cdec_grammar_engine_steps(cdec_grammar_engine *engine, cdec_i64 states, cdec_i64 lr_states,
                                  int64_t most_edges, cdec_i64_out out, int64_t first) {
  return engine->each_row(engine->resumption, first, states.size, [&](int64_t i) {
    MaskAutomaton &automaton = engine->memos->automaton;
    if (engine->work.edges > most_edges) throw Paused();
    if (i + kPrefetch < states.size)
      automaton.prefetch(states[i + kPrefetch], lr_states[i + kPrefetch]);
    const int64_t after =
        automaton.lists().holds(states[i]) ? automaton.step(states[i], lr_states[i]) : -1;
    out[i] = after < 0 || automaton.is_final(after) ? -1 : after;
  });
}

int64_t cdec_grammar_engine_automaton(cdec_grammar_engine *engine, cdec_i64_out offsets,
                                      cdec_i64_out items, cdec_i64_out steps, cdec_i64_out after) {
  const std::lock_guard lock(engine->mutex);
  const auto &lists = engine->memos->lists.made();
  if (offsets.size != lists.size() + 1 || items.size != lists.item_count()) return -1;
  int64_t at = offsets[0] = 0;
  for (int64_t i = 0; i < lists.size(); ++i) {
    for (const int64_t item : lists[i]) items[at++] = item;
    offsets[i + 1] = at;
  }
  at = 0;
  engine->memos->automaton.steps().visit([&](int64_t key, int64_t value) {
    if (at < steps.size) steps[at] = key, after[at] = value;
    ++at;
  });
  return 0;
}

cdec_grammar_session *cdec_grammar_session_make(cdec_grammar_engine *engine, int64_t words,
                                                int64_t most_steps) {
  return made<cdec_grammar_session>(*engine, words, most_steps);
}

void cdec_grammar_session_free(cdec_grammar_session *session) { delete session; }

int64_t cdec_grammar_start(cdec_grammar_session *session) {
  int64_t start = CDEC_DEAD;
  const int64_t result = session->each_row(0, 1, [&](int64_t) {
    Engine &engine = session->engine;
    const int64_t first = engine.grammar.columns.lr_context[0];
    const int64_t at = engine.grammar.start_of(engine.grammar.start_of(first) < 0 ? 0 : first);
    const Stack stack = engine.indents.first(engine.stacks.vertex(0, kNone));
    engine.memos->recogniser.begin(at + engine.grammar.scanner_states, stack);
    engine.memos->recogniser.begin_sets_of(stack);
    start = session->intern(engine.memos->recogniser.configurations);
  });
  return result == 1 ? start : result == 0 ? CDEC_TOO_MUCH_WORK : result;
}

int64_t cdec_grammar_advance(cdec_grammar_session *session, cdec_i64 states, cdec_i64 tokens,
                             cdec_i64_out out, int64_t first) {
  return session->each_row(first, states.size,
                           [&](int64_t i) { out[i] = session->next(states[i], tokens[i]); });
}

int64_t cdec_grammar_check(cdec_grammar_session *session, cdec_i64 states, cdec_i64_rows tokens,
                           cdec_bool_rows_out out, int64_t first) {
  return session->each_row(first, states.size * tokens.width, [&](int64_t at) {
    const int64_t state = states[at / tokens.width], token = tokens.at[at];
    bool allowed = false;
    if (session->is_state(state))
      allowed = session->is_end(token) ? session->may_end(state) : session->allows(state, token);
    out.at[at] = allowed;
  });
}

int64_t cdec_grammar_fill_mask(cdec_grammar_session *session, cdec_i64 states,
                               cdec_i32_rows_out mask, int64_t first) {
  if (mask.width != session->words) return CDEC_BAD_WIDTH;
  const Engine &engine = session->engine;
  return session->each_row(first, states.size, [&](int64_t i) {
    auto *words = reinterpret_cast<uint32_t *>(mask[i]);
    if (!session->is_state(states[i])) {
      std::memset(words, 0, 4 * mask.width);
      return;
    }
    const int64_t number = session->mask_of(states[i]);
    const bool may_end = session->may_end(states[i]);
    copy_words(engine.memos->masks.store.words(number), engine.grammar.words, words, mask.width);
    if (may_end) set_bits(words, mask.width, engine.end_ids);
  });
}

int64_t cdec_grammar_complete(cdec_grammar_session *session, cdec_i64 states, cdec_bool_out out,
                              int64_t first) {
  return session->each_row(first, states.size, [&](int64_t i) {
    out[i] = session->is_state(states[i]) ? session->may_end(states[i]) : states[i] == CDEC_DONE;
  });
}

int64_t cdec_grammar_count_allowed(cdec_grammar_session *session, cdec_i64 states,
                                   cdec_i64_out counts, cdec_i32_out only, int64_t first) {
  Engine &engine = session->engine;
  return session->each_row(first, states.size, [&](int64_t i) {
    counts[i] = 0, only[i] = -1;
    if (!session->is_state(states[i])) return;
    const int64_t mask = session->mask_of(states[i]);
    const int64_t ends = session->may_end(states[i]) ? engine.end_ids.size : 0;
    const int64_t count = engine.memos->masks.store.count(mask);
    counts[i] = count + ends;
    if (ends == 0)
      only[i] = static_cast<int32_t>(engine.memos->masks.store.only(mask));
    else if (count == 0)
      only[i] = static_cast<int32_t>(engine.end_ids[0]);
  });
}

int64_t cdec_grammar_fill_allowed(cdec_grammar_session *session, cdec_i64 states, cdec_i64 offsets,
                                  cdec_i32_out ids, int64_t first) {
  const Engine &engine = session->engine;
  return session->each_row(first, states.size, [&](int64_t i) {
    const Range range = range_of(offsets, i, ids.size);
    if (range.size() == 0 || !session->is_state(states[i])) return;
    const int64_t mask = session->mask_of(states[i]);
    const int64_t last = session->may_end(states[i]) ? engine.end_ids.size : 0;
    const uint32_t *words = engine.memos->masks.store.words(mask);
    int64_t at = range.begin, end = 0;
    const auto put = [&](int64_t id) {
      if (at < range.end) ids[at++] = static_cast<int32_t>(id);
    };
    for (int64_t word = 0; word < engine.grammar.words; ++word)
      for (uint32_t bits = words[word]; bits; bits &= bits - 1) {
        const int64_t token = 32 * word + std::countr_zero(bits);
        while (end < last && engine.end_ids[end] < token) put(engine.end_ids[end++]);
        put(token);
      }
    while (end < last) put(engine.end_ids[end++]);
  });
}

int64_t cdec_grammar_advance_bytes(cdec_grammar_session *session, cdec_i64 states, cdec_u8 text,
                                   cdec_i64 offsets, cdec_i64_out out, int64_t first) {
  Recogniser::Text bytes{text.at, static_cast<size_t>(text.size)};
  return session->each_row(first, states.size, [&](int64_t i) {
    const Range range = range_of(offsets, i, text.size);
    if (!session->is_state(states[i])) {
      out[i] = states[i] == CDEC_DONE && range.size() == 0 ? CDEC_DONE : CDEC_DEAD;
      return;
    }
    const int64_t after = session->after(states[i], bytes.subspan(range.begin, range.size()));
    out[i] = session->engine.grammar.counts_tokens() ? session->held().settle(after) : after;
  });
}

int64_t cdec_grammar_fewest(cdec_grammar_session *session, cdec_i64 states,
                            const cdec_token_trie *tokens, cdec_i64_out out, int64_t first) {
  return session->each_row(first, states.size, [&](int64_t i) {
    const bool is_live = session->is_state(states[i]);
    const bool is_held = session->engine.grammar.counts_tokens();
    const int64_t found = !is_live   ? 0
                          : is_held ? session->held().fewest(states[i])
                                    : session->ends(*tokens).fewest(states[i]);
    out[i] = found < kFarEnd ? found : INT64_MAX;
  });
}

int64_t cdec_grammar_ahead(cdec_grammar_session *session, cdec_i64 states,
                           const cdec_token_trie *tokens, cdec_i64_out out, int64_t first) {
  return session->each_row(first, states.size, [&](int64_t i) {
    const bool is_live = session->is_state(states[i]);
    const bool is_held = session->engine.grammar.counts_tokens();
    const int64_t found = !is_live   ? 0
                          : is_held ? session->held().ahead(states[i])
                                    : session->ends(*tokens).ahead(states[i]);
    out[i] = found < kFarEnd ? found : INT64_MAX;
  });
}

int64_t cdec_grammar_speculation_keys(cdec_grammar_session *session, cdec_i64 states,
                                      cdec_i64_out out) {
  const std::lock_guard lock(session->engine.mutex);
  for (int64_t i = 0; i < states.size; ++i)
    out[i] = session->is_state(states[i]) ? session->speculation_key(states[i])
             : states[i] == CDEC_DONE     ? CDEC_DONE
                                          : CDEC_DEAD;
  return 0;
}

int64_t cdec_grammar_can_shift(cdec_grammar_session *session, int64_t stack, int64_t terminal,
                               cdec_bool_out out, int64_t first) {
  Engine &engine = session->engine;
  return session->each_row(first, 1, [&](int64_t) {
    const bool is_stack = stack == static_cast<Stack>(stack) &&
                          engine.stacks.holds(static_cast<Stack>(stack)) && terminal >= 0;
    out[0] = is_stack && terminal <= engine.grammar.terminals &&
             engine.memos->parser.can_shift(static_cast<Stack>(stack), terminal);
  });
}

int64_t cdec_grammar_configurations(cdec_grammar_session *session, int64_t state,
                                    cdec_i32_rows_out out) {
  const std::lock_guard lock(session->engine.mutex);
  if (!session->is_state(state) || out.width != 2) return 0;
  const auto configurations = session->states[state];
  for (int64_t i = 0; i < std::min<int64_t>(out.rows, configurations.size()); ++i)
    out[i][0] = configurations[i].at, out[i][1] = configurations[i].stack;
  return static_cast<int64_t>(configurations.size());
}

int64_t cdec_grammar_stack(cdec_grammar_session *session, int64_t stack, cdec_i32_out tops,
                           cdec_i32_out path, cdec_i64_out depth) {
  const Engine &engine = session->engine;
  const std::lock_guard lock(session->engine.mutex);
  if (stack != static_cast<Stack>(stack) || !engine.stacks.holds(static_cast<Stack>(stack)))
    return 0;
  const Stacks &stacks = engine.stacks;
  const Stack own = engine.indents.parser_stack(static_cast<Stack>(stack));
  const int64_t count = stacks.count(own);
  for (int64_t i = 0; i < std::min(count, tops.size); ++i)
    tops[i] = static_cast<int32_t>(engine.lr_state(stacks.member(own, i)));
  int64_t height = 0;
  for (Stack at = own; stacks.count(at) > 0; at = stacks[stacks.member(at, 0)].below, ++height)
    if (height < path.size)
      path[height] = static_cast<int32_t>(engine.lr_state(stacks.member(at, 0)));
  depth[0] = height;
  return count;
}

int64_t cdec_grammar_fill_fitted(cdec_grammar_session *session, cdec_i64 states, cdec_i64 ahead,
                                 cdec_i32_rows_out mask) {
  return within_fitted(states, ahead, [&](cdec_i64 inside) {
    return cdec_grammar_fill_mask(session, inside, mask, 0);
  });
}

int64_t cdec_grammar_advance_fitted(cdec_grammar_session *session, cdec_i64 states, cdec_i64 ahead,
                                    cdec_i64 tokens, cdec_i64_out out) {
  return within_fitted(states, ahead, [&](cdec_i64 inside) {
    const int64_t done = cdec_grammar_advance(session, inside, tokens, out, 0);
    if (done == states.size) join_fitted(states, out);
    return done;
  });
}

int64_t cdec_grammar_statistics(cdec_grammar_session *session, cdec_i64_out out) {
  const std::lock_guard lock(session->engine.mutex);
  const int64_t known = static_cast<int64_t>(session->known.capacity() * sizeof session->known[0]);
  const int64_t found[3] = {session->states.size(), static_cast<int64_t>(session->steps.size()),
                            session->states.bytes() + known + session->steps.bytes()};
  std::copy_n(found, std::min<int64_t>(out.size, 3), out.at);
  return 0;
}

}  // extern "C"
