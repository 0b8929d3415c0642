// Pairs of integers by number: a table with linear probing that holds numbers alone.
#include "fitted.h"

namespace {

int64_t first_slot(int64_t left, int64_t right, int64_t slots) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  uint64_t mixed = static_cast<uint64_t>(left) * kMultiplier;
  mixed = (mixed ^ (mixed >> 32) ^ static_cast<uint64_t>(right)) * kMultiplier;
  return static_cast<int64_t>((mixed ^ (mixed >> 32)) & static_cast<uint64_t>(slots - 1));
}

}  // namespace

extern "C" {

int64_t cdec_fitted_split(cdec_i64 states, cdec_i64 ahead, cdec_i64_out inside) {
  return cdec::split_fitted(states, ahead, inside.at);
}

int64_t cdec_fitted_join(cdec_i64 states, cdec_i64_out after) {
  cdec::join_fitted(states, after);
  return 0;
}

int64_t cdec_intern_pairs(cdec_i64 left, cdec_i64 right, cdec_i64_out table, cdec_i64_out lefts,
                          cdec_i64_out rights, int64_t used, cdec_i64_out out) {
  const int64_t last = table.size - 1;
  for (int64_t i = 0; i < left.size; ++i) {
    int64_t at = first_slot(left[i], right[i], table.size);
    while (table[at] >= 0 && (lefts[table[at]] != left[i] || rights[table[at]] != right[i]))
      at = (at + 1) & last;
    if (table[at] < 0) {
      table[at] = used;
      lefts[used] = left[i];
      rights[used] = right[i];
      ++used;
    }
    out[i] = table[at];
  }
  return used;
}

int64_t cdec_fill_pairs(cdec_i64_out table, cdec_i64 lefts, cdec_i64 rights, int64_t used) {
  for (int64_t number = 0; number < used; ++number) {
    int64_t at = first_slot(lefts[number], rights[number], table.size);
    while (table[at] >= 0) at = (at + 1) & (table.size - 1);
    table[at] = number;
  }
  return 0;
}

}  // extern "C"
