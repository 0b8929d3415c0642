// Pieces of documents: a sorted list of what follows the places where a piece may begin, and the
// functions of its walks.
#include <algorithm>
#include <compare>
#include <numeric>
#include <queue>
#include <vector>

#include "guarded.h"
#include "spans.h"

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

// How many bytes each suffix shares with the one before it in order, by where it begins (Kaerkkaeinen,
// Manzini, Puglisi 2009: "Permuted Longest-Common-Prefix Array").
std::vector<int32_t> shared_of(cdec_u8 data, const std::vector<int32_t> &order) {
  const auto size = static_cast<int32_t>(order.size());
  std::vector<int32_t> shared(size, -1);
  for (int32_t i = 1; i < size; ++i) shared[order[i]] = order[i - 1];
  for (int32_t at = 0, same = 0; at < size; ++at) {
    const int32_t before = shared[at];
    if (before < 0) same = 0;
    while (before >= 0 && std::max(at, before) + same < size &&
           data[at + same] == data[before + same])
      ++same;
    shared[at] = same;
    same = std::max(same - 1, 0);
  }
  return shared;
}

// A row before it is cut: where its bytes stand first among the sorted suffixes, and the row.
struct CutRow {
  int32_t first, length, begin;
  friend auto operator<=>(const CutRow &, const CutRow &) = default;
};

// Rows from every character to the end of its document, by their order among all suffixes.
int64_t whole_rows(cdec_u8 data, const std::vector<int32_t> &order, cdec_i32_out begin) {
  int64_t rows = 0;
  for (const int32_t at : order)
    if (data[at] < kSeparator && (data[at] & 0xC0) != 0x80 && rows < begin.size) begin[rows++] = at;
  return rows;
}

// Rows cut where pieces end at the farthest.
int64_t cut_rows(cdec_u8 data, cdec_i32 until, const std::vector<int32_t> &order,
                 cdec_i32_out begin, cdec_i32_out length) {
  const std::vector<int32_t> same = shared_of(data, order);
  // Ranks whose shared lengths increase: the last that shares less than a row has bytes is where
  // the row's bytes stand first.
  std::vector<CutRow> rows;
  std::vector<int32_t> open;
  rows.reserve(begin.size);
  for (int32_t rank = 0; rank < static_cast<int32_t>(order.size()); ++rank) {
    const int32_t at = order[rank], bytes = until[at] - at;
    while (!open.empty() && same[order[open.back()]] >= same[at]) open.pop_back();
    open.push_back(rank);
    if (bytes <= 0) continue;
    const auto above = std::partition_point(open.begin() + 1, open.end(), [&](int32_t each) {
      return same[order[each]] < bytes;
    });
    rows.push_back({*(above - 1), bytes, at});
  }
  std::sort(rows.begin(), rows.end());
  const auto count = std::min<int64_t>(rows.size(), begin.size);
  for (int64_t i = 0; i < count; ++i) begin[i] = rows[i].begin, length[i] = rows[i].length;
  return count;
}

}  // namespace
}  // namespace cdec

using namespace cdec;

extern "C" {

int64_t cdec_spans_sort(cdec_u8 data, cdec_i32 until, cdec_i32_out begin, cdec_i32_out length) {
  return guarded([&]() -> int64_t {
    const auto size = static_cast<int32_t>(data.size);
    std::vector<int32_t> order(size);
    SuffixSorter<uint8_t>(data.at, size, 256, order.data()).sort();
    return until.size ? cut_rows(data, until, order, begin, length)
                      : whole_rows(data, order, begin);
  });
}

int64_t cdec_spans_widest(const cdec_spans *spans, int64_t rows, cdec_i64_out states) {
  return guarded([&]() -> int64_t {
    const Spans walk(*spans);
    const auto is_narrower = [](const Run &one, const Run &other) {
      return one.rows() != other.rows() ? one.rows() < other.rows()
                                        : Spans::state(one) > Spans::state(other);
    };
    std::priority_queue<Run, std::vector<Run>, decltype(is_narrower)> open(is_narrower);
    open.push(walk.run(0));
    int64_t found = 0;
    for (; found < states.size && !open.empty(); ++found) {
      const Run run = open.top();
      open.pop();
      states[found] = Spans::state(run);
      walk.each_byte(run, [&](int, const Run &below) {
        if (below.rows() >= rows) open.push(below);
      });
    }
    return found;
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
    std::vector<Level> open(deepest + 1);
    for (int64_t i = 0; i < states.size; ++i)
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
