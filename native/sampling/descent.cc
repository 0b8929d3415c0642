// Walks down a prefix tree, and the vectors of allowed masses that they draw from. Once the likeliest
// ids are children, what is left may be e^-2000 of them and all the valid mass there is.
#include "sums.h"

using namespace cdec;

namespace {

// The vector of a slot.
struct Vector {
  int64_t n;
  int32_t *ids;
  double *masses, *blocks;
  double &shift;

  Vector(const cdec_slots &slots, const cdec_pool &pool, int64_t slot)
      : n(slots.length[slot]),
        ids(pool.ids.at + slots.start[slot]),
        masses(pool.masses.at + slots.start[slot]),
        blocks(pool.blocks.at + slots.first_block[slot]),
        shift(slots.shift[slot]) {}

  double block_sum(int64_t block) const {
    const int64_t first = block * kBlock;
    return sum_of(masses + first, std::min(kBlock, n - first));
  }

  double residual() const {
    double total = 0.0;
    for (int64_t block = 0; block < blocks_of(n); ++block) total += blocks[block];
    return total;
  }

  // The first place whose running sum exceeds `target`; the last positive if none.
  int64_t place(double target) const {
    return std::max<int64_t>(0, invert(masses, n, blocks, target));
  }

  // Log of the mass of all end ids: ends are never taken out.
  double end_mass(cdec_i64 end_ids) const {
    double total = 0.0;
    for (int64_t e = 0; e < end_ids.size; ++e) {
      const int64_t place = place_of(ids, n, end_ids[e]);
      if (place < n && ids[place] == end_ids[e]) total += masses[place];
    }
    return shift + std::log(total);
  }
};

// The child at which the running sum of weights exp(edge + bound - scale) passes target.
// subtle: sums are rounded, and scores that were computed again differ in their last bits; what is
// left over goes to the heaviest child, or to CDEC_NIL (the residual mass) where that is heavier.
int64_t drawn_child(const cdec_tree &tree, int64_t node, double target, double own, double scale) {
  int64_t heaviest = CDEC_NIL;
  double most = own;
  for (int64_t child = tree.first_child[node]; child != CDEC_NIL;
       child = tree.next_sibling[child]) {
    const double weight = fast_exp(tree.edge[child] + tree.bound[child] - scale);
    if (weight > target) return child;
    target -= weight;
    if (weight > most) most = weight, heaviest = child;
  }
  return heaviest;
}

struct Descent {
  const cdec_descending &walks;
  const cdec_uniforms &numbers;
  const cdec_tree &tree;
  cdec_i32 slot;
  const cdec_slots &slots;
  const cdec_pool &pool;
  const cdec_ends &ends;

  // Goes on from the node where walk w stands; returns its status.
  uint8_t follow(int64_t w) const {
    for (int64_t &node = walks.node[w];;) {
      if (slot[node] < 0) return CDEC_MISSING;
      const int64_t column = walks.depth[w] + 1 - numbers.block_of[w] * numbers.width;
      if (column >= numbers.width) return CDEC_DRY;
      const Vector vector(slots, pool, slot[node]);
      const double residual = vector.residual();
      // subtle: the bound sums the residual and the children's weights, so shares of it need no pass
      // over the children, of which there may be thousands.
      const double scale = tree.bound[node];
      if (scale == -kInfinity) return CDEC_STUCK;
      const double own = residual > 0.0 ? residual * std::exp(vector.shift - scale) : 0.0;
      const double target = numbers.uniforms[w][column];
      const int64_t taken =
          target >= own ? drawn_child(tree, node, target - own, own, scale) : CDEC_NIL;
      if (taken == CDEC_NIL) return leave(w, vector, residual, own, target);
      walks.log_p[w] += tree.edge[taken];
      ++walks.depth[w];
      node = taken;
      if (tree.flags[node] & CDEC_TERMINAL) return CDEC_ENDED;
    }
  }

  // Draws from what no child covers.
  uint8_t leave(int64_t w, const Vector &vector, double residual, double own, double target) const {
    if (!(own > 0.0)) return CDEC_STUCK;
    const int64_t place = vector.place(std::min(1.0, target / own) * residual);
    const int64_t token = vector.ids[place];
    if (ends.is_end[token]) {
      walks.log_p[w] += vector.end_mass(ends.ids);
      return CDEC_ENDED;
    }
    walks.token[w] = token;
    walks.log_edge[w] = vector.shift + std::log(vector.masses[place]);
    return CDEC_LEFT;
  }
};

}  // namespace

extern "C" {

int64_t cdec_vectors_build(const cdec_asked *asked, cdec_i64 numbers, const cdec_tree *tree,
                           cdec_i32 node_token, const cdec_slots *slots, const cdec_pool *pool) {
  for (int64_t i = 0; i < asked->nodes.size; ++i) {
    const Vector vector(*slots, *pool, numbers[i]);
    const int64_t row = asked->rows[i], n = vector.n;
    const int32_t *allowed = asked->allowed.at + asked->offsets[asked->lists[i]];
    Weighed here{Row(asked->scores, row), asked->log_normalizer[row], allowed, n,
                 vector.masses,           vector.blocks};
    here.weigh();
    if (std::isnan(here.total)) return 0;
    std::copy_n(allowed, n, vector.ids);
    for (int64_t child = tree->first_child[asked->nodes[i]]; child != CDEC_NIL;
         child = tree->next_sibling[child]) {
      const int64_t place = place_of(allowed, n, node_token[child]);
      if (place >= n || allowed[place] != node_token[child] || !(vector.masses[place] > 0.0))
        continue;
      vector.masses[place] = 0.0;
      vector.blocks[place / kBlock] = -1.0;
    }
    for (int64_t block = 0; block < blocks_of(n); ++block)
      if (vector.blocks[block] < 0.0) vector.blocks[block] = vector.block_sum(block);
    if (!(vector.residual() > kFaint)) here.reweigh();
    vector.shift = here.shift;
  }
  return 1;
}

int64_t cdec_vectors_leave(cdec_i64 nodes, cdec_i64 tokens, cdec_i32 slot, const cdec_slots *slots,
                           const cdec_pool *pool) {
  for (int64_t i = 0; i < nodes.size; ++i) {
    const Vector vector(*slots, *pool, slot[nodes[i]]);
    const int64_t place = place_of(vector.ids, vector.n, tokens[i]);
    if (place >= vector.n) continue;
    vector.masses[place] = 0.0;
    vector.blocks[place / kBlock] = vector.block_sum(place / kBlock);
  }
  return 0;
}

int64_t cdec_vectors_sum(cdec_i64 nodes, cdec_i32 slot, const cdec_slots *slots,
                         const cdec_pool *pool, cdec_f64_out mass, cdec_bool_out is_faint) {
  for (int64_t i = 0; i < nodes.size; ++i) {
    const Vector vector(*slots, *pool, slot[nodes[i]]);
    const double total = vector.residual();
    mass[nodes[i]] = total > 0.0 ? vector.shift + std::log(total) : -kInfinity;
    is_faint[i] = total > 0.0 && total <= kFaint;
  }
  return 0;
}

int64_t cdec_descend(cdec_i64 rows, const cdec_descending *walks, const cdec_uniforms *numbers,
                     const cdec_tree *tree, cdec_i32 slot, const cdec_slots *slots,
                     const cdec_pool *pool, const cdec_ends *ends) {
  const Descent descent{*walks, *numbers, *tree, slot, *slots, *pool, *ends};
  for (int64_t i = 0; i < rows.size; ++i) walks->status[rows[i]] = descent.follow(rows[i]);
  return 0;
}

}  // extern "C"
