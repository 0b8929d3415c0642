// The forest: trees come in from several threads, and leave as columns of an artifact.
#include "forest.h"

#include <algorithm>

namespace cdec::trees {

namespace {

constexpr int64_t kBatch = 16;  // classes that a worker takes at a time

template <class Item>
void append(std::vector<int32_t> &flat, const std::vector<Item> &items) {
  const auto *words = reinterpret_cast<const int32_t *>(items.data());
  flat.insert(flat.end(), words, words + items.size() * (sizeof(Item) / 4));
}

template <class Item>
std::span<const Item> split(const int32_t *&words, int32_t count) {
  const auto *items = reinterpret_cast<const Item *>(words);
  words += static_cast<int64_t>(count) * (sizeof(Item) / 4);
  return {items, items + count};
}

int32_t length(auto &items) { return static_cast<int32_t>(items.size()); }

}  // namespace

void Tree::clear() {
  paths.clear();
  groups.clear();
  branches.clear();
  tokens.clear();
  verified.clear();
  taken = -1;
}

Forest::Forest(const cdec_tree_scanner &scanner, const cdec_tree_trie &trie, cdec_i32 roots,
               cdec_bool asks_taken, int64_t words, int64_t dense_from)
    : scanner(scanner), trie(trie), roots(roots), asks_taken(asks_taken), words(words),
      dense_from(dense_from), masks_(std::pmr::get_default_resource()),
      trees_(std::pmr::get_default_resource()), tree_of_class_(roots.size) {}

Forest::Range Forest::take() {
  const std::lock_guard lock(mutex_);
  const Range found{taken_, std::min(taken_ + kBatch, roots.size)};
  taken_ = found.stop;
  return found;
}

int32_t Forest::mask(std::span<const int32_t> mask) {
  const std::lock_guard lock(mutex_);
  return static_cast<int32_t>(masks_.intern(mask));
}

bool Forest::add(int64_t class_number, const Tree &tree) {
  const std::lock_guard lock(mutex_);
  flat_ = {length(tree.paths), length(tree.groups), length(tree.branches),
           length(tree.tokens), length(tree.verified), tree.taken};
  append(flat_, tree.paths);
  append(flat_, tree.groups);
  append(flat_, tree.branches);
  append(flat_, tree.tokens);
  append(flat_, tree.verified);
  const int64_t before = trees_.size(), number = trees_.intern(flat_);
  tree_of_class_[class_number] = number;
  if (number == before) nodes_ += length(tree.paths) + length(tree.groups);
  return nodes_ <= scanner.max_nodes;
}

Forest::Stored Forest::stored(int64_t tree) const {
  const int32_t *words = trees_[tree].data();
  const Lengths lengths = split<Lengths>(words, 1)[0];
  return {lengths,
          split<Tree::Path>(words, lengths.paths),
          split<Tree::Group>(words, lengths.groups),
          split<Tree::Branch>(words, lengths.branches),
          split<int32_t>(words, lengths.tokens),
          split<int32_t>(words, lengths.verified)};
}

void Forest::number_mask(int32_t mask) {
  if (mask < 0 || mask_numbers_[mask] >= 0) return;
  mask_numbers_[mask] = length(kept_masks_);
  kept_masks_.push_back(mask);
}

void Forest::finish(cdec_i64_out sizes) {
  number_of_tree_.assign(trees_.size(), -1);
  for (const int64_t tree : tree_of_class_)
    if (number_of_tree_[tree] < 0) {
      number_of_tree_[tree] = length(order_);
      order_.push_back(tree);
    }
  mask_numbers_.assign(masks_.size(), -1);
  for (const int64_t tree : order_)
    for (const Tree::Group &group : stored(tree).groups) number_mask(group.mask);
  for (const int64_t tree : order_) number_mask(stored(tree).lengths.taken);
  std::fill(sizes.at, sizes.at + sizes.size, 0);
  for (const int64_t tree : order_) {
    const Lengths lengths = stored(tree).lengths;
    const int32_t counts[] = {1, lengths.paths, lengths.groups, lengths.branches,
                              lengths.tokens, lengths.verified};
    for (int64_t i = 0; i < 6; ++i) sizes[i] += counts[i];
  }
  sizes[6] = length(kept_masks_);
}

// Writes the columns tree by tree.
class Forest::Writer {
 public:
  Writer(const Forest &forest, const cdec_tree_columns &columns)
      : forest_(forest), columns_(columns) {}

  void write(int64_t number, const Stored &tree) {
    write_paths(tree.paths);
    write_groups(tree.groups);
    write_branches(tree.branches);
    copy(tree.tokens, columns_.tokens, token_);
    copy(tree.verified, columns_.verify_tokens, verified_);
    columns_.tree_paths[number + 1] = path_;
    columns_.tree_groups[number + 1] = group_;
    columns_.tree_verify[number + 1] = verified_;
    columns_.tree_taken[number] = forest_.mask_number(tree.lengths.taken);
  }

 private:
  void write_paths(std::span<const Tree::Path> paths) {
    for (const Tree::Path &path : paths) {
      columns_.path_parent[path_] = path.parent;
      columns_.path_terminal[path_] = path.terminal;
      columns_.path_byte[path_] = path.byte_class;
      columns_.path_next[path_++] = path.next;
    }
  }

  void write_groups(std::span<const Tree::Group> groups) {
    int64_t branches = branch_, tokens = token_;
    for (const Tree::Group &group : groups) {
      columns_.group_dense[group_++] = forest_.mask_number(group.mask);
      columns_.group_branches[group_] = branches += group.branches;
      columns_.group_tokens[group_] = tokens += group.tokens;
    }
  }

  void write_branches(std::span<const Tree::Branch> branches) {
    for (const Tree::Branch &branch : branches) {
      columns_.branch_path[branch_] = branch.path;
      columns_.branch_live[branch_] = branch.live;
      columns_.branch_depth[branch_++] = branch.depth;
    }
  }

  static void copy(std::span<const int32_t> items, cdec_i32_out column, int64_t &at) {
    std::copy(items.begin(), items.end(), column.at + at);
    at += length(items);
  }

  const Forest &forest_;
  const cdec_tree_columns &columns_;
  int64_t path_ = 0, group_ = 0, branch_ = 0, token_ = 0, verified_ = 0;
};

void Forest::write(const cdec_tree_columns &columns) const {
  for (const cdec_i64_out offsets : {columns.tree_paths, columns.tree_groups, columns.tree_verify,
                                     columns.group_branches, columns.group_tokens})
    offsets[0] = 0;
  for (size_t i = 0; i < tree_of_class_.size(); ++i)
    columns.tree_of_class[i] = number_of_tree_[tree_of_class_[i]];
  Writer writer(*this, columns);
  for (size_t i = 0; i < order_.size(); ++i) writer.write(i, stored(order_[i]));
  for (size_t i = 0; i < kept_masks_.size(); ++i)
    std::ranges::copy(masks_[kept_masks_[i]], columns.dense_masks.at + i * words);
}

}  // namespace cdec::trees
