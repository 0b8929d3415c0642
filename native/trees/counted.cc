// States that differ by a count alone and share a tree: no token reads to where counts matter.
#include <algorithm>
#include <numeric>
#include <vector>

#include "guarded.h"

namespace cdec::trees {

namespace {

constexpr int32_t kFar = INT32_MAX;

class Counted {
 public:
  Counted(cdec_i32_rows delta, cdec_i64 labels, const cdec_tree_trie &trie,
          const cdec_copies &copies)
      : delta_(delta), trie_(trie), copy_(copies.copy), following_(copies.following),
        is_regular_(delta.rows), until_(delta.rows), order_(delta.rows) {
    for (int64_t state = 0; state < delta.rows; ++state) {
      is_regular_[state] = is_regular(state, labels);
      until_[state] = is_regular_[state] ? kFar : 0;
    }
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, std::greater(), [&](int32_t state) { return copy_[state]; });
  }

  void write(cdec_i32_out same) {
    find_until();
    std::iota(same.at, same.at + same.size, 0);
    std::vector<int64_t> read(delta_.rows, -1);
    for (const int32_t state : order_) {
      if (!is_regular_[state]) continue;
      const int32_t beside = following_[state];
      const bool is_like_it = read[beside] >= 0 && until_[state] > read[beside];
      read[state] = is_like_it ? read[beside] : copies_read(state);
      if (read[state] >= 0) same[state] = same[beside];
    }
  }

 private:
  // Whether every step does as that of the state with one more counted.
  bool is_regular(int64_t state, cdec_i64 labels) const {
    const int32_t beside = following_[state];
    if (copy_[state] == 0 || beside < 0 || labels[state] != labels[beside]) return false;
    if (copy_[beside] != copy_[state] + 1) return false;
    for (int64_t k = 0; k < delta_.width; ++k) {
      const int32_t to = delta_[state][k], other = delta_[beside][k];
      if (to != other && (to < 0 || following_[to] != other || copy_[to] < copy_[state]))
        return false;
    }
    return true;
  }

  // After how many copies a state can come to one that is not regular.
  void find_until() {
    for (auto first = order_.begin(); first != order_.end();) {
      const auto stop = std::find_if(first, order_.end(), [&](int32_t state) {
        return copy_[state] != copy_[*first];
      });
      for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (auto state = first; state != stop; ++state) is_changed |= lower_until(*state);
      }
      first = stop;
    }
  }

  bool lower_until(int32_t state) {
    if (!is_regular_[state]) return false;
    bool is_changed = false;
    for (int64_t k = 0; k < delta_.width; ++k) {
      const int32_t to = delta_[state][k];
      if (to < 0 || to == delta_[following_[state]][k] || until_[to] == kFar) continue;
      const int32_t distance = until_[to] + copy_[to] - copy_[state];
      if (distance < until_[state]) until_[state] = distance, is_changed = true;
    }
    return is_changed;
  }

  // The most copies that a token reads on from a state; -1: to one that is not regular.
  int64_t copies_read(int32_t root) {
    int64_t most = 0;
    for (int64_t node = 0; node < trie_.depth.size;) {
      const int32_t level = trie_.depth[node], k = trie_.classes[node];
      path_.resize(level + 1);
      path_[0] = root;
      const int32_t state = path_[level - 1], to = delta_[state][k];
      if (to < 0 || to == delta_[following_[state]][k]) {
        node = trie_.skip[node];
        continue;
      }
      if (!is_regular_[to]) return -1;
      most = std::max<int64_t>(most, copy_[to] - copy_[root]);
      path_[level] = to;
      ++node;
    }
    return most;
  }

  cdec_i32_rows delta_;
  const cdec_tree_trie &trie_;
  cdec_i32_out copy_, following_;
  std::vector<bool> is_regular_;
  std::vector<int32_t> until_, order_;
  std::vector<int32_t> path_;  // states on the way down
};

}  // namespace
}  // namespace cdec::trees

extern "C" int64_t cdec_alike_but_for_counts(const cdec_tree_scanner *scanner, cdec_i64 labels,
                                             const cdec_tree_trie *trie, const cdec_copies *copies,
                                             cdec_i32_out same) {
  return cdec::guarded([&] {
    cdec::trees::Counted(scanner->delta, labels, *trie, *copies).write(same);
    return 0;
  });
}
