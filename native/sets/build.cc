// The trie of sorted rows of tokens, level by level.
#include "bits.h"

extern "C" {

int64_t cdec_common_prefixes(cdec_i32 tokens, cdec_i64 row_offsets, cdec_i32_out shared) {
  if (shared.size) shared[0] = -1;
  for (int64_t row = 1; row < shared.size; ++row) {
    const int64_t left = row_offsets[row - 1], right = row_offsets[row];
    const int64_t left_size = right - left, right_size = row_offsets[row + 1] - right;
    const int64_t limit = std::min(left_size, right_size);
    int64_t n = 0;
    while (n < limit && tokens[left + n] == tokens[right + n]) ++n;
    shared[row] = static_cast<int32_t>(n);
    if (n == right_size || (n < left_size && tokens[left + n] > tokens[right + n])) return row;
  }
  return -1;
}

int64_t cdec_count_nodes(cdec_i32 shared) {
  // Each row ends in one leaf. A prefix is an inner node where two rows share it, and is counted at
  // the second of them: there `shared` rises over its length.
  int64_t nodes = shared.size;
  for (int64_t row = 1; row < shared.size; ++row)
    nodes += std::max(0, shared[row] - shared[row - 1]);
  return nodes;
}

int64_t cdec_fill_nodes(cdec_i32 tokens, cdec_i64 row_offsets, cdec_i32 shared,
                        const cdec_nodes *nodes) {
  const auto &[token, link, degree, first_row, row_count] = *nodes;
  token[0] = CDEC_END;
  first_row[0] = 0;
  row_count[0] = static_cast<int32_t>(shared.size);
  int64_t used = 1;
  // Rows under one parent at a depth share that many tokens, so a child begins where `shared` is the
  // depth. Each level reads `shared` in order.
  for (int64_t level = 0, depth = 0; level < used; ++depth) {
    const int64_t level_stop = used;
    for (int64_t node = level; node < level_stop; ++node) {
      const int64_t start = first_row[node], stop = start + row_count[node];
      if (row_count[node] == 1) {
        degree[node] = 0;
        // subtle: a CDEC_END leaf hangs one level deeper than its row is long.
        link[node] = std::min(row_offsets[start] + depth, row_offsets[start + 1]);
        continue;
      }
      link[node] = used;
      for (int64_t begin = start, row = start + 1; row <= stop; ++row) {
        if (row < stop && shared[row] != depth) continue;
        const int64_t place = row_offsets[begin] + depth;
        token[used] = place < row_offsets[begin + 1] ? tokens[place] : CDEC_END;
        first_row[used] = static_cast<int32_t>(begin);
        row_count[used] = static_cast<int32_t>(row - begin);
        ++used;
        begin = row;
      }
      degree[node] = static_cast<int32_t>(used - link[node]);
    }
    level = level_stop;
  }
  return 0;
}

int64_t cdec_fill_dense_masks(const cdec_nodes *nodes, cdec_i32 dense_nodes,
                              cdec_u32_rows_out masks) {
  for (int64_t slot = 0; slot < dense_nodes.size; ++slot) {
    const int64_t node = dense_nodes[slot], first = nodes->link[node];
    for (int64_t child = first; child < first + nodes->degree[node]; ++child) {
      const int64_t token = nodes->token[child];
      if (token >= 0 && token < masks.width * 32) cdec::set_bit(masks[slot], token);
    }
  }
  return 0;
}

}  // extern "C"
