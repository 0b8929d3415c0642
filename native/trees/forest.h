// The trees of all scanner states, equal trees and equal masks once.
#pragma once

#include <mutex>

#include "lists.h"
#include "scanner.h"

namespace cdec::trees {

// A tree as its groups stand in the order of their first token in the trie, branches in the order of
// their paths' hashes, path nodes in the order of first use: nothing depends on the walks before.
struct Tree {
  struct Path {
    int32_t parent, terminal, byte_class, next;
  };
  struct Branch {
    int32_t path, live, depth;
  };
  struct Group {
    int32_t branches, tokens;  // how many
    int32_t mask;              // instead of tokens; -1: none
  };

  std::vector<Path> paths;
  std::vector<Group> groups;
  std::vector<Branch> branches;
  std::vector<int32_t> tokens, verified;
  int32_t taken = -1;  // mask

  void clear();
};

class Forest {
 public:
  struct Range {
    int64_t first, stop;
  };

  Forest(const cdec_tree_scanner &scanner, const cdec_tree_trie &trie, cdec_i32 roots,
         cdec_bool asks_taken, int64_t words, int64_t dense_from);

  const Scanner scanner;
  const Trie trie;
  const cdec_i32 roots;         // scanner state of each class
  const cdec_bool asks_taken;   // by class: whether the tokens that complete a terminal are wanted
  const int64_t words, dense_from;

  // The next classes to work on; none where all are taken. These three may be called by threads.
  Range take();
  int32_t mask(std::span<const int32_t> mask);
  // Keeps the tree of a class; false where there are too many nodes.
  bool add(int64_t class_number, const Tree &tree);

  // Orders trees by their first class and masks by first use; writes how many there are of what.
  void finish(cdec_i64_out sizes);
  void write(const cdec_tree_columns &columns) const;

 private:
  // How a tree is kept: as one list of integers, its lengths first.
  struct Lengths {
    int32_t paths, groups, branches, tokens, verified, taken;
  };
  struct Stored {
    Lengths lengths;
    std::span<const Tree::Path> paths;
    std::span<const Tree::Group> groups;
    std::span<const Tree::Branch> branches;
    std::span<const int32_t> tokens, verified;
  };

  Stored stored(int64_t tree) const;
  void number_mask(int32_t mask);
  int32_t mask_number(int32_t mask) const { return mask < 0 ? -1 : mask_numbers_[mask]; }

  class Writer;

  std::mutex mutex_;
  int64_t taken_ = 0, nodes_ = 0;
  Lists<int32_t> masks_, trees_;
  std::vector<int32_t> flat_;           // a tree on its way into `trees_`
  std::vector<int64_t> tree_of_class_;  // among `trees_`
  std::vector<int64_t> order_;          // trees by number
  std::vector<int32_t> number_of_tree_, mask_numbers_, kept_masks_;
};

}  // namespace cdec::trees
