// The best completions of states of a set, by scores of single tokens: one pass over its trie.
#include <limits>

#include "trie.h"

using namespace cdec;

namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

struct Tail {
  int64_t first = 0, stop = 0;
};

// A row's tokens from `place` on; nothing where they cannot be.
Tail tail_of(const cdec_trie &trie, int64_t row, int64_t place) {
  if (row < 0 || row >= row_number(trie)) return {};
  const int64_t begin = trie.row_offsets[row], stop = trie.row_offsets[row + 1];
  if (begin < 0 || place < begin || place > stop || stop > trie.tokens.size) return {};
  return {place, stop};
}

Tail tail_of_state(const cdec_trie &trie, int64_t state) {
  const auto [row, depth] = TailState::of(state);
  if (row >= row_number(trie)) return {};
  const int64_t begin = trie.row_offsets[row];
  return begin < 0 || begin > trie.tokens.size ? Tail{} : tail_of(trie, row, begin + depth);
}

double of_token(cdec_f64 scores, int64_t token) {
  return token >= 0 && token < scores.size ? scores[token] : 0.0;
}

// The score of a tail, and of the end after it.
double score(const cdec_trie &trie, cdec_f64 scores, cdec_f64 ends, Tail tail) {
  double total = 0.0;
  for (int64_t place = tail.first; place < tail.stop; ++place)
    total += of_token(scores, trie.tokens[place]);
  if (trie.ends_itself || tail.stop == 0) return total;
  return total + of_token(ends, trie.tokens[tail.stop - 1]);
}

}  // namespace

extern "C" {

int64_t cdec_completions_fold(const cdec_trie *trie, cdec_f64 scores, cdec_f64 ends,
                              cdec_f64_out best, cdec_i64_out choice) {
  // Children stand behind their parents, so one pass from the last node to the first is enough.
  for (int64_t node = trie->token.size - 1; node >= 0; --node) {
    best[node] = kNothing;
    choice[node] = -1;
    if (trie->degree[node] == 0) {
      if (trie->token[node] == CDEC_END)
        best[node] = 0.0;
      else
        best[node] = score(*trie, scores, ends, tail_of(*trie, trie->row[node], trie->link[node]));
      continue;
    }
    const Span span = span_of(*trie, node);
    for (int64_t child = span.first; child < span.stop; ++child) {
      if (!is_kept(*trie, child)) continue;
      double total = 0.0;
      if (trie->token[child] != CDEC_END)
        total = best[child] + of_token(scores, trie->token[child]);
      else if (node > 0)
        total = of_token(ends, trie->token[node]);
      if (total > best[node]) {
        best[node] = total;
        choice[node] = child;
      }
    }
  }
  return 0;
}

int64_t cdec_completions_totals(const cdec_trie *trie, cdec_f64 scores, cdec_f64 ends,
                                cdec_f64 best, cdec_i64 states, cdec_f64_out out) {
  for (int64_t i = 0; i < states.size; ++i) {
    const int64_t state = states[i];
    out[i] = 0.0;
    if (state >= kTail && TailState::of(state).row < row_number(*trie))
      out[i] = score(*trie, scores, ends, tail_of_state(*trie, state));
    else if (state >= 0 && state < best.size)
      out[i] = best[state];
  }
  return 0;
}

int64_t cdec_completions_paths(const cdec_trie *trie, cdec_i64 choice, cdec_i64 states,
                               cdec_i64_rows_out out) {
  for (int64_t i = 0; i < states.size; ++i) {
    const int64_t state = states[i];
    int64_t depth = 0;
    Tail tail;
    std::fill_n(out[i], out.width, int64_t{-1});
    if (state >= kTail) {
      tail = tail_of_state(*trie, state);
    } else if (state >= 0 && state < choice.size) {
      int64_t node = state;
      // A choice is a later node: this ends, whatever the file holds.
      while (choice[node] > node && choice[node] < choice.size && depth < out.width &&
             trie->token[choice[node]] != CDEC_END) {
        node = choice[node];
        out[i][depth++] = trie->token[node];
      }
      if (trie->degree[node] == 0) tail = tail_of(*trie, trie->row[node], trie->link[node]);
    }
    for (int64_t place = tail.first; place < tail.stop && depth < out.width; ++place)
      out[i][depth++] = trie->tokens[place];
  }
  return 0;
}

}  // extern "C"
