#include "program.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace cdec::schemas {

Program::Program(const cdec_schema &schema)
    : cdec_schema(schema),
      slots(object_min.size),
      later(slot_single.size),
      blank(blank_start[0]),
      layout(indent[0] & ~kUsualEscapes),
      few_escapes(indent[0] & kUsualEscapes) {
  for (int64_t object = 0; object < object_min.size; ++object) count(object);
}

// Counts slots by rank, from the last to the first.
void Program::count(int64_t object) {
  std::vector<int64_t> order(slot_count(object));
  std::iota(order.begin(), order.end(), object_slot_offsets[object]);
  std::ranges::stable_sort(order, std::greater<>(), [&](int64_t slot) { return slot_rank[slot]; });
  Slots &seen = slots[object];
  for (size_t first = 0, next; first < order.size(); first = next) {
    const Slots behind = seen;
    for (next = first; next < order.size(); ++next) {
      const int64_t slot = order[next];
      if (slot_rank[slot] != slot_rank[order[first]]) break;
      later[slot] = behind;
      seen.singles += slot_single[slot];
      if (!slot_single[slot] || !slot_required[slot]) continue;
      ++seen.required;
      seen.first = slot_rank[slot];
    }
  }
}

int32_t Program::step(int32_t state, int32_t byte) const {
  auto [first, last] = range(state_edges, state);
  const int64_t stop = last;
  while (first < last) {
    const int64_t middle = (first + last) >> 1;
    if (edge_high[middle] < byte)
      first = middle + 1;
    else
      last = middle;
  }
  return first < stop && edge_low[first] <= byte ? edge_target[first] : -1;
}

}  // namespace cdec::schemas
