// Sums of exponentials: by blocks, inverted, and over one node's allowed ids.
//
// Values are exp(log P - shift), so that they and their sums are plain numbers; where all that counts
// is too small for that, the shift is chosen anew: no positive mass is lost, however small beside
// others.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cdec_native.h"

namespace cdec {

constexpr int64_t kBlock = CDEC_BLOCK;
constexpr double kFaint = 1e-250;  // below it LEAST may count: shift by the largest
constexpr double kLargestShift = 700.0;  // nats: the exponential of it is still a number
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline int64_t blocks_of(int64_t n) { return (n + kBlock - 1) / kBlock; }

// exp(x) for x <= 0 within 2 ulp; 0 for -inf (and NaN) alone, at least the least normal number for
// all else.
double fast_exp(double x);
// Exponentiates values[:n] in place; puts sums of blocks into `sums`; returns the sum.
double exponentiate(double *values, int64_t n, double *sums);
double sum_of(const double *values, int64_t n);
// The first place whose running sum exceeds `target`. Entries of mass zero are never returned; where
// rounding leaves nothing, the last positive is; -1 for none.
int64_t invert(const double *values, int64_t n, const double *sums, double target);
// How many of sorted ids are below one.
inline int64_t place_of(const int32_t *ids, int64_t n, int64_t wanted) {
  return std::lower_bound(ids, ids + n, wanted) - ids;
}

// A row of scores, float or double.
class Row {
 public:
  Row(const cdec_scores &scores, int64_t row)
      : at_(static_cast<const char *>(scores.at) + row * scores.stride * (scores.is_double ? 8 : 4)),
        width_(scores.width),
        is_double_(scores.is_double) {}
  int64_t width() const { return width_; }
  double operator[](int64_t i) const {
    return is_double_ ? reinterpret_cast<const double *>(at_)[i]
                      : static_cast<double>(reinterpret_cast<const float *>(at_)[i]);
  }
  // Writes score - shift of ids to values, -inf for an id outside of the row.
  void gather(const int32_t *ids, int64_t n, double shift, double *values) const;
  // Writes score - shift of the places first, first + 1, ...
  void copy(int64_t first, int64_t n, double shift, double *values) const;
  // Log of the sum of exp of some scores, -inf for none.
  double log_sum(cdec_i64 ids) const;

 private:
  const char *at_;
  int64_t width_;
  bool is_double_;
};

// One node's allowed ids, their masses as values times exp(shift), and the sums of blocks.
struct Weighed {
  Row row;
  double normalizer;
  const int32_t *ids;
  int64_t n;
  double *values, *sums;
  double shift = 0.0, total = 0.0;

  // Exponentiates the log probabilities, shifted if they are all tiny. The total is 0 at a dead end,
  // else above kFaint, and NaN where the row is not normalised.
  void weigh();
  // Exponentiates anew what has a positive value, shifted by the largest.
  void reweigh();
  // Log of the mass of what has a positive value now; `values` may be written.
  double log_rest();
  // Sum of the values of the end ids; log of their mass.
  double end_mass(cdec_i64 end_ids) const;
  double log_end_mass(cdec_i64 end_ids) const;
};

}  // namespace cdec
