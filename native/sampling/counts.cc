// Counts of the events that followed keys: a hash table, probed linearly, of a few events a key
// (Space-Saving: Metwally, Agrawal and El Abbadi, ICDT 2005).
#include <algorithm>
#include <numeric>
#include <utility>

#include "cdec_native.h"
#include "table.h"

namespace {

int64_t place(const cdec_counts &counts, int64_t key) {
  const int64_t mask = counts.keys.size - 1;
  int64_t at = cdec::mixed(key) & mask;
  while (counts.times[at][0] && counts.keys[at] != key) at = (at + 1) & mask;
  return at;
}

int64_t total(const cdec_counts &counts, int64_t at) {
  return std::accumulate(counts.times[at], counts.times[at] + counts.times.width, int64_t{0});
}

// The key of a key and the token before: -1 stands for the beginning of the text.
int64_t joined(int64_t key, int64_t token) {
  const uint64_t more = static_cast<uint64_t>(token + 2) * 0xD6E8FEB86659FD93u;
  return cdec::mixed(static_cast<int64_t>(static_cast<uint64_t>(key) + more));
}

// Counts an event; one that is not told apart yet takes over the rarest one, with its times.
void count(const cdec_counts &counts, int64_t at, int64_t event, int64_t times) {
  int32_t *events = counts.events[at];
  int64_t *met = counts.times[at];
  int64_t i = 0;
  while (i < counts.times.width - 1 && met[i] && events[i] != event) ++i;
  events[i] = static_cast<int32_t>(event);
  met[i] += times;
  for (; i && met[i] > met[i - 1]; --i) {
    std::swap(met[i], met[i - 1]);
    std::swap(events[i], events[i - 1]);
  }
}

// Counts an event of a key; returns whether the key is new.
bool enter(const cdec_counts &counts, int64_t key, int64_t event, int64_t times) {
  const int64_t at = place(counts, key);
  const bool is_new = !counts.times[at][0];
  counts.keys[at] = key;
  count(counts, at, event, times);
  return is_new;
}

int64_t guess(const cdec_counts &counts, const int64_t *keys, int64_t width, double threshold) {
  for (int64_t i = 0; i < width; ++i) {
    const int64_t at = place(counts, keys[i]), met = counts.times[at][0];
    // One more than was met: something new may come.
    if (met && static_cast<double>(met) > threshold * static_cast<double>(total(counts, at) + 1))
      return counts.events[at][0];
  }
  return CDEC_NO_EVENT;
}

}  // namespace

extern "C" {

int64_t cdec_counts_keys(cdec_i64 contexts, cdec_i64 own, cdec_i32 parent, cdec_i32 token,
                         cdec_i32 depth, cdec_i64_rows_out keys) {
  for (int64_t i = 0; i < contexts.size; ++i) {
    int64_t key = own[i], node = contexts[i];
    for (int64_t k = keys.width - 1; k >= 0; --k) {
      keys[i][k] = key;
      const bool is_text = node >= 0 && depth[node] > 0;
      key = joined(key, is_text ? token[node] : -1);
      if (is_text) node = parent[node];
    }
  }
  return 0;
}

int64_t cdec_counts_guess(const cdec_counts *counts, cdec_i64_rows keys, double threshold,
                          cdec_i64_out events) {
  for (int64_t i = 0; i < keys.rows; ++i)
    events[i] = guess(*counts, keys[i], keys.width, threshold);
  return 0;
}

int64_t cdec_counts_learn(const cdec_counts *counts, cdec_i64_rows keys, double threshold,
                          cdec_i64 events, cdec_i64_out foreseen) {
  int64_t added = 0;
  for (int64_t i = 0; i < keys.rows; ++i) {
    if (events[i] == CDEC_NO_EVENT) continue;
    foreseen[0] += events[i] >= 0 && guess(*counts, keys[i], keys.width, threshold) == events[i];
    for (int64_t k = 0; k < keys.width; ++k) added += enter(*counts, keys[i][k], events[i], 1);
  }
  return added;
}

int64_t cdec_counts_add(const cdec_counts *counts, int64_t key, int64_t event, int64_t times) {
  return enter(*counts, key, event, times);
}

int64_t cdec_counts_find(const cdec_counts *counts, int64_t key) {
  const int64_t at = place(*counts, key);
  return counts->times[at][0] ? at : -1;
}

int64_t cdec_counts_move(const cdec_counts *from, cdec_i64 rows, const cdec_counts *to) {
  for (int64_t i = 0; i < rows.size; ++i) {
    const int64_t row = rows[i], at = place(*to, from->keys[row]);
    to->keys[at] = from->keys[row];
    std::copy_n(from->events[row], from->events.width, to->events[at]);
    std::copy_n(from->times[row], from->times.width, to->times[at]);
  }
  return rows.size;
}

}  // extern "C"
