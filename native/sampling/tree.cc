// The prefix tree: visiting prefixes, and carrying bounds upwards. Sums are of positive terms only:
// nothing is ever computed as 1 minus a mass.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cdec_native.h"

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Log c(node): what no visited child covers, plus the sum of P * c of the children.
double bound_of(const cdec_tree &tree, int64_t node, double rounding) {
  if (tree.flags[node] & CDEC_TERMINAL) return 0.0;
  const double residual = tree.mass[node];
  double peak = residual;
  for (int64_t child = tree.first_child[node]; child != CDEC_NIL; child = tree.next_sibling[child])
    peak = std::max(peak, tree.edge[child] + tree.bound[child]);
  if (peak == -kInfinity) return peak;
  // Where the mass still holds the children's, they are taken off it. What rounding may have lost is
  // put back: it stays an upper bound, though not the closest.
  const bool is_exact = tree.flags[node] & CDEC_EXACT;
  double seen = 0.0, kept = 0.0;
  for (int64_t child = tree.first_child[node]; child != CDEC_NIL;
       child = tree.next_sibling[child]) {
    if (!is_exact) seen += std::exp(tree.edge[child] - peak);
    kept += std::exp(tree.edge[child] + tree.bound[child] - peak);
  }
  double own = std::exp(residual - peak);
  if (!is_exact) own = std::max(0.0, own - seen) + rounding * own;
  const double total = own + kept;
  return total > 0.0 ? std::min(0.0, peak + std::log(total)) : -kInfinity;
}

// The log mass that was allowed at a node, visited children included.
double allowed_mass(const cdec_tree &tree, int64_t node) {
  const double own = tree.mass[node];
  if (!(tree.flags[node] & CDEC_EXACT)) return std::min(0.0, own);
  double peak = own;
  for (int64_t child = tree.first_child[node]; child != CDEC_NIL; child = tree.next_sibling[child])
    peak = std::max(peak, tree.edge[child]);
  if (peak == -kInfinity) return peak;
  double total = std::exp(own - peak);
  for (int64_t child = tree.first_child[node]; child != CDEC_NIL; child = tree.next_sibling[child])
    total += std::exp(tree.edge[child] - peak);
  return std::min(0.0, peak + std::log(total));
}

// Record one prefix and say whether it is new.
bool enter(const cdec_arrivals &arrivals, const cdec_tree &tree, int64_t i) {
  const int64_t node = arrivals.context[i], parent = arrivals.parent[i];
  const uint8_t known = tree.flags[node], given = arrivals.flags[i];
  const bool is_new = !(known & CDEC_VISITED);
  if (is_new) {
    tree.request[node] = static_cast<int32_t>(arrivals.request[i]);
    tree.draw[node] = static_cast<int32_t>(arrivals.draw[i]);
    tree.edge[node] = arrivals.log_edge[i];
    tree.flags[node] = given | CDEC_VISITED;
    tree.first_child[node] = tree.next_sibling[node] = CDEC_NIL;
    if (parent >= 0) {
      tree.next_sibling[node] = tree.first_child[parent];
      tree.first_child[parent] = static_cast<int32_t>(node);
    }
  } else if (arrivals.draw[i] < tree.draw[node]) {
    tree.draw[node] = static_cast<int32_t>(arrivals.draw[i]);
    tree.flags[node] = (known & ~CDEC_IN_RUN) | given | CDEC_VISITED;
  } else {
    tree.flags[node] = known | (given & ~CDEC_IN_RUN);
  }
  // subtle: a mass of 1 may say that nobody asked (`opportunistic`): what is known stays.
  if (is_new || given & CDEC_EXACT || arrivals.log_mass[i] < 0.0) {
    tree.mass[node] = arrivals.log_mass[i];
    tree.bound[node] = std::min(0.0, arrivals.log_mass[i]);
  }
  return is_new;
}

// Log of the sum of two masses.
double log_add(double a, double b) {
  if (a == b) return a + std::log(2.0);
  return a > b ? a + std::log1p(std::exp(b - a)) : b + std::log1p(std::exp(a - b));
}

void add_share(const cdec_shares &shares, cdec_f64 share, int64_t i, double &total) {
  if (share.size && share[i] > -kInfinity) total = log_add(total, shares.log_prefix[i] + share[i]);
}

}  // namespace

extern "C" {

int64_t cdec_tree_visit(const cdec_arrivals *arrivals, const cdec_tree *tree,
                        const cdec_shares *shares) {
  for (int64_t i = 0; i < arrivals->context.size; ++i) {
    const int64_t node = arrivals->context[i];
    const bool is_new = enter(*arrivals, *tree, i);
    const int64_t owner = tree->request[node];
    shares->deepest[owner] = std::max<int64_t>(shares->deepest[owner], shares->depth[node]);
    if (!is_new) continue;
    const int64_t request = arrivals->request[i];
    add_share(*shares, shares->log_end, i, shares->log_found[request]);
    add_share(*shares, shares->log_truncated, i, shares->log_cut[request]);
  }
  return 0;
}

int64_t cdec_tree_least_masses(cdec_i64 last, cdec_bool is_whole, cdec_i32 parent,
                               const cdec_tree *tree, cdec_f64_out known, cdec_f64_out log_z,
                               cdec_i64_out place) {
  for (int64_t i = 0; i < last.size; ++i) {
    log_z[i] = 0.0;
    place[i] = -1;
    int64_t node = last[i] < parent.size ? last[i] : -1;
    if (node >= 0 && !is_whole[i]) node = parent[node];
    int64_t depth = 0;
    for (; node >= 0; node = parent[node], ++depth) {
      // subtle: the tree knows contexts up to the last that was visited, and paths end behind it.
      if (node >= tree->flags.size || !(tree->flags[node] & CDEC_VISITED)) continue;
      if (std::isnan(known[node])) known[node] = allowed_mass(*tree, node);
      if (known[node] <= log_z[i]) log_z[i] = known[node], place[i] = depth;
    }
    if (place[i] >= 0) place[i] = depth - 1 - place[i];
  }
  return 0;
}

int64_t cdec_tree_update(cdec_i64 order, const cdec_tree *tree, double rounding) {
  for (int64_t i = 0; i < order.size; ++i)
    tree->bound[order[i]] = bound_of(*tree, order[i], rounding);
  return 0;
}

int64_t cdec_tree_with_ancestors(cdec_i64 nodes, cdec_i32 parent, cdec_u8_out flags,
                                 cdec_i64_out found) {
  int64_t count = 0;
  for (int64_t i = 0; i < nodes.size; ++i)
    for (int64_t node = nodes[i]; node >= 0 && !(flags[node] & CDEC_MARK); node = parent[node]) {
      flags[node] |= CDEC_MARK;
      if (count < found.size) found[count] = node;
      ++count;
    }
  for (int64_t i = 0; i < nodes.size; ++i)
    for (int64_t node = nodes[i]; node >= 0 && flags[node] & CDEC_MARK; node = parent[node])
      flags[node] &= ~CDEC_MARK;
  return count;
}

int64_t cdec_tree_level_order(int64_t root, cdec_i32 first_child, cdec_i32 next_sibling,
                              cdec_i64_out found) {
  int64_t count = 0;
  if (found.size) found[count++] = root;
  for (int64_t at = 0; at < count; ++at)
    for (int64_t child = first_child[found[at]]; child != CDEC_NIL && count < found.size;
         child = next_sibling[child])
      found[count++] = child;
  return count;
}

}  // extern "C"
