// Walks along the pieces of documents: a piece is a prefix of one of the sorted rows, so a state is a
// run of rows and a depth.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "bits.h"

namespace cdec {

inline constexpr int kDepthShift = 31;
// Stands behind a document; no text has such a byte.
inline constexpr int kSeparator = 255;
// Runs of fewer rows have no mask that was made before.
inline constexpr int64_t kWideRows = 64;

// Rows that begin alike for so many bytes.
struct Run {
  int64_t first, stop, depth;
  int64_t rows() const { return stop - first; }
};

// A level of a walk: what is left of a run, the next byte of its first row, and the node of the
// vocabulary's trie behind all that begins so.
struct Level {
  Run rest;
  int next;
  int64_t behind;
};

class Spans {
 public:
  explicit Spans(const cdec_spans &spans) : s_(spans) {}

  // The run of a state; an empty one of no state.
  Run run(int64_t state) const {
    if (state < 0) return {0, 0, 0};
    const int64_t first = state & ((int64_t{1} << kDepthShift) - 1), depth = state >> kDepthShift;
    if (first >= s_.begin.size || !reaches(first, depth)) return {0, 0, 0};
    return {first, stop_of(first, depth), depth};
  }

  // Narrows a run by a byte; false where no row goes on by it.
  bool narrow(Run &run, uint8_t byte) const {
    if (byte == kSeparator) return false;
    if (run.rows() == 1) {
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
    if (run.first >= run.stop || run.depth == 0) return false;
    if (const uint32_t *mask = made_before(run))
      return s_.end_ids.size > 0 && has_bit(mask, s_.wide_masks.width, s_.end_ids[0]);
    for (int64_t i = run.first; i < run.stop; ++i) {
      const int64_t end = s_.begin[i] + run.depth;
      if ((!s_.least.size || end >= s_.least[i]) && is_end(end)) return true;
      // Of equal texts either all end with a character or none does.
      if (!s_.ends.size && !is_end(end)) return false;
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

  // Visits the bytes with which rows of a run go on, ascending, and the rows of each.
  template <class Visit>
  void each_byte(Run run, Visit &&visit) const {
    while (run.first < run.stop) {
      const int byte = byte_at(run.first, run.depth);
      const int64_t stop = run.rows() == 1 ? run.stop : bound(run, byte + 1);
      if (byte >= 0 && byte < kSeparator) visit(byte, Run{run.first, stop, run.depth + 1});
      run.first = stop;
    }
  }

  // The most bytes from anywhere within a piece to where one may end.
  int64_t most_to_an_end() const {
    int64_t most = s_.ends.size ? 0 : 4, last = 0;  // a character
    for (int64_t i = 0; i < s_.least.size; ++i)
      most = std::max<int64_t>(most, s_.least[i] - s_.begin[i]);
    for (int64_t i = 0; i < s_.ends.size; ++i)
      if (s_.ends[i]) most = std::max(most, i - last), last = i;
    return most;
  }

  int64_t step(const Run &run, int64_t token) const {
    if (run.first >= run.stop || token < 0 || token >= s_.width) return CDEC_DEAD;
    if (contains(s_.end_ids, token)) return may_end(run) ? CDEC_DONE : CDEC_DEAD;
    if (token >= s_.is_ordinary.size || !s_.is_ordinary[token]) return CDEC_DEAD;
    const int64_t from = s_.byte_offsets[token], size = s_.byte_offsets[token + 1] - from;
    return size ? follow(run, s_.flat.at + from, size) : CDEC_DEAD;
  }

  // Copies the mask that was made before, or walks the vocabulary's trie and the run together.
  void fill(const Run &start, const cdec_token_trie &trie, std::vector<Level> &open, uint32_t *mask,
            int64_t words) const {
    std::fill_n(mask, words, 0u);
    if (start.first >= start.stop) return;
    if (const uint32_t *made = made_before(start))
      return copy_words(made, s_.wide_masks.width, mask, words);
    open[0] = level(start, trie.node_byte.size);
    for (int64_t node = 0; node < trie.node_byte.size;) {
      const int64_t depth = trie.depth[node];
      Level &above = open[depth - 1];
      const int byte = trie.node_byte[node];
      if (above.next < byte)
        above = level({bound(above.rest, byte), above.rest.stop, above.rest.depth}, above.behind);
      if (above.next >= kSeparator || above.next != byte) {
        node = above.next >= kSeparator ? above.behind : trie.skip[node];
        continue;
      }
      const int64_t stop = bound(above.rest, byte + 1);
      open[depth] = level({above.rest.first, stop, above.rest.depth + 1}, trie.skip[node]);
      above = level({stop, above.rest.stop, above.rest.depth}, above.behind);
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
  Level level(const Run &run, int64_t behind) const {
    return {run, run.first < run.stop ? byte_at(run.first, run.depth) : kSeparator + 1, behind};
  }

  // Whether a piece of some row may end before a byte.
  bool is_end(int64_t at) const {
    if (s_.ends.size) return at >= 0 && at < s_.ends.size && s_.ends[at];
    return at < 0 || at >= s_.data.size || (s_.data[at] & 0xC0) != 0x80;
  }

  // Whether a row has so many bytes.
  bool reaches(int64_t row, int64_t depth) const {
    const int64_t at = s_.begin[row];
    return at >= 0 && at + depth <= s_.data.size && (!s_.length.size || depth <= s_.length[row]);
  }

  int byte_at(int64_t row, int64_t depth) const {
    if (s_.length.size && depth >= s_.length[row]) return -1;
    const int64_t at = s_.begin[row] + depth;
    return at >= 0 && at < s_.data.size ? s_.data[at] : kSeparator;
  }

  // The first row of a run whose next byte is not below one; it is looked for near the first.
  int64_t bound(const Run &run, int byte) const {
    if (run.first >= run.stop || byte_at(run.first, run.depth) >= byte) return run.first;
    return first_after(run.first, run.stop,
                       [&](int64_t row) { return byte_at(row, run.depth) < byte; });
  }

  // The first row after `first` that does not begin with its first `depth` bytes.
  int64_t stop_of(int64_t first, int64_t depth) const {
    if (depth == 0) return s_.begin.size;
    const uint8_t *bytes = s_.data.at + s_.begin[first];
    return first_after(first, s_.begin.size, [&](int64_t row) {
      return reaches(row, depth) && std::memcmp(bytes, s_.data.at + s_.begin[row], depth) == 0;
    });
  }

  // The first row after `first` of which something does not hold that holds of the rows before.
  template <class Holds>
  static int64_t first_after(int64_t first, int64_t stop, Holds &&holds) {
    int64_t step = 1;
    while (first + step < stop && holds(first + step)) first += step, step *= 2;
    int64_t last = std::min(first + step, stop);
    while (first + 1 < last) {
      const int64_t middle = first + (last - first) / 2;
      (holds(middle) ? first : last) = middle;
    }
    return last;
  }

  // The mask of a wide run that was made before; null where there is none.
  const uint32_t *made_before(const Run &run) const {
    if (run.rows() < kWideRows && run.depth) return nullptr;
    const int64_t *end = s_.wide_states.at + s_.wide_states.size;
    const int64_t *found = std::lower_bound(s_.wide_states.at, end, state(run));
    const int64_t row = found - s_.wide_states.at;
    return found != end && *found == state(run) && row < s_.wide_masks.rows ? s_.wide_masks[row]
                                                                           : nullptr;
  }

  const cdec_spans &s_;
};

}  // namespace cdec
