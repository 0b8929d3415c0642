// The subterminal trees read downwards: where items stand, and what lies beneath a path node.
//
// An *item* is a number within a tree: a path node, then a branch behind all nodes, then a token that
// is read byte by byte behind all branches. What a mask *allows* is numbered likewise: a group, then a
// token behind all groups.
#pragma once

#include <memory>
#include <vector>

#include "grammar.h"

namespace cdec::grammars {

struct Tree {
  int64_t number;
  Range nodes, groups, branches, tokens;

  int64_t item_of_node(int64_t node) const { return node - nodes.begin; }
  int64_t item_of_branch(int64_t branch) const { return nodes.size() + branch - branches.begin; }
  int64_t item_of_token(int64_t i) const { return nodes.size() + branches.size() + i; }
  int64_t allowed_count() const { return groups.size() + tokens.size(); }
};

class Trees {
 public:
  explicit Trees(const Grammar &grammar);

  Tree operator[](int64_t number) const;
  // Links a tree's nodes and branches to the nodes above them, once. Lists ascend, whatever a damaged
  // artifact holds, so that every walk ends.
  void link(const Tree &tree);

  // The first beneath a tree's root, or beneath a node, and the next ones; -1: no more.
  int32_t first_node(int64_t tree) const { return root_node_[tree]; }
  int32_t first_branch(int64_t tree) const { return root_branch_[tree]; }
  int32_t node_beneath(int64_t node) const { return node_child_[node]; }
  int32_t branch_beneath(int64_t node) const { return node_branch_[node]; }
  int32_t next_node(int64_t node) const { return node_next_[node]; }
  int32_t next_branch(int64_t branch) const { return branch_next_[branch]; }
  // The group of a branch of a tree that is linked, -1 if it has none.
  int32_t group_of(int64_t branch) const { return branch_group_[branch]; }

 private:
  static constexpr int32_t kUnlinked = -2;
  // subtle: not cleared, so that opening a large artifact does not touch it; a tree's part is written
  // when it is linked.
  using Links = std::unique_ptr<int32_t[]>;
  static Links links(int64_t count) { return std::make_unique_for_overwrite<int32_t[]>(count); }

  void link_nodes(const Tree &tree);
  void link_branches(const Tree &tree);
  int32_t before(int64_t branch, int32_t following);

  const cdec_grammar &columns_;
  std::vector<int32_t> root_node_, root_branch_;
  Links node_child_, node_next_, node_branch_, branch_next_, branch_group_;
};

}  // namespace cdec::grammars
