// What a session has answered: masks and steps of its states, as many as may be kept.
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "guarded.h"
#include "table.h"

struct cdec_memo {
  cdec_memo(int64_t words, int64_t most_masks, int64_t most_steps)
      : words(words), most_masks(most_masks), most_steps(most_steps) {}

  const int32_t *mask_of(int64_t state) const {
    const int64_t slot = slots.find(state);
    return slot == cdec::Table::kAbsent ? nullptr : masks[slot].words.get();
  }
  void keep_mask(int64_t state, const int32_t *mask);

  struct Mask {
    int64_t state;
    std::unique_ptr<int32_t[]> words;
  };

  const int64_t words, most_masks, most_steps;
  std::mutex mutex;
  cdec::Table slots{std::pmr::get_default_resource()};  // state -> slot
  cdec::Table steps{std::pmr::get_default_resource()};  // state and token -> state behind
  std::vector<Mask> masks;                              // by slot
  int64_t oldest = 0;                                   // slot
};

void cdec_memo::keep_mask(int64_t state, const int32_t *mask) {
  if (state < 0 || most_masks < 1 || slots.find(state) != cdec::Table::kAbsent) return;
  int64_t slot = static_cast<int64_t>(masks.size());
  if (slot < most_masks) {
    masks.push_back({state, std::make_unique<int32_t[]>(words)});
  } else {
    slot = oldest;
    oldest = (oldest + 1) % most_masks;
    slots.erase(masks[slot].state);
    masks[slot].state = state;
  }
  std::copy_n(mask, words, masks[slot].words.get());
  slots.set(state, slot);
}

namespace {

// Whether a step fits a key of the table.
bool is_kept(int64_t state, int64_t token) {
  return 0 <= state && state <= INT32_MAX && 0 <= token && token <= INT32_MAX;
}

void note(cdec_i64_out missing, int64_t count, int64_t row) {
  if (count < missing.size) missing[count] = row;
}

}  // namespace

extern "C" {

cdec_memo *cdec_memo_make(int64_t words, int64_t most_masks, int64_t most_steps) {
  return words < 0 ? nullptr : cdec::made<cdec_memo>(words, most_masks, most_steps);
}

void cdec_memo_free(cdec_memo *memo) { delete memo; }

int64_t cdec_memo_drop(cdec_memo *memo) {
  const std::lock_guard lock(memo->mutex);
  memo->slots.clear();
  memo->steps.clear();
  memo->masks.clear();
  memo->oldest = 0;
  return 0;
}

int64_t cdec_memo_fill_mask(cdec_memo *memo, cdec_i64 states, cdec_i32_rows_out mask,
                            cdec_i64_out missing) {
  if (mask.width != memo->words) return -1;
  const std::lock_guard lock(memo->mutex);
  int64_t lacking = 0;
  for (int64_t i = 0; i < states.size; ++i) {
    const int32_t *known = states[i] < 0 ? nullptr : memo->mask_of(states[i]);
    if (known)
      std::copy_n(known, mask.width, mask[i]);
    else if (states[i] < 0)
      std::fill_n(mask[i], mask.width, 0);
    else
      note(missing, lacking++, i);
  }
  return states.size - lacking;
}

int64_t cdec_memo_advance(cdec_memo *memo, cdec_i64 states, cdec_i64 tokens, cdec_i64_out out,
                          cdec_i64_out missing) {
  const std::lock_guard lock(memo->mutex);
  int64_t lacking = 0;
  for (int64_t i = 0; i < states.size; ++i) {
    out[i] = CDEC_DEAD;
    if (states[i] < 0) continue;
    const bool has_key = is_kept(states[i], tokens[i]);
    const int64_t known =
        has_key ? memo->steps.find(cdec::pack(states[i], tokens[i])) : cdec::Table::kAbsent;
    if (known == cdec::Table::kAbsent)
      note(missing, lacking++, i);
    else
      out[i] = known;
  }
  return states.size - lacking;
}

int64_t cdec_memo_keep_masks(cdec_memo *memo, cdec_i64 states, cdec_i32_rows mask) {
  if (mask.width != memo->words) return -1;
  const std::lock_guard lock(memo->mutex);
  return cdec::guarded([&]() -> int64_t {
    for (int64_t i = 0; i < states.size; ++i) memo->keep_mask(states[i], mask[i]);
    return 0;
  });
}

int64_t cdec_memo_keep_steps(cdec_memo *memo, cdec_i64 states, cdec_i64 tokens, cdec_i64 after) {
  const std::lock_guard lock(memo->mutex);
  return cdec::guarded([&]() -> int64_t {
    for (int64_t i = 0; i < states.size; ++i) {
      if (!is_kept(states[i], tokens[i])) continue;
      if (static_cast<int64_t>(memo->steps.size()) >= memo->most_steps) memo->steps.clear();
      memo->steps.set(cdec::pack(states[i], tokens[i]), after[i]);
    }
    return 0;
  });
}

}  // extern "C"
