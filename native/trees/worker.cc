// Walks of the trie, and trees from what they find.
#include "worker.h"

#include "bits.h"
#include "guarded.h"

namespace cdec::trees {

namespace {

// Appends tokens with an outcome, or lengthens the last range.
void append(std::vector<TokenRange> &ranges, const TokenRange &range) {
  TokenRange *last = ranges.empty() ? nullptr : &ranges.back();
  if (last && last->outcome == range.outcome && last->stop == range.first)
    last->stop = range.stop;
  else
    ranges.push_back(range);
}

}  // namespace

int64_t Worker::build(int64_t steps) {
  while (steps > 0) {
    if (!is_under_way_ && !next_class()) return 0;
    const int64_t status = walk(steps);
    if (status != 0) return status;
    if (node_ < forest_.trie.size()) return 1;
    write_tree();
    is_under_way_ = false;
    if (!forest_.add(classes_.first++, tree_)) return CDEC_TOO_MANY_NODES;
  }
  return 1;
}

// Begins the walk of the next class; false where there is none.
bool Worker::next_class() {
  if (classes_.first == classes_.stop) {
    classes_ = forest_.take();
    if (walks_->is_large()) walks_.emplace(forest_.scanner);
  }
  if (classes_.first == classes_.stop) return false;
  node_ = top_ = 0;
  ranges_.clear();
  takes_.clear();
  open_[0] = walks_->start(forest_.roots[classes_.first]);
  return is_under_way_ = true;
}

// Goes on for so many steps: nodes, and branches that were looked at for the first time.
int64_t Worker::walk(int64_t &steps) {
  const bool asks_taken = forest_.asks_taken[classes_.first];
  const int64_t before = walks_->work();
  int64_t left = steps;
  for (; node_ < forest_.trie.size() && left + before > walks_->work(); --left) {
    walk_node(asks_taken);
    if (walks_->paths().size() > forest_.scanner.max_nodes) return CDEC_TOO_MANY_NODES;
  }
  steps = left + before - walks_->work();
  return 0;
}

void Worker::walk_node(bool asks_taken) {
  const TrieNode *nodes = forest_.trie.nodes.data();
  int32_t level = 1, k, after;
  const Top &top = forest_.trie.tops[top_];
  if (node_ == top.node) {
    k = top.byte_class;
    after = forest_.trie.tops[++top_].node;
  } else {
    level = nodes[node_].depth;
    k = nodes[node_].byte_class;
    after = nodes[node_].skip;
  }
  const int32_t walk = open_[level] = walks_->after(open_[level - 1], k);
  if (walk == Walks::kDead) {
    node_ = after;
    return;
  }
  const TrieNode &node = nodes[node_];
  node_ = walks_->is_even(walk, node.below, node.height) ? after : node_ + 1;
  const TokenRange range{kNothing, node.first_token, nodes[node_].first_token};
  if (range.first == range.stop) return;
  const int32_t outcome = walks_->outcome(walk);
  if (outcome != kNothing) append(ranges_, {outcome, range.first, range.stop});
  if (asks_taken && walks_->is_taken(walk)) append(takes_, range);
}

// Numbers the groups by first token and sorts the ranges by group.
void Worker::collect_groups() {
  groups_.clear();
  group_of_outcome_.begin(walks_->outcome_count());
  std::vector<int32_t> counts;
  for (const TokenRange &range : ranges_) {
    if (range.outcome == kVerify) continue;
    if (!group_of_outcome_.has(range.outcome)) {
      group_of_outcome_.set(range.outcome, static_cast<int32_t>(groups_.size()));
      groups_.push_back({range.outcome, 0, 0});
      counts.push_back(0);
    }
    const int32_t group = group_of_outcome_[range.outcome];
    groups_[group].size += range.stop - range.first;
    ++counts[group];
  }
  int32_t end = 0;
  for (size_t group = 0; group < groups_.size(); ++group) {
    groups_[group].first = end;
    end += std::exchange(counts[group], end);
  }
  sorted_.resize(end);
  for (const TokenRange &range : ranges_)
    if (range.outcome != kVerify) sorted_[counts[group_of_outcome_[range.outcome]]++] = range;
}

void Worker::write_tree() {
  tree_.clear();
  collect_groups();
  number_of_path_.begin(walks_->paths().size());
  for (size_t i = 0; i < groups_.size(); ++i)
    write_group(groups_[i], i + 1 < groups_.size() ? groups_[i + 1].first : sorted_.size());
  for (const TokenRange &range : ranges_)
    if (range.outcome == kVerify) add_tokens(range, tree_.verified);
  std::ranges::sort(tree_.verified);
  if (takes_.empty()) return;
  for (const TokenRange &range : takes_) set_bits(range);
  tree_.taken = take_mask();
}

void Worker::write_group(const Group &group, size_t stop) {
  const std::span<const Result> results = walks_->results(group.outcome);
  for (const Result &result : results)
    tree_.branches.push_back({path_number(result.path), result.live, result.depth});
  const int32_t branches = static_cast<int32_t>(results.size());
  if (group.size >= forest_.dense_from) {
    for (size_t i = group.first; i < stop; ++i) set_bits(sorted_[i]);
    tree_.groups.push_back({branches, 0, take_mask()});
    return;
  }
  const size_t start = tree_.tokens.size();
  for (size_t i = group.first; i < stop; ++i) add_tokens(sorted_[i], tree_.tokens);
  std::sort(tree_.tokens.begin() + static_cast<int64_t>(start), tree_.tokens.end());
  tree_.groups.push_back({branches, group.size, kNone});
}

// The number of a path node within the tree, given to it and its ancestors on first use.
int32_t Worker::path_number(int32_t node) {
  const int32_t wanted = node;
  for (; node != kRoot && !number_of_path_.has(node); node = walks_->paths()[node].parent)
    climb_.push_back(node);
  int32_t parent = node == kRoot ? kRoot : number_of_path_[node];
  for (; !climb_.empty(); climb_.pop_back()) {
    const PathNode &path = walks_->paths()[climb_.back()];
    number_of_path_.set(climb_.back(), static_cast<int32_t>(tree_.paths.size()));
    tree_.paths.push_back({parent, path.terminal, path.byte_class, path.next});
    parent = number_of_path_[climb_.back()];
  }
  return wanted == kRoot ? kRoot : number_of_path_[wanted];
}

void Worker::add_tokens(const TokenRange &range, std::vector<int32_t> &tokens) const {
  const int32_t *ids = forest_.trie.token_ids.at;
  tokens.insert(tokens.end(), ids + range.first, ids + range.stop);
}

void Worker::set_bits(const TokenRange &range) {
  auto *words = reinterpret_cast<uint32_t *>(mask_.data());
  for (int32_t at = range.first; at < range.stop; ++at) set_bit(words, forest_.trie.token_ids[at]);
}

// The number of the mask whose bits were set.
int32_t Worker::take_mask() {
  const int32_t number = forest_.mask(mask_);
  std::ranges::fill(mask_, 0);
  return number;
}

}  // namespace cdec::trees
