// What a session has answered: masks and steps of its states, as many as may be kept.
#include "memo.h"

#include <algorithm>

#include "guarded.h"

void cdec_memo::keep_mask(int64_t state, const int32_t *mask) {
  if (state < 0 || masks.find(state)) return;
  if (int32_t *room = masks.add(state)) std::copy_n(mask, masks.words(), room);
}

void cdec_memo::keep_step(int64_t state, int64_t token, int64_t after) {
  if (!is_kept(state, token)) return;
  if (static_cast<int64_t>(steps.size()) >= most_steps) steps.clear();
  steps.set(cdec::pack(state, token), after);
}

namespace {

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
  memo->drop();
  return 0;
}

int64_t cdec_memo_fill_mask(cdec_memo *memo, cdec_i64 states, cdec_i32_rows_out mask,
                            cdec_i64_out missing) {
  if (mask.width != memo->masks.words()) return -1;
  const std::lock_guard lock(memo->mutex);
  int64_t lacking = 0;
  for (int64_t i = 0; i < states.size; ++i) {
    const int32_t *known = states[i] < 0 ? nullptr : memo->masks.find(states[i]);
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
    const int64_t known = memo->step(states[i], tokens[i]);
    if (known == cdec::Table::kAbsent)
      note(missing, lacking++, i);
    else
      out[i] = known;
  }
  return states.size - lacking;
}

int64_t cdec_memo_keep_masks(cdec_memo *memo, cdec_i64 states, cdec_i32_rows mask) {
  if (mask.width != memo->masks.words()) return -1;
  const std::lock_guard lock(memo->mutex);
  return cdec::guarded([&]() -> int64_t {
    for (int64_t i = 0; i < states.size; ++i) memo->keep_mask(states[i], mask[i]);
    return 0;
  });
}

int64_t cdec_memo_bytes(cdec_memo *memo) {
  const std::lock_guard lock(memo->mutex);
  return memo->bytes();
}

int64_t cdec_memo_keep_steps(cdec_memo *memo, cdec_i64 states, cdec_i64 tokens, cdec_i64 after) {
  const std::lock_guard lock(memo->mutex);
  return cdec::guarded([&]() -> int64_t {
    for (int64_t i = 0; i < states.size; ++i) memo->keep_step(states[i], tokens[i], after[i]);
    return 0;
  });
}

}  // extern "C"
