// Byte pair encoding: words merged to their end, and which tokens may follow one within a word.
#include <limits>

#include "cdec_native.h"

namespace {

constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

// First merge whose pair is not less than one.
int64_t lower_bound(cdec_i64 pairs, int64_t wanted) {
  int64_t low = 0, high = pairs.size;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (pairs[middle] < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

int64_t pair_of(int32_t left, int32_t right) {
  return static_cast<int64_t>((static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) |
                              static_cast<uint32_t>(right));
}

int64_t find_merge(cdec_i64 pairs, int32_t left, int32_t right) {
  const int64_t wanted = pair_of(left, right), at = lower_bound(pairs, wanted);
  return at < pairs.size && pairs[at] == wanted ? at : -1;
}

}  // namespace

extern "C" {

int64_t cdec_merge_words(cdec_i64 pairs, cdec_i32 ranks, cdec_i32 made, cdec_i32_out symbols,
                         cdec_i64 starts, cdec_i32_out lengths, cdec_i32_rows_out last) {
  for (int64_t word = 0; word < lengths.size; ++word) {
    const int64_t first = starts[word];
    int64_t length = starts[word + 1] - first;
    int32_t *row = last[word];
    row[0] = row[1] = row[2] = -1;
    row[3] = 1;  // whether ranks have ascended
    if (first < 0 || length < 0 || first + length > symbols.size) return CDEC_NO_MEMORY;
    while (length > 1) {
      int64_t best = -1, place = -1;
      for (int64_t i = first; i + 1 < first + length; ++i) {
        const int64_t found = find_merge(pairs, symbols[i], symbols[i + 1]);
        if (found >= 0 && (best < 0 || ranks[found] < ranks[best])) best = found, place = i;
      }
      if (best < 0) break;
      row[3] &= ranks[best] >= row[2];
      row[0] = symbols[place];
      row[1] = symbols[place + 1];
      row[2] = ranks[best];
      symbols[place] = made[best];
      for (int64_t i = place + 1; i + 1 < first + length; ++i) symbols[i] = symbols[i + 1];
      --length;
    }
    lengths[word] = static_cast<int32_t>(length);
  }
  return 0;
}

int64_t cdec_follow_row(cdec_i64 pairs, cdec_i32 ranks, cdec_i32 spine, cdec_i32 spine_ranks,
                        cdec_i32 place, cdec_i32 token, cdec_i32 stop, cdec_i32 rank,
                        cdec_i32_out row) {
  const int64_t tokens = token.size, words = row.size;
  for (int64_t i = 0; i < spine.size; ++i) {
    // The symbol at the end of the left token stands there until its parent is made.
    const int32_t until = i ? spine_ranks[i - 1] : kNever, since = spine_ranks[i];
    int64_t at = lower_bound(pairs, pair_of(spine[i], 0));
    for (; at < pairs.size && pairs[at] >> 32 == spine[i]; ++at) {
      const int64_t right = pairs[at] & 0xFFFFFFFF;
      if (ranks[at] >= until || right >= place.size || place[right] < 0) continue;
      const int64_t root = place[right];
      if (root >= tokens || rank[root] >= until) continue;
      // All tokens that begin with `right` and keep it until both are there and merge: it alone, and
      // those below its children that are made later. Children are in order of falling rank.
      const int32_t least = ranks[at] > since ? ranks[at] : since;
      int64_t end = root + 1;
      while (end < stop[root] && end < tokens && rank[end] >= least) end = stop[end];
      for (int64_t bad = root; bad < end && bad < tokens; ++bad) {
        const int32_t id = token[bad];
        if (id >= 0 && id / 32 < words) row[id / 32] &= ~static_cast<int32_t>(1u << (id % 32));
      }
    }
  }
  return 0;
}

}  // extern "C"
