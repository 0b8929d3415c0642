// What a walk of the vocabulary reads: the scanner, what may begin after a terminal, and the trie.
#pragma once

#include <span>
#include <vector>

#include "cdec_native.h"

namespace cdec::trees {

// A way to begin after a terminal with a byte: the scanner state entered, and the class that stands
// for all that ask the parser's context the same question.
struct Enter {
  int32_t state, byte_class;
};

// An ENTER node asks for the contexts in which a byte class leads to a state. Where another class
// leads to that state in the same contexts, both ask the same, and the smaller class stands for both:
// tokens that differ in such bytes alone then share their branches.
class Enters {
 public:
  explicit Enters(const cdec_tree_scanner &scanner);
  std::span<const Enter> of(int64_t terminal, int64_t k) const {
    const int64_t row = terminal * classes_ + k;
    return {enters_.data() + offsets_[row], enters_.data() + offsets_[row + 1]};
  }

 private:
  int64_t classes_;
  std::vector<int64_t> offsets_;  // by terminal and class
  std::vector<Enter> enters_;     // of a terminal and class by state, ascending
};

struct Scanner : cdec_tree_scanner {
  explicit Scanner(const cdec_tree_scanner &given) : cdec_tree_scanner(given), enters(given) {}

  std::span<const int32_t> matches(int64_t state) const {
    return {match_terminals.at + match_offsets[state], match_terminals.at + match_offsets[state + 1]};
  }

  Enters enters;
};

// The vocabulary's trie with bytes replaced by the scanner's classes.
struct TrieNode {
  int32_t depth, byte_class, skip, first_token;
  uint64_t below;  // byte classes within the subtree, as bits; those from 63 on share one
  int32_t height;  // levels below the node
};

struct Top {
  int32_t node, byte_class;
};

class Trie {
 public:
  explicit Trie(const cdec_tree_trie &given);

  int32_t size() const { return static_cast<int32_t>(nodes.size()) - 1; }
  int32_t longest() const { return longest_; }

  std::vector<TrieNode> nodes;  // and one behind the last
  std::vector<Top> tops;        // nodes of level 1, side by side for the cache, and one behind
  cdec_i32 token_ids;

 private:
  void note_below();
  int32_t longest_ = 0;
};

}  // namespace cdec::trees
