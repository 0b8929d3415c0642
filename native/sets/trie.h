// Walks over the trie of a set, whose arrays may be views of a damaged file: whatever is read from
// them is checked before it is used as an index, and a bad index means "no child here".
#pragma once

#include "bits.h"

namespace cdec {

constexpr int kTailShift = 32;
constexpr int64_t kTail = int64_t{1} << kTailShift;
constexpr int64_t kDenseDegree = 256;

// Where the next tokens of a state stand: trie.tokens[first:stop] in a tail (one or none), else
// trie.token[first:stop] with CDEC_END first where has_end; no filter has been asked yet.
struct Span {
  int64_t first = 0, stop = 0;
  bool in_tail = false, has_end = false;
};

// A state within a row: the row, and how many of its tokens are behind.
struct TailState {
  int64_t row, depth;
  static TailState of(int64_t state) { return {(state >> kTailShift) - 1, state & (kTail - 1)}; }
  int64_t packed() const { return (row + 1) << kTailShift | depth; }
};

inline int64_t row_number(const cdec_trie &trie) { return trie.row_offsets.size - 1; }

inline Span span_of(const cdec_trie &trie, int64_t state) {
  Span span;
  if (state >= kTail) {
    const auto [row, depth] = TailState::of(state);
    span.in_tail = true;
    if (row >= row_number(trie)) return span;
    const int64_t begin = trie.row_offsets[row], stop = trie.row_offsets[row + 1];
    if (begin < 0 || begin > trie.tokens.size) return span;
    const int64_t first = begin + depth;
    if (first > stop || stop > trie.tokens.size) return span;
    return {first, std::min(first + 1, stop), true, first == stop};
  }
  if (state < 0 || state >= trie.token.size) return span;
  const int64_t first = trie.link[state], degree = trie.degree[state];
  if (first <= state || degree <= 0 || first > trie.token.size - degree) return span;
  return {first, first + degree, false, trie.token[first] == CDEC_END};
}

// Counts the kept rows below a row, 0 <= row <= 64 * words.
inline int64_t kept_below(const cdec_trie &trie, int64_t row) {
  const int64_t word = std::min(row >> 6, trie.kept.size - 1);
  uint64_t bits = trie.kept[word];
  if (row >> 6 == word) bits &= (uint64_t{1} << (row & 63)) - 1;
  return trie.kept_rank[word] + std::popcount(bits);
}

// Whether the filter, if there is one, keeps a row of the node's subtree.
inline bool is_kept(const cdec_trie &trie, int64_t node) {
  if (trie.kept.size == 0) return true;
  const int64_t first = trie.row[node], stop = first + trie.row_count[node];
  if (first < 0 || stop <= first || stop > row_number(trie)) return false;
  if (stop == first + 1) return (trie.kept[first >> 6] >> (first & 63)) & 1;
  return kept_below(trie, stop) > kept_below(trie, first);
}

// Whether the text of a state may end: in a tail no filter is asked, its row was let through.
inline bool may_end(const cdec_trie &trie, const Span &span) {
  return span.has_end && (span.in_tail || is_kept(trie, span.first));
}

// The place of a token among sorted tokens, or -1. Without branches on the comparison: a step is a
// conditional move, never a misprediction.
inline int64_t search(cdec_i32 token, int64_t first, int64_t stop, int64_t sought) {
  if (first >= stop) return -1;
  for (int64_t size = stop - first; size > 1;) {
    const int64_t half = size >> 1;
    first += token[first + half] <= sought ? half : 0;
    size -= half;
  }
  return token[first] == sought ? first : -1;
}

// The state `depth` tokens into a row: CDEC_DONE after its last where members end there.
inline int64_t landed(const cdec_trie &trie, TailState at) {
  if (at.row < 0 || at.row >= row_number(trie) || at.depth < 0 || at.depth >= kTail)
    return CDEC_DEAD;
  if (trie.ends_itself && trie.row_offsets[at.row] + at.depth >= trie.row_offsets[at.row + 1])
    return CDEC_DONE;
  return at.packed();
}

// The state after a child of a node, which its filter keeps.
inline int64_t entered(const cdec_trie &trie, int64_t child) {
  if (trie.degree[child] > 0) return child;
  const int64_t row = trie.row[child];
  if (row < 0 || row >= row_number(trie)) return CDEC_DEAD;
  const int64_t begin = trie.row_offsets[row], tail = trie.link[child];
  if (begin < 0 || tail < begin || tail > trie.tokens.size) return CDEC_DEAD;
  return landed(trie, {row, tail - begin});
}

// The state after a token that is no end, from the state of a span.
inline int64_t stepped(const cdec_trie &trie, int64_t state, const Span &span, int64_t token) {
  if (span.in_tail) {
    if (span.first >= span.stop || trie.tokens[span.first] != token) return CDEC_DEAD;
    const auto [row, depth] = TailState::of(state);
    return landed(trie, {row, depth + 1});
  }
  const int64_t child = search(trie.token, span.first, span.stop, token);
  return child < 0 || !is_kept(trie, child) ? CDEC_DEAD : entered(trie, child);
}

}  // namespace cdec
