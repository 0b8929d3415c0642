// Verification of drafted events: the ratio test, residuals, and the mentored target.
//
// The law claimed for a drafted event is the law it was drawn from: the draft's scores over the same
// allowed ids, renormalised; the law of the target is masked and renormalised alike. All end ids are
// one event, the last of each list.
#include "guarded.h"
#include "mentored.h"
#include "sums.h"

using namespace cdec;

namespace {

constexpr int64_t kNoLaw = -1;
constexpr double kSpent = 1.0 - 1e-9;  // share of a limit from which it counts as spent

// Among which events a node chooses: sorted ids, and the end behind them.
struct Events {
  const int32_t *ids;
  int64_t n;
  const cdec_allowed_lists &lists;

  // The place of an event; -1 where it is not allowed.
  int64_t place(int64_t event) const {
    if (event == CDEC_END_EVENT) return n;
    const int64_t found = place_of(ids, n, event);
    return found < n && ids[found] == event ? found : -1;
  }

  // Writes the probabilities of the events to law[:n + 1]: a place an id, those of end ids 0, the end
  // the last; 0 where nothing has mass. Returns log of the mass of all, -inf where nothing has any.
  double law_of(const cdec_law &model, int64_t row, double *values, double *sums,
                double *law) const {
    Weighed here{Row(model.scores, row), model.log_normalizer[row], ids, n, values, sums};
    here.weigh();
    if (!(here.total > 0.0)) {
      std::fill_n(law, n + 1, 0.0);
      return -kInfinity;
    }
    const double end = here.end_mass(lists.end_ids), scale = 1.0 / here.total;
    for (int64_t j = 0; j < n; ++j)
      law[j] = end > 0.0 && lists.is_end[ids[j]] ? 0.0 : values[j] * scale;
    law[n] = end * scale;
    return here.shift + std::log(here.total);
  }
};

// A place of a law of any sum by inversion; -1 where it has no mass.
int64_t draw(const double *law, int64_t n, double number, double *sums) {
  double total = 0.0;
  for (int64_t block = 0; block < blocks_of(n); ++block) {
    const int64_t first = block * kBlock;
    sums[block] = 0.0;
    for (int64_t j = first; j < std::min(n, first + kBlock); ++j) sums[block] += law[j];
    total += sums[block];
  }
  return total > 0.0 ? invert(law, n, sums, number * total) : -1;
}

// The law aimed at: the target where the limit is 0, else what fits the draft best within it; and
// min(limit, KL(target || draft)) of what the draft's law would spend.
struct Aim {
  Mentored law;
  double spent = 0.0;

  static Aim at(const double *p, const double *q, int64_t n, double limit) {
    Aim aim;
    if (!(limit > 0.0)) return aim;
    aim.law = solve_mentored(p, q, n, limit);
    // Where the aim spends all of the limit, the draft's law would spend more.
    aim.spent = aim.law.spent < limit * kSpent ? std::min(limit, divergence(p, q, n))
                                               : aim.law.spent;
    return aim;
  }

  // Whether an event drawn from p is accepted: with probability min(1, aim / p), never where it is 0.
  bool accepts(double p, double q, double test) const {
    return p > 0.0 && test < law.value(p, q) / p;
  }

  // The place of an event drawn from (aim - p)+, what the aim has more of than the draft.
  int64_t replacement(const double *p, const double *q, int64_t n, double number, double *left,
                      double *sums) const {
    for (int64_t j = 0; j < n; ++j) left[j] = std::max(0.0, law.value(p[j], q[j]) - p[j]);
    const int64_t place = draw(left, n, number, sums);
    // Refused by a rounding error alone: both laws are equal, so the target's own will do.
    return place >= 0 ? place : draw(q, n, number, sums);
  }
};

}  // namespace

extern "C" int64_t cdec_verify(const cdec_law *target, const cdec_allowed_lists *lists,
                               const cdec_tested_nodes *nodes, const cdec_law *draft,
                               const cdec_proposed *proposed, const cdec_numbers *numbers,
                               const cdec_chosen *chosen, const cdec_judged *judged) {
  return guarded([&]() -> int64_t {
    int64_t longest = 1;
    for (int64_t s = 0; s < nodes->list_of.size; ++s) {
      const int64_t list = nodes->list_of[s];
      longest = std::max(longest, lists->offsets[list + 1] - lists->offsets[list]);
    }
    std::vector<double> values(longest), left(longest + 1), p(longest + 1), q(longest + 1);
    std::vector<double> sums(longest / kBlock + 2);
    for (int64_t s = 0; s < nodes->rows.size; ++s) {
      const int64_t row = nodes->rows[s], start = lists->offsets[nodes->list_of[s]];
      const int64_t n = lists->offsets[nodes->list_of[s] + 1] - start;
      const Events events{lists->ids.at + start, n, *lists};
      const double log_z = events.law_of(*target, row, values.data(), sums.data(), q.data());
      if (log_z == -kInfinity) continue;
      int64_t law = kNoLaw;
      double limit = kNaN;
      Aim aim;
      for (int64_t i = nodes->starts[s]; i < nodes->starts[s + 1]; ++i) {
        const int64_t walk = nodes->walks[i], said = events.place(proposed->events[walk]);
        if (said < 0) continue;
        // Walks of one node, law and limit share the comparison.
        if (law == kNoLaw || proposed->laws[walk] != law || numbers->limits[walk] != limit) {
          law = proposed->laws[walk];
          limit = numbers->limits[walk];
          if (law == kNoLaw) {
            std::fill_n(p.data(), n + 1, 0.0);
            p[said] = 1.0;
          } else {
            events.law_of(*draft, law, values.data(), sums.data(), p.data());
          }
          aim = Aim::at(p.data(), q.data(), n + 1, limit);
        }
        const bool is_accepted = aim.accepts(p[said], q[said], numbers->tests[walk]);
        const int64_t place = is_accepted
                                  ? said
                                  : aim.replacement(p.data(), q.data(), n + 1, numbers->picks[walk],
                                                    left.data(), sums.data());
        judged->accepted[walk] = is_accepted;
        judged->charged[walk] = aim.law.spent;
        judged->spent[walk] = aim.spent;
        chosen->tokens[walk] = CDEC_END_EVENT;
        chosen->log_p[walk] = nodes->log_end[s];
        if (place < n) {
          chosen->tokens[walk] = events.ids[place];
          chosen->log_p[walk] =
              Row(target->scores, row)[events.ids[place]] - target->log_normalizer[row];
        }
        const double aimed = aim.law.value(p[place], q[place]);
        judged->log_ratio[walk] = std::log(q[place] / aimed);
        if (q[place] > 0.0 && q[place] < kFaint)
          judged->log_ratio[walk] = chosen->log_p[walk] - log_z - std::log(aimed);
      }
    }
    return 0;
  });
}
