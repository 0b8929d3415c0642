// Partitions of an automaton's states into blocks, refined until edges respect them.
#pragma once

#include <span>
#include <vector>

#include "cdec_native.h"

namespace cdec {

// The states with an edge into each state. A source stands twice only where edges of two runs of
// neighbouring classes lead to one state.
class Sources {
 public:
  explicit Sources(cdec_i32_rows delta);
  std::span<const int32_t> of(int64_t state) const {
    return {states_.data() + offsets_[state], states_.data() + offsets_[state + 1]};
  }

 private:
  std::vector<int32_t> states_;
  std::vector<int64_t> offsets_;
};

// Hopcroft's idea (1971, the larger part of a split block keeps its name) with whole rows as
// splitters: a state is looked at again only when a successor was renamed.
class Partition {
 public:
  // `delta` [n, K] next states, -1 dead; `blocks` [n] are numbered from 0 without a gap.
  Partition(cdec_i32_rows delta, const Sources &sources, std::vector<int32_t> blocks);

  // After r rounds in all, states are in one block where no text of at most r letters tells them
  // apart. The first round is O(n K), a later one O(K) for every state with a renamed successor.
  void refine(int64_t rounds);

  const std::vector<int32_t> &blocks() const { return blocks_; }
  int32_t block_count() const { return static_cast<int32_t>(sizes_.size()); }

  // Numbers states whose successors are in equal blocks alike, by first state.
  const std::vector<int32_t> &same_successors(const std::vector<int32_t> &states);

 private:
  struct Group {
    int32_t block, size, first;
  };

  uint64_t signature(int64_t state, int32_t own) const;
  bool is_same(int64_t a, int64_t b) const;
  void group(const std::vector<int32_t> &states, const std::vector<int32_t> &own);
  void name_groups();
  void rename_states();

  cdec_i32_rows delta_;
  const Sources &sources_;
  std::vector<int32_t> blocks_, sizes_;
  std::vector<int32_t> dirty_;     // states to look at
  std::vector<int32_t> group_of_;  // group of each state that is looked at
  std::vector<Group> groups_;      // of equal states, by first member
  std::vector<int32_t> names_;     // block that each group becomes
  std::vector<uint64_t> signatures_;
  std::vector<int32_t> table_, dirty_in_, largest_;
  std::vector<bool> is_dirty_;
};

// Numbers integers by their order of first appearance.
std::vector<int32_t> numbered(std::span<const int64_t> values);

}  // namespace cdec
