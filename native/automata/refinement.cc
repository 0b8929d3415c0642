// Partitions of states: signatures, groups of equal states, and the names that they get.
#include "refinement.h"

#include <bit>
#include <numeric>
#include <unordered_map>

namespace cdec {

namespace {

constexpr uint64_t kMultiplier = 0xFF51AFD7ED558CCD;

template <class Visit>
void visit_edges(cdec_i32_rows delta, Visit &&visit) {
  for (int64_t state = 0; state < delta.rows; ++state) {
    int32_t last = -1;
    for (int64_t k = 0; k < delta.width; ++k) {
      const int32_t target = delta[state][k];
      if (target >= 0 && target != last) visit(static_cast<int32_t>(state), target);
      last = target;
    }
  }
}

}  // namespace

Sources::Sources(cdec_i32_rows delta) : offsets_(delta.rows + 2) {
  visit_edges(delta, [&](int32_t, int32_t target) { ++offsets_[target + 2]; });
  std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
  states_.resize(offsets_.back());
  visit_edges(delta, [&](int32_t source, int32_t target) {
    states_[offsets_[target + 1]++] = source;
  });
}

Partition::Partition(cdec_i32_rows delta, const Sources &sources, std::vector<int32_t> blocks)
    : delta_(delta), sources_(sources), blocks_(std::move(blocks)), dirty_(blocks_.size()),
      is_dirty_(blocks_.size()) {
  for (const int32_t block : blocks_) {
    if (block >= block_count()) sizes_.resize(block + 1);
    ++sizes_[block];
  }
  std::iota(dirty_.begin(), dirty_.end(), 0);
}

uint64_t Partition::signature(int64_t state, int32_t own) const {
  uint64_t value = static_cast<uint64_t>(own + 1) * kMultiplier;
  value ^= value >> 31;
  for (int64_t k = 0; k < delta_.width; ++k) {
    const int32_t target = delta_[state][k];
    const uint64_t block = target >= 0 ? static_cast<uint64_t>(blocks_[target]) + 1 : 0;
    value = (value ^ block) * kMultiplier;
    value ^= value >> 32;
  }
  return value;
}

bool Partition::is_same(int64_t a, int64_t b) const {
  for (int64_t k = 0; k < delta_.width; ++k) {
    const int32_t one = delta_[a][k], other = delta_[b][k];
    if (one != other && (one < 0 || other < 0 || blocks_[one] != blocks_[other])) return false;
  }
  return true;
}

// Groups states of equal `own` and of successors in equal blocks.
void Partition::group(const std::vector<int32_t> &states, const std::vector<int32_t> &own) {
  const size_t count = states.size();
  const size_t mask = std::bit_ceil(std::max<size_t>(4, 2 * count)) - 1;
  table_.assign(mask + 1, -1);
  signatures_.resize(count);
  group_of_.resize(count);
  groups_.clear();
  for (size_t i = 0; i < count; ++i) signatures_[i] = signature(states[i], own[states[i]]);
  for (size_t i = 0; i < count; ++i) {
    const int32_t state = states[i];
    size_t slot = signatures_[i] & mask;
    for (; table_[slot] >= 0; slot = (slot + 1) & mask) {
      const int32_t first = groups_[table_[slot]].first, known = states[first];
      if (signatures_[first] == signatures_[i] && own[known] == own[state] && is_same(known, state))
        break;
    }
    if (table_[slot] < 0) {
      table_[slot] = static_cast<int32_t>(groups_.size());
      groups_.push_back({own[state], 0, static_cast<int32_t>(i)});
    }
    group_of_[i] = table_[slot];
    ++groups_[table_[slot]].size;
  }
}

const std::vector<int32_t> &Partition::same_successors(const std::vector<int32_t> &states) {
  group(states, std::vector<int32_t>(blocks_.size()));
  return group_of_;
}

// States that are not dirty keep their block's name; where all of a block are dirty, its largest
// group does.
void Partition::name_groups() {
  const int32_t first_new = block_count();
  dirty_in_.resize(first_new);
  largest_.resize(first_new);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group &group = groups_[i];
    int32_t &largest = largest_[group.block];
    dirty_in_[group.block] += group.size;
    if (largest == 0 || group.size > groups_[largest - 1].size)
      largest = static_cast<int32_t>(i) + 1;
  }
  int32_t blocks = first_new;
  names_.resize(groups_.size());
  for (size_t i = 0; i < groups_.size(); ++i) {
    const int32_t block = groups_[i].block;
    const bool keeps = dirty_in_[block] == sizes_[block] &&
                       largest_[block] == static_cast<int32_t>(i) + 1;
    names_[i] = keeps ? block : blocks++;
  }
  sizes_.resize(blocks);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group &group = groups_[i];
    dirty_in_[group.block] = largest_[group.block] = 0;
    if (names_[i] < first_new) continue;
    sizes_[group.block] -= group.size;
    sizes_[names_[i]] = group.size;
  }
}

// Gives the dirty states their groups' names; dirty is then what leads to a renamed one.
void Partition::rename_states() {
  std::vector<int32_t> &renamed = group_of_;
  size_t count = 0;
  for (size_t i = 0; i < dirty_.size(); ++i) {
    const int32_t state = dirty_[i], name = names_[group_of_[i]];
    if (blocks_[state] == name) continue;
    blocks_[state] = name;
    renamed[count++] = state;
  }
  dirty_.clear();
  for (size_t i = 0; i < count; ++i)
    for (const int32_t source : sources_.of(renamed[i]))
      if (!is_dirty_[source]) {
        is_dirty_[source] = true;
        dirty_.push_back(source);
      }
  for (const int32_t state : dirty_) is_dirty_[state] = false;
}

void Partition::refine(int64_t rounds) {
  for (; rounds > 0 && !dirty_.empty(); --rounds) {
    group(dirty_, blocks_);
    name_groups();
    rename_states();
  }
}

std::vector<int32_t> numbered(std::span<const int64_t> values) {
  std::unordered_map<int64_t, int32_t> numbers;
  std::vector<int32_t> found;
  found.reserve(values.size());
  for (const int64_t value : values)
    found.push_back(numbers.try_emplace(value, static_cast<int32_t>(numbers.size())).first->second);
  return found;
}

}  // namespace cdec
