// Choice among allowed events: gathered log-sums, inverse CDFs, best events.
#include "guarded.h"
#include "sums.h"

using namespace cdec;

namespace {

int64_t longest_list(const cdec_lists &allowed) {
  int64_t longest = 1;
  for (int64_t s = 0; s < allowed.lists.size; ++s) {
    const int64_t list = allowed.lists[s];
    longest = std::max(longest, allowed.offsets[list + 1] - allowed.offsets[list]);
  }
  return longest;
}

// Room for the values of the longest list, used node by node.
class Workspace {
 public:
  Workspace(const cdec_known &known, const cdec_lists &allowed)
      : known_(known),
        allowed_(allowed),
        values_(longest_list(allowed)),
        sums_(blocks_of(static_cast<int64_t>(values_.size())) + 1) {}

  Weighed at(int64_t s) {
    const int64_t row = known_.rows[allowed_.which[s]], list = allowed_.lists[s];
    const int64_t start = allowed_.offsets[list];
    Weighed found{Row(known_.scores, row), known_.log_normalizer[row], allowed_.ids.at + start,
                  allowed_.offsets[list + 1] - start, values_.data(), sums_.data()};
    found.weigh();
    return found;
  }

 private:
  const cdec_known &known_;
  const cdec_lists &allowed_;
  std::vector<double> values_, sums_;
};

double log_total(const Weighed &found) {
  return found.total == found.total ? std::min(0.0, found.shift + std::log(found.total)) : kNaN;
}

struct Walks {
  const int64_t *first, *last;
  const int64_t *begin() const { return first; }
  const int64_t *end() const { return last; }
};

Walks walks_at(const cdec_draws &draws, int64_t node) {
  return {draws.walk_order.at + draws.walk_starts[node],
          draws.walk_order.at + draws.walk_starts[node + 1]};
}

void set_none(const cdec_drawn &drawn, int64_t walk) {
  drawn.tokens[walk] = CDEC_NO_EVENT;
  drawn.log_p[walk] = -kInfinity;
}

void set_token(const cdec_drawn &drawn, const cdec_ends &ends, int64_t walk, int64_t token,
               double log_p, double log_end) {
  const bool is_end = ends.is_end[token];
  drawn.tokens[walk] = is_end ? CDEC_END_EVENT : token;
  drawn.log_p[walk] = is_end ? log_end : log_p;
}

// Keeps the highest scores (k, falling) and their ids; of equal scores the lower id comes first.
void insert_best(const Weighed &node, const cdec_ends &ends, int64_t k, int64_t *tokens,
                 double *best) {
  for (int64_t j = 0; j < node.n; ++j) {
    const int64_t token = node.ids[j];
    if (token < 0 || token >= node.row.width()) continue;
    const double score = node.row[token];
    if (!(score > best[k - 1]) || ends.is_end[token]) continue;
    int64_t place = k - 1;
    for (; place > 0 && best[place - 1] < score; --place) {
      best[place] = best[place - 1];
      tokens[place] = tokens[place - 1];
    }
    best[place] = score;
    tokens[place] = token;
  }
}

}  // namespace

extern "C" {

int64_t cdec_sample_ragged(const cdec_known *known, const cdec_lists *allowed,
                           const cdec_ends *ends, const cdec_draws *draws, int64_t aborting,
                           const cdec_drawn *drawn) {
  return guarded([&]() -> int64_t {
    Workspace workspace(*known, *allowed);
    const bool with_residual = drawn->log_residual.size > 0;
    for (int64_t s = 0; s < allowed->which.size; ++s) {
      const int64_t node = allowed->which[s];
      Weighed here = workspace.at(s);
      const Walks walks = walks_at(*draws, node);
      drawn->log_z[node] = log_total(here);
      drawn->log_end[node] = -kInfinity;
      if (with_residual) drawn->log_residual[node] = -kInfinity;
      if (!(here.total > 0.0)) {
        for (int64_t walk : walks) set_none(*drawn, walk);
        continue;
      }
      const double log_end = drawn->log_end[node] = here.log_end_mass(ends->ids);
      // Past the largest shift only the number 0 is allowed.
      const double scale =
          aborting ? std::exp(std::min(-here.shift, kLargestShift)) : here.total;
      for (int64_t walk : walks) {
        const double target = draws->uniforms[walk] * scale;
        if (aborting && target >= here.total) {
          set_none(*drawn, walk);
          continue;
        }
        const int64_t token = here.ids[invert(here.values, here.n, here.sums, target)];
        set_token(*drawn, *ends, walk, token, here.row[token] - here.normalizer, log_end);
      }
      if (!with_residual) continue;
      for (int64_t walk : walks)
        if (drawn->tokens[walk] >= 0)
          here.values[place_of(here.ids, here.n, drawn->tokens[walk])] = 0.0;
      drawn->log_residual[node] = here.log_rest();
    }
    return 0;
  });
}

int64_t cdec_sample_dense(const cdec_known *known, cdec_i64 which, const cdec_ends *ends,
                          const cdec_draws *draws, const cdec_drawn *drawn) {
  return guarded([&]() -> int64_t {
    // The row is read once for the sums of blocks; only the block of a drawn number is read again.
    const int64_t width = known->scores.width;
    std::vector<double> sums(blocks_of(width) + 1), values(kBlock);
    for (int64_t s = 0; s < which.size; ++s) {
      const int64_t node = which[s], row_number = known->rows[node];
      const Row row(known->scores, row_number);
      const double normalizer = known->log_normalizer[row_number];
      double total = 0.0, inner = 0.0;
      for (int64_t block = 0; block < blocks_of(width); ++block) {
        const int64_t n = std::min(kBlock, width - block * kBlock);
        row.copy(block * kBlock, n, normalizer, values.data());
        total += exponentiate(values.data(), n, &sums[block]);
      }
      // subtle: fast_exp turns NaN into 0, so a row of NaN shows as missing mass.
      drawn->log_z[node] = total > 0.5 ? 0.0 : kNaN;
      drawn->log_end[node] = row.log_sum(ends->ids) - normalizer;
      for (int64_t walk : walks_at(*draws, node)) {
        double target = draws->uniforms[walk] * total;
        int64_t block = 0;
        for (; block < (width - 1) / kBlock && sums[block] <= target; ++block)
          target -= sums[block];
        const int64_t start = block * kBlock, n = std::min(kBlock, width - start);
        row.copy(start, n, normalizer, values.data());
        exponentiate(values.data(), n, &inner);
        const int64_t found = invert(values.data(), n, &inner, target);
        const int64_t token = start + std::max<int64_t>(0, found);
        set_token(*drawn, *ends, walk, token, row[token] - normalizer, drawn->log_end[node]);
      }
    }
    return 0;
  });
}

int64_t cdec_walks_add(cdec_i64 walks, cdec_i64 node, const cdec_happened *happened,
                       const cdec_sums *sums) {
  for (int64_t i = 0; i < walks.size; ++i) {
    if (happened->tokens[i] == CDEC_NO_EVENT) continue;
    const int64_t walk = walks[i];
    sums->log_p[walk] += happened->log_p[i];
    sums->log_z[walk] += happened->log_z[node[i]];
    sums->log_kept[walk] += std::log1p(-happened->missed[node[i]]);
  }
  return 0;
}

int64_t cdec_best_events(const cdec_known *known, const cdec_lists *allowed, const cdec_ends *ends,
                         const cdec_best *best) {
  return guarded([&]() -> int64_t {
    const int64_t k = best->tokens.width;
    Workspace workspace(*known, *allowed);
    for (int64_t s = 0; s < allowed->which.size; ++s) {
      const int64_t node = allowed->which[s];
      const Weighed here = workspace.at(s);
      std::fill_n(best->tokens[node], k, int64_t{CDEC_NO_EVENT});
      std::fill_n(best->log_p[node], k, -kInfinity);
      best->log_end[node] = -kInfinity;
      best->log_z[node] = log_total(here);
      if (!(here.total > 0.0)) continue;
      insert_best(here, *ends, k, best->tokens[node], best->log_p[node]);
      for (int64_t place = 0; place < k; ++place) best->log_p[node][place] -= here.normalizer;
      best->log_end[node] = here.log_end_mass(ends->ids);
    }
    return 0;
  });
}

int64_t cdec_log_residuals(const cdec_known *known, const cdec_lists *allowed, cdec_i64 starts,
                           cdec_i64 taken, cdec_f64_out residual) {
  return guarded([&]() -> int64_t {
    Workspace workspace(*known, *allowed);
    for (int64_t s = 0; s < allowed->which.size; ++s) {
      const int64_t node = allowed->which[s];
      Weighed here = workspace.at(s);
      if (!(here.total > 0.0)) continue;
      for (int64_t i = starts[node]; i < starts[node + 1]; ++i) {
        const int64_t place = place_of(here.ids, here.n, taken[i]);
        if (place < here.n && here.ids[place] == taken[i]) here.values[place] = 0.0;
      }
      residual[node] = std::min(0.0, here.log_rest());
    }
    return 0;
  });
}

}  // extern "C"
