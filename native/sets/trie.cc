// The session of a set: what may follow a state, and what comes of it.
#include "trie.h"

using namespace cdec;

namespace {

int64_t after(const cdec_trie &trie, int64_t state, int64_t token) {
  if (token < 0 || token >= trie.width) return CDEC_DEAD;
  const Span span = span_of(trie, state);
  if (contains(trie.end_ids, token)) return may_end(trie, span) ? CDEC_DONE : CDEC_DEAD;
  return stepped(trie, state, span, token);
}

// The number of the packed mask of a node with many children, or -1.
int64_t dense_slot(const cdec_trie &trie, const Span &span, int64_t state) {
  if (span.stop - span.first < kDenseDegree) return -1;
  return search(trie.dense_nodes, 0, trie.dense_nodes.size, state);
}

void set_children(const cdec_trie &trie, const Span &span, uint32_t *bits, int64_t words) {
  const int64_t limit = std::min(trie.width, words * 32);
  for (int64_t child = span.first; child < span.stop; ++child) {
    const int64_t token = trie.token[child];
    if (token >= 0 && token < limit && is_kept(trie, child)) set_bit(bits, token);
  }
}

// subtle: two threads may write a hot mask at once; both write the same bits, and say so last.
const uint32_t *hot_mask(const cdec_trie &trie, const Span &span, int64_t slot) {
  uint32_t *bits = trie.hot_masks[slot];
  auto *ready = &trie.hot_ready[slot];
  if (__atomic_load_n(ready, __ATOMIC_ACQUIRE) == 0) {
    const int64_t words = trie.hot_masks.width;
    const int64_t limit = std::min(trie.width, words * 32);
    int64_t child = span.first;
    for (int64_t word = 0; word < words; ++word) {
      uint32_t made = 0;
      for (; child < span.stop && trie.token[child] < (word + 1) * 32; ++child) {
        const int64_t token = trie.token[child];
        if (token >= word * 32 && token < limit && is_kept(trie, child)) made |= 1u << (token & 31);
      }
      __atomic_store_n(bits + word, made, __ATOMIC_RELAXED);
    }
    __atomic_store_n(ready, 1, __ATOMIC_RELEASE);
  }
  return bits;
}

}  // namespace

extern "C" {

int64_t cdec_trie_advance(const cdec_trie *trie, cdec_i64 states, cdec_i64 token_ids,
                          cdec_i64_out out) {
  for (int64_t i = 0; i < states.size; ++i) out[i] = after(*trie, states[i], token_ids[i]);
  return 0;
}

int64_t cdec_trie_check(const cdec_trie *trie, cdec_i64 states, cdec_i64_rows token_ids,
                        cdec_bool_rows_out out) {
  for (int64_t i = 0; i < states.size; ++i) {
    const Span span = span_of(*trie, states[i]);
    const bool ends = may_end(*trie, span);
    const int64_t only = span.in_tail && span.first < span.stop ? trie->tokens[span.first] : -1;
    const int64_t slot = trie->kept.size ? -1 : dense_slot(*trie, span, states[i]);
    for (int64_t j = 0; j < token_ids.width; ++j) {
      const int64_t token = token_ids[i][j];
      bool &allowed = reinterpret_cast<bool &>(out[i][j]);
      if (token < 0 || token >= trie->width) {
        allowed = false;
      } else if (contains(trie->end_ids, token)) {
        allowed = ends;
      } else if (span.in_tail) {
        allowed = token == only;
      } else if (slot >= 0) {
        allowed = has_bit(trie->dense_masks[slot], trie->dense_masks.width, token);
      } else {
        const int64_t child = search(trie->token, span.first, span.stop, token);
        allowed = child >= 0 && is_kept(*trie, child);
      }
    }
  }
  return 0;
}

int64_t cdec_trie_complete(const cdec_trie *trie, cdec_i64 states, cdec_bool_out out) {
  for (int64_t i = 0; i < states.size; ++i)
    out[i] = states[i] == CDEC_DONE || may_end(*trie, span_of(*trie, states[i]));
  return 0;
}

int64_t cdec_trie_fill_mask(const cdec_trie *trie, cdec_i64 states, cdec_u32_rows_out mask) {
  for (int64_t i = 0; i < states.size; ++i) {
    const Span span = span_of(*trie, states[i]);
    const int64_t slot = dense_slot(*trie, span, states[i]);
    uint32_t *bits = mask[i];
    if (slot >= 0 && trie->kept.size == 0) {
      copy_words(trie->dense_masks[slot], trie->dense_masks.width, bits, mask.width);
    } else if (slot >= 0 && slot < trie->hot_ready.size) {
      copy_words(hot_mask(*trie, span, slot), trie->hot_masks.width, bits, mask.width);
    } else {
      std::fill_n(bits, mask.width, 0u);
      if (!span.in_tail) {
        set_children(*trie, span, bits, mask.width);
      } else if (span.first < span.stop) {
        const int64_t token = trie->tokens[span.first];
        if (token >= 0 && token < std::min(trie->width, mask.width * 32)) set_bit(bits, token);
      }
    }
    if (may_end(*trie, span)) set_bits(bits, mask.width, trie->end_ids);
  }
  return 0;
}

int64_t cdec_trie_count_allowed(const cdec_trie *trie, cdec_i64 states, cdec_i64_out offsets) {
  offsets[0] = 0;
  for (int64_t i = 0; i < states.size; ++i) {
    const Span span = span_of(*trie, states[i]);
    const cdec_i32 source = span.in_tail ? trie->tokens : trie->token;
    const bool is_filtered = !span.in_tail && trie->kept.size;
    int64_t found = 0;
    for (int64_t place = span.first; place < span.stop; ++place) {
      const bool fits = source[place] >= 0 && source[place] < trie->width;
      found += fits && (!is_filtered || is_kept(*trie, place));
    }
    offsets[i + 1] = offsets[i] + found + (may_end(*trie, span) ? trie->end_ids.size : 0);
  }
  return 0;
}

int64_t cdec_trie_fill_allowed(const cdec_trie *trie, cdec_i64 states, cdec_i64 offsets,
                               cdec_i32_out ids) {
  for (int64_t i = 0; i < states.size; ++i) {
    const Span span = span_of(*trie, states[i]);
    const cdec_i32 source = span.in_tail ? trie->tokens : trie->token;
    const int64_t ends = may_end(*trie, span) ? trie->end_ids.size : 0;
    const int64_t stop = std::min(offsets[i + 1], ids.size);
    int64_t at = offsets[i], end = 0;
    if (at < 0 || at > stop) continue;
    if (ends == 0 && stop - at == span.stop - span.first) {
      std::copy_n(source.at + span.first, stop - at, ids.at + at);
      continue;
    }
    for (int64_t place = span.first; place < span.stop && at < stop; ++place) {
      const int64_t token = source[place];
      if (token < 0 || token >= trie->width) continue;
      if (!span.in_tail && !is_kept(*trie, place)) continue;
      while (end < ends && trie->end_ids[end] < token && at < stop)
        ids[at++] = static_cast<int32_t>(trie->end_ids[end++]);
      if (at < stop) ids[at++] = static_cast<int32_t>(token);
    }
    while (end < ends && at < stop) ids[at++] = static_cast<int32_t>(trie->end_ids[end++]);
  }
  return 0;
}

int64_t cdec_trie_forced(const cdec_trie *trie, cdec_i64 states, cdec_i32_out out) {
  for (int64_t i = 0; i < states.size; ++i) {
    const Span span = span_of(*trie, states[i]);
    const cdec_i32 source = span.in_tail ? trie->tokens : trie->token;
    int64_t events = 0, only = -1;
    if (may_end(*trie, span) && trie->end_ids.size) events = 1, only = trie->end_ids[0];
    for (int64_t place = span.first; place < span.stop && events <= 1; ++place) {
      const int64_t token = source[place];
      if (token < 0 || token >= trie->width) continue;
      if (span.in_tail || is_kept(*trie, place)) ++events, only = token;
    }
    out[i] = events == 1 ? static_cast<int32_t>(only) : -1;
  }
  return 0;
}

}  // extern "C"
