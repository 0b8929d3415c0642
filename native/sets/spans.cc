// Pieces of a document: a sorted list of what follows the places where a piece may begin, and walks
// along it. A piece is a prefix of one of its rows, so a state is a run of rows and a depth.
#include <algorithm>
#include <numeric>
#include <vector>

#include "bits.h"
#include "guarded.h"

namespace cdec {
namespace {

// ---- Suffix array by induced sorting (Nong, Zhang, Chan 2009: "Linear Suffix Array Construction by
// Almost Pure Induced-Sorting"); the end of the text is below every letter, and is not stored.

template <class Letter>
class SuffixSorter {
 public:
  SuffixSorter(const Letter *text, int32_t size, int32_t letters, int32_t *order)
      : text_(text), size_(size), order_(order), counts_(letters, 0), edge_(letters),
        rises_(size, 0) {
    for (int32_t i = 0; i < size; ++i) ++counts_[text[i]];
    for (int32_t i = size - 2; i >= 0; --i)
      rises_[i] = text[i] == text[i + 1] ? rises_[i + 1] : text[i] < text[i + 1];
  }

  void sort() {
    std::vector<int32_t> valleys;
    for (int32_t i = 1; i < size_; ++i)
      if (is_valley(i)) valleys.push_back(i);
    induce(valleys);
    if (valleys.size() < 2) return;
    induce(in_order(valleys));
  }

 private:
  // Where the text stops falling and begins to rise: the leftmost places of type S.
  bool is_valley(int32_t i) const { return i > 0 && rises_[i] && !rises_[i - 1]; }

  void to_heads() { std::exclusive_scan(counts_.begin(), counts_.end(), edge_.begin(), 0); }
  void to_tails() { std::inclusive_scan(counts_.begin(), counts_.end(), edge_.begin()); }

  // Sorts all suffixes by those of the valleys, as far as these are sorted.
  void induce(const std::vector<int32_t> &valleys) {
    std::fill_n(order_, size_, -1);
    to_tails();
    for (auto at = valleys.rbegin(); at != valleys.rend(); ++at) order_[--edge_[text_[*at]]] = *at;
    to_heads();
    order_[edge_[text_[size_ - 1]]++] = size_ - 1;
    for (int32_t i = 0; i < size_; ++i) {
      const int32_t before = order_[i] - 1;
      if (before >= 0 && !rises_[before]) order_[edge_[text_[before]]++] = before;
    }
    to_tails();
    for (int32_t i = size_ - 1; i >= 0; --i) {
      const int32_t before = order_[i] - 1;
      if (before >= 0 && rises_[before]) order_[--edge_[text_[before]]] = before;
    }
  }

  // The valleys by their suffixes: names for what stands from one to the next are sorted in turn.
  std::vector<int32_t> in_order(const std::vector<int32_t> &valleys) {
    const int32_t number = static_cast<int32_t>(valleys.size());
    std::vector<int32_t> which(size_, -1), names(number), order(number);
    for (int32_t i = 0; i < number; ++i) which[valleys[i]] = i;
    int32_t name = -1, last = -1;
    for (int32_t i = 0; i < size_; ++i) {
      const int32_t at = which[order_[i]];
      if (at < 0) continue;
      if (last < 0 || !are_equal(valleys, last, at)) ++name;
      names[at] = name;
      last = at;
    }
    if (name + 1 == number)
      for (int32_t i = 0; i < number; ++i) order[names[i]] = i;
    else
      SuffixSorter<int32_t>(names.data(), number, name + 1, order.data()).sort();
    for (int32_t &at : order) at = valleys[at];
    return order;
  }

  bool are_equal(const std::vector<int32_t> &valleys, int32_t one, int32_t other) const {
    const auto last = static_cast<int32_t>(valleys.size()) - 1;
    if (one == last || other == last) return false;  // what reaches the end is alone
    const int32_t length = valleys[one + 1] - valleys[one];
    return length == valleys[other + 1] - valleys[other] &&
           std::equal(text_ + valleys[one], text_ + valleys[one] + length + 1,
                      text_ + valleys[other]);
  }

  const Letter *text_;
  int32_t size_, *order_;
  std::vector<int32_t> counts_, edge_;
  std::vector<uint8_t> rises_;
};

// How many bytes each suffix shares with the one before it in order, by Kasai et al. 2001.
std::vector<int32_t> shared_of(cdec_u8 data, const std::vector<int32_t> &order) {
  const auto size = static_cast<int32_t>(order.size());
  std::vector<int32_t> before(size, -1), shared(size), by_place(size);
  for (int32_t i = 1; i < size; ++i) before[order[i]] = order[i - 1];
  for (int32_t at = 0, same = 0; at < size; ++at) {
    const int32_t other = before[at];
    if (other < 0) same = 0;
    while (other >= 0 && std::max(at, other) + same < size && data[at + same] == data[other + same])
      ++same;
    by_place[at] = same;
    same = std::max(same - 1, 0);
  }
  for (int32_t i = 0; i < size; ++i) shared[i] = by_place[order[i]];
  return shared;
}

// A row before it is cut: where its bytes stand first among the sorted suffixes, and the row.
struct CutRow {
  int32_t first, length, begin;
};

constexpr int64_t kBlock = 64;
constexpr int kDepthShift = 31;

// Rows that begin alike for so many bytes.
struct Run {
  int64_t first, stop, depth;
};

class Spans {
 public:
  explicit Spans(const cdec_spans &spans) : s_(spans) {}

  // The run of a state; an empty one of no state.
  Run run(int64_t state) const {
    if (state < 0) return {0, 0, 0};
    const int64_t first = state & ((int64_t{1} << kDepthShift) - 1), depth = state >> kDepthShift;
    if (first >= s_.begin.size || depth > s_.length[first] || s_.shared[first] >= depth + !depth)
      return {0, 0, 0};
    return {first, stop_of(first, depth), depth};
  }

  // Narrows a run by a byte; false where no row goes on by it.
  bool narrow(Run &run, uint8_t byte) const {
    if (run.stop - run.first == 1) {
      if (byte_at(run.first, run.depth) != byte) return false;
    } else {
      run.first = bound(run, byte);
      run.stop = bound(run, byte + 1);
      if (run.first >= run.stop) return false;
    }
    ++run.depth;
    return true;
  }

  bool may_end(const Run &run) const {
    for (int64_t i = run.first; i < run.stop && run.depth > 0; ++i) {
      const int64_t end = s_.begin[i] + run.depth;
      if (end >= s_.least[i] && s_.ends[end]) return true;
    }
    return false;
  }

  static int64_t state(const Run &run) { return run.depth << kDepthShift | run.first; }

  // The state after some bytes.
  int64_t follow(Run run, const uint8_t *bytes, int64_t size) const {
    for (int64_t i = 0; i < size; ++i)
      if (!narrow(run, bytes[i])) return CDEC_DEAD;
    return state(run);
  }

  int64_t step(const Run &run, int64_t token) const {
    if (run.first >= run.stop || token < 0 || token >= s_.width) return CDEC_DEAD;
    if (contains(s_.end_ids, token)) return may_end(run) ? CDEC_DONE : CDEC_DEAD;
    if (token >= s_.is_ordinary.size || !s_.is_ordinary[token]) return CDEC_DEAD;
    const int64_t from = s_.byte_offsets[token], size = s_.byte_offsets[token + 1] - from;
    return size ? follow(run, s_.flat.at + from, size) : CDEC_DEAD;
  }

  // Walks the vocabulary's trie and the run together.
  void fill(const Run &start, const cdec_token_trie &trie, std::vector<Run> &open, uint32_t *mask,
            int64_t words) const {
    std::fill_n(mask, words, 0u);
    if (start.first >= start.stop) return;
    open[0] = start;
    for (int64_t node = 0; node < trie.node_byte.size;) {
      const int64_t depth = trie.depth[node];
      Run below = open[depth - 1];
      if (!narrow(below, trie.node_byte[node])) {
        node = trie.skip[node];
        continue;
      }
      open[depth] = below;
      for (int64_t i = trie.token_offsets[node]; i < trie.token_offsets[node + 1]; ++i)
        if (trie.token_ids[i] < s_.width) set_bit(mask, trie.token_ids[i]);
      ++node;
    }
    // An end id that has bytes is an end.
    for (int64_t i = 0; i < s_.end_ids.size; ++i)
      if (s_.end_ids[i] >> 5 < words) mask[s_.end_ids[i] >> 5] &= ~(1u << (s_.end_ids[i] & 31));
    if (may_end(start)) set_bits(mask, words, s_.end_ids);
  }

 private:
  int byte_at(int64_t row, int64_t depth) const {
    return depth < s_.length[row] ? s_.data[s_.begin[row] + depth] : -1;
  }

  // The first row of a run whose next byte is not below one.
  int64_t bound(const Run &run, int byte) const {
    int64_t first = run.first, size = run.stop - run.first;
    while (size > 0) {
      const int64_t half = size >> 1;
      const bool is_below = byte_at(first + half, run.depth) < byte;
      first += is_below ? half + 1 : 0;
      size = is_below ? size - half - 1 : half;
    }
    return first;
  }

  // The first row after `first` that shares fewer than `depth` bytes with the one before it.
  int64_t stop_of(int64_t first, int64_t depth) const {
    if (depth == 0) return s_.begin.size;
    int64_t at = first + 1;
    const int64_t size = s_.shared.size;
    while (at < size) {
      if (at % (kBlock * kBlock) == 0 && s_.far_shared[at / (kBlock * kBlock)] >= depth)
        at += kBlock * kBlock;
      else if (at % kBlock == 0 && s_.near_shared[at / kBlock] >= depth)
        at += kBlock;
      else if (s_.shared[at] >= depth)
        ++at;
      else
        break;
    }
    return std::min(at, size);
  }

  const cdec_spans &s_;
};

}  // namespace
}  // namespace cdec

using namespace cdec;

extern "C" {

int64_t cdec_spans_sort(cdec_u8 data, cdec_i32 until, cdec_i32_out begin, cdec_i32_out length,
                        cdec_i32_out shared) {
  return guarded([&]() -> int64_t {
    const auto size = static_cast<int32_t>(data.size);
    std::vector<int32_t> order(size);
    SuffixSorter<uint8_t>(data.at, size, 256, order.data()).sort();
    const std::vector<int32_t> same = shared_of(data, order);

    // Ranks whose shared lengths increase: the last that shares less than a row has bytes is where
    // the row's bytes stand first.
    std::vector<CutRow> rows;
    std::vector<int32_t> open;
    for (int32_t rank = 0; rank < size; ++rank) {
      while (!open.empty() && same[open.back()] >= same[rank]) open.pop_back();
      open.push_back(rank);
      const int32_t at = order[rank], bytes = until[at] - at;
      if (bytes <= 0) continue;
      const auto above = std::partition_point(open.begin() + 1, open.end(),
                                              [&](int32_t each) { return same[each] < bytes; });
      rows.push_back({*(above - 1), bytes, at});
    }
    const auto is_before = [](const CutRow &one, const CutRow &other) {
      return one.first != other.first ? one.first < other.first : one.length < other.length;
    };
    if (!std::is_sorted(rows.begin(), rows.end(), is_before))
      std::stable_sort(rows.begin(), rows.end(), is_before);
    for (size_t i = 0; i < rows.size(); ++i) {
      begin[i] = rows[i].begin;
      length[i] = rows[i].length;
      int32_t common = i ? std::min(rows[i - 1].length, rows[i].length) : 0;
      for (int32_t rank = i ? rows[i - 1].first + 1 : 1; i && rank <= rows[i].first; ++rank)
        common = std::min(common, same[rank]);
      shared[i] = common;
    }
    return static_cast<int64_t>(rows.size());
  });
}

int64_t cdec_spans_advance(const cdec_spans *spans, cdec_i64 states, cdec_i64 token_ids,
                           cdec_i64_out out) {
  const Spans walk(*spans);
  for (int64_t i = 0; i < states.size; ++i) out[i] = walk.step(walk.run(states[i]), token_ids[i]);
  return 0;
}

int64_t cdec_spans_check(const cdec_spans *spans, cdec_i64 states, cdec_i64_rows token_ids,
                         cdec_bool_rows_out out) {
  const Spans walk(*spans);
  for (int64_t i = 0; i < states.size; ++i) {
    const Run run = walk.run(states[i]);
    for (int64_t j = 0; j < token_ids.width; ++j)
      out[i][j] = walk.step(run, token_ids[i][j]) != CDEC_DEAD;
  }
  return 0;
}

int64_t cdec_spans_complete(const cdec_spans *spans, cdec_i64 states, cdec_bool_out out) {
  const Spans walk(*spans);
  for (int64_t i = 0; i < states.size; ++i)
    out[i] = states[i] == CDEC_DONE || walk.may_end(walk.run(states[i]));
  return 0;
}

int64_t cdec_spans_fill_mask(const cdec_spans *spans, const cdec_token_trie *trie, int64_t deepest,
                             cdec_i64 states, cdec_u32_rows_out mask) {
  return guarded([&]() -> int64_t {
    const Spans walk(*spans);
    std::vector<Run> open(deepest + 1);
    for (int64_t i = 0; i < states.size; ++i)
      if (states[i] == 0 && spans->root.rows)
        copy_words(spans->root[0], spans->root.width, mask[i], mask.width);
      else
        walk.fill(walk.run(states[i]), *trie, open, mask[i], mask.width);
    return 0;
  });
}

int64_t cdec_spans_advance_bytes(const cdec_spans *spans, cdec_i64 states, cdec_u8 flat,
                                 cdec_i64 offsets, cdec_i64_out out) {
  const Spans walk(*spans);
  for (int64_t i = 0; i < states.size; ++i) {
    const int64_t size = offsets[i + 1] - offsets[i];
    const Run run = walk.run(states[i]);
    out[i] = size == 0               ? states[i]
             : run.first >= run.stop ? CDEC_DEAD
                                     : walk.follow(run, flat.at + offsets[i], size);
  }
  return 0;
}

int64_t cdec_spans_rows(const cdec_spans *spans, int64_t state, cdec_i64_out range) {
  const Run run = Spans(*spans).run(state);
  range[0] = run.first;
  range[1] = run.stop;
  return 0;
}

}  // extern "C"
