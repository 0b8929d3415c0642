// What the sessions of a grammar share: parser stacks, token masks and memos of results.
//
// What was computed for one document serves the next. Masks and memos are bounded by a budget: when
// they pass it, all of them are dropped at the end of a row (a new *epoch* begins) and computed again
// as needed. So one row may pass it, and its work ends. Stacks stay as long as decoding states refer to
// them.
#pragma once

#include <mutex>

#include "guarded.h"
#include "set_masks.h"

namespace cdec::grammars {

// Where a call that had to come back goes on: a session's own.
struct Resumption {
  PausedLevel level;
  PausedRow row;
};

class Engine;

// What an engine computes and can compute again.
struct Memos {
  explicit Memos(Engine &engine);
  Parser parser;
  Recogniser recogniser;
  MaskLists lists;
  PartialParser partial;
  MaskAutomaton automaton;
  Masks masks;
  SetMasks set_masks;
};

class Engine {
 public:
  Engine(const cdec_grammar &columns, const cdec_grammar_settings &settings, cdec_i32 tree_state,
         cdec_i64 loop_state, cdec_i64 end_ids);

  // Does rows of a call, until it must come back; the number of those that are done, or a status.
  template <class Body>
  int64_t each_row(Resumption &resumption, int64_t first, int64_t stop, Body &&body);

  // Forgets all masks and memos.
  void drop();
  // The mask of configurations whose stacks have no ages, whatever they count.
  int64_t mask_of(std::span<const Configuration> configurations) {
    return grammar.sets.size() > 0 ? memos->set_masks.of(configurations)
                                   : memos->masks.of(configurations);
  }
  int64_t lr_state(Stack vertex) const { return grammar.lr_of(stacks[vertex].state); }
  int64_t memo_bytes() const { return memory.memos.bytes() - least_bytes_; }

  const cdec_grammar_settings settings;
  const Grammar grammar;
  const cdec_i32 tree_state;
  const cdec_i64 end_ids;
  std::mutex mutex;
  Memory memory;
  Work work;
  Stacks stacks;
  Indents indents;
  StoredLists stored;
  Trees trees;
  cdec_token_trie tokens{};  // where sets stand within
  int64_t epoch = -1, hits = 0, misses = 0;
  std::optional<Memos> memos;
  Resumption resumption;  // of calls without a session

 private:
  void aim() {
    memos->parser.paused = &resumed_->level;
    memos->masks.paused = &resumed_->row;
  }
  void keep_within_budget() {
    if (memory.all.bytes() > settings.budget && memo_bytes() > settings.budget) drop();
  }

  Resumption *resumed_ = &resumption;  // of the call at hand
  int64_t least_bytes_ = 0;            // of memos that were just dropped
};

template <class Body>
int64_t Engine::each_row(Resumption &resumption, int64_t first, int64_t stop, Body &&body) {
  const std::lock_guard lock(mutex);
  work.begin();
  resumed_ = &resumption;
  aim();
  int64_t row = first;
  return guarded([&]() -> int64_t {
    try {
      for (; row < stop; ++row) {
        body(row);
        keep_within_budget();
      }
    } catch (const Paused &) {
    } catch (const Stopped &) {
      return CDEC_TOO_MUCH_WORK;
    } catch (const OverLimit &) {
      return CDEC_MEMORY_FULL;
    }
    return row;
  });
}

}  // namespace cdec::grammars
