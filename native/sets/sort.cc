// Sorting rows of tokens, a prefix before its continuations; equal rows keep their order.
#include <algorithm>
#include <vector>

#include "guarded.h"

namespace {

struct Rows {
  cdec_i32 tokens;
  cdec_i64 offsets;

  // Packs the tokens from `at` on into one key, the first in the highest bits, 0 past the end.
  uint64_t key(int64_t at, int64_t stop, int64_t bits) const {
    uint64_t key = 0;
    for (int64_t k = 0; k < 64 / bits; ++k)
      key = key << bits | (at + k < stop ? static_cast<uint64_t>(tokens[at + k]) + 1 : 0);
    return key;
  }

  // Whether row a sorts before row b; both share `depth` tokens. Equal rows by number.
  bool precedes(int64_t a, int64_t b, int64_t depth) const {
    int64_t at = offsets[a] + depth, bt = offsets[b] + depth;
    const int64_t a_stop = offsets[a + 1], b_stop = offsets[b + 1];
    for (; at < a_stop && bt < b_stop; ++at, ++bt)
      if (tokens[at] != tokens[bt]) return tokens[at] < tokens[bt];
    return at >= a_stop && (bt < b_stop || a < b);
  }
};

}  // namespace

extern "C" {

int64_t cdec_shared_prefix(cdec_i32 tokens, cdec_i64 offsets) {
  int64_t shared = offsets.size > 1 ? offsets[1] - offsets[0] : 0;
  for (int64_t i = 1; i + 1 < offsets.size && shared; ++i) {
    const int64_t limit = std::min(shared, offsets[i + 1] - offsets[i]);
    int64_t k = 0;
    while (k < limit && tokens[offsets[i] + k] == tokens[offsets[0] + k]) ++k;
    shared = k;
  }
  return shared;
}

int64_t cdec_first_keys(cdec_i32 tokens, cdec_i64 offsets, int64_t depth, int64_t bits,
                        cdec_u64_out keys) {
  const Rows rows{tokens, offsets};
  for (int64_t i = 0; i < keys.size; ++i)
    keys[i] = rows.key(offsets[i] + depth, offsets[i + 1], bits);
  return 0;
}

int64_t cdec_next_keys(cdec_i32 tokens, cdec_i64 offsets, cdec_i64 order, cdec_i64 starts,
                       cdec_i64 stops, int64_t depth, int64_t bits, cdec_u64_out keys) {
  const Rows rows{tokens, offsets};
  for (int64_t g = 0; g < starts.size; ++g)
    for (int64_t i = starts[g]; i < stops[g]; ++i) {
      const int64_t stop = offsets[order[i] + 1];
      keys[i] = rows.key(std::min(offsets[order[i]] + depth, stop), stop, bits);
    }
  return 0;
}

int64_t cdec_equal_runs(cdec_u64 keys, cdec_i64 starts, cdec_i64 stops, int64_t bits,
                        cdec_i64_out run_starts, cdec_i64_out run_stops) {
  const uint64_t last = (uint64_t{1} << bits) - 1;
  int64_t found = 0;
  for (int64_t g = 0; g < starts.size; ++g)
    for (int64_t begin = starts[g], i = begin + 1; i <= stops[g]; ++i) {
      if (i < stops[g] && keys[i] == keys[begin]) continue;
      if (i - begin > 1 && keys[begin] & last) {
        if (found < run_starts.size) run_starts[found] = begin, run_stops[found] = i;
        ++found;
      }
      begin = i;
    }
  return found;
}

int64_t cdec_sort_groups(cdec_i32 tokens, cdec_i64 offsets, cdec_i64_out order, cdec_i64 starts,
                         cdec_i64 stops, int64_t depth) {
  const Rows rows{tokens, offsets};
  for (int64_t g = 0; g < starts.size; ++g)
    for (int64_t i = starts[g] + 1; i < stops[g]; ++i) {
      const int64_t row = order[i];
      int64_t k = i;
      for (; k > starts[g] && rows.precedes(row, order[k - 1], depth); --k) order[k] = order[k - 1];
      order[k] = row;
    }
  return 0;
}

int64_t cdec_merge_runs(cdec_i32 tokens, cdec_i64 offsets, cdec_i64 run_offsets,
                        cdec_i64_out order) {
  return cdec::guarded([&]() -> int64_t {
    struct Run {
      int64_t next, stop;
    };
    const Rows rows{tokens, offsets};
    const auto after = [&](const Run &a, const Run &b) {
      return rows.precedes(b.next, a.next, 0);
    };
    std::vector<Run> heap;
    for (int64_t run = 0; run + 1 < run_offsets.size; ++run)
      if (run_offsets[run] < run_offsets[run + 1])
        heap.push_back({run_offsets[run], run_offsets[run + 1]});
    std::make_heap(heap.begin(), heap.end(), after);
    for (int64_t i = 0; i < order.size && !heap.empty(); ++i) {
      std::pop_heap(heap.begin(), heap.end(), after);
      order[i] = heap.back().next++;
      if (heap.back().next == heap.back().stop)
        heap.pop_back();
      else
        std::push_heap(heap.begin(), heap.end(), after);
    }
    return 0;
  });
}

}  // extern "C"
