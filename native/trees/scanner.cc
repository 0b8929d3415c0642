// The scanner's ways to begin after a terminal, and the trie by byte classes.
#include "scanner.h"

#include <algorithm>

namespace cdec::trees {

namespace {

// The contexts that may hold after a terminal.
std::span<const int32_t> contexts_after(const cdec_tree_scanner &scanner, int64_t terminal) {
  return {scanner.after_contexts.at + scanner.after_offsets[terminal],
          scanner.after_contexts.at + scanner.after_offsets[terminal + 1]};
}

// Lists the states that matter and that a terminal's successors can begin with, class by class.
class EnterLists {
 public:
  explicit EnterLists(const cdec_tree_scanner &scanner)
      : scanner_(scanner), last_(scanner.delta.rows, -1), seen_(scanner.delta.rows, -1) {}

  void list(int64_t terminal, std::vector<Enter> &enters, std::vector<int64_t> &offsets) {
    first_ = static_cast<int64_t>(enters.size());
    for (int32_t k = 0; k < scanner_.delta.width; ++k) {
      list_states(terminal, k);
      for (const int32_t state : states_)
        enters.push_back({state, class_for(terminal, state, k, enters)});
      offsets.push_back(static_cast<int64_t>(enters.size()));
    }
  }

 private:
  void list_states(int64_t terminal, int32_t k) {
    states_.clear();
    ++stamp_;
    for (const int32_t context : contexts_after(scanner_, terminal)) {
      const int32_t state = scanner_.delta[scanner_.context_start[context]][k];
      if (state < 0 || seen_[state] == stamp_ || !matters(state)) continue;
      seen_[state] = stamp_;
      states_.push_back(state);
    }
    std::sort(states_.begin(), states_.end());
  }

  // Whether something completes, on entering or later.
  bool matters(int32_t state) const {
    return scanner_.live_row[state] >= 0 ||
           scanner_.match_offsets[state] < scanner_.match_offsets[state + 1];
  }

  // The smallest class that asks the same about a state that is entered by class k.
  int32_t class_for(int64_t terminal, int32_t state, int32_t k, const std::vector<Enter> &enters) {
    // subtle: entries of earlier terminals lie before this terminal's first.
    for (int64_t at = last_[state]; at >= first_; at = before_[at])
      if (asks_the_same(terminal, state, k, enters[at].byte_class)) {
        before_.push_back(-1);
        return enters[at].byte_class;
      }
    before_.push_back(last_[state]);
    last_[state] = static_cast<int64_t>(enters.size());
    return k;
  }

  bool asks_the_same(int64_t terminal, int32_t state, int32_t k, int32_t other) const {
    for (const int32_t context : contexts_after(scanner_, terminal)) {
      const int32_t *row = scanner_.delta[scanner_.context_start[context]];
      if ((row[k] == state) != (row[other] == state)) return false;
    }
    return true;
  }

  const cdec_tree_scanner &scanner_;
  std::vector<int64_t> last_;    // by state: its last entry that asks what none before did
  std::vector<int64_t> before_;  // by entry: the one before of the same state
  std::vector<int64_t> seen_;
  std::vector<int32_t> states_;
  int64_t first_ = 0, stamp_ = 0;
};

}  // namespace

Enters::Enters(const cdec_tree_scanner &scanner) : classes_(scanner.delta.width), offsets_(1, 0) {
  if (!scanner.lexing) return;
  EnterLists lists(scanner);
  for (int64_t terminal = 0; terminal + 1 < scanner.after_offsets.size; ++terminal)
    lists.list(terminal, enters_, offsets_);
}

Trie::Trie(const cdec_tree_trie &given) : token_ids(given.token_ids) {
  const int64_t count = given.classes.size;
  nodes.reserve(count + 1);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t depth = given.depth[i], k = given.classes[i];
    nodes.push_back({depth, k, given.skip[i], given.token_offsets[i], 0, 0});
    longest_ = std::max(longest_, depth);
    if (depth == 1) tops.push_back({static_cast<int32_t>(i), k});
  }
  nodes.push_back({1, 0, 0, given.token_offsets[count], 0, 0});
  tops.push_back({static_cast<int32_t>(count), 0});
  note_below();
}

void Trie::note_below() {
  std::vector<TrieNode *> open(longest_ + 1);
  for (int64_t i = 0, held = 0; i <= size(); ++i) {
    for (; held >= nodes[i].depth; --held) {
      if (held == 1) continue;
      const TrieNode &inner = *open[held];
      TrieNode &outer = *open[held - 1];
      outer.below |= inner.below | uint64_t{1} << std::min(inner.byte_class, 63);
      outer.height = std::max(outer.height, inner.height + 1);
    }
    held = nodes[i].depth;
    if (i < size()) open[held] = &nodes[i];
  }
}

}  // namespace cdec::trees
