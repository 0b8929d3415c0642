#include "sums.h"

#include <bit>

#include "wide.h"

namespace cdec {
namespace {

__attribute__((always_inline)) inline double exp_of(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  constexpr double kLeast = 2.2250738585072014e-308;
  const double clipped = x > -708.0 ? x : -708.0;
  const double shifted = clipped * kLog2E + kRounder;
  const double n = shifted - kRounder;
  const double r = (clipped - n * kLn2High) - n * kLn2Low;
  double p = 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const uint64_t exponent = std::bit_cast<uint64_t>(shifted) << 52;
  const double scaled = std::bit_cast<double>(std::bit_cast<uint64_t>(p) + exponent);
  const double least = x > -kInfinity ? kLeast : 0.0;
  return x > -708.0 ? scaled : least;
}

// Eight running sums: the compiler may not reorder one, and one would wait for itself.
__attribute__((always_inline)) inline double total_of(const double *values, int64_t n) {
  double lanes[8] = {};
  int64_t j = 0;
  for (; j + 8 <= n; j += 8)
    for (int64_t k = 0; k < 8; ++k) lanes[k] += values[j + k];
  double rest = 0.0;
  for (; j < n; ++j) rest += values[j];
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7])) + rest;
}

template <class T>
__attribute__((always_inline)) inline void gather(const T *row, int64_t width, const int32_t *ids,
                                                  int64_t n, double shift, double *values) {
  constexpr int64_t kRun = 8;
  const auto one = [&](int64_t j) {
    const bool is_inside = ids[j] >= 0 && ids[j] < width;
    const double score = static_cast<double>(row[is_inside ? ids[j] : 0]);
    values[j] = is_inside ? score - shift : -kInfinity;
  };
  int64_t j = 0;
  for (; j + kRun <= n; j += kRun) {
    // Ids ascend. Near the root of a large set most are allowed: copying is faster than gathering.
    const int64_t first = ids[j], last = ids[j + kRun - 1];
    if (last - first == kRun - 1 && first >= 0 && last < width) {
      for (int64_t k = 0; k < kRun; ++k)
        values[j + k] = static_cast<double>(row[first + k]) - shift;
    } else {
      for (int64_t k = 0; k < kRun; ++k) one(j + k);
    }
  }
  for (; j < n; ++j) one(j);
}

CDEC_WIDE void gather_floats(const float *row, int64_t width, const int32_t *ids, int64_t n,
                             double shift, double *values) {
  gather(row, width, ids, n, shift, values);
}

CDEC_WIDE void gather_doubles(const double *row, int64_t width, const int32_t *ids, int64_t n,
                              double shift, double *values) {
  gather(row, width, ids, n, shift, values);
}

CDEC_WIDE void copy_floats(const float *from, int64_t n, double shift, double *values) {
  for (int64_t j = 0; j < n; ++j) values[j] = static_cast<double>(from[j]) - shift;
}

CDEC_WIDE double exponentiated(double *values, int64_t n, double *sums) {
  double total = 0.0;
  for (int64_t block = 0; block * kBlock < n; ++block) {
    double *part = values + block * kBlock;
    const int64_t size = std::min(kBlock, n - block * kBlock);
    for (int64_t j = 0; j < size; ++j) part[j] = exp_of(part[j]);
    sums[block] = total_of(part, size);
    total += sums[block];
  }
  return total;
}

}  // namespace

double fast_exp(double x) { return exp_of(x); }

double exponentiate(double *values, int64_t n, double *sums) {
  return exponentiated(values, n, sums);
}

double sum_of(const double *values, int64_t n) { return total_of(values, n); }

int64_t invert(const double *values, int64_t n, const double *sums, double target) {
  int64_t block = 0;
  for (; block < blocks_of(n) - 1 && sums[block] <= target; ++block) target -= sums[block];
  for (int64_t j = block * kBlock; j < n; ++j) {
    if (values[j] > target) return j;
    target -= values[j];
  }
  for (int64_t j = n - 1; j >= 0; --j)
    if (values[j] > 0.0) return j;
  return -1;
}

void Row::gather(const int32_t *ids, int64_t n, double shift, double *values) const {
  if (is_double_)
    gather_doubles(reinterpret_cast<const double *>(at_), width_, ids, n, shift, values);
  else
    gather_floats(reinterpret_cast<const float *>(at_), width_, ids, n, shift, values);
}

void Row::copy(int64_t first, int64_t n, double shift, double *values) const {
  if (!is_double_) return copy_floats(reinterpret_cast<const float *>(at_) + first, n, shift, values);
  for (int64_t j = 0; j < n; ++j) values[j] = (*this)[first + j] - shift;
}

double Row::log_sum(cdec_i64 ids) const {
  double top = -kInfinity;
  for (int64_t i = 0; i < ids.size; ++i) top = std::max(top, (*this)[ids[i]]);
  if (top == -kInfinity) return top;
  double total = 0.0;
  for (int64_t i = 0; i < ids.size; ++i) total += std::exp((*this)[ids[i]] - top);
  return top + std::log(total);
}

void Weighed::weigh() {
  shift = 0.0;
  total = kNaN;
  if (!std::isfinite(normalizer)) return;
  row.gather(ids, n, normalizer, values);
  total = exponentiate(values, n, sums);
  if (!(total > kFaint)) reweigh();
}

void Weighed::reweigh() {
  double top = -kInfinity;
  for (int64_t j = 0; j < n; ++j)
    if (values[j] > 0.0) top = std::max(top, row[ids[j]]);
  shift = total = 0.0;
  if (top == -kInfinity) return;
  for (int64_t j = 0; j < n; ++j) values[j] = values[j] > 0.0 ? row[ids[j]] - top : -kInfinity;
  shift = top - normalizer;
  total = exponentiate(values, n, sums);
}

double Weighed::log_rest() {
  total = sum_of(values, n);
  if (!(total > kFaint)) reweigh();
  return total > 0.0 ? shift + std::log(total) : -kInfinity;
}

double Weighed::end_mass(cdec_i64 end_ids) const {
  double mass = 0.0;
  for (int64_t e = 0; e < end_ids.size; ++e) {
    const int64_t place = place_of(ids, n, end_ids[e]);
    if (place < n && ids[place] == end_ids[e]) mass += values[place];
  }
  return mass;
}

double Weighed::log_end_mass(cdec_i64 end_ids) const {
  const double mass = end_mass(end_ids);
  if (mass > kFaint) return shift + std::log(mass);
  // All end ids are allowed together.
  return mass > 0.0 ? row.log_sum(end_ids) - normalizer : -kInfinity;
}

}  // namespace cdec

extern "C" {

int64_t cdec_exponentiate(cdec_f64_out values, cdec_f64_out sums) {
  if (sums.size < cdec::blocks_of(values.size)) return -1;
  cdec::exponentiate(values.at, values.size, sums.at);
  return 0;
}

int64_t cdec_invert(cdec_f64 values, cdec_f64 sums, double target) {
  return cdec::invert(values.at, values.size, sums.at, target);
}

int64_t cdec_gather_exp(cdec_scores row, double shift, cdec_i32 ids, cdec_f64_out values,
                        cdec_f64_out sums) {
  if (sums.size < cdec::blocks_of(values.size)) return -1;
  cdec::Row(row, 0).gather(ids.at, ids.size, shift, values.at);
  cdec::exponentiate(values.at, ids.size, sums.at);
  return 0;
}

}  // extern "C"
