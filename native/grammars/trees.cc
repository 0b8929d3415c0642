#include "trees.h"

namespace cdec::grammars {

Trees::Trees(const Grammar &grammar)
    : columns_(grammar.columns),
      root_node_(grammar.trees, kUnlinked),
      root_branch_(grammar.trees, kUnlinked),
      node_child_(links(columns_.path_parent.size)),
      node_next_(links(columns_.path_parent.size)),
      node_branch_(links(columns_.path_parent.size)),
      branch_next_(links(columns_.branch_path.size)),
      branch_group_(links(columns_.branch_path.size)) {}

Tree Trees::operator[](int64_t number) const {
  const Range groups = range_of(columns_.tree_groups, number, columns_.group_dense.size);
  const int64_t most = columns_.branch_path.size;
  const int64_t first = std::clamp<int64_t>(columns_.group_branches[groups.begin], 0, most);
  const int64_t last = std::clamp<int64_t>(columns_.group_branches[groups.end], first, most);
  return {number,
          range_of(columns_.tree_paths, number, columns_.path_parent.size),
          groups,
          {first, last},
          range_of(columns_.tree_verify, number, columns_.verify_tokens.size)};
}

void Trees::link(const Tree &tree) {
  if (root_node_[tree.number] != kUnlinked) return;
  root_node_[tree.number] = root_branch_[tree.number] = -1;
  link_nodes(tree);
  link_branches(tree);
}

void Trees::link_nodes(const Tree &tree) {
  for (int64_t node = tree.nodes.begin; node < tree.nodes.end; ++node)
    node_child_[node] = node_branch_[node] = node_next_[node] = -1;
  for (int64_t node = tree.nodes.end - 1; node >= tree.nodes.begin; --node) {
    const int64_t parent = columns_.path_parent[node];
    if (parent < -1 || parent >= tree.item_of_node(node)) continue;
    int32_t &first =
        parent < 0 ? root_node_[tree.number] : node_child_[tree.nodes.begin + parent];
    node_next_[node] = first;
    first = static_cast<int32_t>(node);
  }
}

void Trees::link_branches(const Tree &tree) {
  for (int64_t branch = tree.branches.begin; branch < tree.branches.end; ++branch)
    branch_group_[branch] = branch_next_[branch] = -1;
  for (int64_t group = tree.groups.end - 1; group >= tree.groups.begin; --group) {
    const Range own = range_of(columns_.group_branches, group, columns_.branch_path.size);
    const int64_t first = std::max(own.begin, tree.branches.begin);
    for (int64_t branch = std::min(own.end, tree.branches.end) - 1; branch >= first; --branch) {
      branch_group_[branch] = static_cast<int32_t>(group);
      const int64_t path = columns_.branch_path[branch];
      if (path < -1 || path >= tree.nodes.size()) continue;
      int32_t &list =
          path < 0 ? root_branch_[tree.number] : node_branch_[tree.nodes.begin + path];
      list = before(branch, list);
    }
  }
}

// Puts a branch before those of a list that come later; of two equal ones the list's stays.
int32_t Trees::before(int64_t branch, int32_t following) {
  if (following >= 0 && following <= branch) return following;
  branch_next_[branch] = following;
  return static_cast<int32_t>(branch);
}

}  // namespace cdec::grammars
