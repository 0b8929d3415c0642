// Lists of integers, each stored once, of which the automaton of masks is made.
//
// Equal lists have equal numbers. The first item of a list, its *tag*, says what it holds, a negative
// kind or `kind | root << 2`; the others are counted from 0. The first lists, one a tree, are empty;
// behind them stand those of the artifact, which are found by an index made at the first new list.
#pragma once

#include "grammar.h"
#include "lists.h"
#include "memory.h"

namespace cdec::grammars {

// Kinds of lists without a root: deferred reductions; deferred checks, (reduction, row) pairs that ask
// whether a row's terminals can be shifted; terminals of a part of a live row.
constexpr int64_t kDeferredReductions = -1, kDeferredChecks = -2, kPart = -3;
// Kinds of lists of a root: what is allowed, as bits; pending items; a state; an initial state above
// open blocks.
enum Kind { kAllowed, kPending, kState, kInitial };

using Pair = std::pair<int64_t, int64_t>;

// The lists of the artifact, which are never forgotten, and their index.
class StoredLists {
 public:
  StoredLists(const Grammar &grammar, int64_t stored, std::pmr::memory_resource *memory)
      : columns_(grammar.columns), first_(grammar.trees), count_(stored), index_(memory) {}

  int64_t first() const { return first_; }
  int64_t end() const { return first_ + count_; }
  std::span<const int64_t> operator[](int64_t number) const {
    if (number < first_) return {};
    const int64_t *offsets = columns_.automaton_offsets.at + (number - first_);
    return {columns_.automaton_items.at + offsets[0], columns_.automaton_items.at + offsets[1]};
  }
  // The number of a list, -1 if it is none of these.
  int64_t find(std::span<const int64_t> list);

 private:
  const cdec_grammar &columns_;
  const int64_t first_, count_;
  int64_t indexed_ = 0;
  Table index_;
};

class MaskLists {
 public:
  MaskLists(StoredLists &stored, std::pmr::memory_resource *memory)
      : stored_(stored), made_(memory), merged_(memory) {}

  // The list that is written.
  void begin(int64_t tag) { written.assign(1, tag); }
  void append(int64_t item) { written.push_back(item); }
  // The number of the list that was written, new or known.
  int64_t end() {
    const int64_t known = stored_.find(written);
    return known >= 0 ? known : stored_.end() + made_.intern(written);
  }
  std::vector<int64_t> written;

  int64_t size() const { return stored_.end() + made_.size(); }
  // The first number behind those of the artifact; 0 if it has none.
  int64_t stored_end() const { return stored_.end() > stored_.first() ? stored_.end() : 0; }
  bool holds(int64_t number) const { return 0 <= number && number < size(); }
  // A list with its tag; nothing of one of the first.
  // subtle: valid until the next `end`.
  std::span<const int64_t> whole(int64_t number) const {
    return number < stored_.end() ? stored_[number] : made_[number - stored_.end()];
  }
  std::span<const int64_t> items(int64_t number) const {
    const auto list = whole(number);
    return list.empty() ? list : list.subspan(1);
  }
  int64_t tag(int64_t number) const { return whole(number)[0]; }
  // How many items a list has; -1 for one of the first.
  int64_t length(int64_t number) const { return static_cast<int64_t>(whole(number).size()) - 1; }
  int64_t item(int64_t number, int64_t i) const { return whole(number)[1 + i]; }
  // A list that a list names; 0, which is empty, where an artifact is damaged.
  int64_t named(int64_t number, int64_t i) const {
    if (i >= length(number)) return 0;
    const int64_t found = item(number, i);
    return stored_.first() <= found && found < size() ? found : 0;
  }

  // The union of two lists that hold the same, ascending. O(1) if done before.
  int64_t merge(int64_t a, int64_t b);
  // The list of what is allowed by one of two. O(1) if done before.
  int64_t either(int64_t a, int64_t b);
  // What is known of two lists by a function of others, kAbsent if nothing.
  int64_t known_of(int64_t a, int64_t b) const { return merged_.find(pack(a, b)); }
  void note(int64_t a, int64_t b, int64_t result) { merged_.set(pack(a, b), result); }

  // New lists, and items of all of them.
  const Lists<int64_t> &made() const { return made_; }

 private:
  template <class Union>
  int64_t unite(int64_t a, int64_t b, int64_t kind, Union &&append_union);

  StoredLists &stored_;
  Lists<int64_t> made_;
  Table merged_;  // (list, list) -> their union, or what the second leaves of the first
};

}  // namespace cdec::grammars
