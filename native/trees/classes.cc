// Scanner states that behave alike within a token: they share one subterminal tree.
#include <algorithm>
#include <bit>
#include <bitset>

#include "guarded.h"
#include "lists.h"
#include "refinement.h"

namespace cdec::trees {

namespace {

using Classes = std::bitset<256>;

// How many bytes of the vocabulary's tokens the terminal under way can read. A token is cut where
// two of its neighbouring bytes follow each other nowhere in the scanner.
class Lengths {
 public:
  explicit Lengths(cdec_i32_rows delta) : follows_(delta.width) {
    std::vector<Classes> enters(delta.rows);
    visit(delta, [&](int64_t, int64_t k, int32_t target) {
      enters[target].set(k);
      begins_.set(k);
    });
    visit(delta, [&](int64_t state, int64_t k, int32_t) { follows_[k] |= enters[state]; });
  }

  // Writes the longest by a token's first class.
  void write(const cdec_tree_trie &trie, cdec_i64_out longest) const {
    std::fill(longest.at, longest.at + longest.size, 1);
    std::vector<int32_t> last;
    for (int64_t node = 0; node < trie.depth.size;) {
      const int32_t level = trie.depth[node], k = trie.classes[node];
      last.resize(level - 1);
      const bool is_read = level == 1 ? begins_[k] : follows_[k][last.back()];
      last.push_back(k);
      if (is_read) longest[last[0]] = std::max<int64_t>(longest[last[0]], level);
      node = is_read ? node + 1 : trie.skip[node];
    }
  }

 private:
  template <class Visit>
  static void visit(cdec_i32_rows delta, Visit &&visit) {
    for (int64_t state = 0; state < delta.rows; ++state)
      for (int64_t k = 0; k < delta.width; ++k)
        if (delta[state][k] >= 0) visit(state, k, delta[state][k]);
  }

  Classes begins_;
  std::vector<Classes> follows_;  // by class: those that may stand before it
};

// Bounded bisimulation: Moore's refinement (1956), stopped after as many rounds as a state asks
// for, rounded up to a power of two.
std::vector<int32_t> classes_within(cdec_i32_rows delta, cdec_i64 labels, cdec_i64 lengths) {
  const Sources sources(delta);
  Partition partition(delta, sources, numbered({labels.at, labels.at + labels.size}));
  std::vector<int64_t> classes(delta.rows);
  const int64_t longest = *std::max_element(lengths.at, lengths.at + lengths.size);
  for (int64_t state = 0; state < delta.rows; ++state) classes[state] = state;
  for (int64_t length = 1, done = 0; length / 2 < longest; length *= 2) {
    std::vector<int32_t> asking;
    for (int64_t state = 0; state < delta.rows; ++state)
      if (length / 2 < lengths[state] && lengths[state] <= length)
        asking.push_back(static_cast<int32_t>(state));
    if (asking.empty()) continue;
    // What a step shows: the label of the state entered, and what its texts show.
    partition.refine(length - 1 - done);
    done = length - 1;
    const std::vector<int32_t> &same = partition.same_successors(asking);
    for (size_t i = 0; i < asking.size(); ++i) classes[asking[i]] = delta.rows * length + same[i];
  }
  return numbered(classes);
}

}  // namespace
}  // namespace cdec::trees

extern "C" {

int64_t cdec_state_labels(const cdec_tree_scanner *scanner, cdec_i64_out labels) {
  return cdec::guarded([&] {
    cdec::Lists<int32_t> lists(std::pmr::get_default_resource());
    std::vector<int32_t> shown;
    for (int64_t state = 0; state < labels.size; ++state) {
      shown.assign(1, scanner->live_row[state]);
      for (int64_t at = scanner->match_offsets[state]; at < scanner->match_offsets[state + 1]; ++at)
        shown.push_back(scanner->match_terminals[at]);
      labels[state] = lists.intern(shown);
    }
    return 0;
  });
}

int64_t cdec_longest_inside(const cdec_tree_scanner *scanner, const cdec_tree_trie *trie,
                            cdec_i64_out longest) {
  return cdec::guarded([&] {
    cdec::trees::Lengths(scanner->delta).write(*trie, longest);
    return 0;
  });
}

int64_t cdec_classes_within(const cdec_tree_scanner *scanner, cdec_i64 labels, cdec_i64 lengths,
                            cdec_i64_out classes) {
  return cdec::guarded([&] {
    const auto found = cdec::trees::classes_within(scanner->delta, labels, lengths);
    std::ranges::copy(found, classes.at);
    return 0;
  });
}

}  // extern "C"
