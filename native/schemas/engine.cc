// The engine of a schema behind the interface: its sessions' calls, one at a time.
#include <mutex>
#include <optional>

#include "fitted.h"
#include "guarded.h"
#include "masks.h"
#include "regexes.h"

using namespace cdec;
using namespace cdec::schemas;

struct cdec_schema_engine {
  cdec_schema_engine(const cdec_schema& schema, const Vocabulary& vocabulary, cdec_i64 end_ids,
                     int64_t budget, int64_t most)
      : program(schema, &memory),
        states(program, work, memory, most),
        budgets(states, vocabulary.whole),
        masks(states, budgets, vocabulary, budget),
        end_ids(end_ids),
        most_steps(steps_within(budget)),
        steps(&memory),
        vocabulary_size(program.vocabulary_offsets.size - 1) {}

  // A full table of steps is emptied: a quarter of the budget, 4 KiB at least, 4 MiB at most.
  static int64_t steps_within(int64_t budget) {
    return std::bit_floor(std::clamp<uint64_t>(budget / 128, 128, 1 << 17));
  }

  bool is_end(int64_t token) const { return contains(end_ids, token); }

  // The state after a token that is no end; DEAD where it is not allowed.
  int64_t after(int64_t state, int64_t token) {
    if (token < 0 || token >= vocabulary_size) return CDEC_DEAD;
    return budgets.settle(states.step_token(static_cast<int32_t>(state), token));
  }

  // The same of any token and state, remembered.
  int64_t next(int64_t state, int64_t token) {
    if (!states.holds(state) || token < 0) return CDEC_DEAD;
    const int64_t key = pack(state, token);
    const int64_t known = token < vocabulary_size ? steps.find(key) : Table::kAbsent;
    if (known != Table::kAbsent) return known;
    if (is_end(token)) return may_end(state) ? CDEC_DONE : CDEC_DEAD;
    if (token >= vocabulary_size) return CDEC_DEAD;
    const int64_t found = after(state, token);
    if (static_cast<int64_t>(steps.size()) >= most_steps) steps.clear();
    steps.set(key, found);
    return found;
  }

  bool may_end(int64_t state) { return states[static_cast<int32_t>(state)].may_end; }

  void write_mask(int64_t state, uint32_t* words, int64_t width) {
    work.spent += width / 64;
    if (!states.holds(state)) {
      std::fill_n(words, width, 0u);
      return;
    }
    masks.write(static_cast<int32_t>(state), words, width);
    if (may_end(state)) set_bits(words, width, end_ids);
  }

  int64_t after_bytes(int64_t state, const uint8_t* data, int64_t size) {
    if (!states.holds(state)) return state == CDEC_DONE && size == 0 ? CDEC_DONE : CDEC_DEAD;
    auto at = static_cast<int32_t>(state);
    work.spent += size / 8;
    for (int64_t i = 0; i < size && at >= 0; ++i) at = states.step(at, data[i]);
    return budgets.settle(at);
  }

  // How the ends of texts are come to; made where they are asked for.
  Endings& ends() {
    if (!endings) endings.emplace(states, budgets, masks.whole());
    return *endings;
  }

  // The fewest tokens behind a state, and the most of them behind a token.
  int64_t fewest(int64_t state) {
    return states.holds(state) ? ends().fewest(static_cast<int32_t>(state)) : 0;
  }
  int64_t most_ahead(int64_t state) {
    if (!states.holds(state)) return 0;
    if (state >= static_cast<int64_t>(ahead.size())) ahead.resize(states.size(), -1);
    if (ahead[state] < 0) {
      const int64_t found = masks.ahead(static_cast<int32_t>(state), ends());
      ahead[state] = static_cast<int32_t>(std::min<int64_t>(found, Endings::kFar));
    }
    return ahead[state];
  }

  int64_t speculation_key(int64_t state) {
    if (!states.holds(state)) return state == CDEC_DONE ? CDEC_DONE : CDEC_DEAD;
    const State& at = states[static_cast<int32_t>(state)];
    int64_t key = mixed(int64_t{at.lexical.bits()} + 1), number = at.frame;
    for (int level = 0; level < 2 && number >= 0; ++level) {
      const Frame frame = states.frame(static_cast<int32_t>(number));
      const bool is_spelled = frame.phase == Phase::kString || frame.phase == Phase::kRaw;
      auto total = static_cast<uint64_t>(frame.phase) + 1;
      for (const Item& item : frame.items) {
        const int64_t place = is_spelled ? item.place : item.content;
        total += mixed(mixed(pack(item.value, item.part)) ^ place);
      }
      key = mixed(key ^ static_cast<int64_t>(total));
      number = frame.parent;
    }
    return key & INT64_MAX;
  }

  std::mutex mutex;
  Work work;
  CountedMemory memory;  // of states and steps
  Program program;
  States states;
  Budgets budgets;
  Masks masks;
  std::optional<Endings> endings;
  std::vector<int32_t> ahead;  // by state: the most tokens that are needed behind one; -1 not known
  cdec_i64 end_ids;
  int64_t most_steps;
  Table steps;  // by tokens
  int64_t vocabulary_size;
};

namespace {

// Holds the engine while `body` works, which may be given up (header, "Calls on n states").
template <class Body>
int64_t locked(cdec_schema_engine* engine, Body&& body) {
  return guarded([&]() -> int64_t {
    const std::lock_guard lock(engine->mutex);
    engine->work.spent = 0;
    try {
      return body(*engine);
    } catch (const StatesFull&) {
      return CDEC_STATES_FULL;
    }
  });
}

// Works on rows until all are done or the call has worked for long enough; returns how many are.
template <class Row>
int64_t for_rows(cdec_schema_engine* engine, int64_t n, Row&& row) {
  return locked(engine, [&](cdec_schema_engine& e) {
    int64_t done = 0;
    try {
      for (; done < n && !e.work.is_over(); ++done) {
        ++e.work.spent;
        row(e, done);
      }
    } catch (const Paused&) {
    }
    e.masks.keep_within_budget();
    return done;
  });
}

// Copies numbers as far as there is room; returns how many there are.
template <class Number>
int64_t copied(std::span<const Number> numbers, Number* out, int64_t room) {
  const auto size = static_cast<int64_t>(numbers.size());
  std::copy_n(numbers.begin(), std::min(size, room), out);
  return size;
}

}  // namespace

extern "C" {

cdec_schema_engine* cdec_schema_engine_make(const cdec_schema* schema, const cdec_token_trie* whole,
                                            const cdec_token_trie* crossing,
                                            const cdec_token_trie* endings,
                                            const cdec_token_trie* behind,
                                            const cdec_json_tokens* tokens, cdec_i64 end_ids,
                                            int64_t budget, int64_t most) {
  const Vocabulary vocabulary{*whole, *crossing, *endings, *behind, *tokens};
  return made<cdec_schema_engine>(*schema, vocabulary, end_ids, std::max<int64_t>(budget, 0), most);
}

void cdec_schema_engine_free(cdec_schema_engine* engine) { delete engine; }

int64_t cdec_schema_engine_add_set(cdec_schema_engine* engine, const cdec_trie* trie) {
  return locked(engine, [&](cdec_schema_engine& e) -> int64_t {
    e.program.sets.add(*trie);
    return 0;
  });
}

int64_t cdec_schema_engine_add_document(cdec_schema_engine* engine, const cdec_spans* spans) {
  return locked(engine, [&](cdec_schema_engine& e) -> int64_t {
    e.program.sets.add(*spans);
    return 0;
  });
}

int64_t cdec_schema_engine_add_regexes(cdec_schema_engine* engine, int64_t start,
                                       const cdec_regexes* tables) {
  return locked(engine, [&](cdec_schema_engine& e) -> int64_t {
    if (0 <= start && start < e.program.state_label.size)
      e.program.sets.add(std::make_unique<RegexSource>(e.program, static_cast<int32_t>(start),
                                                       *tables, &e.memory));
    return 0;
  });
}

int64_t cdec_schema_engine_add_budgets(cdec_schema_engine* engine, cdec_i32 most) {
  return locked(engine, [&](cdec_schema_engine& e) -> int64_t {
    if (most.size == e.program.string_start.size)
      e.program.string_tokens.assign(most.at, most.at + most.size);
    return 0;
  });
}

int64_t cdec_schema_engine_fewest_of_strings(cdec_schema_engine* engine, cdec_i64 strings,
                                             cdec_i64_out out) {
  return for_rows(engine, strings.size, [&](cdec_schema_engine& e, int64_t i) {
    const bool is_one = 0 <= strings[i] && strings[i] < e.program.string_start.size;
    const int64_t found = is_one ? e.budgets.fewest_of(strings[i]) : Budgets::kFar;
    out[i] = found < Budgets::kFar ? found : INT64_MAX;
  });
}

int64_t cdec_schema_engine_start(cdec_schema_engine* engine) {
  return locked(engine, [](cdec_schema_engine& e) -> int64_t { return e.states.start(); });
}

int64_t cdec_schema_engine_advance(cdec_schema_engine* engine, cdec_i64 states, cdec_i64 token_ids,
                                   cdec_i64_out out) {
  return for_rows(engine, states.size, [&](cdec_schema_engine& e, int64_t i) {
    out[i] = e.next(states[i], token_ids[i]);
  });
}

int64_t cdec_schema_engine_check(cdec_schema_engine* engine, cdec_i64 states,
                                 cdec_i64_rows token_ids, cdec_bool_rows_out out) {
  return for_rows(engine, states.size, [&](cdec_schema_engine& e, int64_t i) {
    const bool is_known = e.states.holds(states[i]);
    e.work.spent += token_ids.width;
    for (int64_t j = 0; j < token_ids.width; ++j) {
      const int64_t token = token_ids[i][j];
      out[i][j] =
          is_known && (e.is_end(token) ? e.may_end(states[i]) : e.after(states[i], token) >= 0);
    }
  });
}

int64_t cdec_schema_engine_fill_mask(cdec_schema_engine* engine, cdec_i64 states,
                                     cdec_i32_rows_out mask) {
  return for_rows(engine, states.size, [&](cdec_schema_engine& e, int64_t i) {
    e.write_mask(states[i], reinterpret_cast<uint32_t*>(mask[i]), mask.width);
  });
}

int64_t cdec_schema_engine_complete(cdec_schema_engine* engine, cdec_i64 states,
                                    cdec_bool_out out) {
  return locked(engine, [&](cdec_schema_engine& e) {
    for (int64_t i = 0; i < states.size; ++i)
      out[i] = e.states.holds(states[i]) ? e.may_end(states[i]) : states[i] == CDEC_DONE;
    return states.size;
  });
}

int64_t cdec_schema_engine_advance_bytes(cdec_schema_engine* engine, cdec_i64 states, cdec_u8 data,
                                         cdec_i64 offsets, cdec_i64_out out) {
  return for_rows(engine, states.size, [&](cdec_schema_engine& e, int64_t i) {
    const auto [first, last] = range(offsets, i);
    const bool is_inside = 0 <= first && first <= last && last <= data.size;
    out[i] = is_inside ? e.after_bytes(states[i], data.at + first, last - first) : CDEC_DEAD;
  });
}

int64_t cdec_schema_engine_speculation_keys(cdec_schema_engine* engine, cdec_i64 states,
                                            cdec_i64_out out) {
  return locked(engine, [&](cdec_schema_engine& e) {
    for (int64_t i = 0; i < states.size; ++i) out[i] = e.speculation_key(states[i]);
    return states.size;
  });
}

int64_t cdec_schema_engine_fewest(cdec_schema_engine* engine, cdec_i64 states, cdec_i64_out out) {
  return for_rows(engine, states.size, [&](cdec_schema_engine& e, int64_t i) {
    const int64_t found = e.fewest(states[i]);
    out[i] = found < Endings::kFar ? found : INT64_MAX;
  });
}

int64_t cdec_schema_engine_ahead(cdec_schema_engine* engine, cdec_i64 states, cdec_i64_out out) {
  return for_rows(engine, states.size, [&](cdec_schema_engine& e, int64_t i) {
    const int64_t found = e.most_ahead(states[i]);
    out[i] = found < Endings::kFar ? found : INT64_MAX;
  });
}

int64_t cdec_schema_engine_fill_fitted(cdec_schema_engine* engine, cdec_i64 states, cdec_i64 ahead,
                                       cdec_i32_rows_out mask) {
  return within_fitted(states, ahead, [&](cdec_i64 inside) {
    return cdec_schema_engine_fill_mask(engine, inside, mask);
  });
}

int64_t cdec_schema_engine_advance_fitted(cdec_schema_engine* engine, cdec_i64 states,
                                          cdec_i64 ahead, cdec_i64 tokens, cdec_i64_out out) {
  return within_fitted(states, ahead, [&](cdec_i64 inside) {
    const int64_t done = cdec_schema_engine_advance(engine, inside, tokens, out);
    if (done == states.size) join_fitted(states, out);
    return done;
  });
}

int64_t cdec_schema_engine_level(cdec_schema_engine* engine, int64_t state, int64_t outward,
                                 cdec_i64_rows_out items) {
  return locked(engine, [&](cdec_schema_engine& e) -> int64_t {
    if (!e.states.holds(state)) return 0;
    int32_t frame = e.states[static_cast<int32_t>(state)].frame;
    for (; outward > 0 && frame >= 0; --outward) frame = e.states.frame(frame).parent;
    if (frame < 0) return 0;
    const std::span<const Item> rows = e.states.rows(frame);
    const int64_t room = items.width == 4 ? items.rows : 0;
    for (int64_t i = 0; i < std::min<int64_t>(room, rows.size()); ++i) {
      const Item& item = rows[i];
      const int64_t row[] = {item.value, item.part, item.place, item.content};
      std::copy_n(row, 4, items[i]);
    }
    return static_cast<int64_t>(rows.size());
  });
}

int64_t cdec_schema_engine_progress(cdec_schema_engine* engine, int64_t progress,
                                    cdec_i64_out numbers) {
  return locked(engine, [&](cdec_schema_engine& e) -> int64_t {
    if (!e.states.progresses.holds(progress)) return 0;
    return copied(e.states.progresses[static_cast<int32_t>(progress)], numbers.at, numbers.size);
  });
}

int64_t cdec_schema_engine_drop(cdec_schema_engine* engine) {
  return locked(engine, [](cdec_schema_engine& e) -> int64_t {
    e.masks.drop();
    return 0;
  });
}

int64_t cdec_schema_engine_statistics(cdec_schema_engine* engine, cdec_i64_out counts) {
  return locked(engine, [&](cdec_schema_engine& e) -> int64_t {
    const int64_t found[] = {
        e.states.size(), e.states.frame_count(), static_cast<int64_t>(e.steps.size()),
        e.masks.hits,    e.masks.misses,         e.masks.size(),
        e.masks.epoch,   e.masks.bytes(),        e.masks.bytes() + e.memory.bytes()};
    return copied<int64_t>(found, counts.at, counts.size);
  });
}

}  // extern "C"
