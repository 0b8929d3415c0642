// The solver of mentored decoding. Deviations from the printed Algorithm 1, which sorts the vocabulary
// and bisects (moving alpha before its bounds, which never ends): ratios q / p are binned once, the
// bins where alpha and beta lie are binned again until few events remain, and those are solved
// exactly. Zeros of p and q are allowed. The result is measured and keeps to the limit.
//
// A *side* holds the events of positive target probability whose ratio is below 1 (side 0, cut down
// to q / alpha) or at least 1 (side 1, raised to q / beta). Its table lists edges from the extreme (0,
// or the largest ratio) inward to 1. Both sides move the same mass at the solution; as functions of
// that mass both costs are convex with slopes alpha and -beta, so chords bound their sum from above
// and tangents from below.
#include "mentored.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "guarded.h"
#include "sums.h"
#include "wide.h"

namespace cdec {
namespace {

constexpr double kSlack = 1e-13;  // share of 1 + limit left for rounding: an acceptance of 3e-7
constexpr int kAttempts = 4, kRounds = 32;
constexpr double kHuge = 1e100, kFinest = 5e-324;
constexpr double kTiny = 1e-290;    // a positive target probability counts as at least this
constexpr double kLargest = 1e290;  // largest finite beta; a ratio beyond it counts as infinite
constexpr int64_t kGrid = 512, kEdges = kGrid + 2;  // bins of a side, 32 an octave in the first table
constexpr int64_t kSmall = 48;                      // events of a side that are sorted, not binned
constexpr int64_t kChunk = 4096, kRun = 512;      // terms of a running sum, of a vectorised loop
constexpr int kOctaves = 16, kShift = 52 - 5;       // ratios from 2^-16 to 2^16, 32 bins an octave
constexpr int64_t kLowest = int64_t{1023 - kOctaves} << 5;
constexpr int64_t kInfinite = 2 * kGrid + 2, kOutside = 2 * kGrid + 3, kBins = 2 * kGrid + 4;

int64_t bits_of(double x) { return std::bit_cast<int64_t>(x); }

// log(x) of a normal x > 0 within 2 ulp, in straight-line code that vectorises; some finite number of
// anything else. Series of 2 artanh((m - 1) / (m + 1)) for x = m 2^e, sqrt(1 / 2) <= m < sqrt(2).
__attribute__((always_inline)) inline double fast_log(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  constexpr int64_t kMantissa = 0x000FFFFFFFFFFFFF, kRootHalf = 0x3FE6A09E667F3BCD;
  const int64_t bits = std::bit_cast<int64_t>(x) - kRootHalf;
  const double exponent = static_cast<double>(bits >> 52);
  const double m = std::bit_cast<double>((bits & kMantissa) + kRootHalf);
  const double f = m - 1.0, s = f / (m + 1.0), z = s * s;
  double tail = 2.0 / 21;
  tail = tail * z + 2.0 / 19;
  tail = tail * z + 2.0 / 17;
  tail = tail * z + 2.0 / 15;
  tail = tail * z + 2.0 / 13;
  tail = tail * z + 2.0 / 11;
  tail = tail * z + 2.0 / 9;
  tail = tail * z + 2.0 / 7;
  tail = tail * z + 2.0 / 5;
  tail = tail * z + 2.0 / 3;
  const double half = 0.5 * f * f;
  // log m = f - (f^2 / 2 - s (f^2 / 2 + z tail)): f is exact, the rest is small beside it.
  return exponent * kLn2High + (f - (half - (s * (half + z * tail) + exponent * kLn2Low)));
}

__attribute__((always_inline)) inline double clipped(double p, double q, double alpha, double beta) {
  const double least = std::max(q, kTiny);
  double value = std::max(p, least / beta);
  value = alpha > 0.0 ? std::min(value, least / alpha) : value;
  // subtle: where q / beta underflows, 0 would make the divergence infinite.
  value = value > 0.0 || beta == kInfinity ? value : kFinest;
  value = alpha < 1.0 ? value : q;
  return q > 0.0 ? value : 0.0;
}

CDEC_WIDE double block_cost(const double *p, const double *q, int64_t n, double alpha, double beta,
                            double *costs, int64_t &extreme) {
  int64_t found = 0;
  for (int64_t j = 0; j < n; ++j) {
    const double ratio = std::max(q[j], kTiny) / clipped(p[j], q[j], alpha, beta);
    costs[j] = q[j] > 0.0 ? q[j] * fast_log(ratio) : 0.0;
    found += q[j] > 0.0 && ratio > kLargest ? 1 : 0;
  }
  extreme += found;
  return sum_of(costs, n);
}

// KL(q || pi) in nats: measured, event by event.
double measured(const double *p, const double *q, int64_t n, double alpha, double beta) {
  double total = 0.0, costs[kRun];
  int64_t extreme = 0;
  for (int64_t begin = 0; begin < n; begin += kRun)
    total += block_cost(p + begin, q + begin, std::min(kRun, n - begin), alpha, beta, costs,
                        extreme);
  if (extreme) {
    total = 0.0;
    for (int64_t j = 0; j < n; ++j) {
      if (!(q[j] > 0.0)) continue;
      const double value = clipped(p[j], q[j], alpha, beta);
      if (!(value > 0.0)) return kInfinity;
      total += q[j] * (std::log(q[j]) - std::log(value));
    }
  }
  return std::max(total, 0.0);
}

struct Sums {
  double p = 0.0, q = 0.0, cost = 0.0;
  void add(const Sums &other) { p += other.p, q += other.q, cost += other.cost; }
};

// The edges of a side. Bin t lies between the edges t and t + 1. With alpha or beta at an edge, and P
// and Q the sums beyond it, `moved` is the mass taken or given, P - Q / edge on side 0 and Q / edge -
// P on side 1; `cost` the side's part of KL(q || pi).
struct Table {
  double edge[kEdges], log[kEdges], p[kEdges], q[kEdges];
  double rest[kEdges];  // sum of q log r short of the edge
  double moved[kEdges], cost[kEdges];
  int64_t length = 0;
  int side = 0;
  bool is_exact = false;  // every event of a bin has the ratio of the bin's first edge

  double sign() const { return side ? -1.0 : 1.0; }

  void set_bin(int64_t t, const Sums &sums) { p[t] = sums.p, q[t] = sums.q, rest[t] = sums.cost; }

  // Turns the sums of bins in p, q, rest into a table. `beyond`: the sums beyond edge 0; `near`: the
  // side's sum of q log r short of the last edge.
  void accumulate(double p_beyond, double q_beyond, double near) {
    double before = -kInfinity;
    for (int64_t t = 0; t < length; ++t) {
      const double p_bin = p[t], q_bin = q[t];
      p[t] = p_beyond;
      q[t] = q_beyond;
      const double share = q_beyond > 0.0 ? q_beyond / edge[t] : 0.0;
      // Rounding must not turn the order of edges around.
      moved[t] = before = std::max(before, sign() * (p_beyond - share));
      if (t < length - 1) p_beyond += p_bin, q_beyond += q_bin;
    }
    rest[length - 1] = near;
    for (int64_t t = length - 2; t >= 0; --t) rest[t] += rest[t + 1];
    for (int64_t t = 0; t < length; ++t) cost[t] = rest[t] + (q[t] > 0.0 ? q[t] * log[t] : 0.0);
  }

  // The last bin from t on that begins at a moved mass of at most x.
  int64_t skip(int64_t t, double x) const {
    while (t + 2 < length && moved[t + 1] <= x) ++t;
    return t;
  }

  struct Point {
    int64_t t;
    double value, cost;  // alpha or beta, and the side's cost
  };

  // At moved mass x, in a table that is exact.
  Point at(int64_t t, double x) const {
    t = skip(t, x);
    const double inner = edge[t + 1], outer = edge[t];
    if (!(q[t + 1] > 0.0)) return {t, inner, rest[t + 1]};
    const double room = side ? p[t + 1] + x : p[t + 1] - x;
    double value = room > 0.0 ? q[t + 1] / room : inner;
    value = std::min(std::max(value, std::min(inner, outer)), std::max(inner, outer));
    return {t, value, rest[t + 1] + q[t + 1] * std::log(value)};
  }

  struct Bounds {
    double low, high;
  };

  // Bounds of the cost at moved mass x between the edges t and t + 1.
  Bounds cost_bounds(int64_t t, double x) const {
    if (is_exact) {
      const double found = at(t, x).cost;
      return {found, found};
    }
    const double start = moved[t], stop = moved[t + 1], first = cost[t], last = cost[t + 1];
    if (!(stop > start)) return {std::min(first, last), std::max(first, last)};
    x = std::min(std::max(x, start), stop);
    const double upper = first + (last - first) * ((x - start) / (stop - start));
    const double from_first = first + sign() * edge[t] * (x - start);
    const double from_last = last - sign() * edge[t + 1] * (stop - x);
    return {std::max(from_first, from_last), upper};
  }
};

// The bins of a side's table among which alpha or beta lies, and what is beyond and short of them.
struct Window {
  int64_t first = 0, stop = 0;
  double p = 0.0, q = 0.0, near = 0.0, inner = 0.0, outer = 0.0;
};

struct Event {
  double ratio, p, q, cost;
};

class Solver {
 public:
  Mentored solve(const double *p, const double *q, int64_t n, double limit);

 private:
  struct Range {
    double low, high;
  };

  void scan();
  void first_tables();
  Mentored attempt(double goal, double slack);
  Window window_of(const Table &table, Range range) const;
  void gather(int side);
  void refine(int side);
  void keep(int side);
  Range bracket(double goal) const;
  Range pin_down(double goal);
  Mentored descend(Range range, double goal, double slack) const;

  const double *p_ = nullptr, *q_ = nullptr;
  int64_t n_ = 0;
  Table tables_[2];
  Window windows_[2];
  std::vector<Event> events_[2];  // of the windows
  int64_t origin_[2] = {0, 0};    // bits of the outermost ratio
  int shift_[2] = {0, 0};         // that makes bits a bin
  std::vector<int32_t> bins_;
  std::vector<Sums> sums_ = std::vector<Sums>(3 * kBins);  // all, and of two halves of a chunk
};

CDEC_WIDE void classify(const double *p, const double *q, int64_t n, int32_t *bins, double *costs) {
  for (int64_t j = 0; j < n; ++j) {
    const double share = std::max(q[j], kTiny), ratio = share / p[j];
    int64_t place = (std::bit_cast<int64_t>(ratio) >> kShift) - kLowest + 1;
    place = std::min(std::max(place, int64_t{0}), 2 * kGrid + 1);
    place = ratio > kLargest ? kInfinite : place;
    bins[j] = static_cast<int32_t>(q[j] > 0.0 ? place : kOutside);
    costs[j] = share * fast_log(ratio);
  }
}

// Bins every event; sums each bin.
void Solver::scan() {
  std::fill(sums_.begin(), sums_.end(), Sums{});
  bins_.resize(std::max<size_t>(bins_.size(), n_));
  double costs[kRun];
  for (int64_t begin = 0; begin < n_; begin += kRun) {
    const int64_t end = std::min(n_, begin + kRun);
    classify(p_ + begin, q_ + begin, end - begin, bins_.data() + begin, costs);
    for (int64_t j = begin; j < end; ++j) {
      // Two halves: neighbours of one bin need not wait for each other.
      Sums &into = sums_[(1 + (j & 1)) * kBins + bins_[j]];
      into.add({p_[j], std::max(q_[j], kTiny), costs[j - begin]});
    }
    if (end % kChunk && end != n_) continue;
    // A running sum of many equal terms drifts: sum the sums of chunks.
    for (int64_t place = 0; place < kBins; ++place) {
      Sums both = sums_[kBins + place];
      both.add(sums_[2 * kBins + place]);
      sums_[place].add(both);
      sums_[kBins + place] = sums_[2 * kBins + place] = Sums{};
    }
  }
}

double first_edge(int side, int64_t t) {
  const auto grid = [](int64_t place) {
    return std::ldexp(1.0 + static_cast<double>(place % 32) / 32.0,
                      static_cast<int>(place / 32) - kOctaves);
  };
  if (t == 0) return side ? kLargest : 0.0;
  if (side == 0) return t <= kGrid ? grid(t - 1) : 1.0;
  return t == 1 ? std::ldexp(1.0, kOctaves) : std::ldexp(grid(kGrid + 1 - t), kOctaves);
}

void Solver::first_tables() {
  for (int side = 0; side < 2; ++side) {
    Table &table = tables_[side];
    table.side = side;
    table.length = kEdges;
    table.is_exact = false;
    for (int64_t t = 0; t < kEdges; ++t) {
      table.edge[t] = first_edge(side, t);
      table.log[t] = std::log(std::max(table.edge[t], 1e-300));
      table.set_bin(t, sums_[side ? 2 * kGrid + 1 - t : t]);
    }
    // What events outside the target's support lose is given to the others.
    const double lost = side ? sums_[kOutside].p + sums_[kInfinite].p : 0.0;
    table.accumulate(lost, side ? sums_[kInfinite].q : 0.0, 0.0);
  }
}

// Moved masses between which the cost of both sides passes the goal: at `high` it is at most that; at
// `low` at least, or `low` is the least mass there is. O(edges).
Solver::Range Solver::bracket(double goal) const {
  const Table &a = tables_[0], &b = tables_[1];
  double x = std::max({0.0, a.moved[0], b.moved[0]}), low = x;
  const double end = std::min(a.moved[a.length - 1], b.moved[b.length - 1]);
  for (int64_t first = 0, second = 0;;) {
    first = a.skip(first, x);
    second = b.skip(second, x);
    const Table::Bounds left = a.cost_bounds(first, x), right = b.cost_bounds(second, x);
    if (left.high + right.high <= goal) return {low, x};
    if (left.low + right.low >= goal) low = x;
    if (x >= end) return {low, x};
    double following = end;
    if (a.moved[first + 1] > x) following = std::min(following, a.moved[first + 1]);
    if (b.moved[second + 1] > x) following = std::min(following, b.moved[second + 1]);
    x = following;
  }
}

// The bins between the edges that hold the moved masses of a range between them.
Window Solver::window_of(const Table &table, Range range) const {
  const int64_t first = table.skip(0, range.low);
  int64_t stop = first + 1;
  while (stop < table.length - 1 && table.moved[stop] < range.high) ++stop;
  return {first,        stop, table.p[first], table.q[first], table.rest[stop], table.edge[stop],
          table.edge[first]};
}

// Collects the events of a window of the first table. Bins count upwards by ratio; the table of side
// 1 counts them downwards.
void Solver::gather(int side) {
  int64_t first = windows_[side].first, stop = windows_[side].stop;
  if (side) {
    first = 2 * kGrid + 2 - windows_[side].stop;
    stop = 2 * kGrid + 2 - windows_[side].first;
  }
  std::vector<Event> &events = events_[side];
  events.clear();
  for (int64_t j = 0; j < n_; ++j) {
    if (bins_[j] < first || bins_[j] >= stop) continue;
    const double share = std::max(q_[j], kTiny), ratio = share / p_[j];
    events.push_back({ratio, p_[j], share, share * fast_log(ratio)});
  }
}

// Rebuilds a side's table from the events of its window: each by itself if few, else binned. Bin 0 is
// empty: edge 0 is the window's, edge 1 the outermost event's.
void Solver::refine(int side) {
  Table &table = tables_[side];
  std::vector<Event> &events = events_[side];
  const int64_t count = static_cast<int64_t>(events.size());
  int64_t bins = count;
  shift_[side] = 0;
  if (count <= kSmall) {
    std::stable_sort(events.begin(), events.end(), [&](const Event &a, const Event &b) {
      return side ? a.ratio > b.ratio : a.ratio < b.ratio;
    });
    for (int64_t t = 0; t < count; ++t) {
      table.edge[t + 1] = events[t].ratio;
      table.set_bin(t + 1, {events[t].p, events[t].q, events[t].cost});
    }
  } else {
    int64_t low = bits_of(events[0].ratio), high = low;
    for (const Event &event : events) {
      low = std::min(low, bits_of(event.ratio));
      high = std::max(high, bits_of(event.ratio));
    }
    while ((high - low) >> shift_[side] >= kGrid) ++shift_[side];
    bins = ((high - low) >> shift_[side]) + 1;
    origin_[side] = side ? high : low;
    const int64_t sign = side ? -1 : 1;
    for (int64_t t = 0; t <= bins; ++t) table.set_bin(t, {});
    for (int64_t begin = 0; begin < count; begin += kChunk) {
      Sums sums[kGrid];
      for (int64_t j = begin; j < std::min(count, begin + kChunk); ++j) {
        const Event &event = events[j];
        sums[(sign * (bits_of(event.ratio) - origin_[side])) >> shift_[side]].add(
            {event.p, event.q, event.cost});
      }
      for (int64_t t = 0; t < bins; ++t) {
        Sums all{table.p[t + 1], table.q[t + 1], table.rest[t + 1]};
        all.add(sums[t]);
        table.set_bin(t + 1, all);
      }
    }
    for (int64_t t = 0; t < bins; ++t)
      table.edge[t + 1] = std::bit_cast<double>(origin_[side] + sign * (t << shift_[side]));
  }
  const Window &window = windows_[side];
  table.set_bin(0, {});
  table.edge[0] = window.outer;
  table.edge[bins + 1] = window.inner;
  for (int64_t t = 0; t < bins + 2; ++t) table.log[t] = fast_log(table.edge[t]);
  table.length = bins + 2;
  table.is_exact = shift_[side] == 0;
  table.accumulate(window.p, window.q, window.near);
}

// Leaves the events of the window alone.
void Solver::keep(int side) {
  const int64_t sign = side ? -1 : 1;
  std::erase_if(events_[side], [&](const Event &event) {
    const int64_t t = 1 + ((sign * (bits_of(event.ratio) - origin_[side])) >> shift_[side]);
    return t < windows_[side].first || t >= windows_[side].stop;
  });
}

// Refines both sides until their tables are exact. A ratio has 64 bits and a round settles up to nine;
// rarely one side waits for the other. A result of tables that are not exact after all rounds is as
// safe, for `solve` measures it.
Solver::Range Solver::pin_down(double goal) {
  Range range{0.0, 0.0};
  bool is_stale[2] = {true, true};
  for (int round = 0; round < kRounds; ++round) {
    for (int side = 0; side < 2; ++side)
      if (is_stale[side]) refine(side);
    range = bracket(goal);
    if (tables_[0].is_exact && tables_[1].is_exact) break;
    for (int side = 0; side < 2; ++side) {
      is_stale[side] = !tables_[side].is_exact;
      if (!is_stale[side]) continue;
      windows_[side] = window_of(tables_[side], range);
      keep(side);
    }
  }
  return range;
}

// alpha and beta of cost in [goal, goal + slack], by Newton's method from `low`. The cost is convex in
// the moved mass, with derivative alpha - beta: the steps go one way. At `low` the cost may be below
// the goal; then that is the answer.
Mentored Solver::descend(Range range, double goal, double slack) const {
  double x = range.low;
  Table::Point first{0, 1.0, 0.0}, second{0, 1.0, 0.0};
  for (int step = 0; step < 1000; ++step) {
    first = tables_[0].at(first.t, x);
    second = tables_[1].at(second.t, x);
    const double cost = first.cost + second.cost;
    if (cost - goal <= slack || x >= range.high) break;
    const double following =
        std::min(range.high, x + (cost - goal) / (second.value - first.value));
    if (!(following > x)) break;
    x = following;
  }
  // Nothing is moved but what events outside the target's support lose: alpha -> 0+.
  return {x <= 0.0 ? 0.0 : first.value, second.value, 0.0};
}

Mentored Solver::attempt(double goal, double slack) {
  first_tables();
  const Range range = bracket(goal);
  for (int side = 0; side < 2; ++side) {
    windows_[side] = window_of(tables_[side], range);
    gather(side);
  }
  return descend(pin_down(goal), goal, slack);
}

Mentored Solver::solve(const double *p, const double *q, int64_t n, double limit) {
  if (!(limit > 0.0)) return {};
  p_ = p, q_ = q, n_ = n;
  scan();
  double whole = 0.0;
  for (int64_t place = 0; place < kInfinite; ++place) whole += sums_[place].cost;
  whole = std::max(whole, 0.0);
  if (sums_[kInfinite].q > 0.0)
    whole = sums_[kInfinite].p > 0.0 ? divergence(p, q, n) : kInfinity;
  const double slack = kSlack * (1.0 + std::min(limit, kHuge));
  if (sums_[kOutside].p == 0.0 && (whole <= limit - slack || limit == kInfinity))
    return {0.0, kInfinity, whole};
  double goal = std::min(limit, kHuge) - slack;
  for (int i = 0; i < kAttempts && goal > 0.0; ++i) {
    Mentored found = attempt(goal, 0.01 * slack);
    found.spent = measured(p, q, n, found.alpha, found.beta);
    if (found.spent <= limit) return found;
    // Rounding of more than the slack, or events that are not normalised.
    goal -= 2.0 * (found.spent - limit) + slack;
  }
  return {};
}

}  // namespace

double Mentored::value(double p, double q) const { return clipped(p, q, alpha, beta); }

Mentored solve_mentored(const double *p, const double *q, int64_t n, double limit) {
  thread_local Solver solver;
  return solver.solve(p, q, n, limit);
}

double divergence(const double *p, const double *q, int64_t n) {
  return measured(p, q, n, 0.0, kInfinity);
}

}  // namespace cdec

extern "C" int64_t cdec_mentored_rows(cdec_f64_rows draft, cdec_f64_rows target, cdec_f64 limits,
                                      cdec_f64_rows_out law, cdec_f64_rows_out found) {
  return cdec::guarded([&]() -> int64_t {
    for (int64_t row = 0; row < draft.rows; ++row) {
      const double *p = draft[row], *q = target[row];
      const cdec::Mentored solved = cdec::solve_mentored(p, q, draft.width, limits[row]);
      found[row][0] = solved.alpha, found[row][1] = solved.beta, found[row][2] = solved.spent;
      for (int64_t j = 0; j < draft.width; ++j) law[row][j] = solved.value(p[j], q[j]);
    }
    return 0;
  });
}
