// Contexts of a model by (parent, token): a hash table without keys, probed linearly.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "guarded.h"

namespace {

// Where the search for a child begins (Steele et al. 2014, the mix of SplitMix64).
int64_t home(int64_t parent, int64_t token, int64_t mask) {
  uint64_t key = static_cast<uint64_t>(parent) << 32 | static_cast<uint64_t>(token);
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EB;
  return static_cast<int64_t>((key ^ (key >> 31)) & static_cast<uint64_t>(mask));
}

int64_t home_of(int64_t node, cdec_i32 parent, cdec_i32 token, int64_t mask) {
  return home(parent[node], static_cast<uint32_t>(token[node]), mask);
}

int32_t child_of(cdec_i32 slots, cdec_i32 parent, cdec_i32 token, int64_t above, int64_t wanted) {
  const int64_t mask = slots.size - 1;
  int64_t at = home(above, wanted, mask);
  while (slots[at] >= 0 && (parent[slots[at]] != above || token[slots[at]] != wanted))
    at = (at + 1) & mask;
  return slots[at];
}

void enter(cdec_i32_out slots, cdec_i32 parent, cdec_i32 token, int64_t node) {
  const int64_t mask = slots.size - 1;
  int64_t at = home_of(node, parent, token, mask);
  while (slots[at] >= 0) at = (at + 1) & mask;
  slots[at] = static_cast<int32_t>(node);
}

bool is_live(cdec_i32 number, int64_t used, int64_t node) {
  return node >= 0 && node < used && number[node] != -1;
}

// Numbers the distinct pairs without a child, ascending, as -1, -2 and on; returns how many there are.
int64_t rank_missing(cdec_i64 above, cdec_i64 tokens, cdec_i64_out children) {
  const auto key = [&](int64_t i) { return above[i] << 32 | tokens[i]; };
  std::vector<int64_t> order;
  for (int64_t i = 0; i < above.size; ++i)
    if (children[i] < 0) order.push_back(i);
  const auto before = [&](int64_t a, int64_t b) { return key(a) < key(b); };
  if (!std::is_sorted(order.begin(), order.end(), before))
    std::sort(order.begin(), order.end(), before);
  int64_t rank = -1;
  for (size_t k = 0; k < order.size(); ++k) {
    rank += k == 0 || key(order[k - 1]) != key(order[k]);
    children[order[k]] = -1 - rank;
  }
  return rank + 1;
}

// Where the run ends that equals the longest run of last tokens; -1 where there is none.
int64_t repetition(const int32_t *tokens, int64_t n, int64_t longest) {
  int64_t most = 0, place = -1;
  for (int64_t at = n - 2; at >= 0 && most < longest; --at) {
    int64_t same = 0;
    while (same < longest && same <= at && tokens[at - same] == tokens[n - 1 - same]) ++same;
    if (same > most) most = same, place = at;
  }
  return place;
}

}  // namespace

extern "C" {

int64_t cdec_contexts_lost(cdec_i32 number, int64_t used, cdec_i64 nodes) {
  for (int64_t i = 0; i < nodes.size; ++i)
    if (!is_live(number, used, nodes[i])) return i;
  return -1;
}

int64_t cdec_contexts_find(cdec_i32 slots, cdec_i32 parent, cdec_i32 token, cdec_i32 number,
                           int64_t used, int64_t limit, cdec_i64 above, cdec_i64 tokens,
                           cdec_i64_out children) {
  int64_t missing = 0;
  for (int64_t i = 0; i < above.size; ++i) {
    if (!is_live(number, used, above[i])) return CDEC_NOT_LIVE;
    if (tokens[i] < 0 || tokens[i] >= limit || tokens[i] > INT32_MAX) return CDEC_BAD_TOKEN;
    children[i] = child_of(slots, parent, token, above[i], tokens[i]);
    missing += children[i] < 0;
  }
  return missing ? cdec::guarded([&] { return rank_missing(above, tokens, children); }) : 0;
}

int64_t cdec_contexts_add(cdec_i32_out slots, cdec_i32_out parent, cdec_i32_out token,
                          cdec_i32_out depth, cdec_i32_out number, cdec_i64 ids, cdec_i64 above,
                          cdec_i64 tokens, cdec_i64_out children) {
  for (int64_t i = 0; i < above.size; ++i) {
    if (children[i] >= 0) continue;
    const int64_t node = ids[-1 - children[i]];
    children[i] = node;
    if (parent[node] >= 0) continue;
    parent[node] = static_cast<int32_t>(above[i]);
    token[node] = static_cast<int32_t>(tokens[i]);
    depth[node] = depth[above[i]] + 1;
    number[node] = number[above[i]];
    enter(slots, {parent.at, parent.size}, {token.at, token.size}, node);
  }
  return 0;
}

int64_t cdec_contexts_missing(cdec_i32 number, int64_t used, cdec_i32 held, cdec_i64 nodes,
                              cdec_i64_out missing) {
  int64_t count = 0;
  bool ascends = true;
  for (int64_t i = 0; i < nodes.size; ++i) {
    if (!is_live(number, used, nodes[i])) return -1 - i;
    if (held[nodes[i]] >= 0) continue;
    ascends = ascends && (count == 0 || missing[count - 1] < nodes[i]);
    missing[count++] = nodes[i];
  }
  if (ascends) return count;
  std::sort(missing.at, missing.at + count);
  return std::unique(missing.at, missing.at + count) - missing.at;
}

int64_t cdec_contexts_lengths(cdec_i32 number, cdec_i32 depth, cdec_i64 starts, cdec_i64 nodes,
                              cdec_i64_out lengths) {
  int64_t longest = 0;
  for (int64_t i = 0; i < nodes.size; ++i) {
    lengths[i] = starts[number[nodes[i]]] + depth[nodes[i]];
    longest = std::max(longest, lengths[i]);
  }
  return longest;
}

int64_t cdec_contexts_count(cdec_i32 number, cdec_i64 nodes, cdec_i64 amounts,
                            cdec_i64_out counts) {
  int64_t total = 0;
  for (int64_t i = 0; i < nodes.size; ++i) {
    const int64_t place = amounts.size == 1 ? 0 : i;
    const int64_t amount = place < amounts.size ? amounts[place] : 0;
    counts[number[nodes[i]]] += amount;
    total += amount;
  }
  return total;
}

int64_t cdec_slots_rows(cdec_i32 above, cdec_i64 last, cdec_i64_rows_out table) {
  for (int64_t row = 0; row < last.size; ++row) {
    int64_t slot = last[row], column = table.width;
    for (; slot > 0 && column > 0; slot = above[slot]) table[row][--column] = slot;
    std::fill(table[row], table[row] + column, 0);
  }
  return 0;
}

int64_t cdec_contexts_path(cdec_i32 slots, cdec_i32 parent, cdec_i32 token, cdec_i64 tokens,
                           cdec_i64_out path) {
  for (int64_t i = 0; i < tokens.size; ++i) {
    const int32_t child = child_of(slots, parent, token, path[i], tokens[i]);
    if (child < 0) return i;
    path[i + 1] = child;
  }
  return tokens.size;
}

int64_t cdec_contexts_insert(cdec_i32_out slots, cdec_i32 parent, cdec_i32 token, cdec_i32 nodes) {
  for (int64_t i = 0; i < nodes.size; ++i)
    if (nodes[i] >= 0) enter(slots, parent, token, nodes[i]);
  return 0;
}

int64_t cdec_contexts_remove(cdec_i32_out slots, cdec_i32 parent, cdec_i32 token, cdec_i64 nodes) {
  const int64_t mask = slots.size - 1;
  int64_t removed = 0;
  for (int64_t i = 0; i < nodes.size; ++i) {
    const int64_t node = nodes[i];
    if (parent[node] < 0) continue;
    int64_t gap = home_of(node, parent, token, mask);
    while (slots[gap] != node && slots[gap] >= 0) gap = (gap + 1) & mask;
    if (slots[gap] < 0) continue;
    ++removed;
    // Later slots of a run move back into the gap, so that no marks of what was deleted pile up: one
    // may move unless its home lies after the gap, cyclically.
    for (int64_t at = (gap + 1) & mask; slots[at] >= 0; at = (at + 1) & mask) {
      const int64_t own = home_of(slots[at], parent, token, mask);
      if (((at - own) & mask) < ((at - gap) & mask)) continue;
      slots[gap] = slots[at];
      gap = at;
    }
    slots[gap] = -1;
  }
  return removed;
}

int64_t cdec_contexts_group(cdec_i64 contexts, cdec_i64 request, cdec_i64 draw, cdec_i64_out order,
                            cdec_i64_out starts, cdec_i64_out group) {
  return cdec::guarded([&]() -> int64_t {
    const int64_t n = contexts.size;
    const auto place = [&](int64_t i) { return std::pair(request[i], contexts[i]); };
    int64_t ordered = 1;
    while (ordered < n && place(ordered - 1) < place(ordered)) ++ordered;
    if (ordered >= n) return -1;
    std::iota(order.at, order.at + n, 0);
    std::stable_sort(order.at, order.at + n, [&](int64_t a, int64_t b) {
      return std::pair(place(a), draw[a]) < std::pair(place(b), draw[b]);
    });
    int64_t groups = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (!i || place(order[i - 1]) != place(order[i])) starts[groups++] = i;
      group[order[i]] = groups - 1;
    }
    return groups;
  });
}

int64_t cdec_contexts_repeated(cdec_i64 contexts, cdec_i64 request, cdec_i32 parent, cdec_i32 token,
                               cdec_i32 depth, cdec_i64 starts, cdec_i32 prompts, int64_t most,
                               cdec_i64_out events) {
  return cdec::guarded([&]() -> int64_t {
    std::vector<int32_t> tokens;
    int64_t held = -1;
    for (int64_t w = 0; w < contexts.size; ++w) {
      const int64_t first = starts[request[w]], begin = starts[request[w] + 1] - first;
      int64_t node = contexts[w];
      const int64_t n = begin + depth[node];
      if (request[w] != held) {
        held = request[w];
        tokens.assign(prompts.at + first, prompts.at + first + begin);
      }
      tokens.resize(std::max<int64_t>(n, static_cast<int64_t>(tokens.size())));
      for (int64_t at = n - 1; at >= begin; --at, node = parent[node]) tokens[at] = token[node];
      const int64_t place = repetition(tokens.data(), n, most);
      events[w] = place < 0 ? CDEC_NO_EVENT : tokens[place + 1];
    }
    return 0;
  });
}

}  // extern "C"
