// Stacks of LR states, each stored once, and their unions.
//
// A *stack* is a number: a vertex (>= 0), a set of vertices with distinct LR states (<= -2), or kNone
// below the root. A vertex is an LR state and the stack below. As equal ones are stored once and a
// set never holds two vertices of one LR state, equal numbers are equal sets of stacks: together they
// are a minimal acyclic automaton that reads stacks from the top. The deterministic parser has single
// vertices only.
#pragma once

#include <vector>

#include "grammar.h"
#include "lists.h"
#include "memory.h"
#include "work.h"

namespace cdec::grammars {

using Stack = int32_t;
constexpr Stack kNone = -1;
constexpr Stack kFail = INT32_MIN;        // no stack: what cannot be shifted
constexpr Stack kShiftable = kFail + 1;   // some stack, where only that was asked
constexpr Stack kUndecided = kFail + 2;   // not for the deterministic parser to say

struct Vertex {
  int32_t state;
  Stack below;
  int64_t mark = 0;  // scratch of the generalised parser
};

// What an engine holds, all of it and by what can be forgotten.
struct Memory {
  explicit Memory(int64_t most) : all(most) {}
  CountedMemory all, stacks{INT64_MAX, &all}, memos{INT64_MAX, &all};
};

class Stacks {
 public:
  Stacks(Memory &memory, Work &work)
      : work_(work),
        vertices_(&memory.stacks),
        index_(&memory.stacks, &journal),
        sets_(&memory.stacks, &journal),
        unions_(&memory.memos, &journal),
        pending_(&memory.memos) {}

  // The vertex (LR state, stack below).
  Stack vertex(int64_t state, Stack below) {
    const int64_t known = index_.find(pack(state, below));
    return known != Table::kAbsent ? static_cast<Stack>(known) : make_vertex(state, below);
  }
  const Vertex &operator[](Stack vertex) const { return vertices_[vertex]; }
  Vertex &operator[](Stack vertex) { return vertices_[vertex]; }

  // How many vertices a stack has on top; none in kNone and kFail.
  int64_t count(Stack stack) const {
    if (stack >= 0) return 1;
    return holds_set(stack) ? static_cast<int64_t>(sets_[number_of(stack)].size()) : 0;
  }
  // The i-th of them, 0 <= i < count, ascending by LR state.
  Stack member(Stack stack, int64_t i) const { return stack >= 0 ? stack : sets_[number_of(stack)][i]; }

  // The stacks of either; one vertex for each LR state. O(1) if done before.
  Stack unite(Stack a, Stack b) {
    if (a == b || b == kFail) return a;
    if (a == kFail) return b;
    const int64_t known = unions_.find(pair(a, b));
    return known != Table::kAbsent ? static_cast<Stack>(known) : compute_union(a, b);
  }
  // The union of vertices, all at once: one after the other they would leave a set for each behind.
  Stack unite_all(std::vector<Stack> &vertices);

  // Whether a number, whatever it is, is a stack.
  bool holds(Stack stack) const {
    return stack >= 0 ? stack < vertex_count() : stack == kNone || holds_set(stack);
  }
  int64_t vertex_count() const { return static_cast<int64_t>(vertices_.size()); }
  int64_t set_count() const { return sets_.size(); }
  // Forgets the stacks that were made later; the journal has taken back what names them.
  void shorten(int64_t vertices, int64_t sets) {
    vertices_.resize(vertices);
    sets_.shorten(sets);
  }
  void forget_unions() {
    unions_.clear();
    std::pmr::vector<std::pair<Stack, Stack>>(pending_.get_allocator()).swap(pending_);
  }

  // A mark that no vertex has.
  int64_t new_mark() { return ++marks_; }

  Journal journal;  // of what the tables of a trial hold

 private:
  static int64_t pair(Stack a, Stack b) { return pack(std::min(a, b), std::max(a, b)); }
  static int64_t number_of(Stack set) { return -2 - static_cast<int64_t>(set); }
  bool holds_set(Stack stack) const { return sets_.holds(number_of(stack)); }
  Stack make_vertex(int64_t state, Stack below);
  Stack intern(const std::vector<Stack> &vertices);
  Stack compute_union(Stack a, Stack b);
  void push_missing(Stack a, Stack b);
  Stack unite_known(Stack a, Stack b);

  Work &work_;
  std::pmr::vector<Vertex> vertices_;
  Table index_;           // (LR state, stack below) -> vertex
  Lists<int32_t> sets_;
  Table unions_;          // (stack, stack) -> stack
  std::pmr::vector<std::pair<Stack, Stack>> pending_;  // unions that others wait for
  std::vector<Stack> merged_;
  int64_t marks_ = 0;
};

}  // namespace cdec::grammars
