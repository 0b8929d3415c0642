// The law of most acceptance within a divergence (Tran-Thien, Mentored decoding, 2023).
#pragma once

#include <cstdint>
#include <limits>

namespace cdec {

// Among the laws pi with KL(q || pi) <= limit, and 0 where the target q is 0, the one of largest
// sum(min(p, pi)) for the draft p is clip(p, q / beta, q / alpha): alpha 0 sets no upper bound, beta
// inf no lower one, (1, 1) is q itself. `spent` is KL(q || pi), nats.
struct Mentored {
  double alpha = 1.0, beta = 1.0, spent = 0.0;
  // pi of one event of draft and target probability p and q.
  double value(double p, double q) const;
};

// Solves for p[:n] and q[:n], each of sum 1; O(n). Events are held by the thread from call to call.
// Throws std::bad_alloc.
Mentored solve_mentored(const double *p, const double *q, int64_t n, double limit);

// KL(q || p) in nats; inf where p = 0 < q.
double divergence(const double *p, const double *q, int64_t n);

}  // namespace cdec
