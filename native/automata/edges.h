// Automata as edges of ranges of bytes.
#pragma once

#include <cstdint>
#include <span>

#include "cdec_native.h"

namespace cdec {

// Whether a byte stands within a character of UTF-8.
inline bool continues(uint8_t byte) { return (byte & 0xC0) == 0x80; }

inline bool is_within(const cdec_edges &edges, int64_t state) {
  const int64_t at = edges.offsets[state];
  return at < edges.offsets[state + 1] && continues(edges.lows[at]);
}

inline std::span<const int32_t> targets(const cdec_edges &edges, int64_t state) {
  return {edges.targets.at + edges.offsets[state], edges.targets.at + edges.offsets[state + 1]};
}

// Updates all states, last ones first, until nothing changes; `update` says whether it changed one.
template <class Update>
void settle(int64_t states, Update &&update) {
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (int64_t state = states; state-- > 0;) is_changed |= update(state);
  }
}

}  // namespace cdec
