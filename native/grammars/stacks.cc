#include "stacks.h"

namespace cdec::grammars {

Stack Stacks::make_vertex(int64_t state, Stack below) {
  const auto made = static_cast<Stack>(vertices_.size());
  vertices_.push_back({static_cast<int32_t>(state), below});
  index_.set(pack(state, below), made);
  return made;
}

Stack Stacks::intern(const std::vector<Stack> &vertices) {
  if (vertices.empty()) return kFail;
  if (vertices.size() == 1) return vertices[0];
  return static_cast<Stack>(-2 - sets_.intern(vertices));
}

// Where both have a vertex of one LR state, the stacks below it are united first. Pairs wait in a
// list, so deep stacks need no recursion; each pair is computed once.
Stack Stacks::compute_union(Stack a, Stack b) {
  pending_.assign(1, {a, b});
  while (!pending_.empty()) {
    const auto [first, second] = pending_.back();
    const size_t top = pending_.size();
    if (unions_.find(pair(first, second)) == Table::kAbsent) {
      push_missing(first, second);
      if (pending_.size() > top) continue;
      const Stack united = unite_known(first, second);
      unions_.set(pair(first, second), united);
      work_.spend(1 + count(united));
    }
    pending_.pop_back();
  }
  return static_cast<Stack>(unions_.find(pair(a, b)));
}

// Lets the unions of stacks below wait that a union needs, and that are not known.
void Stacks::push_missing(Stack a, Stack b) {
  for (int64_t i = 0, j = 0; i < count(a) && j < count(b);) {
    const Vertex &v = vertices_[member(a, i)], &w = vertices_[member(b, j)];
    if (v.state == w.state && v.below != w.below &&
        unions_.find(pair(v.below, w.below)) == Table::kAbsent)
      pending_.push_back({v.below, w.below});
    i += v.state <= w.state, j += w.state <= v.state;
  }
}

// The union of two stacks; all unions below are known.
Stack Stacks::unite_known(Stack a, Stack b) {
  merged_.clear();
  for (int64_t i = 0, j = 0, n = count(a), m = count(b); i < n || j < m;) {
    const Stack v = i < n ? member(a, i) : kNone, w = j < m ? member(b, j) : kNone;
    if (w == kNone || (v != kNone && vertices_[v].state < vertices_[w].state)) {
      merged_.push_back(v), ++i;
    } else if (v == kNone || vertices_[w].state < vertices_[v].state) {
      merged_.push_back(w), ++j;
    } else {
      Stack below = vertices_[v].below;
      if (below != vertices_[w].below)
        below = static_cast<Stack>(unions_.find(pair(below, vertices_[w].below)));
      merged_.push_back(vertex(vertices_[v].state, below)), ++i, ++j;
    }
  }
  return intern(merged_);
}

Stack Stacks::unite_all(std::vector<Stack> &vertices) {
  if (vertices.size() == 1) return vertices[0];
  const auto place = [this](Stack v) { return pack(vertices_[v].state, v); };
  if (!std::ranges::is_sorted(vertices, {}, place)) std::ranges::sort(vertices, {}, place);
  size_t kept = 0;
  for (size_t i = 0; i < vertices.size();) {
    Stack united = vertices[i];
    const Vertex first = vertices_[united];
    Stack below = first.below;
    for (++i; i < vertices.size() && vertices_[vertices[i]].state == first.state; ++i)
      below = unite(below, vertices_[vertices[i]].below);
    if (below != first.below) united = vertex(first.state, below);
    vertices[kept++] = united;
  }
  vertices.resize(kept);
  return intern(vertices);
}

}  // namespace cdec::grammars
