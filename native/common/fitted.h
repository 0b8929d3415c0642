// States that count the tokens that are left, beside the states of the session within.
#pragma once

#include <vector>

#include "cdec_native.h"

namespace cdec {

constexpr int64_t kOneToken = int64_t{1} << 40;

// Writes the states within, and says whether for each more tokens are left than are needed `ahead`.
inline bool split_fitted(cdec_i64 states, cdec_i64 ahead, int64_t *inside) {
  bool are_far = true;
  for (int64_t i = 0; i < states.size; ++i) {
    const int64_t state = states[i], own = state & (kOneToken - 1);
    inside[i] = own;
    are_far &= state >= 0 && own < ahead.size && ahead[own] >= 0 && state / kOneToken > ahead[own];
  }
  return are_far;
}

// Makes of states behind a step those that count a token less than `states`.
inline void join_fitted(cdec_i64 states, cdec_i64_out after) {
  for (int64_t i = 0; i < states.size; ++i)
    if (after[i] >= 0) after[i] += (states[i] & ~(kOneToken - 1)) - kOneToken;
}

// Calls with the states within where all are far from the end: what that returns, else -1.
template <class Call>
int64_t within_fitted(cdec_i64 states, cdec_i64 ahead, Call &&call) {
  constexpr int64_t kFew = 64;
  int64_t few[kFew];
  std::vector<int64_t> many(states.size > kFew ? states.size : 0);
  int64_t *inside = states.size > kFew ? many.data() : few;
  if (!split_fitted(states, ahead, inside)) return -1;
  return call(cdec_i64{inside, states.size});
}

}  // namespace cdec
