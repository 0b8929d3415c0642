// The byte trie of sorted texts, flat in depth-first order.
#include <algorithm>

#include "cdec_native.h"

extern "C" {

int64_t cdec_byte_trie_size(cdec_u8 data, cdec_i64 starts, cdec_i32 ids, cdec_i32_out shared) {
  int64_t nodes = 0;
  for (int64_t i = 0; i + 1 < shared.size; ++i) {
    const int64_t first = starts[ids[i]], length = starts[ids[i] + 1] - first;
    int64_t at = 0;
    if (i > 0) {
      const int64_t before = starts[ids[i - 1]];
      const int64_t limit = std::min(length, starts[ids[i - 1] + 1] - before);
      while (at < limit && data[first + at] == data[before + at]) ++at;
    }
    shared[i] = static_cast<int32_t>(at);
    nodes += length - at;
  }
  return nodes;
}

int64_t cdec_byte_trie_fill(cdec_u8 data, cdec_i64 starts, cdec_i32 ids, cdec_i32 shared,
                            cdec_i32_out open_nodes, cdec_u8_out node_byte, cdec_i32_out depth,
                            cdec_i32_out skip, cdec_i32_out token_offsets) {
  // open_nodes[d] is the node under way at depth d + 1.
  int32_t node = 0;
  int64_t held = 0;
  const auto close = [&](int64_t left) {
    while (held > left) skip[open_nodes[--held]] = node;
  };
  for (int64_t i = 0; i < ids.size; ++i) {
    const int64_t first = starts[ids[i]], length = starts[ids[i] + 1] - first;
    close(shared[i]);
    for (int64_t at = shared[i]; at < length; ++at, ++node) {
      node_byte[node] = data[first + at];
      depth[node] = static_cast<int32_t>(at + 1);
      token_offsets[node] = static_cast<int32_t>(i);
      open_nodes[at] = node;
    }
    held = length;
  }
  close(0);
  token_offsets[node] = static_cast<int32_t>(ids.size);
  return 0;
}

}  // extern "C"
