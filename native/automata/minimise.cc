// Minimisation of automata: states that lead nowhere are dropped, those that behave alike merged.
#include "guarded.h"
#include "refinement.h"

namespace cdec {
namespace {

// Which states have a label or can reach one.
std::vector<bool> reaching(const Sources &sources, cdec_i32 labels) {
  std::vector<bool> found(labels.size);
  std::vector<int32_t> todo;
  for (int64_t state = 0; state < labels.size; ++state)
    if ((found[state] = labels[state] != 0)) todo.push_back(static_cast<int32_t>(state));
  while (!todo.empty()) {
    const int32_t state = todo.back();
    todo.pop_back();
    for (const int32_t source : sources.of(state))
      if (!found[source]) {
        found[source] = true;
        todo.push_back(source);
      }
  }
  return found;
}

std::vector<int32_t> without(cdec_i32_rows delta, const std::vector<bool> &kept) {
  std::vector<int32_t> found(delta.at, delta.at + delta.rows * delta.width);
  for (int32_t &target : found)
    if (target >= 0 && !kept[target]) target = -1;
  return found;
}

// The blocks as states: numbered breadth-first from the starts' blocks.
class Merged {
 public:
  Merged(cdec_i32_rows delta, const Partition &partition)
      : delta_(delta), blocks_(partition.blocks()), first_(partition.block_count(), -1),
        numbers_(partition.block_count(), -1) {
    for (int64_t state = delta.rows - 1; state >= 0; --state)
      first_[blocks_[state]] = static_cast<int32_t>(state);
  }

  int64_t write(cdec_i32 starts, cdec_i32_rows_out merged, cdec_i32_out representative,
                cdec_i32_out number) {
    for (int64_t i = 0; i < starts.size; ++i) number_of(starts[i]);
    for (size_t state = 0; state < order_.size(); ++state) {
      representative[state] = order_[state];
      for (int64_t k = 0; k < delta_.width; ++k) {
        const int32_t target = delta_[order_[state]][k];
        merged[state][k] = target >= 0 ? number_of(target) : -1;
      }
    }
    for (int64_t state = 0; state < number.size; ++state) number[state] = numbers_[blocks_[state]];
    return static_cast<int64_t>(order_.size());
  }

 private:
  int32_t number_of(int32_t state) {
    const int32_t block = blocks_[state];
    if (numbers_[block] < 0) {
      numbers_[block] = static_cast<int32_t>(order_.size());
      order_.push_back(first_[block]);
    }
    return numbers_[block];
  }

  cdec_i32_rows delta_;
  const std::vector<int32_t> &blocks_;
  std::vector<int32_t> first_, numbers_, order_;
};

std::vector<int64_t> widened(cdec_i32 values) { return {values.at, values.at + values.size}; }

}  // namespace
}  // namespace cdec

extern "C" {

int64_t cdec_merge_states(cdec_i32_rows delta, cdec_i32 labels, cdec_i32 starts,
                          cdec_i32_rows_out merged, cdec_i32_out representative,
                          cdec_i32_out number) {
  return cdec::guarded([&] {
    const cdec::Sources sources(delta);
    const std::vector<int32_t> cut = cdec::without(delta, cdec::reaching(sources, labels));
    const cdec_i32_rows rows{cut.data(), delta.rows, delta.width};
    cdec::Partition partition(rows, sources, cdec::numbered(cdec::widened(labels)));
    partition.refine(INT64_MAX);
    return cdec::Merged(rows, partition).write(starts, merged, representative, number);
  });
}

int64_t cdec_refine(cdec_i32_rows delta, cdec_i32_out blocks) {
  return cdec::guarded([&] {
    const cdec::Sources sources(delta);
    cdec::Partition partition(delta, sources, {blocks.at, blocks.at + blocks.size});
    partition.refine(INT64_MAX);
    std::copy(partition.blocks().begin(), partition.blocks().end(), blocks.at);
    return partition.block_count();
  });
}

}  // extern "C"
