// What a session has answered: masks and steps of its states, as many as may be kept.
#pragma once

#include <mutex>

#include "kept_masks.h"

struct cdec_memo {
  cdec_memo(int64_t words, int64_t most_masks, int64_t most_steps)
      : most_steps(most_steps), masks(words, most_masks) {}

  // Whether a step fits a key of the table.
  static bool is_kept(int64_t state, int64_t token) {
    return 0 <= state && state <= INT32_MAX && 0 <= token && token <= INT32_MAX;
  }
  int64_t step(int64_t state, int64_t token) const {
    return is_kept(state, token) ? steps.find(cdec::pack(state, token)) : cdec::Table::kAbsent;
  }
  void keep_mask(int64_t state, const int32_t *mask);
  void keep_step(int64_t state, int64_t token, int64_t after);
  void drop() {
    masks.clear();
    steps.clear();
  }
  int64_t bytes() const { return masks.bytes() + steps.bytes(); }

  const int64_t most_steps;
  std::mutex mutex;
  cdec::KeptMasks masks;
  cdec::Table steps{std::pmr::get_default_resource()};  // state and token -> state behind
};
